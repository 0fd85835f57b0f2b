//! The members of a collective as agents, and its triad. A message to the triad becomes a proposal.

use std::time::Duration;

use a2a::v1_0::AgentSkill;
use a2a::{Part, SendRequest};
use a2a_server::executor::{Agent, Outcome};
use base::environment::{Environment, millis};
use gateway_bridge::TRIAD;
use gateway_bridge::delegation::DELEGATION_KEY;
use peer::Member;
use serde_json::{Map, Value};

/// The prefix of proposal ids.
const ID_PREFIX: &str = "prop-";

/// The time between the deadline of a proposal and the timeout of its run, in which the decision can arrive.
const DECISION_MARGIN: Duration = Duration::from_secs(5);

/// Converts a member, or the triad, to an agent for agent cards.
pub(super) fn agent(member: Member) -> Agent {
    if member.name == TRIAD {
        return triad(&member);
    }
    let role = member.role.unwrap_or_else(|| "Agent".to_owned());
    let view = member.card.view.ok();
    let purpose = view.and_then(|view| view.description);
    let description = match purpose.filter(|purpose| *purpose != role) {
        Some(purpose) => purpose,
        None => format!("The member `{}` of a collective: {role}.", member.name),
    };
    Agent {
        skills: vec![AgentSkill {
            id: slug(&role),
            tags: vec!["collective".to_owned(), slug(&role)],
            name: role,
            description: description.clone(),
            examples: None,
            input_modes: None,
            output_modes: None,
            security_requirements: None,
        }],
        name: member.name,
        title: None,
        description: Some(description),
    }
}

fn triad(triad: &Member) -> Agent {
    let names: Vec<_> = triad
        .members
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    let description = format!(
        "Decides a proposal by the votes of {}: two of three decide.",
        names.join(", ")
    );
    let modes = || Some(["text/plain", "application/json"].map(str::to_owned).into());
    Agent {
        name: triad.name.clone(),
        title: None,
        skills: vec![AgentSkill {
            id: "decide".to_owned(),
            name: "Decide a proposal".to_owned(),
            description: "Takes a proposal as text, or as data with `proposal`, `reasoning` and `deadline` (milliseconds since 1970). Each vote is an update of the task, the artifact `decision` the result.".to_owned(),
            tags: ["collective", "triad", "vote", "decision"]
                .map(str::to_owned)
                .into(),
            examples: Some(vec!["Release version 2 today".to_owned()]),
            input_modes: modes(),
            output_modes: modes(),
            security_requirements: None,
        }],
        description: Some(description),
    }
}

/// Converts a role to an identifier: letters and digits, with `-` between words.
fn slug(role: &str) -> String {
    let words = role.split(|c: char| !c.is_alphanumeric());
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    match words.is_empty() {
        true => "agent".to_owned(),
        false => words.join("-").to_lowercase(),
    }
}

/// A proposal with an id and a deadline, which identify it at the gateway.
pub(super) struct Proposal {
    pub(super) id: String,
    /// The deadline in milliseconds since 1970.
    deadline: u64,
    parts: Vec<Part>,
    delegation: Option<Value>,
}

impl Proposal {
    /// Creates the proposal of a message. The deadline is the one in the message, or else shortly before the timeout of
    /// the run.
    ///
    /// # Errors
    /// The message contains a deadline after the timeout of the run.
    pub(super) fn new(
        parts: Vec<Part>,
        delegation: Option<Value>,
        timeout: Duration,
        env: &dyn Environment,
    ) -> Result<Self, Outcome> {
        let now = env.unix_millis();
        let open_for = timeout.saturating_sub(DECISION_MARGIN).max(timeout / 2);
        let latest = now.saturating_add(millis(open_for));
        let deadline = match named_deadline(&parts) {
            Some(named) if named > latest => {
                return Err(Outcome::Rejected(format!(
                    "cannot wait for the decision: the deadline {named} is later than {latest}, when this server ends the task; name an earlier deadline, or the operator of the server raises `timeout`"
                )));
            }
            named => named.unwrap_or(latest),
        };
        Ok(Self {
            id: format!("{ID_PREFIX}{}", env.uuid()),
            deadline,
            parts,
            delegation,
        })
    }

    /// Parses the name of a run that [`run`](Self::run) returned.
    pub(super) fn from_run(run: &str, parts: Vec<Part>, delegation: Option<Value>) -> Option<Self> {
        let (id, deadline) = run.split_once('@')?;
        Some(Self {
            id: id.to_owned(),
            deadline: deadline.parse().ok()?,
            parts,
            delegation,
        })
    }

    /// Returns the name of the run, for [`from_run`](Self::from_run).
    pub(super) fn run(&self) -> String {
        format!("{}@{}", self.id, self.deadline)
    }

    /// Returns whether the deadline has passed.
    pub(super) fn has_expired(&self, env: &dyn Environment) -> bool {
        env.unix_millis() >= self.deadline
    }

    /// Returns the request to the triad. It is the same for every call.
    pub(super) fn request(&self) -> SendRequest {
        let deadline = [("deadline".to_owned(), Value::from(self.deadline))];
        let mut parts = self.parts.clone();
        parts.push(Part::data(Map::from_iter(deadline)));
        let delegation = self.delegation.clone();
        let metadata = delegation.map(|it| Map::from_iter([(DELEGATION_KEY.to_owned(), it)]));
        SendRequest {
            message_id: self.id.clone(),
            parts,
            followed: true,
            metadata,
            ..SendRequest::default()
        }
    }
}

/// Returns the outcome of a proposal whose deadline passed while the gateway could not be reached.
pub(super) fn undecided_outcome() -> Outcome {
    Outcome::Failed {
        reason: "interrupted",
        text: "the deadline of the proposal passed while the gateway was unreachable, so the decision is unknown; ask the operator of the gateway, or send the proposal again".into(),
    }
}

/// Returns the last deadline in the data of the message. If it has another type, the client of the gateway reports
/// that.
fn named_deadline(parts: &[Part]) -> Option<u64> {
    let data = parts.iter().filter(|part| part.kind() == "data");
    data.filter_map(|part| part.json()["data"]["deadline"].as_u64())
        .next_back()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use base::environment::{Clock as _, SystemEnvironment};
    use serde_json::json;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(60);

    fn text(text: &str) -> Vec<Part> {
        vec![Part::text(text.into())]
    }

    #[test]
    fn proposal_from_its_run_is_the_same_message() {
        let delegation = Some(json!({"hop": 2}));
        let proposal = Proposal::new(
            text("Ship it"),
            delegation.clone(),
            TIMEOUT,
            &SystemEnvironment,
        )
        .unwrap_or_else(|_| panic!("a proposal"));
        let again = Proposal::from_run(&proposal.run(), text("Ship it"), delegation).unwrap();
        assert_eq!(again.request().metadata.unwrap()[DELEGATION_KEY]["hop"], 2);
        assert_eq!(
            format!("{:?}", again.request()),
            format!("{:?}", proposal.request())
        );
    }

    #[test]
    fn deadline_after_the_run_is_rejected() {
        let late = SystemEnvironment.unix_millis() + 120_000;
        let data = json!({"proposal": "Ship it", "deadline": late});
        let parts = vec![Part::data(data.as_object().unwrap().clone())];
        let Err(Outcome::Rejected(text)) = Proposal::new(parts, None, TIMEOUT, &SystemEnvironment)
        else {
            panic!("a deadline after the run")
        };
        assert!(text.contains(&late.to_string()), "{text}");
    }

    #[test]
    fn role_is_converted_to_a_slug() {
        for (role, word) in [
            ("Triad member", "triad-member"),
            ("<b>\u{202e}Évaluation</b>", "b-évaluation-b"),
            ("…", "agent"),
        ] {
            assert_eq!(slug(role), word);
        }
    }
}
