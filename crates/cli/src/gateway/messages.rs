//! `remote-agent gateway send`, `request` and `broadcast`.

use std::time::Duration;

use serde_json::json;

use super::gateway_args::{GatewayArgs, delivery_failure};
use crate::{
    exit::{Exit, Failure},
    output::{LineWriter, note, standard_input},
    text,
};
use collective::Kind;
use gateway_bridge::client::Message;

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
    LineWriter::default().write(match args.json {
        true => {
            json!({"id": id, "agent": message.agent, "sessionId": message.session_id}).to_string()
        }
        false => format!("sent {id} to {}", text::line(&message.agent)),
    });
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
    LineWriter::default().write(match args.json {
        true => {
            json!({"agent": message.agent, "sessionId": reply.session_id, "content": reply.content})
                .to_string()
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
    LineWriter::default().write(match args.json {
        true => result.to_string(),
        false => format!(
            "delivered to {}; not delivered to {}",
            joined(&delivered),
            joined(&failed)
        ),
    });
    Ok(match delivered.is_empty() {
        true => Exit::Failed,
        false => Exit::Ok,
    })
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
