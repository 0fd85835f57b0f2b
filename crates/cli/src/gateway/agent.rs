//! `remote-agent gateway agent`: an agent that answers and votes as its options say.

use std::time::Duration;

use clap::ValueEnum;
use tokio_util::sync::CancellationToken;

use super::gateway_args::{GatewayArgs, failure};
use crate::{
    exit::{Exit, Failure},
    output::LineWriter,
    text,
};
use collective::Vote;
use gateway_server::clients::{AgentEvent, Ballot, Script};

const EXAMPLES: &str = "\
Examples:
  remote-agent gateway agent --name alpha --vote approve
  remote-agent gateway agent --name beta --vote abstain --delay-ms 2000 \\
    --confidence 0.4
  remote-agent gateway agent --name coder --reply 'I will look at: {text}'

It serves the name until Ctrl-C and reconnects when the connection is lost. It answers messages that ask for an answer \
(metadata.requiresResponse), and votes on each proposal the same way.";

/// Connect a scripted agent to a gateway
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The name it serves
    #[arg(long, value_name = "NAME")]
    name: String,

    /// The vote on every proposal
    #[arg(long, value_enum, default_value_t = VoteOption::Silent)]
    vote: VoteOption,

    /// The reason it gives for its vote
    #[arg(long, value_name = "TEXT", default_value = Script::REASON)]
    reason: String,

    /// The confidence of the vote, from 0 to 1
    #[arg(long, value_name = "NUMBER", value_parser = confidence)]
    confidence: Option<f64>,

    /// The delay before a vote or a reply, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 0)]
    delay_ms: u64,

    /// The reply; {text} is the text of the message
    #[arg(long, value_name = "TEXT", default_value = Script::REPLY)]
    reply: String,

    /// Print events as lines of JSON
    #[arg(long, help_heading = "Output")]
    json: bool,

    #[command(flatten)]
    gateway_args: GatewayArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum VoteOption {
    /// For it
    Approve,
    /// Against it
    Reject,
    /// For neither side
    Abstain,
    /// Not at all
    Silent,
}

fn confidence(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    match (0.0..=1.0).contains(&number) {
        true => Ok(number),
        false => Err("not from 0 to 1".to_owned()),
    }
}

/// Runs the subcommand until Ctrl-C.
///
/// # Errors
/// The server is not a gateway of `a2a-v1`, or it refuses the agent.
pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    let vote = match args.vote {
        VoteOption::Approve => Some(Vote::Approve),
        VoteOption::Reject => Some(Vote::Reject),
        VoteOption::Abstain => Some(Vote::Abstain),
        VoteOption::Silent => None,
    };
    let script = Script {
        name: args.name.clone(),
        ballot: vote.map(|vote| Ballot {
            vote,
            reasoning: args.reason,
            confidence: args.confidence,
        }),
        delay: Duration::from_millis(args.delay_ms),
        reply: args.reply,
    };
    let lines = LineWriter::default();
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    tokio::spawn(async move {
        // Whatever it answers: without a way to be stopped it stops.
        let _ = tokio::signal::ctrl_c().await;
        stop.cancel();
    });
    let (as_json, name) = (args.json, args.name);
    let tell = |happening: &AgentEvent| {
        lines.write(match as_json {
            true => happening.json().to_string(),
            false => text::line(&format!("{name}: {happening}")),
        });
        if lines.gone().is_cancelled() {
            shutdown.cancel();
        }
    };
    let connector = GatewayArgs::connector()?;
    let served = connector.serve(
        args.gateway_args.endpoint()?,
        script,
        tell,
        shutdown.clone(),
    );
    served.await.map_err(|trouble| failure(&trouble))?;
    Ok(Exit::Ok)
}
