//! `remote-agent serve clients`: manages the clients that may call a server.

use a2a_server::store::sqlite;
use clap::Subcommand;
use openclaw_server::{
    clients::{ClientFile, ClientFileError},
    config::{ServeConfig, TaskStoreKind},
};
use secrecy::ExposeSecret as _;
use serde_json::json;
use url::Url;

use super::{flags::FileArgs, tasks::source::RunningServer};
use crate::{
    exit::{Exit, Failure},
    output::{LineWriter, note},
    text::Table,
};

const EXAMPLES: &str = "\
Examples:
  remote-agent serve clients add ada
  remote-agent serve clients add me --operator
  remote-agent serve clients list
  remote-agent serve clients rotate ada
  remote-agent serve clients remove ada

A server that started with clients applies changes within a second. A server that started without clients \
requires no token until it restarts.";

/// Add, list, rotate and remove the clients of a server
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Add a client and print its token once; the file stores only a hash of the token
    Add {
        /// The name of the client, which owns its tasks and sessions
        name: String,

        /// Let the client see, cancel and delete the tasks of all clients
        #[arg(long)]
        operator: bool,

        /// Print the client as a line of JSON
        #[arg(long, help_heading = "Output")]
        json: bool,

        #[command(flatten)]
        files: FileArgs,
    },
    /// List the clients
    List {
        /// Print each client as a line of JSON
        #[arg(long, help_heading = "Output")]
        json: bool,

        #[command(flatten)]
        files: FileArgs,
    },
    /// Replace the token of a client and print the new one once; streams with the old token end, tasks continue
    Rotate {
        /// The name of the client
        name: String,

        #[command(flatten)]
        files: FileArgs,
    },
    /// Remove a client: revoke its token and end its streams, unfinished tasks and webhooks
    Remove {
        /// The name of the client
        name: String,

        #[command(flatten)]
        files: FileArgs,
    },
}

/// The note after the removal of the last client.
const NO_CLIENTS: &str = "no clients are left; a server that starts now requires no token and listens only on this machine; a server that started with clients still requires a token";

/// Runs the subcommand.
///
/// # Errors
/// A sentence with the failed action, the cause and a hint.
pub(super) async fn run(args: &Args) -> Result<Exit, Failure> {
    let lines = LineWriter::default();
    let failed = |error: ClientFileError| Failure::new(error.to_string());
    match &args.command {
        Command::Add {
            name,
            operator,
            json,
            files,
        } => {
            let config = files.read()?;
            if config.clients.iter().any(|client| client.name == *name) {
                return Err(Failure::new(format!(
                    "the client `{name}` is in the configuration already; choose another name, or remove it from `clients` there first"
                )));
            }
            let file = ClientFile::in_directory(&config.state_dir);
            let token = file.add(name, *operator).map_err(failed)?;
            let token = token.expose_secret();
            if *json {
                let line = json!({"name": name, "operator": operator, "token": token});
                lines.write(line.to_string());
            } else {
                note(format_args!(
                    "token of `{name}`, printed only once; {} stores its hash\n  send it as `Authorization: Bearer TOKEN`, or with `remote-agent send --url URL --bearer-env VARIABLE`",
                    file.path().display()
                ));
                warn_about_open_server(&config).await;
                lines.write(token.to_owned());
            }
        }
        Command::List { json, files } => {
            let config = files.read()?;
            let added = ClientFile::in_directory(&config.state_dir)
                .read()
                .map_err(failed)?;
            let from = |from| move |client| (client, from);
            let all = config.clients.iter().map(from("configuration"));
            let all: Vec<_> = all.chain(added.iter().map(from("command"))).collect();
            if *json {
                for (client, from) in &all {
                    let line =
                        json!({"name": client.name, "operator": client.operator, "from": from});
                    lines.write(line.to_string());
                }
            } else if !all.is_empty() {
                let mut table = Table::new(["CLIENT", "ROLE", "FROM"]);
                for (client, from) in &all {
                    let role = if client.operator {
                        "operator"
                    } else {
                        "client"
                    };
                    table.add_row([client.name.clone(), role.to_owned(), (*from).to_owned()]);
                }
                lines.write(table.render());
            } else if !config.state_dir.is_dir() {
                note(format_args!(
                    "there is no state directory `{}`, so no clients; `remote-agent serve clients add` creates it, and `--state-dir` names another",
                    config.state_dir.display()
                ));
            } else {
                note(NO_CLIENTS);
                warn_about_open_server(&config).await;
            }
        }
        Command::Rotate { name, files } => {
            let config = files.read()?;
            let file = ClientFile::in_directory(&config.state_dir);
            let token = file.rotate(name).map_err(failed)?;
            let token = token.ok_or_else(|| unknown_client(name, &file))?;
            note(format_args!(
                "new token of `{name}`, printed only once; it replaces the old token"
            ));
            warn_about_open_server(&config).await;
            lines.write(token.expose_secret().to_owned());
        }
        Command::Remove { name, files } => {
            let config = files.read()?;
            let file = ClientFile::in_directory(&config.state_dir);
            if !file.remove(name).map_err(failed)? {
                return Err(unknown_client(name, &file));
            }
            let is_last = config.clients.is_empty() && file.read().map_err(failed)?.is_empty();
            match is_last {
                true => note(format_args!("removed `{name}`; {NO_CLIENTS}")),
                false => note(format_args!("removed `{name}`")),
            }
            note(format_args!(
                "a client that you add under this name later owns its terminal tasks, and uses its sign-ins through `remote-agent mcp`; end those with `remote-agent sign-out TARGET --person mcp:{name}`"
            ));
            warn_about_open_server(&config).await;
        }
    }
    Ok(Exit::Ok)
}

/// Says so if the running server started without clients, or cannot be found, because such a server accepts every request.
async fn warn_about_open_server(config: &ServeConfig) {
    let store = config.store(|name| std::env::var(name).ok());
    let holder = match &store {
        Ok(TaskStoreKind::Directory(path)) => sqlite::holder(path).ok().flatten(),
        _ => None,
    };
    let Some(holder) = holder else {
        // No server has the directory open, the store is no directory, or a flag of the server named another one.
        note("a server that started without clients requires no token until it restarts");
        return;
    };
    let url = holder.and_then(|holder| Url::parse(&holder.url?).ok());
    let server = url.and_then(|url| Some((url.clone(), RunningServer::new(url, None).ok()?)));
    if let Some((url, server)) = server
        && server.is_open().await
    {
        note(format_args!(
            "warning: the server at {url} started without clients: it requires no token until you restart it"
        ));
    }
}

fn unknown_client(name: &str, file: &ClientFile) -> Failure {
    Failure::new(format!(
        "unknown client `{name}` in {}; `remote-agent serve clients list` lists them",
        file.path().display()
    ))
}
