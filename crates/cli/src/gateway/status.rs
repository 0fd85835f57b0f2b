//! `remote-agent gateway status`: prints which server responds at an address, and its state.

use serde_json::{Value, json};

use super::gateway_args::{GatewayArgs, MAX_SERVICES, failure, service_health};
use crate::{
    exit::{Exit, Failure},
    output::LineWriter,
    table::Table,
    text,
};
use gateway_bridge::client::{ClientErrorKind, Health};

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
            service["health"] = health.to_string().into();
        }
    }
    let welcome = &requester.welcome;
    let millis = round_trip.map(|time| time.as_secs_f64() * 1000.0);
    let status = json!({
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
    if args.json {
        lines.write(status.to_string());
    } else {
        show(&status, args.deep, &lines);
    }
    requester.disconnect().await;
    Ok(if healthy { Exit::Ok } else { Exit::Failed })
}

fn show(status: &Value, deep: bool, lines: &LineWriter) {
    let field =
        |value: &Value, name: &str| value[name].as_str().map(text::line).unwrap_or_default();
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
    let field =
        |agent: &Value, name: &str| agent[name].as_str().map(text::line).unwrap_or_default();
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
