//! An envelope for the renderer: the fields that a model reads, borrowed from the envelope's text. Other fields are
//! skipped and never built, including nearly all of `raw`.

use std::borrow::Cow;
use std::ops::Deref;

use serde::Deserialize;
use serde_json::value::RawValue;

/// A string of the envelope. serde borrows a string inside an `Option` only through its own type.
#[derive(Deserialize, Default)]
pub(super) struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'a> Text<'a> {
    /// Returns the string, borrowed where possible.
    pub(super) fn into_inner(self) -> Cow<'a, str> {
        self.0
    }
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// An envelope or an update.
#[derive(Deserialize)]
pub(super) struct Envelope<'a> {
    #[serde(borrow)]
    pub(super) action: Text<'a>,
    #[serde(borrow)]
    pub(super) phase: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) summary: Option<Summary<'a>>,
    #[serde(borrow)]
    pub(super) error: Option<Failure<'a>>,
    #[serde(borrow)]
    pub(super) raw: Option<&'a RawValue>,
}

/// `raw`, as far as the summary lacks it: the parts and the metadata of a message, and those of the status message.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Raw<'a> {
    #[serde(borrow)]
    pub(super) parts: Vec<&'a RawValue>,
    #[serde(borrow)]
    pub(super) metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) status: Status<'a>,
    /// The last event of a stream.
    #[serde(borrow)]
    pub(super) final_event: Option<Box<Raw<'a>>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Status<'a> {
    #[serde(borrow)]
    pub(super) message: Option<Message<'a>>,
}

#[derive(Deserialize, Default)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    pub(super) parts: Vec<&'a RawValue>,
    #[serde(borrow)]
    pub(super) metadata: Option<&'a RawValue>,
}

/// A budget that is nearly used up.
#[derive(Deserialize)]
pub(super) struct BudgetWarning<'a> {
    #[serde(borrow)]
    pub(super) scope: Text<'a>,
    #[serde(borrow)]
    pub(super) unit: Text<'a>,
    pub(super) limit: f64,
    pub(super) used: f64,
    #[serde(borrow, default)]
    pub(super) resets: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) unknown_currency: Option<Text<'a>>,
}

/// A card that is not the accepted one.
#[derive(Deserialize)]
pub(super) struct CardWarning<'a> {
    /// The tool's own words.
    #[serde(borrow)]
    pub(super) message: Text<'a>,
}

/// `summary` of any action.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Summary<'a> {
    #[serde(borrow)]
    pub(super) target_alias: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) target_url: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) status_message: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) message_text: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) artifacts: Vec<Artifact<'a>>,
    #[serde(borrow)]
    pub(super) artifact_page: Option<Page<'a>>,
    #[serde(borrow)]
    pub(super) budget_warning: Option<BudgetWarning<'a>>,
    #[serde(borrow)]
    pub(super) card_warning: Option<CardWarning<'a>>,
    #[serde(borrow)]
    pub(super) continuation: Option<Continuation<'a>>,
    /// The wait expired before the task ended.
    pub(super) wait_expired: bool,
    /// Part of the agent's answer may be missing.
    pub(super) incomplete: bool,
    /// Why the latest query of the task failed, in words of the tool and the peer.
    #[serde(borrow)]
    pub(super) query_error: Option<Text<'a>>,
    /// Whether the host wakes the session when the task ends.
    pub(super) notify: bool,
    /// The tool's own text about the next step.
    #[serde(borrow)]
    pub(super) next_step: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) targets: Option<Vec<Target<'a>>>,
    #[serde(borrow)]
    pub(super) person: Option<Person<'a>>,
    #[serde(borrow)]
    pub(super) group: Option<Group<'a>>,
}

/// The group of one message to several targets.
#[derive(Deserialize)]
pub(super) struct Group<'a> {
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) mode: Text<'a>,
    #[serde(borrow)]
    pub(super) decided_by: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) winner: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) votes: Vec<Votes<'a>>,
    #[serde(borrow)]
    pub(super) results: Vec<GroupMember<'a>>,
}

/// The votes for one choice.
#[derive(Deserialize)]
pub(super) struct Votes<'a> {
    #[serde(borrow)]
    pub(super) choice: Text<'a>,
    pub(super) votes: usize,
}

/// One target of a group.
#[derive(Deserialize)]
pub(super) struct GroupMember<'a> {
    #[serde(borrow)]
    pub(super) target_alias: Text<'a>,
    #[serde(borrow)]
    pub(super) state: Text<'a>,
    #[serde(borrow)]
    pub(super) vote: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) canceled: Option<Text<'a>>,
    #[serde(default)]
    pub(super) truncated: bool,
    #[serde(borrow)]
    pub(super) summary: Option<Box<Summary<'a>>>,
    #[serde(borrow)]
    pub(super) error: Option<Failure<'a>>,
}

/// What became of the questions to a person.
#[derive(Deserialize)]
pub(super) struct Person<'a> {
    #[serde(borrow)]
    pub(super) outcome: Text<'a>,
    #[serde(borrow, default)]
    pub(super) answers: Vec<Text<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Artifact<'a> {
    #[serde(borrow)]
    pub(super) artifact_id: Text<'a>,
    #[serde(borrow)]
    pub(super) name: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) parts: Vec<&'a RawValue>,
    #[serde(borrow)]
    pub(super) metadata: Option<&'a RawValue>,
}

#[derive(Deserialize)]
pub(super) struct Page<'a> {
    pub(super) offset: usize,
    pub(super) next_offset: Option<usize>,
    pub(super) total: usize,
    #[serde(borrow)]
    pub(super) text: Text<'a>,
    #[serde(borrow)]
    pub(super) next_artifact_id: Option<Text<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Continuation<'a> {
    #[serde(borrow)]
    pub(super) task: Option<Task<'a>>,
    #[serde(borrow)]
    pub(super) conversation: Option<Conversation<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Task<'a> {
    #[serde(borrow)]
    pub(super) task_handle: Text<'a>,
    #[serde(borrow)]
    pub(super) task_id: Text<'a>,
    #[serde(borrow)]
    pub(super) status: Option<Text<'a>>,
    pub(super) can_watch: bool,
}

#[derive(Deserialize)]
pub(super) struct Conversation<'a> {
    #[serde(borrow)]
    pub(super) context_id: Text<'a>,
}

/// A target of `list_targets`.
#[derive(Deserialize)]
pub(super) struct Target<'a> {
    #[serde(borrow)]
    pub(super) target_alias: Text<'a>,
    pub(super) default: bool,
    #[serde(borrow, default)]
    pub(super) tags: Vec<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) examples: Vec<Text<'a>>,
    #[serde(borrow)]
    pub(super) target_name: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) description: Option<Text<'a>>,
    pub(super) streaming_supported: Option<bool>,
    #[serde(borrow)]
    pub(super) role: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) status: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) members: Vec<TriadMember<'a>>,
    #[serde(borrow)]
    pub(super) peer_card: Option<Card<'a>>,
    #[serde(borrow)]
    pub(super) last_refresh_error: Option<Failure<'a>>,
    pub(super) health: Option<Health>,
}

/// How calls to a target fared.
#[derive(Deserialize)]
pub(super) struct Health {
    /// For how long they are refused.
    pub(super) retry_after_ms: Option<u64>,
}

/// A member of a triad.
#[derive(Deserialize)]
pub(super) struct TriadMember<'a> {
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) status: Text<'a>,
}

#[derive(Deserialize)]
pub(super) struct Card<'a> {
    #[serde(borrow, default)]
    pub(super) skills: Vec<Skill<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Skill<'a> {
    #[serde(borrow, default)]
    pub(super) name: Text<'a>,
    #[serde(borrow, default)]
    pub(super) description: Text<'a>,
}

/// `error`.
#[derive(Deserialize)]
pub(super) struct Failure<'a> {
    #[serde(borrow)]
    pub(super) code: Text<'a>,
    #[serde(borrow)]
    pub(super) reason: Text<'a>,
    pub(super) retryable: bool,
    #[serde(borrow)]
    pub(super) message: Text<'a>,
    /// Whether the message may quote a peer.
    #[serde(default = "yes")]
    pub(super) quotes_peer: bool,
    #[serde(borrow)]
    pub(super) details: Details<'a>,
}

fn yes() -> bool {
    true
}

/// The members of `error.details` that a model can act on.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Details<'a> {
    #[serde(borrow)]
    pub(super) hint: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) errors: Vec<RequestProblem<'a>>,
    #[serde(borrow)]
    pub(super) delivered: Option<Text<'a>>,
    pub(super) http_status: Option<u16>,
    #[serde(borrow, rename = "rpcData")]
    pub(super) rpc_data: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) message_text: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) context_id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) known_artifact_ids: Vec<Text<'a>>,
    #[serde(borrow)]
    pub(super) aliases: Vec<Text<'a>>,
    #[serde(borrow)]
    pub(super) latest_event_summary: Option<Box<Summary<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RequestProblem<'a> {
    #[serde(borrow)]
    pub(super) instance_path: Text<'a>,
    #[serde(borrow)]
    pub(super) message: Text<'a>,
}
