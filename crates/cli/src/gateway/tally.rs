//! `remote-agent gateway tally`: prints how a triad counts votes. The counting code itself computes the table.

use serde_json::{Value, json};

use crate::{exit::Exit, output::LineWriter, table::Table};
use collective::{Decision, Quorum, Tally, Vote};

const EXAMPLES: &str = "\
Examples:
  remote-agent gateway tally
  remote-agent gateway tally --json | jq -c 'select(.result == \"approved\")'";

/// Print how a triad counts votes: all ten tallies, and all combinations with missing votes
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
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
pub(super) fn run(args: &Args) -> Exit {
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
pub fn table() -> String {
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
mod tests {
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
