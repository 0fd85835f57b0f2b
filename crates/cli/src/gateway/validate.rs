//! `remote-agent gateway validate` and `tally`: validate a configuration or envelopes, and print how a triad counts votes. The
//! counting code itself computes that table.

use std::{fs, path::PathBuf};

use base::text::counted;
use collective::{self, Decision, Envelope, Quorum, Tally, Vote};
use gateway_server::{self, config::ServerConfig};
use serde_json::{Value, json};

use super::gateway_args::{GatewayArgs, failure};
use crate::{
    exit::{Exit, Failure},
    output::LineWriter,
    text::Table,
};

const EXAMPLES: &str = "\
Examples:
  remote-agent gateway validate gateway.json
  remote-agent gateway validate --config gateway.json \\
    --url ws://127.0.0.1:18789
  remote-agent gateway validate --envelopes messages.jsonl

With --url, the command also checks that the running gateway has the agents of the configuration.

Exit codes: 0 valid, 1 the running gateway lacks an agent, 2 invalid; the error names the place.";

/// Check a gateway's configuration with every file it names, or envelopes of a2a-v1
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The configuration, like --config [default: gateway.json in the state directory]
    #[arg(conflicts_with = "config")]
    file: Option<PathBuf>,

    /// Check the envelopes in the file, one a line
    #[arg(long, requires = "file")]
    envelopes: bool,

    /// Print the result as a line of JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    gateway_args: GatewayArgs,
}

/// Runs the subcommand.
///
/// # Errors
/// The input is invalid. The error has a JSON Pointer.
pub(super) async fn run(args: &Args) -> Result<Exit, Failure> {
    let lines = LineWriter::default();
    let file = args
        .file
        .clone()
        .unwrap_or_else(|| args.gateway_args.files.config_file());
    let name = file.display();
    if args.envelopes {
        let text = fs::read_to_string(&file)
            .map_err(|error| Failure::usage(format!("cannot read `{name}`: {error}")))?;
        return envelopes(&text, args.json, &lines);
    }
    // A gateway without a file starts with the defaults.
    let defaults = args.file.is_none() && !args.gateway_args.files.names_config() && !file.exists();
    let checked = match defaults {
        true => Ok(args.gateway_args.files.read()?),
        false => gateway_server::validate(&file),
    };
    match checked {
        Ok(config) => {
            let unknown_agents = match args.gateway_args.has_url() {
                true => unknown_agents(&args.gateway_args, &config).await?,
                false => Vec::new(),
            };
            lines.write(match args.json {
                true => json!({"ok": unknown_agents.is_empty(), "agents": config.agents.len(), "services": config.services.len(), "unknownAgents": unknown_agents}).to_string(),
                false => {
                    let what = match defaults {
                        true => format!("no `{name}`; a gateway starts with the defaults"),
                        false => format!("`{name}` is valid"),
                    };
                    let known = match args.gateway_args.has_url() && unknown_agents.is_empty() {
                        true => "; the gateway knows all agents",
                        false => "",
                    };
                    let agents = counted(config.agents.len(), "agent", "agents");
                    let services = counted(config.services.len(), "service", "services");
                    format!("{what}: {agents}, {services}{known}")
                }
            });
            if unknown_agents.is_empty() {
                return Ok(Exit::Ok);
            }
            Err(Failure::new(format!(
                "the gateway at {} does not know `{}` of the configuration; start it with this configuration, or add agents with `remote-agent gateway agents create`",
                args.gateway_args.url()?,
                unknown_agents.join("`, `")
            )))
        }
        Err(error) if args.json => {
            lines.write(
                json!({"ok": false, "message": error.message, "path": error.path}).to_string(),
            );
            Ok(Exit::Usage)
        }
        Err(error) => Err(Failure::usage(format!("`{name}` is invalid: {error}"))),
    }
}

/// Returns the agents of the configuration that the running gateway does not know.
async fn unknown_agents(
    gateway_args: &GatewayArgs,
    config: &ServerConfig,
) -> Result<Vec<String>, Failure> {
    let listed = gateway_args.listed().await?;
    let listed = listed.map_err(|error| failure(&error))?;
    let names = config.agents.iter().map(|agent| &agent.name);
    let knows = |name: &&String| listed.iter().any(|agent| agent["name"] == ***name);
    Ok(names.filter(|name| !knows(name)).cloned().collect())
}

fn envelopes(text: &str, as_json: bool, lines: &LineWriter) -> Result<Exit, Failure> {
    let (mut valid, mut invalid) = (0_u64, 0_u64);
    let all = text.lines().zip(1_u64..);
    for (line, number) in all.filter(|(line, _)| !line.trim().is_empty()) {
        let checked = Envelope::parse(line).and_then(|envelope| {
            collective::validate(&envelope)?;
            Ok(envelope.kind())
        });
        match checked {
            Ok(_) => valid += 1,
            Err(error) => {
                invalid += 1;
                let (code, message) = (error.code, error.message);
                let json = json!({"line": number, "error": code.name(), "code": code.number(), "message": message});
                lines.write_as(as_json, &json, || {
                    format!("line {number}: {code}: {message}")
                });
            }
        }
    }
    let json = json!({"ok": invalid == 0, "good": valid, "bad": invalid});
    let valid = counted(valid, "valid envelope", "valid envelopes");
    lines.write_as(as_json, &json, || format!("{valid}, {invalid} invalid"));
    Ok(if invalid == 0 { Exit::Ok } else { Exit::Usage })
}

const TALLY_EXAMPLES: &str = "\
Examples:
  remote-agent gateway tally
  remote-agent gateway tally --json | jq -c 'select(.result == \"approved\")'";

/// Print how a triad counts votes: all ten tallies, and all combinations with missing votes
#[derive(Debug, clap::Args)]
#[command(after_help = TALLY_EXAMPLES)]
pub(super) struct TallyArgs {
    /// Print each row as a line of JSON
    #[arg(long)]
    json: bool,
}

/// A combination of three votes and its result.
struct Row {
    approve: usize,
    reject: usize,
    abstain: usize,
    decision: Decision,
    /// Whether the votes decide before all members have voted.
    early: bool,
}

/// Prints the table.
pub(super) fn tally(args: &TallyArgs) -> Exit {
    let lines = LineWriter::default();
    if args.json {
        rows()
            .iter()
            .for_each(|row| lines.write(row.json().to_string()));
        return Exit::Ok;
    }
    let mut shown = Table::new(TABLE_HEADER);
    for row in rows() {
        shown.add_row(row.cells());
    }
    lines.write(shown.render());
    Exit::Ok
}

const TABLE_HEADER: [&str; 7] = [
    "approve",
    "reject",
    "abstain",
    "missing",
    "result",
    "consensus",
    "decided early",
];

/// Returns the table as Markdown.
#[must_use]
pub fn tally_table() -> String {
    let line = |cells: &[String]| format!("| {} |", cells.join(" | "));
    let head = TABLE_HEADER.map(str::to_owned);
    let rule = format!("|{}", "---|".repeat(TABLE_HEADER.len()));
    let rows = rows().into_iter().map(|row| line(&row.cells()));
    let all: Vec<String> = [line(&head), rule].into_iter().chain(rows).collect();
    all.join("\n")
}

/// Returns the rows: complete tallies first, then those with one, two and three missing votes at the deadline. Rows with
/// more approvals precede rows with fewer.
fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for missing in 0..=3 {
        for approve in (0..=3 - missing).rev() {
            for reject in (0..=3 - missing - approve).rev() {
                rows.push(row(approve, reject, 3 - missing - approve - reject));
            }
        }
    }
    rows
}

fn row(approve: usize, reject: usize, abstain: usize) -> Row {
    let votes: Vec<Vote> = [
        (Vote::Approve, approve),
        (Vote::Reject, reject),
        (Vote::Abstain, abstain),
    ]
    .into_iter()
    .flat_map(|(vote, times)| std::iter::repeat_n(vote, times))
    .collect();
    let members = ["alpha", "beta", "charlie"];
    let cast = |quorum| {
        let mut tally = Tally::new(members.map(str::to_owned), quorum);
        for (member, vote) in members.iter().zip(&votes) {
            let _ = tally.cast(member, *vote);
        }
        tally
    };
    let early = votes.len() < members.len() && cast(Quorum::Majority).decision().is_some();
    Row {
        approve,
        reject,
        abstain,
        decision: cast(Quorum::All).close().clone(),
        early,
    }
}

impl Row {
    fn cells(&self) -> [String; 7] {
        let yes_no = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
        let missing = self.decision.missing.len();
        [
            self.approve.to_string(),
            self.reject.to_string(),
            self.abstain.to_string(),
            missing.to_string(),
            self.decision.result().to_owned(),
            yes_no(self.decision.consensus),
            match missing {
                0 => "-".to_owned(),
                _ => yes_no(self.early),
            },
        ]
    }

    fn json(&self) -> Value {
        json!({
            "approve": self.approve,
            "reject": self.reject,
            "abstain": self.abstain,
            "missing": self.decision.missing.len(),
            "result": self.decision.result(),
            "consensus": self.decision.consensus,
            "decidedEarly": self.early,
        })
    }
}

#[cfg(test)]
mod tally_tests {
    use super::*;

    #[test]
    fn h_39_table_has_every_combination_of_votes_once() {
        let rows = rows();
        let full = rows.iter().filter(|row| row.decision.missing.is_empty());
        assert_eq!((full.count(), rows.len()), (10, 20));
        let mut results: Vec<_> = rows
            .iter()
            .map(|row| (row.approve, row.reject, row.abstain))
            .collect();
        results.sort_unstable();
        results.dedup();
        assert_eq!(results.len(), 20);
    }

    #[test]
    fn h_39_three_of_ten_tallies_approve() {
        let rows = rows();
        let approved: Vec<_> = rows
            .iter()
            .filter(|row| row.decision.approved)
            .map(|row| (row.approve, row.reject, row.abstain))
            .collect();
        assert_eq!(approved, [(3, 0, 0), (2, 1, 0), (2, 0, 1), (2, 0, 0)]);
    }
}
