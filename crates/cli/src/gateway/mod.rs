//! `remote-agent gateway`: runs the reference gateway, runs agents, and inspects and manages a gateway.

mod agent;
mod agents;
mod backend;
mod create;
pub(super) mod embedded;
mod gateway_args;
mod keygen;
mod messages;
mod sessions;
mod status;
mod validate;

use std::sync::Arc;

use clap::Subcommand;
use clap::builder::TypedValueParser as _;
use serde_json::json;

use self::{backend::OpenedBackend, gateway_args::FileArgs};
use super::{
    exit::{self, Exit, Failure},
    output::{self, LineWriter, LogArgs, LogFormat, StandardError, note},
    possible_values,
    traces::Traces,
};
use base::environment::SystemEnvironment;
use base::files::Fsync;
use base::log::Log;
use gateway_agent::Supervisor;
use gateway_server::{
    Server, StartError,
    config::{AgentConfig, PORT},
    sessions::SessionError,
};
use openclaw_server::tracing_log::TracingLog;

pub(crate) use gateway_args::trust;
pub use validate::tally_table;

const EXAMPLES: &str = "\
Examples, each in a separate terminal:
  remote-agent gateway
  remote-agent gateway agent --name alpha --vote approve
  remote-agent gateway agent --name beta --vote approve --delay-ms 500
  remote-agent gateway agent --name charlie --vote reject \\
    --reason 'Not on a Friday'
  remote-agent gateway status
  remote-agent send --gateway ws://127.0.0.1:18789 --target triad --follow \\
    'Ship it today'

The gateway answers `/healthz` and `/readyz` over HTTP. OTEL_EXPORTER_OTLP_ENDPOINT exports spans over OTLP/HTTP. The repository has a systemd unit and a container file for it in `deploy/` \
(docs/how-to/deploy.md).";

/// Run and manage a gateway of a2a-v1 and its agents
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    run: RunArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    Agent(Box<agent::Args>),
    Agents(agents::Args),
    Sessions(sessions::Args),
    Status(status::Args),
    Watch(messages::WatchArgs),
    Send(messages::SendArgs),
    Request(messages::RequestArgs),
    Broadcast(messages::BroadcastArgs),
    Vote(messages::VoteArgs),
    Workspaces(sessions::WorkspacesArgs),
    Doctor(status::DoctorArgs),
    Keygen(keygen::Args),
    Validate(validate::Args),
    Tally(validate::TallyArgs),
}

/// Runs the subcommand.
///
/// # Errors
/// A sentence with the failed action, the cause and a hint.
pub(super) async fn run(args: Args, verbose: bool) -> Result<Exit, Failure> {
    match args.command {
        None => run_gateway(args.run, verbose).await,
        Some(Command::Agent(args)) => agent::run(*args).await,
        Some(Command::Agents(args)) => agents::run(args).await,
        Some(Command::Sessions(args)) => sessions::run(args).await,
        Some(Command::Status(args)) => status::run(args).await,
        Some(Command::Watch(args)) => messages::watch(args).await,
        Some(Command::Send(args)) => messages::send(args).await,
        Some(Command::Request(args)) => messages::request(args).await,
        Some(Command::Broadcast(args)) => messages::broadcast(args).await,
        Some(Command::Vote(args)) => messages::vote(args).await,
        Some(Command::Workspaces(args)) => sessions::workspaces(args).await,
        Some(Command::Doctor(args)) => status::doctor(args).await,
        Some(Command::Keygen(args)) => keygen::run(&args),
        Some(Command::Validate(args)) => validate::run(&args).await,
        Some(Command::Tally(args)) => Ok(validate::tally(&args)),
    }
}

/// The profile name of the reference gateway with `strict` enabled.
const STRICT: &str = "strict";

/// The other profiles, each with its script.
#[cfg(feature = "conformance")]
const SCRIPTED: &[(&str, &str)] = conformance::gateways::PROFILES;
#[cfg(not(feature = "conformance"))]
const SCRIPTED: &[(&str, &str)] = &[];

/// The options of `gateway`.
#[derive(Debug, clap::Args)]
struct RunArgs {
    /// Listen on this port of 127.0.0.1; 0 selects a free one [default: that of the configuration, else 18789]
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,

    /// When the gateway acknowledges a session entry [default: that of the configuration, else always]
    #[arg(long, value_name = "WHEN", value_parser = possible_values(FSYNC_MODES).try_map(|mode| serde_json::from_value::<Fsync>(mode.into())))]
    fsync: Option<Fsync>,

    #[cfg_attr(
        feature = "conformance",
        doc = "Behave like this gateway: strict, or a gateway of the tests (reference-11.2, heretek-js, openclaw, hostile)"
    )]
    #[cfg_attr(not(feature = "conformance"), doc = "Behave like this gateway: strict")]
    #[arg(long, value_name = "NAME", value_parser = parse_profile)]
    profile: Option<String>,

    /// Print the address of the gateway as a line of JSON
    #[arg(long, help_heading = "Output")]
    json: bool,

    #[command(flatten)]
    log: LogArgs,

    #[command(flatten)]
    files: FileArgs,
}

/// The values of `--fsync` in the configuration, with their help.
const FSYNC_MODES: [(&str, &str); 3] = [
    ("always", "After a sync to disk"),
    ("interval", "After a write; a sync to disk follows soon"),
    ("never", "After a write, without a sync to disk"),
];

fn parse_profile(name: &str) -> Result<String, String> {
    let known: Vec<&str> = [STRICT]
        .into_iter()
        .chain(SCRIPTED.iter().map(|(name, _)| *name))
        .collect();
    match known.contains(&name) {
        true => Ok(name.to_owned()),
        false => Err(format!(
            "unknown profile; the profiles are {}",
            known.join(", ")
        )),
    }
}

/// Runs the gateway until Ctrl-C.
///
/// # Errors
/// The configuration is invalid, or the port is in use.
async fn run_gateway(args: RunArgs, verbose: bool) -> Result<Exit, Failure> {
    let lines = LineWriter::default();
    match args.profile.as_deref() {
        #[cfg(feature = "conformance")]
        Some(name) if name != STRICT => {
            let shutdown = exit::on_signal()?;
            let gateway = embedded::profile::start(name, args.port.unwrap_or(PORT)).await?;
            let what = format!("profile {name}");
            listening(&gateway.url(), &what, args.json, &lines);
            shutdown.cancelled().await;
            Ok(Exit::Ok)
        }
        profile => run_reference_gateway(profile.is_some(), &args, &lines, verbose).await,
    }
}

/// Runs the reference gateway until Ctrl-C.
async fn run_reference_gateway(
    strict: bool,
    args: &RunArgs,
    lines: &LineWriter,
    verbose: bool,
) -> Result<Exit, Failure> {
    let mut config = args.files.read()?;
    config.strict |= strict;
    if let Some(port) = args.port {
        config.listen.set_port(port);
    }
    if let Some(fsync) = args.fsync {
        config.fsync = fsync;
    }
    let what = format!(
        "a2a-v1{}, sessions in {}",
        if config.strict { ", strict" } else { "" },
        config.state_dir.join("agents").display()
    );
    let log: Arc<dyn Log> = match args.log.log {
        LogFormat::Human => Arc::new(StandardError { verbose }),
        LogFormat::Json => Arc::new(TracingLog),
    };
    let (traces, batches) =
        Traces::start("remote-agent-gateway", &log, |spans| match args.log.log {
            LogFormat::Human => {
                output::install_spans(spans);
                None
            }
            LogFormat::Json => Some(output::install_log(LogFormat::Json, verbose, spans)),
        })?;
    let configured = config.agents.clone();
    let key_variables = config.key_variables().map(str::to_owned).collect();
    let shutdown = exit::on_signal()?;
    let server = Server::bind(config, Arc::new(SystemEnvironment), Arc::clone(&log)).await;
    let server = server.map_err(|error| match &error {
        StartError::Config(error) => args.files.unusable(error),
        _ => Failure::new(format!(
            "cannot start the gateway: {error}{}",
            start_hint(&error)
        )),
    })?;
    let agents = supervisor(&server, &configured, key_variables, log).map_err(|failure| {
        let file = args.files.config_file();
        let message = format!(
            "{}, as `agents` of `{}` says",
            failure.message,
            file.display()
        );
        Failure { message, ..failure }
    })?;
    listening(server.url().trim_end_matches('/'), &what, args.json, lines);
    let (supervisor, _opened) = agents;
    tokio::join!(server.run(shutdown.clone()), supervisor.run(shutdown));
    traces.end().await;
    drop(batches);
    if !args.json {
        note("gateway stopped; sessions flushed");
    }
    Ok(Exit::Ok)
}

/// Opens the backends of the agents that the gateway runs itself. Commands do not inherit the variables in `hidden`, nor those
/// of other backends.
///
/// # Errors
/// A backend is unusable; the message names the agent.
fn supervisor(
    server: &Server,
    agents: &[AgentConfig],
    mut hidden: Vec<String>,
    log: Arc<dyn Log>,
) -> Result<(Supervisor, Vec<OpenedBackend>), Failure> {
    let with_backend = || {
        agents
            .iter()
            .filter_map(|agent| Some((agent.name.clone(), agent.backend.clone()?)))
    };
    hidden.extend(with_backend().flat_map(|(_, config)| backend::secret_variables(&config)));
    let mut supervisor = Supervisor::new(log);
    supervisor.add_links(server);
    let mut all = Vec::new();
    for (name, config) in with_backend() {
        let opened = backend::check_not_own(&config, server.address())
            .and_then(|()| backend::open(&config, &hidden));
        let opened = opened.map_err(|failure| Failure {
            message: format!("cannot start the agent `{name}`: {}", failure.message),
            exit: failure.exit,
        })?;
        let settings = backend::settings(&name, &config);
        supervisor.add(server, settings, Arc::clone(&opened.backend));
        all.push(opened);
    }
    Ok((supervisor, all))
}

/// Returns a hint about the command line, if the error message has none.
fn start_hint(error: &StartError) -> &'static str {
    match error {
        StartError::Taken { address, .. } if address.port() == PORT => {
            "; it is also the default port of OpenClaw's gateway: `--port` names another, and `--port 0` selects a free one"
        }
        StartError::Taken { .. } => "; `--port` names another, and `--port 0` selects a free one",
        StartError::Sessions(SessionError::Locked(..)) => {
            ", or choose another directory with `--state-dir`"
        }
        _ => "",
    }
}

fn listening(url: &str, what: &str, as_json: bool, lines: &LineWriter) {
    let json = json!({"url": url, "gateway": what});
    lines.write_as(as_json, &json, || format!("{url}: {what}; Ctrl-C ends it"));
}
