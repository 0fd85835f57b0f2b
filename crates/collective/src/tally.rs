//! Counts votes: [`standing`] for any choices, and [`Tally`] those of a triad (Heretek A2A §10.6), of which two of the three
//! members decide.

use base::{named, settings};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The number of votes that decide.
pub const MAJORITY: usize = 2;

named! {
    /// A vote (Heretek A2A §10.4).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum Vote {
        /// For the proposal.
        Approve = "approve",
        /// Against the proposal.
        Reject = "reject",
        /// Abstention. Counts for neither side.
        Abstain = "abstain",
    }
}

impl Vote {
    /// Reads a vote that another program or a model wrote: its name in any case, with any space around it. What this project
    /// sends has [`as_str`](Self::as_str).
    #[must_use]
    pub fn read(word: &str) -> Option<Self> {
        let is_name = |vote: &Self| is_word(word, vote.as_str());
        Self::ALL.into_iter().find(is_name)
    }
}

/// Returns whether a word of another program is this name, regardless of its case and of space around it.
pub(crate) fn is_word(word: &str, name: &str) -> bool {
    word.trim().eq_ignore_ascii_case(name)
}

/// When a proposal is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Quorum {
    /// As soon as no vote that is still missing can change the outcome.
    #[default]
    Majority,
    /// When every member has voted, or at the deadline.
    All,
}

settings! {
    /// The members and rules of the triad.
    #[derive(Debug, Clone, Deserialize, Serialize)]
    pub struct TriadConfig {
        /// The names of its three members.
        pub members: Vec<String> = ["alpha", "beta", "charlie"].map(str::to_owned).into(),
        /// The voting time of a proposal without a deadline, in milliseconds.
        pub deadline_ms: u64 = 300_000,
        /// The votes that decide.
        pub quorum: Quorum,
    }
}

/// What the votes so far decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing<V> {
    /// A vote that is still missing can change the outcome.
    Open,
    /// This choice wins, whatever the missing votes are.
    Won(V),
    /// No choice can win any more.
    Lost,
}

/// Returns what `votes` decide while `missing` more may come. A choice wins with `needed` votes, if no other has as many as it.
pub fn standing<V: PartialEq>(
    votes: impl IntoIterator<Item = V>,
    missing: usize,
    needed: usize,
) -> Standing<V> {
    let mut counts: Vec<(V, usize)> = Vec::new();
    for vote in votes {
        match counts.iter_mut().find(|(choice, _)| *choice == vote) {
            Some((_, count)) => *count += 1,
            None => counts.push((vote, 1)),
        }
    }
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let most = counts.first().map_or(0, |(_, count)| *count);
    let second = counts.get(1).map_or(0, |(_, count)| *count);
    match counts.into_iter().next() {
        Some((choice, _)) if most >= needed && most > second + missing => Standing::Won(choice),
        _ if missing == 0 || most + missing < needed => Standing::Lost,
        _ => Standing::Open,
    }
}

/// Why a vote does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum VoteRejection {
    /// Its sender is not a member.
    NotAMember,
    /// Its sender has voted before: the first vote counts.
    SecondVote,
    /// The proposal is decided.
    Late,
}

/// The votes on one proposal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
    members: Vec<(String, Option<Vote>)>,
    quorum: Quorum,
    decision: Option<Decision>,
}

/// A decision of the triad (Heretek A2A §10.5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Whether the proposal is approved; otherwise it is rejected.
    pub approved: bool,
    /// Whether two members voted alike, for or against.
    pub consensus: bool,
    /// The votes, in the order of the members.
    pub votes: Vec<(String, Vote)>,
    /// The members without a vote.
    pub missing: Vec<String>,
}

impl Tally {
    /// Creates a tally without votes.
    pub fn new(members: impl IntoIterator<Item = String>, quorum: Quorum) -> Self {
        Self {
            members: members.into_iter().map(|name| (name, None)).collect(),
            quorum,
            decision: None,
        }
    }

    /// Counts a vote, and returns the decision if this vote determines it.
    ///
    /// # Errors
    /// Why it does not count.
    pub fn cast(&mut self, member: &str, vote: Vote) -> Result<Option<&Decision>, VoteRejection> {
        let known = self.members.iter_mut().find(|(name, _)| name == member);
        let (_, cast) = known.ok_or(VoteRejection::NotAMember)?;
        if cast.is_some() {
            return Err(VoteRejection::SecondVote);
        }
        if self.decision.is_some() {
            return Err(VoteRejection::Late);
        }
        *cast = Some(vote);
        if self.is_fixed() {
            self.decision = Some(self.outcome());
        }
        Ok(self.decision.as_ref())
    }

    /// Decides with the votes there are, because the deadline has passed.
    pub fn close(&mut self) -> &Decision {
        let outcome = self.outcome();
        self.decision.get_or_insert(outcome)
    }

    /// Returns the decision, once there is one.
    pub fn decision(&self) -> Option<&Decision> {
        self.decision.as_ref()
    }

    /// Returns the votes so far.
    pub fn votes(&self) -> impl Iterator<Item = (&str, Vote)> {
        self.members
            .iter()
            .filter_map(|(name, vote)| Some((name.as_str(), (*vote)?)))
    }

    fn count(&self, vote: Vote) -> usize {
        self.votes().filter(|(_, cast)| *cast == vote).count()
    }

    fn is_fixed(&self) -> bool {
        let missing = self.members.len() - self.votes().count();
        let counted = self.votes().map(|(_, vote)| vote);
        let counted = counted.filter(|vote| *vote != Vote::Abstain);
        match self.quorum {
            _ if missing == 0 => true,
            Quorum::All => false,
            Quorum::Majority => standing(counted, missing, MAJORITY) != Standing::Open,
        }
    }

    fn outcome(&self) -> Decision {
        let approved = self.count(Vote::Approve) >= MAJORITY;
        let missing = self.members.iter().filter(|(_, vote)| vote.is_none());
        Decision {
            approved,
            consensus: approved || self.count(Vote::Reject) >= MAJORITY,
            votes: self
                .votes()
                .map(|(name, vote)| (name.to_owned(), vote))
                .collect(),
            missing: missing.map(|(name, _)| name.clone()).collect(),
        }
    }
}

impl Decision {
    /// Reads the result in a decision of another gateway: `approved` or `rejected` in any case, with any space around it.
    #[must_use]
    pub fn read_result(word: &str) -> Option<&'static str> {
        let is_result = |name: &&str| is_word(word, name);
        ["approved", "rejected"].into_iter().find(is_result)
    }

    /// Returns `approved` or `rejected`.
    pub fn result(&self) -> &'static str {
        if self.approved {
            "approved"
        } else {
            "rejected"
        }
    }

    /// Returns the content of the message with the decision: `{proposalId, result, votes, consensus, missing}`.
    pub fn json(&self, proposal_id: &str) -> Value {
        let votes: Map<String, Value> = self
            .votes
            .iter()
            .map(|(name, vote)| (name.clone(), vote.as_str().into()))
            .collect();
        json!({
            "proposalId": proposal_id,
            "result": self.result(),
            "votes": votes,
            "consensus": self.consensus,
            "missing": self.missing,
        })
    }
}

#[cfg(test)]
mod tests;
