//! `remote-agent demo`: demonstrates the plugin with scripted agents and a gateway. Needs neither OpenClaw nor a network.

mod fixture;
mod printer;
mod steps;

use std::{sync::Arc, time::Instant};

use clap::ColorChoice;

use self::{fixture::Fixture, printer::Printer};
use super::{
    exit::{Exit, Failure},
    instance::Library,
    output::note,
    text,
};

const EXAMPLES: &str = "\
Examples:
  remote-agent demo
  remote-agent demo --json | jq -c '[.action, .ok, .error.code]'";

/// Show the plugin at work with scripted agents and a triad on this machine, and check each step
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Print only the envelopes, one a line
    #[arg(long)]
    json: bool,

    /// Colour the lines; auto colours them if standard output is a terminal and NO_COLOR is not set
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColorChoice::Auto)]
    color: ColorChoice,
}

/// Runs the subcommand.
///
/// # Errors
/// The library cannot be opened, or a step failed.
pub(super) async fn run(args: Args, verbose: bool) -> Result<Exit, Failure> {
    let printer = Arc::new(Printer::new(args.json, args.color));
    let closed = printer.lines.closed().clone();
    // The agents and the instance are dropped with the demo, whichever branch completes first.
    tokio::select! {
        biased;
        Ok(()) = tokio::signal::ctrl_c() => {
            note("interrupted; the demo's agents are closed");
            Ok(Exit::Interrupted)
        }
        () = closed.cancelled() => Err(Failure::new("standard output is closed")),
        done = play(verbose, Arc::clone(&printer)) => done.map(|()| Exit::Ok),
    }
}

async fn play(verbose: bool, printer: Arc<Printer>) -> Result<(), Failure> {
    let started_at = Instant::now();
    let mut fixture = Fixture::start(Library::open(verbose)?, Arc::clone(&printer)).await?;
    printer.print_update("Three scripted agents on this machine and three behind a gateway, called through the plugin as a host calls it.");
    steps::play(&mut fixture).await?;
    let seconds = started_at.elapsed().as_secs_f64();
    let steps = fixture.steps();
    printer.print_update(&format!("\nAll {steps} steps passed in {seconds:.1} s."));
    printer.print_update(&format!(
        "Next: `{} targets --url URL` shows the card of your agent.",
        started_as()
    ));
    Ok(())
}

/// Returns the program name with which this process was started. After a build, `remote-agent` may not be on the `PATH`.
fn started_as() -> String {
    let name = std::env::args_os().next().unwrap_or_default();
    if name.is_empty() {
        return "remote-agent".to_owned();
    }
    text::shell(&name.to_string_lossy())
}
