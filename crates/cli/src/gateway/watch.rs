//! `remote-agent gateway watch`: prints the events of a gateway, one per line.

use std::time::{Duration, UNIX_EPOCH};

use super::gateway_args::{GatewayArgs, failure};
use crate::{
    exit::{Exit, Failure},
    output::{LineWriter, note},
    shutdown, text,
};
use gateway_bridge::client::Observation;

const EXAMPLES: &str = "\
Examples:
  remote-agent gateway watch
  remote-agent gateway watch --content
  remote-agent gateway watch --json \\
    | jq -c 'select(.happened == \"decision\")'

The command prints the status of every agent, then each change, message, reply, request, broadcast, proposal, vote, decision and refusal until Ctrl-C. \
Without --content it omits texts; with it, it cuts them after 2000 characters. After a lost connection it reconnects, and prints the missed events that \
the gateway still has. A gateway with roles requires the permissions `subscribe` and the service `gateway` in `request`, and \
for --content also all `workspaces`.

Exit codes: 0 ended by Ctrl-C or SIGTERM, 3 no gateway answers, 4 credential or permission, 5 no answer in time.";

/// Print the events of a gateway as they happen
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Show the texts of messages, proposals and votes
    #[arg(long)]
    content: bool,

    /// Print each event as a line of JSON
    #[arg(long, help_heading = "Output")]
    json: bool,

    #[command(flatten)]
    gateway_args: GatewayArgs,
}

/// Runs the subcommand until Ctrl-C.
///
/// # Errors
/// The gateway is unreachable, or refuses the subscription.
pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    let lines = LineWriter::default();
    let shutdown = shutdown::on_signal()?;
    let observe = |observation: &Observation| {
        match observation {
            _ if args.json => lines.write(observation.json().to_string()),
            Observation::Connected(_) | Observation::Lost(..) => {
                note(text::line(&observation.to_string()));
            }
            _ => lines.write(format_observation(observation)),
        }
        if lines.closed().is_cancelled() {
            shutdown.cancel();
        }
    };
    let connector = GatewayArgs::connector()?;
    let endpoint = args.gateway_args.endpoint()?;
    let watch = connector.watch(endpoint, args.content, observe, shutdown.clone());
    watch.await.map_err(|error| failure(&error))?;
    Ok(Exit::Ok)
}

/// Formats an observation as one line: the time in UTC, then the text.
fn format_observation(observation: &Observation) -> String {
    let millis = match observation {
        Observation::Event(event) => event["time"].as_u64(),
        _ => None,
    };
    let since_1970 = millis.map_or_else(
        || UNIX_EPOCH.elapsed().unwrap_or_default(),
        Duration::from_millis,
    );
    let seconds = since_1970.as_secs() % 86_400;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let text = observation.to_string();
    let (word, rest) = text.split_once(' ').unwrap_or((&text, ""));
    format!(
        "{hours:02}:{minutes:02}:{:02}Z {word:<9} {}",
        seconds % 60,
        text::line(rest)
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn hostile_text_stays_on_its_line() {
        let event = json!({"happened": "message", "time": 3_723_000, "from": "a\u{1b}[2J", "to": "b\nc",
            "text": "x\u{202e}y\r\nfake 00:00:00Z vote\u{7}"});
        assert_eq!(
            format_observation(&Observation::Event(event)),
            "01:02:03Z message   a -> b c: xy fake 00:00:00Z vote"
        );
    }
}
