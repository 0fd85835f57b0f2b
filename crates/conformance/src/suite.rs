//! Runs a directory of cases and compares the outcomes with the list of expected failures.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream;
use serde::Deserialize;

use super::case::Case;
use super::driver::Driver;
use super::report::{CaseReport, Outcome, Report};
use super::runner::{Options, run_case};

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
