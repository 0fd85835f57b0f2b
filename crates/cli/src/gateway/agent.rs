//! `remote-agent gateway agent`: runs an agent whose replies and votes come from a backend or from options.

use std::{sync::Arc, time::Duration};

use base::environment::SystemEnvironment;
use clap::ValueEnum;
use collective::Vote;
use gateway_agent::Agent;
use gateway_bridge::client::{AgentEvent, Ballot, Script};
use tokio_util::sync::CancellationToken;

use super::{
    backend::{self, BackendArgs},
    gateway_args::{GatewayArgs, failure},
};
use crate::{
    exit::{self, Exit, Failure},
    output::LineWriter,
    text,
};

const EXAMPLES: &str = "\
Examples:
  remote-agent gateway agent --name alpha --run 'python3 alpha.py'
  remote-agent gateway agent --name beta --model http://127.0.0.1:4000 \\
    --model-name small --model-key-env LITELLM_KEY
  remote-agent gateway agent --name charlie --target desk \\
    --target-config targets.json
  remote-agent gateway agent --name main --openclaw main \\
    --url ws://127.0.0.1:18790
  remote-agent gateway agent --name alpha --vote approve
  remote-agent gateway agent --name beta --vote abstain --delay-ms 2000 \\
    --confidence 0.4
  remote-agent gateway agent --name coder --reply 'I will look at: {text}'

The agent runs until Ctrl-C and reconnects after a lost connection. It answers messages that require a response \
(metadata.requiresResponse), and votes on each proposal. With --run, a process answers each message and each proposal: it \
reads one JSON object from standard input ({\"type\", \"agent\", \"from\", \"thread\", \"text\", \"history\"}) and prints text, \
or JSON Lines of {\"type\": \"message\", \"text\"}; the sender sees {\"type\": \"status\", \"text\"} at once. A backend answers a proposal with one JSON object, {\"vote\", \"reasoning\", \
\"confidence\"}; after two other answers the agent abstains. Without a backend, --reply and --vote determine its answers and votes.";

/// Connect an agent with a backend, or a scripted one, to a gateway
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The name of the agent
    #[arg(long, value_name = "NAME")]
    name: String,

    #[command(flatten)]
    backend: BackendArgs,

    /// The vote on every proposal
    #[arg(long, help_heading = "Scripted agent", value_enum, default_value_t = VoteOption::Silent)]
    vote: VoteOption,

    /// The reason for the vote
    #[arg(long, help_heading = "Scripted agent", value_name = "TEXT", default_value = Script::REASON)]
    reason: String,

    /// The confidence of the vote, from 0 to 1
    #[arg(long, help_heading = "Scripted agent", value_name = "NUMBER", value_parser = confidence)]
    confidence: Option<f64>,

    /// The delay before a vote or a reply, in milliseconds
    #[arg(
        long,
        help_heading = "Scripted agent",
        value_name = "MS",
        default_value_t = 0
    )]
    delay_ms: u64,

    /// The reply; {text} is the text of the message
    #[arg(long, help_heading = "Scripted agent", value_name = "TEXT", default_value = Script::REPLY)]
    reply: String,

    /// Print events as lines of JSON
    #[arg(long, help_heading = "Output")]
    json: bool,

    #[command(flatten)]
    gateway_args: GatewayArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum VoteOption {
    /// Vote for the proposal
    Approve,
    /// Vote against the proposal
    Reject,
    /// Abstain from the vote
    Abstain,
    /// Send no vote
    Silent,
}

fn confidence(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    match (0.0..=1.0).contains(&number) {
        true => Ok(number),
        false => Err("not from 0 to 1".to_owned()),
    }
}

/// Runs the subcommand until Ctrl-C or SIGTERM.
///
/// # Errors
/// The server is not a gateway of `a2a-v1`, or it refuses the agent.
pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    let shutdown = exit::on_signal()?;
    let connector = GatewayArgs::connector()?;
    let endpoint = args.gateway_args.endpoint_of(Some(&args.name))?;
    let report = reporter(&args, shutdown.clone());
    let result = match args.backend.config()? {
        Some(config) => {
            let hidden: Vec<String> = backend::secret_variables(&config)
                .chain(args.gateway_args.token_variable().map(str::to_owned))
                .collect();
            let opened = backend::open(&config, &hidden)?;
            let settings = backend::settings(&args.name, &config);
            let env = Arc::new(SystemEnvironment);
            let agent = Agent::new(settings, Arc::clone(&opened.backend), env, report);
            agent.serve(&connector, &endpoint, &shutdown).await
        }
        None => {
            let script = script(args);
            connector
                .serve(endpoint, script, report, shutdown.clone())
                .await
        }
    };
    result.map_err(|error| failure(&error))?;
    Ok(Exit::Ok)
}

/// Returns a function that prints events and cancels `shutdown` when standard output is closed.
fn reporter(
    args: &Args,
    shutdown: CancellationToken,
) -> impl Fn(&AgentEvent) + Send + Sync + 'static {
    let lines = LineWriter::default();
    let (as_json, name) = (args.json, args.name.clone());
    move |event| {
        let text = || text::line(&format!("{name}: {event}"));
        lines.write_as(as_json, &event.json(), text);
        if lines.closed().is_cancelled() {
            shutdown.cancel();
        }
    }
}

fn script(args: Args) -> Script {
    let vote = match args.vote {
        VoteOption::Approve => Some(Vote::Approve),
        VoteOption::Reject => Some(Vote::Reject),
        VoteOption::Abstain => Some(Vote::Abstain),
        VoteOption::Silent => None,
    };
    Script {
        name: args.name,
        ballot: vote.map(|vote| Ballot {
            vote,
            reasoning: args.reason,
            confidence: args.confidence,
        }),
        delay: Duration::from_millis(args.delay_ms),
        reply: args.reply,
    }
}
