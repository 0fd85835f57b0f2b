//! The arguments of `cargo xtask`.

#![allow(missing_docs, reason = "clap shows comments to users")]

use std::path::{Path, PathBuf};

use clap::Parser;
use remote_agent_cli::{exit::Failure, output::note, package};

use crate::{bundle, compile, release};

/// Assembles what a release publishes, and prints the paths
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
pub enum Task {
    /// Build the size-optimized library, which takes minutes, and pack it like `remote-agent package`
    Package {
        /// Link the library with the C libraries in DIR instead of those of this machine; `.ci/old-glibc` provides glibc 2.28
        #[arg(long, value_name = "DIR")]
        libc: Option<PathBuf>,

        #[command(flatten)]
        out: Out,
    },
    /// Assemble the npm packages of a release and the ClawPack from the libraries in DIR/PLATFORM/, with checksums and a list of crates
    Release {
        /// The directory with the libraries
        #[arg(value_name = "DIR")]
        libraries: PathBuf,

        /// Package the platforms that are there, for a test
        #[arg(long)]
        partial: bool,

        #[command(flatten)]
        out: Out,
    },
    /// Build the command, and assemble the packages for MCP hosts: an Agent Plugins bundle, an MCPB file, an npm package, and server.json for the MCP registry
    Bundle {
        #[command(flatten)]
        out: Out,
    },
    /// Assemble the npm packages and server.json of a release from the MCPB files in DIR, which `bundle` writes on each platform
    McpRelease {
        /// The directory with the MCPB files
        #[arg(value_name = "DIR")]
        bundles: PathBuf,

        /// Package the platforms that are there, for a test
        #[arg(long)]
        partial: bool,

        #[command(flatten)]
        out: Out,
    },
}

#[derive(Debug, clap::Args)]
pub struct Out {
    /// Put the packages below this directory
    #[arg(long = "out", value_name = "DIR", default_value = "target/package")]
    directory: PathBuf,
}

impl Task {
    /// Runs the task, and returns the paths of what it wrote.
    ///
    /// # Errors
    /// The same as the functions of [`compile`], [`package`], [`release`] and [`bundle`].
    pub fn run(self) -> Result<Vec<PathBuf>, Failure> {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        match self {
            Self::Package { libc, out } => {
                note("building the library for release; the first build takes minutes");
                let library = compile::ship(root, libc.as_deref())?;
                let packaged = package::assemble(&library, &out.directory)?;
                Ok(vec![packaged.directory, packaged.tarball])
            }
            Self::Release {
                libraries,
                partial,
                out,
            } => release::assemble(root, &libraries, &out.directory, partial),
            Self::McpRelease {
                bundles,
                partial,
                out,
            } => bundle::release(&bundles, &out.directory, partial),
            Self::Bundle { out } => {
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
}
