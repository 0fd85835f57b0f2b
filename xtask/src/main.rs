//! `cargo xtask`: assembles what a release publishes.

#![forbid(unsafe_code)]

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Parser;
use remote_agent_cli::{
    exit::Failure,
    output::{LineWriter, note, print_error},
    package,
};
use xtask::{bundle, compile, release};

/// Assembles what a release publishes, and prints the paths
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Task {
    /// Build the size-optimized library, which takes minutes, and pack it like `remote-agent package`
    Package {
        /// Link the library with the C libraries in DIR instead of those of this machine; `.ci/old-glibc` provides glibc 2.28
        #[arg(long, value_name = "DIR")]
        libc: Option<PathBuf>,

        #[command(flatten)]
        out: Out,
    },
    /// Assemble the npm packages of a release from the libraries in DIR/PLATFORM/, with checksums and a list of crates
    Release {
        /// The directory with the libraries
        #[arg(value_name = "DIR")]
        libraries: PathBuf,

        #[command(flatten)]
        out: Out,
    },
    /// Build the command, and assemble the packages for MCP hosts: an Agent Plugins bundle, an MCPB file, an npm package, and server.json for the MCP registry
    Bundle {
        #[command(flatten)]
        out: Out,
    },
}

#[derive(Debug, clap::Args)]
struct Out {
    /// Put the packages below this directory
    #[arg(long = "out", value_name = "DIR", default_value = "target/package")]
    directory: PathBuf,
}

fn main() -> ExitCode {
    match run(Task::parse()) {
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

fn run(task: Task) -> Result<Vec<PathBuf>, Failure> {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    match task {
        Task::Package { libc, out } => {
            note("building the library for release; the first build takes minutes");
            let library = compile::ship(root, libc.as_deref())?;
            let packaged = package::assemble(&library, &out.directory)?;
            Ok(vec![packaged.directory, packaged.tarball])
        }
        Task::Release { libraries, out } => release::assemble(root, &libraries, &out.directory),
        Task::Bundle { out } => {
            let (command, library) = compile::command(root)?;
            let bundled = bundle::assemble(root, &command, &library, &out.directory)?;
            Ok(vec![
                bundled.directory,
                bundled.mcpb,
                bundled.tarball,
                bundled.server_json,
            ])
        }
    }
}
