//! `remote-agent gateway send`, `request`, `broadcast`, `vote` and `watch`: messages to agents, the votes about a proposal, and
//! the events of a gateway.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base::environment::unix_millis;
use collective::Kind;
use gateway_bridge::client::{Message, Observation};
use serde_json::{Value, json};

use super::gateway_args::{GatewayArgs, delivery_failure, failure};
use crate::{
    exit::{self, Exit, Failure},
    output::{LineWriter, note, standard_input},
    text,
};

const SEND_EXAMPLES: &str = "\
Examples:
  remote-agent gateway send --to coder 'The build is red'
  remote-agent gateway send --to historian - <commit.txt

The agent need not reply. `remote-agent gateway request` waits for a reply.

Exit codes: 0 the gateway accepted the message, 1 it refused the message, 3 no gateway answers or the agent is offline, 4 credential or permission, \
5 no answer in time or the agent is busy.";

const REQUEST_EXAMPLES: &str = "\
Examples:
  remote-agent gateway request --to coder 'Which tests fail?'
  remote-agent gateway request --to coder --session sess-1 \\
    --wait-ms 600000 'And why?'

The command prints the reply, and status reports of the agent on standard error. With --json, it prints the content of the reply and the session.

Exit codes: 0 replied, 1 the agent or the gateway responded with an error, 3 no gateway answers or the agent is offline, 4 credential or permission, \
5 no reply in time or the agent is busy.";

const BROADCAST_EXAMPLES: &str = "\
Examples:
  remote-agent gateway broadcast 'Maintenance at 12:00 UTC'

Exit codes: 0 at least one client received it, 1 none did, 3 no gateway answers, 4 credential or permission, 5 no answer in time.";

/// The text of a message.
#[derive(Debug, clap::Args)]
struct TextArgs {
    /// The text, words joined by spaces; - reads it from standard input
    #[arg(value_name = "TEXT", required = true)]
    text: Vec<String>,
}

impl TextArgs {
    async fn read(&self) -> Result<String, Failure> {
        let text = match self.text == ["-"] {
            true => standard_input("the text").await?,
            false => self.text.join(" "),
        };
        match text.trim().is_empty() {
            true => Err(Failure::usage("the text is empty; write what to send")),
            false => Ok(text),
        }
    }
}

/// The recipient of a message.
#[derive(Debug, clap::Args)]
struct RecipientArgs {
    /// The recipient
    #[arg(long, value_name = "AGENT")]
    to: String,

    /// The session of the message [default: the gateway chooses one]
    #[arg(long, value_name = "ID")]
    session: Option<String>,
}

/// Send a message to an agent without waiting for a reply
#[derive(Debug, clap::Args)]
#[command(after_help = SEND_EXAMPLES)]
pub(super) struct SendArgs {
    #[command(flatten)]
    recipient: RecipientArgs,

    #[command(flatten)]
    text: TextArgs,

    /// Print the result as a line of JSON
    #[arg(long, help_heading = "Output")]
    json: bool,

    #[command(flatten)]
    gateway_args: GatewayArgs,
}

/// Send a message to an agent and wait for its reply
#[derive(Debug, clap::Args)]
#[command(after_help = REQUEST_EXAMPLES)]
pub(super) struct RequestArgs {
    #[command(flatten)]
    recipient: RecipientArgs,

    #[command(flatten)]
    text: TextArgs,

    /// The timeout of the reply, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 120_000)]
    wait_ms: u64,

    /// Print the result as a line of JSON
    #[arg(long, help_heading = "Output")]
    json: bool,

    #[command(flatten)]
    gateway_args: GatewayArgs,
}

/// Send a message to every client of a gateway
#[derive(Debug, clap::Args)]
#[command(after_help = BROADCAST_EXAMPLES)]
pub(super) struct BroadcastArgs {
    #[command(flatten)]
    text: TextArgs,

    /// Print the result as a line of JSON
    #[arg(long, help_heading = "Output")]
    json: bool,

    #[command(flatten)]
    gateway_args: GatewayArgs,
}

/// Sends a message.
///
/// # Errors
/// The gateway is unreachable, or refuses the message.
pub(super) async fn send(args: SendArgs) -> Result<Exit, Failure> {
    let message = message(args.recipient, args.text.read().await?);
    let mut requester = args.gateway_args.connect().await?;
    let id = requester.send(&message).await;
    let id = id.map_err(|error| delivery_failure(&error))?;
    requester.disconnect().await;
    let json = json!({"id": id, "agent": message.agent, "sessionId": message.session_id});
    let text = || format!("sent {id} to {}", text::line(&message.agent));
    LineWriter::default().write_as(args.json, &json, text);
    Ok(Exit::Ok)
}

/// Sends a message and prints the reply.
///
/// # Errors
/// The gateway is unreachable, it or the agent refuses the message, or no reply arrives in time.
pub(super) async fn request(args: RequestArgs) -> Result<Exit, Failure> {
    let message = message(args.recipient, args.text.read().await?);
    let mut requester = args.gateway_args.connect().await?;
    let limit = Duration::from_millis(args.wait_ms.max(1));
    let on_progress = |status: &str| {
        note(format_args!(
            "{}: {}",
            text::line(&message.agent),
            text::line(status)
        ));
    };
    let reply = requester.send_and_wait(&message, limit, on_progress).await;
    let reply = reply.map_err(|error| delivery_failure(&error))?;
    requester.disconnect().await;
    if let Some(status) = reply.signature.filter(|_| !args.json) {
        note(format_args!("signature: {}", status.as_str()));
    }
    LineWriter::default().write(match args.json {
        true => {
            let mut line = json!({"agent": message.agent, "sessionId": reply.session_id, "content": reply.content});
            if let Some(status) = reply.signature {
                line["signature"] = status.as_str().into();
            }
            line.to_string()
        }
        false => text::block(&reply.text).into_owned(),
    });
    Ok(Exit::Ok)
}

/// Sends a broadcast and prints its recipients.
///
/// # Errors
/// The gateway is unreachable, or refuses the broadcast.
pub(super) async fn broadcast(args: BroadcastArgs) -> Result<Exit, Failure> {
    let content = json!({"message": args.text.read().await?});
    let mut requester = args.gateway_args.connect().await?;
    let answer = requester.request(Kind::Broadcast, content).await;
    let answer = answer.map_err(|error| delivery_failure(&error))?;
    requester.disconnect().await;
    let result = &answer.content()["result"];
    let names = |field: &str| {
        let names = result[field].as_array().into_iter().flatten();
        names
            .filter_map(|name| name.as_str())
            .map(text::line)
            .collect::<Vec<_>>()
    };
    let (delivered, failed) = (names("delivered"), names("failed"));
    let (to, not_to) = (joined(&delivered), joined(&failed));
    let text = || format!("delivered to {to}; not delivered to {not_to}");
    LineWriter::default().write_as(args.json, result, text);
    Ok(Exit::from_success(!delivered.is_empty()))
}

fn joined(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    }
}

fn message(recipient: RecipientArgs, text: String) -> Message {
    Message {
        agent: recipient.to,
        text,
        session_id: recipient.session,
    }
}

/// How long the command waits for the decision after the deadline of the proposal.
const DECISION_GRACE: Duration = Duration::from_secs(5);

const VOTE_EXAMPLES: &str = "\
Examples:
  remote-agent gateway vote 'Ship it today'
  remote-agent gateway vote 'Ship it today' \\
    --reasoning 'All tests pass' --deadline-ms 60000
  remote-agent gateway vote 'Ship it today' --id release-7 && ./release.sh

The command prints each vote as it arrives, then the decision. Until it stops, a gateway knows each proposal by its id: the same command with \
the same --id waits for the decision or prints it again, without a second vote.

Exit codes: 0 approved, 1 failed, 2 wrong usage, 3 no gateway answers or fewer than two members are connected, 4 credential or permission, \
5 no decision in time, 10 rejected by two votes, 11 rejected without consensus.";

/// Send a proposal to the triad, show the votes, and exit with a code for the decision
#[derive(Debug, clap::Args)]
#[command(after_help = VOTE_EXAMPLES)]
pub(super) struct VoteArgs {
    /// The proposal, words joined by spaces
    #[arg(value_name = "PROPOSAL", required = true)]
    proposal: Vec<String>,

    /// The reasons for the proposal
    #[arg(long, value_name = "TEXT")]
    reasoning: Option<String>,

    /// The time until the deadline in milliseconds, after which the votes so far decide [default: that of the gateway]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=86_400_000))]
    deadline_ms: Option<u64>,

    /// The id of the proposal [default: a new one]
    #[arg(long, value_name = "ID")]
    id: Option<String>,

    /// Print votes and decision as lines of JSON
    #[arg(long, help_heading = "Output")]
    json: bool,

    #[command(flatten)]
    gateway_args: GatewayArgs,
}

/// Runs the subcommand.
///
/// # Errors
/// The gateway is unreachable, or refuses the proposal.
pub(super) async fn vote(args: VoteArgs) -> Result<Exit, Failure> {
    let lines = LineWriter::default();
    let mut content = json!({"proposal": args.proposal.join(" ")});
    if let Some(reasoning) = &args.reasoning {
        content["reasoning"] = reasoning.as_str().into();
    }
    let limit = args.deadline_ms.map(Duration::from_millis);
    if let Some(limit) = args.deadline_ms {
        let deadline = unix_millis(SystemTime::now()).saturating_add(limit);
        content["deadline"] = deadline.into();
    }
    let mut requester = args.gateway_args.connect().await?;
    let id = args.id.unwrap_or_else(|| requester.new_proposal_id());
    if !args.json {
        note(format_args!("proposal {id}; waiting for votes"));
    }
    let on_vote = |member: &str, vote: &Value| {
        lines.write_as(args.json, &vote_json(member, vote), || {
            vote_line(member, vote)
        });
    };
    let wait = limit.map(|limit| limit + DECISION_GRACE);
    let decision = requester.propose(&id, content, wait, on_vote).await;
    let decision = decision.map_err(|error| {
        let mut failure = delivery_failure(&error);
        if matches!(failure.exit, Exit::Unreachable | Exit::Timeout) {
            let id = text::shell(&id);
            failure.message +=
                &format!("; the same command with `--id {id}` waits for the decision");
        }
        failure
    })?;
    requester.disconnect().await;
    let approved = decision["result"] == "approved";
    let consensus = decision["consensus"] == true;
    let text = decision_line(&decision);
    let mut decision = decision;
    decision["happened"] = "decision".into();
    lines.write_as(args.json, &decision, || text);
    Ok(match (approved, consensus) {
        (true, _) => Exit::Ok,
        (false, true) => Exit::Rejected,
        (false, false) => Exit::NoConsensus,
    })
}

fn vote_json(member: &str, vote: &Value) -> Value {
    json!({
        "happened": "vote", "from": member, "vote": vote["vote"], "reasoning": vote["reasoning"],
        "confidence": vote["confidence"], "proposalId": vote["proposalId"],
    })
}

fn vote_line(member: &str, vote: &Value) -> String {
    let word = vote["vote"].as_str().unwrap_or_default();
    let confidence = match vote["confidence"].as_f64() {
        Some(confidence) => format!(" (confidence {confidence})"),
        None => String::new(),
    };
    let reasoning = match vote["reasoning"].as_str() {
        Some(reasoning) => format!(": {reasoning}"),
        None => String::new(),
    };
    text::line(&format!("{member} votes {word}{confidence}{reasoning}"))
}

fn decision_line(decision: &Value) -> String {
    let result = decision["result"].as_str().unwrap_or_default();
    let consensus_text = match decision["consensus"] == true {
        true => "by consensus",
        false => "without consensus",
    };
    let missing = decision["missing"].as_array().into_iter().flatten();
    let missing: Vec<&str> = missing.filter_map(Value::as_str).collect();
    let missing = match missing.is_empty() {
        true => String::new(),
        false => format!("; no vote of {}", missing.join(", ")),
    };
    text::line(&format!("{result}, {consensus_text}{missing}"))
}

const WATCH_EXAMPLES: &str = "\
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
#[command(after_help = WATCH_EXAMPLES)]
pub(super) struct WatchArgs {
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
pub(super) async fn watch(args: WatchArgs) -> Result<Exit, Failure> {
    let lines = LineWriter::default();
    let shutdown = exit::on_signal()?;
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
    fn vote_of_a_hostile_member_is_one_plain_line() {
        let vote = json!({"vote": "approve", "reasoning": "\u{1b}[31mred\nrejected, by consensus\u{202e}"});
        assert_eq!(
            vote_line("alpha\r", &vote),
            "alpha votes approve: red rejected, by consensus"
        );
    }

    #[test]
    fn decision_names_the_missing_members() {
        let decision =
            json!({"result": "rejected", "consensus": false, "missing": ["beta", "charlie"]});
        assert_eq!(
            decision_line(&decision),
            "rejected, without consensus; no vote of beta, charlie"
        );
    }

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
