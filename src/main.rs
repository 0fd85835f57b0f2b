//! The command `remote-agent`.

use std::process::ExitCode;

fn main() -> ExitCode {
    openclaw_remote_agent::cli::main()
}
