//! `remote-agent gateway vote`: sends a proposal to the triad and prints its votes and its decision.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::gateway_args::{GatewayArgs, delivery_failure};
use crate::{
    exit::{Exit, Failure},
    output::{LineWriter, note},
    text,
};

/// How long the command waits for the decision after the deadline of the proposal.
const DECISION_GRACE: Duration = Duration::from_secs(5);

const EXAMPLES: &str = "\
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
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
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
pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    let lines = LineWriter::default();
    let mut content = json!({"proposal": args.proposal.join(" ")});
    if let Some(reasoning) = &args.reasoning {
        content["reasoning"] = reasoning.as_str().into();
    }
    let limit = args.deadline_ms.map(Duration::from_millis);
    if let Some(limit) = limit {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let deadline = now.unwrap_or_default() + limit;
        content["deadline"] = u64::try_from(deadline.as_millis())
            .unwrap_or(u64::MAX)
            .into();
    }
    let mut requester = args.gateway_args.connect().await?;
    let id = args.id.unwrap_or_else(|| requester.new_proposal_id());
    if !args.json {
        note(format_args!("proposal {id}; waiting for votes"));
    }
    let on_vote = |member: &str, vote: &Value| {
        lines.write(match args.json {
            true => vote_json(member, vote).to_string(),
            false => vote_line(member, vote),
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
    lines.write(match args.json {
        true => {
            let mut decision = decision;
            decision["happened"] = "decision".into();
            decision.to_string()
        }
        false => decision_line(&decision),
    });
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

#[cfg(test)]
mod tests {
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
}
