//! `remote-agent mcp`: serves the tool to MCP hosts and to programs over HTTP.

mod host_config;
mod key;
mod tool_source;

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use base::log::Log;
use mcp_server::{
    FileStore, McpServer, Options,
    http::{ApiLimits, router},
    serve_stdio,
};
use openclaw_remote_agent::http_api::Route;
use openclaw_server::{assembly::Frontend, config::ServeConfig, tracing_log::TracingLog};
use serde_json::{Map, Value, json};

use super::{
    artifact_files::save_one,
    config,
    exit::{self, Exit, Failure},
    instance::{self, Library},
    output::{self, LineWriter, LogArgs, StandardError, note},
    serve,
    target::PeerArgs,
    traces::Traces,
};
use host_config::Host;
use tool_source::ToolSource;

const EXAMPLES: &str = "\
Examples:
  remote-agent mcp --config agents.json
  remote-agent mcp --url https://support.example --print-config claude-code
  remote-agent mcp --config agents.json --listen 127.0.0.1:9100

Over standard input and output, the host starts and stops the command. Over HTTP, MCP hosts use /mcp, and other programs use \
/remote_agent/read and /remote_agent/write. `remote-agent serve clients add NAME --state-dir DIR` adds a client and prints its \
token; DIR is the state directory of this command. OTEL_EXPORTER_OTLP_ENDPOINT exports spans over OTLP/HTTP \
(docs/how-to/deploy.md).";

/// The name of the server in exported spans.
const SERVICE: &str = "remote-agent-mcp";

/// Offer the tool to MCP hosts, over standard input and output or over HTTP
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    peers: PeerArgs,

    /// Add structured content to results, for programs; some hosts show it to the model instead of the text
    #[arg(long, help_heading = "Results")]
    structured: bool,

    /// Let the user of the host answer questions of agents, if the host supports it; otherwise the model answers
    #[arg(long, help_heading = "Results")]
    ask_user: bool,

    /// Save the files of results below this directory, and link them, over standard input and output [default:
    /// openclaw-remote-agent/mcp/files in $XDG_STATE_HOME or ~/.local/state]
    #[arg(
        long,
        value_name = "DIR",
        help_heading = "Results",
        conflicts_with = "listen"
    )]
    save_artifacts: Option<PathBuf>,

    /// Print the configuration for this host, and exit
    #[arg(long, value_name = "HOST", value_enum)]
    print_config: Option<Host>,

    #[command(flatten)]
    http: HttpArgs,
}

/// The server over HTTP.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "HTTP")]
struct HttpArgs {
    /// Serve over HTTP at this address
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,

    /// Accept this additional host name in requests; may be given several times
    #[arg(long, value_name = "NAME", requires = "listen")]
    host: Vec<String>,

    /// Use this certificate chain in PEM form
    #[arg(long, value_name = "FILE", requires_all = ["listen", "tls_key"])]
    tls_cert: Option<PathBuf>,

    /// Use the private key of the certificate in this file
    #[arg(long, value_name = "FILE", requires_all = ["listen", "tls_cert"])]
    tls_key: Option<PathBuf>,

    /// Keep clients and the key of task ids in this directory [default: openclaw-remote-agent/mcp in $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "DIR", requires = "listen")]
    state_dir: Option<PathBuf>,

    /// End a call over /remote_agent/read after this time
    #[arg(long, value_name = "MS", default_value_t = default_timeout_ms(Route::Read), requires = "listen", value_parser = clap::value_parser!(u64).range(1..))]
    read_timeout_ms: u64,

    /// End a call over /remote_agent/write after this time
    #[arg(long, value_name = "MS", default_value_t = default_timeout_ms(Route::Write), requires = "listen", value_parser = clap::value_parser!(u64).range(1..))]
    write_timeout_ms: u64,

    #[command(flatten)]
    log: LogArgs,
}

fn default_timeout_ms(route: Route) -> u64 {
    base::environment::millis(route.default_timeout())
}

impl HttpArgs {
    /// Returns the directory with the clients and keys.
    ///
    /// # Errors
    /// None is named, and the environment names no home.
    fn state_dir(&self) -> Result<PathBuf, Failure> {
        if let Some(folder) = &self.state_dir {
            return Ok(folder.clone());
        }
        let variable = |name: &str| std::env::var_os(name);
        let folder = base::config::default_state_dir("mcp", variable);
        base::config::check_state_dir(&folder, "mcp", variable).map_err(Failure::usage)?;
        Ok(folder)
    }

    /// Returns the configuration of the HTTP server: that of `serve` without executor and task store.
    fn config(&self, listen: SocketAddr) -> Result<ServeConfig, Failure> {
        let mut config = Map::new();
        config.insert("listen".into(), listen.to_string().into());
        config.insert("stateDir".into(), json!(self.state_dir()?));
        config.insert("hosts".into(), json!(self.host));
        if let (Some(cert), Some(key)) = (&self.tls_cert, &self.tls_key) {
            config.insert("tls".into(), json!({ "certFile": cert, "keyFile": key }));
        }
        ServeConfig::read(None, Value::Object(config))
            .map_err(|error| Failure::usage(format!("cannot use the flags: {error}")))
    }

    fn limits(&self) -> ApiLimits {
        ApiLimits {
            read: Duration::from_millis(self.read_timeout_ms),
            write: Duration::from_millis(self.write_timeout_ms),
        }
    }
}

/// Runs the subcommand.
///
/// # Errors
/// The library cannot be loaded, or the address cannot be used.
pub(super) async fn run(args: Args, verbose: bool) -> Result<Exit, Failure> {
    if let Some(host) = args.print_config {
        check(&args.peers, verbose)?;
        let url = args.http.listen.map(|address| {
            let scheme = if args.http.tls_cert.is_some() {
                "https"
            } else {
                "http"
            };
            format!("{scheme}://{address}/mcp")
        });
        LineWriter::default().write(host.snippet(&args.peers, url.as_deref())?);
        note(host.place(&args.peers)?);
        return Ok(Exit::Ok);
    }
    let source = ToolSource::new(Library::open(verbose)?, args.peers.clone(), args.ask_user)?;
    let stop = exit::on_signal()?;
    let mut options = Options {
        structured: args.structured,
        agent: args.peers.agent().map(str::to_owned),
        user: args.peers.user().map(str::to_owned),
        chain: instance::delegation()?.map(|delegation| delegation.json()),
        key: None,
        files: None,
    };
    match args.http.listen {
        None => {
            options.files = args.save_artifacts.or_else(default_files).map(file_store);
            let log: Arc<dyn Log> = Arc::new(StandardError { verbose });
            let (traces, ()) = Traces::start(SERVICE, &log, output::install_spans)?;
            serve_stdio(McpServer::new(source.tool(), options), stop)
                .await
                .map_err(|error| Failure::new(format!("cannot serve the host: {error}")))?;
            traces.end().await;
        }
        Some(listen) => {
            let log: Arc<dyn Log> = Arc::new(TracingLog);
            let (traces, _log) = Traces::start(SERVICE, &log, |spans| {
                output::install_log(args.http.log.log, verbose, spans)
            })?;
            let config = args.http.config(listen)?;
            options.key = Some(key::read_or_create(&args.http.state_dir()?)?);
            let body_bytes = config.limits.http().body_bytes;
            let frontend = Frontend::bind(config).await.map_err(|error| {
                serve::start_failure(error, "`--listen`, whose port 0 selects a free one")
            })?;
            print_started(&frontend);
            let server = McpServer::new(source.tool(), options);
            let app = router(
                server,
                frontend.access(),
                args.http.limits(),
                body_bytes,
                stop.clone(),
            );
            frontend.serve(app, stop, |_| {}).await;
            traces.end().await;
        }
    }
    source.close();
    Ok(Exit::Ok)
}

/// Returns the directory for the files of results; `None` without a home.
fn default_files() -> Option<PathBuf> {
    let variable = |name: &str| std::env::var_os(name);
    let directory = base::config::default_state_dir("mcp", variable);
    let is_known = base::config::check_state_dir(&directory, "mcp", variable).is_ok();
    is_known.then(|| directory.join("files"))
}

fn file_store(directory: PathBuf) -> FileStore {
    FileStore::new(move |task, name, bytes| save_one(&directory, task, name, bytes))
}

/// Validates the agent configuration, so that a user does not set up a host with an invalid one.
fn check(peers: &PeerArgs, verbose: bool) -> Result<(), Failure> {
    if peers.names_nothing() {
        return Ok(());
    }
    let checked = Library::open(verbose)?.parse_config(&peers.config()?);
    checked
        .map(drop)
        .map_err(|error| config::failure(error, peers.config_file().as_deref()))
}

fn print_started(frontend: &Frontend) {
    let url = frontend.url();
    let lines = LineWriter::default();
    lines.write(format!("{url}/mcp: MCP; Ctrl-C ends it"));
    let token = match frontend.requires_token() {
        true => " -H \"Authorization: Bearer $TOKEN\"",
        false => "",
    };
    lines.write(format!(
        "  try   curl{token} -H 'Content-Type: application/json' {url}/remote_agent/read -d '{{\"query\": \"list_targets\"}}'"
    ));
}
