//! `remote-agent gateway status` and `doctor`: print which server responds at an address and its state, and check it, with a fix
//! for each problem.

use std::time::Duration;

use base::environment::{Clock as _, SystemEnvironment};
use base::text::counted;

use collective::{ErrorCode, MAJORITY};
use futures_util::{StreamExt as _, stream};
use gateway_bridge::client::{ClientError, ClientErrorKind, Health};
use gateway_server::config::ServerConfig;
use listeners::Protocol;
use serde_json::{Value, json};
use url::Url;

use super::backend;
use super::gateway_args::{GatewayArgs, MAX_SERVICES, failure, service_health};
use crate::{
    exit::{Exit, Failure},
    output::{Findings, LineWriter},
    text::{self, Table, field},
};

/// The maximum number of backends that `doctor` checks at the same time.
const MAX_PROBES: usize = 8;

const EXAMPLES: &str = "\
Examples:
  remote-agent gateway status
  remote-agent gateway status --deep --json
  remote-agent gateway status --url wss://gate.example --allow-remote \\
    --token-env GATE_TOKEN

Exit codes: 0 a gateway of a2a-v1 answers, and with --deep no service is unhealthy, 1 a service is unhealthy, 3 no gateway of a2a-v1 answers, \
4 it requires a credential, 5 no answer in time.";

/// Show the gateway at an address, with its agents and services
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Also check the health of each service, and measure the round trip to the gateway
    #[arg(long)]
    deep: bool,

    /// Print the result as a line of JSON
    #[arg(long, help_heading = "Output")]
    json: bool,

    #[command(flatten)]
    gateway_args: GatewayArgs,
}

/// Runs the subcommand.
///
/// # Errors
/// No `a2a-v1` gateway responds.
pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    let lines = LineWriter::default();
    let connector = GatewayArgs::connector()?;
    let url = args.gateway_args.url()?;
    let mut requester = match connector.connect(args.gateway_args.endpoint()?).await {
        Ok(requester) => requester,
        Err(error) => {
            if args.json {
                let dialect = match error.kind {
                    ClientErrorKind::WrongServer(dialect) => dialect,
                    _ => None,
                };
                let status =
                    json!({"url": url, "ok": false, "dialect": dialect, "message": error.message});
                lines.write(status.to_string());
                return Ok(failure(&error).exit);
            }
            return Err(failure(&error));
        }
    };
    let queries = async {
        let round_trip = match args.deep {
            true => Some(requester.ping().await?.0),
            false => None,
        };
        Ok((round_trip, requester.discover().await?))
    };
    let (round_trip, discovery) = queries.await.map_err(|error| failure(&error))?;
    let mut services = discovery["services"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let mut healthy = true;
    if args.deep {
        for service in services.iter_mut().take(MAX_SERVICES) {
            let health = service_health(&connector, &url, service).await;
            healthy &= matches!(health, Health::Healthy | Health::Unknown);
            if let Some(service) = service.as_object_mut() {
                service.insert("health".to_owned(), health.to_string().into());
            }
        }
    }
    let welcome = &requester.welcome;
    let millis = round_trip.map(|time| time.as_secs_f64() * 1000.0);
    let mut status = json!({
        "url": url,
        "ok": healthy,
        "dialect": "a2a-v1",
        "protocolVersion": welcome.protocol_version,
        "subprotocol": welcome.subprotocol,
        "clientId": welcome.client_id,
        "authenticated": welcome.authenticated,
        "roundTripMs": millis,
        "agents": discovery["agents"],
        "services": services,
    });
    if let Some(links) = discovery["links"].as_array() {
        status["links"] = links.as_slice().into();
    }
    if args.json {
        lines.write(status.to_string());
    } else {
        show(&status, args.deep, &lines);
    }
    requester.disconnect().await;
    Ok(Exit::from_success(healthy))
}

fn show(status: &Value, deep: bool, lines: &LineWriter) {
    let agents = status["agents"].as_array().map_or(&[][..], Vec::as_slice);
    let connected = agents
        .iter()
        .filter(|agent| !matches!(agent["status"].as_str(), Some("offline" | "error")));
    lines.write(format!(
        "{} answers: a2a-v1 {}, {} of {} agents connected{}",
        field(status, "url"),
        field(status, "protocolVersion"),
        connected.count(),
        agents.len(),
        match status["roundTripMs"].as_f64() {
            Some(millis) => format!(", round trip {millis:.1} ms"),
            None => String::new(),
        }
    ));
    if !agents.is_empty() {
        lines.write(agents_table(agents));
    }
    let links = status["links"].as_array().map_or(&[][..], Vec::as_slice);
    if !links.is_empty() {
        let now = SystemEnvironment.unix_millis();
        let age = |at: u64| text::age(Duration::from_millis(now.saturating_sub(at)));
        let mut table = Table::new(["LINK", "DIRECTION", "STATUS", "CHANGED", "LAST ERROR"]);
        for link in links {
            let error = field(link, "lastError");
            table.add_row([
                field(link, "name"),
                field(link, "direction"),
                field(link, "status"),
                link["since"].as_u64().map(age).unwrap_or_default(),
                match link["lastErrorAt"].as_u64() {
                    Some(at) => format!("{} ago: {error}", age(at)),
                    None => error,
                },
            ]);
        }
        lines.write(table.render());
    }
    let services = status["services"].as_array().map_or(&[][..], Vec::as_slice);
    if services.is_empty() {
        return;
    }
    let headings = ["SERVICE", "ENDPOINT", "CAPABILITIES", "HEALTH"];
    // Without `--deep` the health is unknown.
    let columns = if deep { 4 } else { 3 };
    let mut table = Table::new(headings.into_iter().take(columns));
    for service in services {
        let capabilities = service["capabilities"].as_array().into_iter().flatten();
        let capabilities: Vec<String> = capabilities
            .filter_map(Value::as_str)
            .map(text::line)
            .collect();
        let row = [
            field(service, "serviceId"),
            field(service, "endpoint"),
            capabilities.join(", "),
            field(service, "health"),
        ];
        table.add_row(row.into_iter().take(columns));
    }
    lines.write(table.render());
}

/// Formats agents from a discovery response as a table.
pub(super) fn agents_table(agents: &[Value]) -> String {
    let has_backend = agents.iter().any(|agent| agent["backend"].is_string());
    let has_run = agents.iter().any(|agent| agent["run"].is_object());
    let headings = [
        "AGENT",
        "ROLE",
        "STATUS",
        "BACKEND",
        "RESTARTS",
        "LAST EXIT",
    ];
    let columns = match (has_run, has_backend) {
        (true, _) => 6,
        (false, true) => 4,
        (false, false) => 3,
    };
    let mut table = Table::new(headings.into_iter().take(columns));
    for agent in agents {
        let run = &agent["run"];
        let status = match run["startsInMs"].as_u64() {
            Some(wait) => format!(
                "{}, starts in {} s",
                field(agent, "status"),
                wait.div_ceil(1000)
            ),
            None => field(agent, "status"),
        };
        let row = [
            field(agent, "name"),
            field(agent, "role"),
            status,
            field(agent, "backend"),
            run["restarts"]
                .as_u64()
                .map(|count| count.to_string())
                .unwrap_or_default(),
            field(run, "lastExit"),
        ];
        table.add_row(row.into_iter().take(columns));
    }
    table.render()
}

/// The maximum clock difference in milliseconds. Most servers accept tokens with timestamps within it.
const MAX_CLOCK_SKEW_MS: u64 = 60_000;

const DOCTOR_EXAMPLES: &str = "\
Examples:
  remote-agent gateway doctor
  remote-agent gateway doctor --url wss://gate.example --allow-remote \\
    --token-env GATE_TOKEN

The command checks the configuration, the program, server or agent behind each agent that the gateway runs itself (without a message to it), the program at the port, the credential, the clocks, each agent, the triad, each link and each service, and \
reports whether links are encrypted, and whether the configuration encrypts sessions and verifies signatures.

Exit codes: 0 no error, 1 an error, 2 wrong configuration, 3 no gateway of a2a-v1 answers, 4 it requires a credential, 5 no answer in time.";

/// Check a gateway, its port, credential, clock, agents and services
#[derive(Debug, clap::Args)]
#[command(after_help = DOCTOR_EXAMPLES)]
pub(super) struct DoctorArgs {
    /// Print the findings as a line of JSON
    #[arg(long, help_heading = "Output")]
    json: bool,

    #[command(flatten)]
    gateway_args: GatewayArgs,
}

/// Runs the subcommand.
///
/// # Errors
/// The command line is wrong.
pub(super) async fn doctor(args: DoctorArgs) -> Result<Exit, Failure> {
    let mut findings = Findings::default();
    let exit = check(&args.gateway_args, &mut findings).await?;
    findings.print(args.json);
    Ok(exit)
}

async fn check(args: &GatewayArgs, findings: &mut Findings) -> Result<Exit, Failure> {
    let config = match args.files.read() {
        Ok(config) => config,
        Err(failure) => {
            let repair = "Correct the setting; docs/reference/gateway.md lists all of them.";
            findings.error("configuration", failure.message, repair);
            return Ok(Exit::Usage);
        }
    };
    let file = args.files.config_file();
    let message = match file.exists() {
        true => format!("{} is valid", file.display()),
        false => "no file; every setting has its default".to_owned(),
    };
    findings.ok("configuration", message);
    // The local configuration belongs to the checked gateway unless the command line names another address.
    let own = (!args.has_url()).then_some(&config);
    if let Some(config) = own {
        check_backends(config, findings).await;
    }
    let url = args.url()?;
    let mut requester = match GatewayArgs::connector()?.connect(args.endpoint()?).await {
        Ok(requester) => requester,
        Err(error) => {
            report_unreachable(&url, &error, findings);
            return Ok(failure(&error).exit);
        }
    };
    findings.ok("gateway", format!("{url} answers"));
    if requester.welcome.authenticated {
        findings.ok("credential", "the gateway accepts the credential");
    }
    let queries = async { Ok((requester.ping().await?.1, requester.discover().await?)) };
    let (time, discovery) = match queries.await {
        Ok(answers) => answers,
        Err(error) => {
            report_unreachable(&url, &error, findings);
            return Ok(failure(&error).exit);
        }
    };
    requester.disconnect().await;
    check_clock(time, findings);
    let agents = discovery["agents"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    check_agents(agents, own, findings);
    check_links(&discovery, own, findings);
    if let Some(config) = own {
        check_protection(config, findings);
    }
    let services = discovery["services"].as_array();
    let connector = GatewayArgs::connector()?;
    for service in services.into_iter().flatten().take(MAX_SERVICES) {
        let health = service_health(&connector, &url, service).await;
        let message = format!("{}: {health}", field(service, "serviceId"));
        match health {
            Health::Healthy | Health::Unknown => {
                findings.ok("service", message);
            }
            _ => {
                let repair = "Start the service, or remove it from `services` of the gateway's configuration.";
                findings.error("service", message, repair);
            }
        }
    }
    Ok(Exit::from_success(!findings.has_error()))
}

/// Checks the backends of the agents that the gateway runs itself, also if it does not run.
async fn check_backends(config: &ServerConfig, findings: &mut Findings) {
    let agents = config.agents.iter();
    let probes = agents.filter_map(|agent| {
        let (name, backend) = (&agent.name, agent.backend.as_ref()?);
        Some(async move { (name, backend::probe(name, backend).await) })
    });
    let mut probed = stream::iter(probes).buffered(MAX_PROBES);
    while let Some((name, found)) = probed.next().await {
        match found {
            Ok(found) => findings.ok("backend", format!("{name}: {found}")),
            Err(fault) => {
                let message = format!("{name}: {}", fault.message);
                match fault.is_only_here {
                    true => findings.warn("backend", message, fault.repair),
                    false => findings.error("backend", message, fault.repair),
                }
            }
        }
    }
}

/// Reports why no `a2a-v1` gateway responds, and which process uses the port.
fn report_unreachable(url: &str, error: &ClientError, findings: &mut Findings) {
    let (check, repair) = match error.kind {
        ClientErrorKind::Refused(ErrorCode::AuthRequired) => (
            "credential",
            "Name the environment variable with the key or token with `--token-env VAR`, or the files of a client certificate with `--cert-file` and `--key-file`.",
        ),
        ClientErrorKind::Refused(code) if (5000..6000).contains(&code.number()) => (
            "credential",
            "Check the key or token in the environment variable of `--token-env`, and its roles in the gateway's configuration.",
        ),
        ClientErrorKind::Timeout => (
            "gateway",
            "Look at the log of the gateway, or wait longer with `--timeout-ms`.",
        ),
        _ => (
            "gateway",
            "Start one with `remote-agent gateway`, or name the address of another with `--url`.",
        ),
    };
    let message = text::line(&error.message);
    findings.error(check, message, repair);
    if let Some(listening_process) = listening_process(url) {
        let message = format!("{listening_process} uses the port");
        findings.warn("port", message, "");
    }
}

/// Returns the process that listens on a local port.
fn listening_process(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    let is_local = matches!(url.host_str(), Some("127.0.0.1" | "[::1]" | "localhost"));
    let port = url.port_or_known_default().filter(|_| is_local)?;
    let process = listeners::get_process_by_port(port, Protocol::TCP).ok()?;
    let name = text::line(&process.name);
    Some(format!("the process {} ({name})", process.pid))
}

fn check_clock(gateway: Option<u64>, findings: &mut Findings) {
    let Some(gateway) = gateway else {
        return;
    };
    let now = SystemEnvironment.unix_millis();
    let skew_ms = gateway.abs_diff(now);
    if skew_ms <= MAX_CLOCK_SKEW_MS {
        findings.ok(
            "clock",
            "the gateway's clock agrees with that of this machine",
        );
        return;
    }
    let side = if gateway > now { "ahead of" } else { "behind" };
    let message = format!(
        "the gateway's clock is {} s {side} the clock of this machine",
        skew_ms / 1000
    );
    let repair = "Synchronize both clocks. Deadlines of proposals and tokens with an expiry fail until then.";
    findings.warn("clock", message, repair);
}

/// Checks which links are up. The gateway lists them for clients that may manage it.
fn check_links(discovery: &Value, own: Option<&ServerConfig>, findings: &mut Findings) {
    let links = discovery["links"].as_array();
    if links.is_none() && own.is_some_and(|config| !config.links.is_empty()) {
        let message = "the gateway does not show the state of its links to this credential";
        let repair = "Use a credential of a role with `request: [\"gateway\"]`.";
        findings.warn("link", message.to_owned(), repair);
    }
    for link in links.into_iter().flatten() {
        // Earlier gateways do not say it.
        let protection = match link["encrypted"].as_bool() {
            Some(true) => ", encrypted by TLS",
            Some(false) => ", not encrypted, and on this machine only",
            None => "",
        };
        let name = field(link, "name");
        if link["status"] == "up" {
            findings.ok("link", format!("{name} is up{protection}"));
            continue;
        }
        let mut message = format!("{name} is down{protection}");
        if link["lastError"].is_string() {
            message = format!("{message}: {}", field(link, "lastError"));
        }
        let repair = match link["direction"] == "outgoing" {
            true => "The gateway connects again by itself, once the cause is removed.",
            false => "Start the other gateway, which dials this one.",
        };
        findings.warn("link", message, repair);
    }
}

/// Reports whether the configuration encrypts sessions, and what it does with signatures.
fn check_protection(config: &ServerConfig, findings: &mut Findings) {
    findings.ok(
        "sessions",
        match &config.sessions.encryption {
            None => "session files are plain text",
            Some(one) if one.refuse_plain => "session files are encrypted, and plain ones refused",
            Some(_) => {
                "new session files are encrypted; `gateway sessions list` shows the form of each"
            }
        },
    );
    let signing = &config.signing;
    let mut message = format!("signatures of messages: {}", signing.mode.as_str());
    let own_modes = config.agents.iter().filter(|agent| agent.signing.is_some());
    match own_modes.count() as u64 {
        0 => {}
        count => {
            let agents = counted(count, "agent", "agents");
            message = format!("{message}, another mode for {agents}");
        }
    }
    if signing.require_votes {
        message += ", required of votes";
    }
    let is_signed = if signing.key.is_some() { "" } else { "not " };
    findings.ok(
        "signing",
        format!("{message}; decisions are {is_signed}signed"),
    );
}

fn check_agents(agents: &[Value], own: Option<&ServerConfig>, findings: &mut Findings) {
    let is_offline =
        |agent: &&Value| matches!(agent["status"].as_str(), Some("offline" | "error") | None);
    let (with_backend, unserved): (Vec<_>, Vec<_>) = agents
        .iter()
        // Another gateway serves the agents of a link.
        .filter(|agent| is_offline(agent) && !agent["link"].is_string())
        .partition(|agent| agent["backend"].is_string());
    for agent in with_backend {
        let mut message = format!(
            "{} is {}: its backend does not run",
            field(agent, "name"),
            field(agent, "status")
        );
        let mut repair = "The gateway starts it again by itself; its log has the reason.";
        if agent["run"]["lastExit"].is_string() {
            message = format!(
                "{message}; it ended last: {}",
                field(&agent["run"], "lastExit")
            );
            repair = "The gateway starts it again by itself, once the cause is removed.";
        }
        findings.warn("agent", message, repair);
    }
    if let Some(first) = unserved.first() {
        let names: Vec<String> = unserved.iter().map(|agent| field(agent, "name")).collect();
        let message = format!(
            "offline, because no client serves them: {}",
            names.join(", ")
        );
        let repair = format!(
            "Start a client for each, for example `remote-agent gateway agent --name {} --run COMMAND`.",
            text::shell(&field(first, "name"))
        );
        findings.warn("agent", message, &repair);
    }
    let online = agents.len() - agents.iter().filter(is_offline).count();
    findings.ok(
        "agents",
        format!("{online} of {} agents are connected", agents.len()),
    );
    let Some(config) = own else { return };
    let members = &config.triad.members;
    let connected = members.iter().filter(|member| {
        let mut online = agents.iter().filter(|agent| !is_offline(agent));
        online.any(|agent| agent["name"] == member.as_str())
    });
    let connected = connected.count();
    if connected < MAJORITY {
        let message = format!(
            "{connected} of {} members are connected, and a decision needs {MAJORITY}: the gateway refuses proposals",
            members.len()
        );
        let repair = "Start the members that are offline.";
        findings.error("triad", message, repair);
    }
}
