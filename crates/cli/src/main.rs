//! The command `remote-agent`.

use std::process::ExitCode;

fn main() -> ExitCode {
    remote_agent_cli::main()
}
