//! The command `remote-agent`: a host of the library for a shell, a script or CI.
//!
//! Each subcommand is a module with its arguments (`Args`) and a `run` function. [`library`] locates the shared library,
//! [`instance`] loads it through the Rust interface. The command links a copy of the library only for its types and never
//! calls it.

#![forbid(unsafe_code)]

mod artifact_files;
pub mod call;
mod caller;
pub mod config;

pub mod conformance;

mod demo;

mod answer_writer;
mod doctor;
pub mod exit;
mod findings;
mod follow_up;
pub mod gateway;
mod hints;
pub mod install;
pub mod instance;
mod interactive_call;
pub mod jsonl;
pub mod library;
mod local;
mod log;
mod mcp;
mod outcome;
pub mod output;
pub mod package;
mod parts;
mod screen;
mod send;
mod serve;
mod shutdown;
mod table;
mod target;
mod targets;
mod task;
mod text;
mod translate;

use std::{io::ErrorKind, process::ExitCode};

use clap::{Parser, Subcommand};

use self::exit::{Exit, Failure};

/// The number of worker threads. With two, a long comparison in one conformance case does not delay the timers of another.
const WORKER_THREADS: usize = 2;

const HELP: &str = "\
Start with `remote-agent demo`, then `remote-agent targets --url URL` to see the card of an agent.

Exit codes: 0 ok, 1 failed (the call, the task, or an incomplete result), 2 wrong usage or configuration, 3 agent unreachable, 4 agent requires other credentials, 5 timeout, 130 demo interrupted.
`call` ignores the state of the task; `targets` fails only if no agent is reachable, with the code of the worst reason.";

/// Hands work to agents elsewhere, over A2A.
#[derive(Debug, Parser)]
#[command(name = "remote-agent", version, arg_required_else_help = true, after_help = HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,

    /// Print debug lines of the library on standard error
    #[arg(short, long, global = true)]
    verbose: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::Args),
    Targets(targets::Args),
    Send(send::Args),
    /// Follow a task until it ends or requires input
    #[command(after_help = task::Action::Watch.examples())]
    Watch(task::Args),
    /// Print the state of a task
    #[command(after_help = task::Action::Status.examples())]
    Status(task::Args),
    /// Cancel a task
    #[command(after_help = task::Action::Cancel.examples())]
    Cancel(task::Args),
    Doctor(doctor::Args),
    Call(call::Args),
    Conformance(conformance::Args),
    Install(install::Args),
    Uninstall(install::UninstallArgs),
    Package(package::Args),
    Gateway(gateway::Args),
    Serve(Box<serve::Args>),
    Mcp(Box<mcp::Args>),
    Translate(translate::Args),
    #[command(hide = true)]
    Tasks {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        _rest: Vec<String>,
    },
}

const TASKS: &str = "cannot list tasks: `remote-agent` stores none. `openclaw remote-agent tasks` lists those that OpenClaw's agents handed on, \
    `remote-agent serve tasks` those of the A2A server on this machine, and `remote-agent status --task ID` with `--url URL` shows one";

/// Runs the command with the process arguments.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // Invalid arguments, or a request for help or the version.
        Err(message) => return print_message(&message),
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
fn print_message(message: &clap::Error) -> ExitCode {
    let code = u8::try_from(message.exit_code()).unwrap_or(Exit::Usage as u8);
    match message.print() {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            output::print_error(&format!("cannot write the message: {error}"));
            Exit::Failed.into()
        }
        _ => code.into(),
    }
}

async fn run(cli: Cli) -> Result<Exit, Failure> {
    let verbose = cli.verbose;
    match cli.command {
        Command::Demo(args) => demo::run(args, verbose).await,
        Command::Targets(args) => targets::run(args, verbose).await,
        Command::Send(args) => send::run(args, verbose).await,
        Command::Watch(args) => task::run(task::Action::Watch, args, verbose).await,
        Command::Status(args) => task::run(task::Action::Status, args, verbose).await,
        Command::Cancel(args) => task::run(task::Action::Cancel, args, verbose).await,
        Command::Doctor(args) => doctor::run(args, verbose).await,
        Command::Call(args) => call::run(args, verbose).await,
        Command::Conformance(args) => conformance::run(args, verbose).await,
        Command::Install(args) => install::install(&args, verbose).await,
        Command::Uninstall(args) => install::uninstall(&args),
        Command::Package(args) => package::command(&args),
        Command::Gateway(args) => gateway::run(args, verbose).await,
        Command::Serve(args) => serve::run(*args, verbose).await,
        Command::Mcp(args) => mcp::run(*args, verbose).await,
        Command::Translate(args) => translate::run(args).await,
        Command::Tasks { .. } => Err(Failure::usage(TASKS)),
    }
}
