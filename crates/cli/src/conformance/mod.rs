//! `remote-agent conformance`: runs the recorded cases against the library or another implementation.

mod drivers;

use std::{
    env,
    ffi::OsString,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    time::Duration,
};

use conformance::{CaseReport, Driver, Options, Report, find, run_suite_with_progress};
use indicatif::{ProgressBar, ProgressStyle};

use super::{
    exit::{Exit, Failure},
    instance::Library,
    output::LineWriter,
};
use drivers::{ExternalCommand, InProcessDriver};

/// Run recorded cases with scripted peers and report which pass
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Read the cases from this directory [default: `fixtures` of the source checkout, or next to the command]
    #[arg(long, value_name = "DIR")]
    fixtures: Option<PathBuf>,

    /// Run only cases with this text in the name, for example `golden/` or `v15_`
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,

    /// Also compare the requests that the peers received with the recorded ones
    #[arg(long)]
    wire: bool,

    /// Print the report as one line of JSON
    #[arg(long)]
    json: bool,

    /// The number of concurrent cases
    #[arg(long, value_name = "N", default_value = "4")]
    jobs: NonZeroUsize,

    /// Test this program instead: it speaks the JSON Lines of `remote-agent call --jsonl`, one process a case
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the subcommand.
///
/// # Errors
/// No case was found, a case cannot be read, or the library cannot be opened.
pub async fn run(args: Args, verbose: bool) -> Result<Exit, Failure> {
    let root = directory(args.fixtures)?;
    let options = Options {
        wire: args.wire,
        filter: args.filter,
        jobs: args.jobs.get(),
        ..Options::default()
    };
    let progress = Progress::new(count(&root, &options)?, args.json);
    let report = if let Some((program, arguments)) = args.command.split_first() {
        let make = || ExternalCommand::new(program.clone(), arguments.to_vec());
        make().can_start()?;
        suite(&root, make, &options, &progress).await?
    } else {
        let library = Library::open(verbose)?;
        suite(
            &root,
            || InProcessDriver::new(library.clone()),
            &options,
            &progress,
        )
        .await?
    };
    progress.0.finish_and_clear();
    let out = LineWriter::default();
    if args.json {
        out.write(report.to_json().to_string());
    } else {
        let lines = report.lines().into_iter();
        lines
            .filter(|line| verbose || !line.starts_with("pass "))
            .for_each(|line| out.write(line));
    }
    Ok(Exit::from_success(report.is_fine()))
}

async fn suite<D: Driver + 'static>(
    root: &Path,
    make: impl Fn() -> D,
    options: &Options,
    progress: &Progress,
) -> Result<Report, Failure> {
    let report =
        run_suite_with_progress(root, make, options, |ran| progress.print_result(ran)).await;
    report.map_err(|error| unreadable(root, &error))
}

fn count(root: &Path, options: &Options) -> Result<usize, Failure> {
    let cases = find(root).map_err(|error| unreadable(root, &error))?;
    let chosen = cases.keys().filter(|name| options.selects(name)).count();
    if chosen > 0 {
        return Ok(chosen);
    }
    let which = match &options.filter {
        Some(text) => format!("no name of the {} cases contains `{text}`", cases.len()),
        None => "it holds no case".to_owned(),
    };
    Err(Failure::usage(format!(
        "nothing to run in `{}`: {which}",
        root.display()
    )))
}

fn unreadable(root: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!(
        "cannot read the cases in `{}`: {error}; name their directory with `--fixtures`",
        root.display()
    ))
}

fn directory(named: Option<PathBuf>) -> Result<PathBuf, Failure> {
    if let Some(named) = named {
        return Ok(named);
    }
    let places = places(env::current_exe().ok(), env::current_dir().ok());
    let found = places.iter().find(|place| place.is_dir());
    found.cloned().ok_or_else(|| {
        let looked: Vec<String> = places
            .iter()
            .map(|place| format!("`{}`", place.display()))
            .collect();
        Failure::usage(format!(
            "cannot find the cases, looked for {}; name their directory with `--fixtures`",
            looked.join(", ")
        ))
    })
}

/// Returns the directories that may contain the cases: in the checkout that built the command
/// (`target/PROFILE/remote-agent`), in the checkout of the current directory, or next to the command.
fn places(command: Option<PathBuf>, current: Option<PathBuf>) -> Vec<PathBuf> {
    let temporary_path = command.as_deref().and_then(Path::parent);
    let checkout = temporary_path
        .and_then(Path::parent)
        .filter(|target| target.ends_with("target"))
        .and_then(Path::parent);
    let roots = [checkout, current.as_deref(), temporary_path];
    roots
        .into_iter()
        .flatten()
        .map(|root| root.join("fixtures"))
        .collect()
}

/// The progress bar of the run. It appears only if standard error is a terminal.
struct Progress(ProgressBar);

impl Progress {
    fn new(cases: usize, quiet: bool) -> Self {
        if quiet {
            return Self(ProgressBar::hidden());
        }
        let bar = ProgressBar::new(u64::try_from(cases).unwrap_or(u64::MAX));
        if let Ok(style) = ProgressStyle::with_template("{pos}/{len} {wide_bar} {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    fn print_result(&self, ran: &CaseReport) {
        self.0.set_message(ran.name.clone());
        self.0.inc(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checkout_precedes_current_and_command_directory() {
        let built = places(
            Some("/src/target/release/remote-agent".into()),
            Some("/home".into()),
        );
        let expected = ["/src", "/home", "/src/target/release"];
        assert_eq!(built, expected.map(|root| Path::new(root).join("fixtures")));
        let installed = places(Some("/usr/bin/remote-agent".into()), None);
        assert_eq!(installed, [Path::new("/usr/bin/fixtures")]);
    }
}
