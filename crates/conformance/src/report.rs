//! Runs a directory of cases, compares the outcomes with the list of expected failures, and reports them: lines for people,
//! JSON for programs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io};

use futures_util::{StreamExt, stream};
use serde::Deserialize;
use serde_json::{Value, json};

use super::case::Case;
use super::driver::Driver;
use super::runner::{Options, run_case};

/// The outcome of a case.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The case passed.
    Passed,
    /// The case failed, with the reason.
    Failed(String),
    /// The case is listed as failing, and failed: the listed reason, and the actual one.
    ExpectedFailure(String, String),
    /// The case is listed as failing, but passed: the list is out of date.
    UnexpectedPass(String),
}

impl Outcome {
    pub(super) fn of(result: Result<(), String>, expected_failure: Option<String>) -> Self {
        match (result, expected_failure) {
            (Ok(()), None) => Self::Passed,
            (Err(error), None) => Self::Failed(error),
            (Err(error), Some(reason)) => Self::ExpectedFailure(reason, error),
            (Ok(()), Some(reason)) => Self::UnexpectedPass(reason),
        }
    }

    /// Returns whether the outcome is the expected one.
    pub fn is_fine(&self) -> bool {
        matches!(self, Self::Passed | Self::ExpectedFailure(..))
    }

    fn label(&self) -> &'static str {
        match self {
            Self::Passed => "pass",
            Self::Failed(_) => "FAIL",
            Self::ExpectedFailure(..) => "expected-fail",
            Self::UnexpectedPass(_) => "UNEXPECTED-PASS",
        }
    }

    fn reason(&self) -> Option<String> {
        match self {
            Self::Passed => None,
            Self::Failed(reason) => Some(reason.clone()),
            Self::ExpectedFailure(reason, error) => Some(format!("{reason} ({error})")),
            Self::UnexpectedPass(reason) => {
                Some(format!("passes, but is listed as failing: {reason}"))
            }
        }
    }
}

/// One case that was run.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseReport {
    /// The case, by its path below the fixtures.
    pub name: String,
    /// The outcome.
    pub outcome: Outcome,
    /// The duration, with the start of the peers.
    pub took: Duration,
}

/// The report of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The cases in order of their names.
    pub ran: Vec<CaseReport>,
    /// Names in the list of expected failures without a case.
    pub stale: Vec<String>,
}

impl Report {
    /// Returns whether any case ran, all outcomes are expected, and the list of expected failures names only cases.
    pub fn is_fine(&self) -> bool {
        !self.ran.is_empty()
            && self.stale.is_empty()
            && self.ran.iter().all(|ran| ran.outcome.is_fine())
    }

    /// Returns a line for each case, then the faults of the list, then the counts.
    pub fn lines(&self) -> Vec<String> {
        let width = self
            .ran
            .iter()
            .map(|ran| ran.name.len())
            .max()
            .unwrap_or_default();
        let case = |ran: &CaseReport| {
            let reason = ran
                .outcome
                .reason()
                .map(|reason| format!("  {reason}"))
                .unwrap_or_default();
            format!(
                "{:<15}  {:<width$}  {:>6} ms{reason}",
                ran.outcome.label(),
                ran.name,
                ran.took.as_millis()
            )
        };
        let stale = |name: &String| {
            format!("STALE            {name} is listed as failing, but there is no such case")
        };
        self.ran
            .iter()
            .map(case)
            .chain(self.stale.iter().map(stale))
            .chain([self.counts()])
            .collect()
    }

    /// `{"ok", "passed", "failed", "expected_failures", "unexpected_passes", "stale", "cases": [{name, outcome, reason, ms}]}`.
    pub fn to_json(&self) -> Value {
        let case = |ran: &CaseReport| {
            json!({
                "name": ran.name,
                "outcome": ran.outcome.label().to_ascii_lowercase(),
                "reason": ran.outcome.reason(),
                "ms": u64::try_from(ran.took.as_millis()).unwrap_or(u64::MAX),
            })
        };
        json!({
            "ok": self.is_fine(),
            "passed": self.count("pass"),
            "failed": self.count("FAIL"),
            "expected_failures": self.count("expected-fail"),
            "unexpected_passes": self.count("UNEXPECTED-PASS"),
            "stale": self.stale,
            "cases": self.ran.iter().map(case).collect::<Vec<_>>(),
        })
    }

    fn counts(&self) -> String {
        let mut text = format!(
            "{} passed, {} failed",
            self.count("pass"),
            self.count("FAIL")
        );
        for (label, name) in [
            ("expected-fail", "failed as expected"),
            ("UNEXPECTED-PASS", "passed unexpectedly"),
        ] {
            match self.count(label) {
                0 => {}
                count => text.push_str(&format!(", {count} {name}")),
            }
        }
        text
    }

    fn count(&self, label: &str) -> usize {
        self.ran
            .iter()
            .filter(|ran| ran.outcome.label() == label)
            .count()
    }
}

/// The file beside the cases with the list of expected failures.
pub const EXPECTED_FAILURES: &str = "expected-failures.json";

/// The directory, beside those of the cases, that holds the profiles of scripted gateways.
const PROFILES: &str = "gateway";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedFailure {
    case: String,
    reason: String,
}

/// Runs every case below `root`, each with a new driver from `make`.
///
/// Needs a tokio runtime, preferably with several threads. The name of a case is its path below `root` without the
/// extension, for example `golden/fu_12_drop`.
///
/// # Errors
/// The directory or the list of expected failures cannot be read. An unreadable case is a failed case.
pub async fn run_suite<D, M>(root: &Path, make: M, options: &Options) -> io::Result<Report>
where
    D: Driver + 'static,
    M: Fn() -> D,
{
    run_suite_with_progress(root, make, options, |_| ()).await
}

/// Runs a suite like [`run_suite`], and reports each case as soon as it has run.
///
/// # Errors
/// Those of [`run_suite`].
pub async fn run_suite_with_progress<D, M>(
    root: &Path,
    make: M,
    options: &Options,
    report: impl Fn(&CaseReport),
) -> io::Result<Report>
where
    D: Driver + 'static,
    M: Fn() -> D,
{
    let cases = find(root)?;
    let expected = expected_failures(root)?;
    let chosen: Vec<_> = cases
        .iter()
        .filter(|(name, _)| options.selects(name))
        .collect();
    // Each case is a task, because the comparison of a long answer must not delay the clocks of others.
    let runs = chosen.into_iter().map(|(name, path)| {
        let (name, path) = (name.clone(), path.clone());
        let (driver, options) = (make(), options.clone());
        let expected_failure = expected.get(&name).cloned();
        let run = tokio::spawn(async move {
            let before = Instant::now();
            let result = match Case::read(&path) {
                Ok(case) => run_case(&case, &driver, &options).await,
                Err(error) => Err(error),
            };
            (result, before.elapsed())
        });
        async move {
            let (result, took) = match run.await {
                Ok(done) => done,
                Err(error) => (
                    Err(format!("the case did not run to its end: {error}")),
                    Duration::ZERO,
                ),
            };
            CaseReport {
                name,
                outcome: Outcome::of(result, expected_failure),
                took,
            }
        }
    });
    let mut ran: Vec<CaseReport> = stream::iter(runs)
        .buffer_unordered(options.jobs.max(1))
        .inspect(report)
        .collect()
        .await;
    ran.sort_by(|a, b| a.name.cmp(&b.name));
    let stale = expected
        .into_keys()
        .filter(|name| !cases.contains_key(name))
        .collect();
    Ok(Report { ran, stale })
}

/// Returns every case file below `root` by its name.
///
/// # Errors
/// A directory cannot be read.
pub fn find(root: &Path) -> io::Result<BTreeMap<String, PathBuf>> {
    let mut cases = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory)? {
            let path = entry?.path();
            if path.is_dir() {
                if path != root.join(PROFILES) {
                    open.push(path);
                }
            } else if path.extension().is_some_and(|ending| ending == "json")
                && path
                    .file_name()
                    .is_some_and(|name| name != EXPECTED_FAILURES)
                && let Ok(below) = path.strip_prefix(root)
            {
                let parts: Vec<_> = below
                    .with_extension("")
                    .iter()
                    .map(|part| part.to_string_lossy().into_owned())
                    .collect();
                cases.insert(parts.join("/"), path);
            }
        }
    }
    Ok(cases)
}

fn expected_failures(root: &Path) -> io::Result<BTreeMap<String, String>> {
    let path = root.join(EXPECTED_FAILURES);
    if !path.exists() {
        return Ok(BTreeMap::new());
    }
    let listed: Vec<ExpectedFailure> =
        serde_json::from_slice(&fs::read(&path)?).map_err(|error| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{}: {error}", path.display()),
            )
        })?;
    Ok(listed
        .into_iter()
        .map(|failure| (failure.case, failure.reason))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(result: Result<(), String>, expected_failure: Option<&str>) -> Report {
        let outcome = Outcome::of(result, expected_failure.map(str::to_owned));
        Report {
            ran: vec![CaseReport {
                name: "a/b".to_owned(),
                outcome,
                took: Duration::from_millis(7),
            }],
            stale: Vec::new(),
        }
    }

    #[test]
    fn expected_failure_must_fail() {
        let failed = || Err("why".to_owned());
        assert!(report(Ok(()), None).is_fine());
        assert!(report(failed(), Some("known")).is_fine());
        assert!(!report(failed(), None).is_fine());
        assert!(!report(Ok(()), Some("known")).is_fine());
    }

    #[test]
    fn empty_run_and_a_stale_list_are_not_fine() {
        assert!(!Report::default().is_fine());
        let stale = Report {
            stale: vec!["gone".to_owned()],
            ..report(Ok(()), None)
        };
        assert!(!stale.is_fine());
    }

    #[test]
    fn lines_and_json_agree() {
        let report = report(Err("why".to_owned()), None);
        assert_eq!(
            report.lines(),
            ["FAIL             a/b       7 ms  why", "0 passed, 1 failed"]
        );
        assert_eq!(
            report.to_json()["cases"][0],
            json!({"name": "a/b", "outcome": "fail", "reason": "why", "ms": 7})
        );
    }
}
