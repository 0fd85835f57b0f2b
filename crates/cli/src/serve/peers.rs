//! `remote-agent serve peers`: who may ask a server.

use clap::Subcommand;
use secrecy::ExposeSecret as _;
use serde_json::json;

use super::flags::FileArgs;
use crate::{
    exit::{Exit, Failure},
    output::{Lines, note},
};
use openclaw_server::peers::{PeerError, PeerFile};

const EXAMPLES: &str = "\
Examples:
  remote-agent serve peers add ada
  remote-agent serve peers add me --operator
  remote-agent serve peers list
  remote-agent serve peers rotate ada
  remote-agent serve peers remove ada

A server that runs takes up changes within a second. One that was started without any peer asks nobody for a token until it is
started again.";

/// Add, list, rotate and remove the peers that may ask a server
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a token for a peer, and print it once; only its hash is kept
    Add {
        /// The peer's name; its tasks and sessions are kept under it
        name: String,

        /// It may see, cancel and delete the tasks of all
        #[arg(long)]
        operator: bool,

        /// Print a line of JSON
        #[arg(long, help_heading = "Output")]
        json: bool,

        #[command(flatten)]
        files: FileArgs,
    },
    /// List the peers
    List {
        /// Print a line of JSON for each
        #[arg(long, help_heading = "Output")]
        json: bool,

        #[command(flatten)]
        files: FileArgs,
    },
    /// Replace the token of a peer, and print the new one once; streams opened with the old one end, its tasks go on
    Rotate {
        /// The peer's name
        name: String,

        #[command(flatten)]
        files: FileArgs,
    },
    /// Remove a peer: its token is good for nothing from then on, and its streams, unfinished tasks and webhooks end
    Remove {
        /// The peer's name
        name: String,

        #[command(flatten)]
        files: FileArgs,
    },
}

/// Runs the subcommand.
///
/// # Errors
/// What failed, why, and what to do.
pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let lines = Lines::default();
    let failed = |error: PeerError| Failure::new(error.to_string());
    match &args.command {
        Command::Add {
            name,
            operator,
            json,
            files,
        } => {
            let file = PeerFile::of(&files.read()?.state_dir);
            let token = file.add(name, *operator).map_err(failed)?;
            let token = token.expose_secret();
            if *json {
                let line = json!({"name": name, "operator": operator, "token": token});
                lines.write(line.to_string());
            } else {
                note(format_args!(
                    "The token of `{name}` is printed this once; its hash is in {}. The peer sends it as `Authorization: Bearer TOKEN`; with `remote-agent`, put it in a variable: remote-agent send --url URL --bearer-env VARIABLE 'What can you do?'. A server that began without any peer asks for tokens once it is started again",
                    file.path().display()
                ));
                lines.write(token.to_owned());
            }
        }
        Command::List { json, files } => {
            let config = files.read()?;
            let added = PeerFile::of(&config.state_dir).read().map_err(failed)?;
            let from = |from| move |peer| (peer, from);
            let all = config.peers.iter().map(from("configuration"));
            let mut none = true;
            for (peer, from) in all.chain(added.iter().map(from("command"))) {
                none = false;
                let operator = if peer.operator { "  operator" } else { "" };
                lines.write(match json {
                    true => json!({"name": peer.name, "operator": peer.operator, "from": from})
                        .to_string(),
                    false => format!("{}{operator}", peer.name),
                });
            }
            if none && !json {
                note(
                    "there are no peers: a server asks nobody for a token, and only this machine can reach it",
                );
            }
        }
        Command::Rotate { name, files } => {
            let file = PeerFile::of(&files.read()?.state_dir);
            let token = file.rotate(name).map_err(failed)?;
            let token = token.ok_or_else(|| unknown(name, &file))?;
            note(format_args!(
                "The new token of `{name}` is printed this once; the old one is not valid any more"
            ));
            lines.write(token.expose_secret().to_owned());
        }
        Command::Remove { name, files } => {
            let file = PeerFile::of(&files.read()?.state_dir);
            if !file.remove(name).map_err(failed)? {
                return Err(unknown(name, &file));
            }
            note(format_args!("`{name}` is removed"));
        }
    }
    Ok(Exit::Ok)
}

fn unknown(name: &str, file: &PeerFile) -> Failure {
    Failure::new(format!(
        "there is no peer `{name}` in {}; `remote-agent serve peers list` lists them",
        file.path().display()
    ))
}
