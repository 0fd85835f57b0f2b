//! The command `remote-agent`: a host of the library for a shell, a script or CI.
//!
//! Each subcommand is a module with its arguments (`Args`) and a `run` function. [`instance`] locates the shared library
//! and loads it through the Rust interface. The command links a copy of the library for its types, and for what needs
//! no tool: sign-in, pins, and the search for agents. `interactive_call.rs` shows a call while it runs, `output.rs` prints its result, and `exit.rs` has the
//! exit codes; `call.rs` is the filter that scripts drive.

#![forbid(unsafe_code)]

mod acp;
mod add;
mod answer;
mod artifact_files;
mod ask;
mod budget;
pub mod call;
pub mod config;
#[cfg(feature = "conformance")]
pub mod conformance;
mod credentials;
#[cfg(feature = "conformance")]
mod demo;
mod doctor;
pub mod exit;
mod follow_up;
pub mod gateway;
mod group;
mod hints;
pub mod install;
pub mod instance;
mod interactive_call;
mod local;
mod log_line;
mod log_writer;
mod mcp;
mod openclaw;
pub mod output;
pub mod package;
mod pin;
mod screen;
mod send;
mod serve;
mod sign_in;
mod target;
mod targets;
mod tasks;
mod text;
mod traces;
mod translate;

use std::{io, process::ExitCode};

use clap::{
    CommandFactory as _, Parser, Subcommand,
    builder::{PossibleValue, PossibleValuesParser},
    error::{ContextKind, ContextValue, ErrorKind},
};

use self::ask::AskArgs;
use self::exit::{Exit, Failure};

/// The number of worker threads. With two, a long comparison in one conformance case does not delay the timers of another.
const WORKER_THREADS: usize = 2;

const START: &str = if cfg!(feature = "conformance") {
    "Start with `remote-agent demo`, then `remote-agent targets --url URL` to see the card of an agent."
} else {
    "Start with `remote-agent targets --url URL` to see the card of an agent."
};

const EXIT_CODES: &str = "\
Exit codes: 0 ok, 1 failed (the call, the task, or an incomplete result), 2 wrong usage or configuration, 3 agent unreachable, 4 agent requires other credentials, 5 timeout, 6 the task requires input or a sign-in, 7 the task was canceled, 130 Ctrl-C (the task goes on).
`call` ignores the state of the task; `targets` fails only if no agent is reachable, with the code of the worst reason.";

/// Hands work to agents elsewhere, over A2A.
#[derive(Debug, Parser)]
#[command(name = "remote-agent", version, arg_required_else_help = true, after_help = format!("{START}\n\n{EXIT_CODES}"))]
struct Cli {
    #[command(subcommand)]
    command: Command,

    /// Print debug lines of the library on standard error
    #[arg(short, long, global = true)]
    verbose: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[cfg(feature = "conformance")]
    Demo(demo::Args),
    #[command(alias = "list")]
    Targets(targets::Args),
    Card(targets::CardArgs),
    Add(Box<add::Args>),
    Send(send::Args),
    /// Follow a task until it ends or requires input
    #[command(after_help = send::Action::Watch.examples())]
    Watch(send::WatchArgs),
    /// Print the state of a task
    #[command(after_help = send::Action::Status.examples())]
    Status(send::TaskArgs),
    /// Cancel a task
    #[command(after_help = send::Action::Cancel.examples())]
    Cancel(send::TaskArgs),
    Tasks(tasks::Args),
    Budget(budget::Args),
    Pin(pin::Args),
    SignIn(sign_in::Args),
    SignOut(sign_in::SignOutArgs),
    Doctor(doctor::Args),
    Call(call::Args),
    #[cfg(feature = "conformance")]
    Conformance(conformance::Args),
    Install(install::Args),
    Uninstall(install::UninstallArgs),
    Package(package::Args),
    Gateway(gateway::Args),
    Serve(Box<serve::Args>),
    Mcp(Box<mcp::Args>),
    Acp(Box<acp::Args>),
    Translate(translate::Args),
}

/// Returns a parser for values with their help.
fn possible_values<const N: usize>(all: [(&'static str, &'static str); N]) -> PossibleValuesParser {
    all.map(|(name, help)| PossibleValue::new(name).help(help))
        .into()
}

/// Runs the command with the process arguments.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // Invalid arguments, or a request for help or the version.
        Err(message) => return print_message(message),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKER_THREADS)
        .enable_all()
        .build();
    let outcome = match runtime {
        Ok(runtime) => {
            let outcome = runtime.block_on(run(cli));
            // A thread may be blocked on standard input, and nothing can interrupt it.
            runtime.shutdown_background();
            outcome
        }
        Err(error) => Err(Failure::new(format!("cannot start: {error}"))),
    };
    let outcome = outcome.and_then(|exit| output::write_failure().map_or(Ok(exit), Err));
    match outcome {
        Ok(exit) => exit.into(),
        Err(failure) => {
            output::print_error(&failure.message);
            failure.exit.into()
        }
    }
}

/// Prints what clap says instead of parsed arguments.
fn print_message(mut message: clap::Error) -> ExitCode {
    let code = u8::try_from(message.exit_code()).unwrap_or(Exit::Usage as u8);
    // A misspelled option is hardly meant as a value.
    if message.kind() == ErrorKind::UnknownArgument {
        message.remove(ContextKind::Suggested);
        if let Some(option) = transposed_option(&message) {
            message.insert(ContextKind::SuggestedArg, ContextValue::String(option));
        }
    }
    match message.print() {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            output::print_error(&format!("cannot write the message: {error}"));
            Exit::Failed.into()
        }
        _ => code.into(),
    }
}

/// Returns the option with the letters of an unknown one in another order. clap finds other similar options itself.
fn transposed_option(message: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(unknown)) = message.get(ContextKind::InvalidArg) else {
        return None;
    };
    if message.get(ContextKind::SuggestedArg).is_some() {
        return None;
    }
    let sorted = |text: &str| {
        let mut letters: Vec<char> = text.chars().collect();
        letters.sort_unstable();
        letters
    };
    let wanted = sorted(unknown.strip_prefix("--")?);
    let mut command = &Cli::command();
    for argument in std::env::args().skip(1) {
        command = command.find_subcommand(&argument).unwrap_or(command);
    }
    let options = command.get_arguments().filter_map(clap::Arg::get_long);
    let mut found = options.filter(|option| sorted(option) == wanted);
    found.next().map(|option| format!("--{option}"))
}

async fn run(cli: Cli) -> Result<Exit, Failure> {
    let verbose = cli.verbose;
    match cli.command {
        #[cfg(feature = "conformance")]
        Command::Demo(args) => demo::run(args, verbose).await,
        Command::Targets(args) => targets::run(args, verbose).await,
        Command::Card(args) => targets::run_card(args, verbose).await,
        Command::Add(args) => add::run(*args, verbose).await,
        Command::Send(args) => send::run(args, verbose).await,
        Command::Watch(args) => {
            send::run_task(send::Action::Watch, args.task, args.ask, verbose).await
        }
        Command::Status(args) => {
            send::run_task(send::Action::Status, args, AskArgs::default(), verbose).await
        }
        Command::Cancel(args) => {
            send::run_task(send::Action::Cancel, args, AskArgs::default(), verbose).await
        }
        Command::Tasks(args) => tasks::run(args, verbose).await,
        Command::Budget(args) => budget::run(args, verbose).await,
        Command::Pin(args) => pin::run(args).await,
        Command::SignIn(args) => sign_in::run(args).await,
        Command::SignOut(args) => sign_in::sign_out(args).await,
        Command::Doctor(args) => doctor::run(args, verbose).await,
        Command::Call(args) => call::run(args, verbose).await,
        #[cfg(feature = "conformance")]
        Command::Conformance(args) => conformance::run(args, verbose).await,
        Command::Install(args) => install::install(&args, verbose).await,
        Command::Uninstall(args) => install::uninstall(&args),
        Command::Package(args) => package::command(&args),
        Command::Gateway(args) => gateway::run(args, verbose).await,
        Command::Serve(args) => serve::run(*args, verbose).await,
        Command::Mcp(args) => mcp::run(*args, verbose).await,
        Command::Acp(args) => acp::run(*args, verbose).await,
        Command::Translate(args) => translate::run(args).await,
    }
}
