//! The command `remote-agent`: a host like any other, for a shell, a script or CI.
//!
//! It opens the library through the Rust door. This code is linked with a copy of the library that would work as well; nothing here may call it.

pub mod call;
pub mod config;
pub mod door;
pub mod exit;
pub mod jsonl;
pub mod library;
pub mod output;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use self::exit::{Exit, Failure};

/// Hands work to agents elsewhere, over A2A.
#[derive(Debug, Parser)]
#[command(name = "remote-agent", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,

    /// Print the library's debug lines too, on standard error
    #[arg(short, long, global = true)]
    verbose: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    Call(call::Args),
}

/// Runs the command with the arguments of the process.
#[must_use]
pub fn main() -> ExitCode {
    // Clap prints what is wrong with the arguments, or the help that was asked for, and ends the process with 2 or 0.
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let outcome = match runtime {
        Ok(runtime) => {
            let outcome = runtime.block_on(run(cli));
            // A thread may still wait for standard input, and nothing can wake it.
            runtime.shutdown_background();
            outcome
        }
        Err(error) => Err(Failure::new(format!("cannot start: {error}"))),
    };
    match outcome {
        Ok(exit) => exit.into(),
        Err(failure) => {
            output::complain(&failure.message);
            failure.exit.into()
        }
    }
}

async fn run(cli: Cli) -> Result<Exit, Failure> {
    let verbose = cli.verbose;
    match cli.command {
        Command::Call(args) => call::run(args, verbose).await,
    }
}
