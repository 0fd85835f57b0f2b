//! `cargo xtask`: assembles what a release publishes.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser as _;
use remote_agent_cli::output::{LineWriter, print_error};
use xtask::task::Task;

fn main() -> ExitCode {
    match Task::parse().run() {
        Ok(paths) => {
            let lines = LineWriter::default();
            for path in paths {
                lines.write(path.display().to_string());
            }
            ExitCode::SUCCESS
        }
        Err(failure) => {
            print_error(&failure.message);
            failure.exit.into()
        }
    }
}
