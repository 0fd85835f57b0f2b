//! What a request to several targets means: its members, and the call of each. `rules/group.rs` has checked it.

use std::sync::Arc;

use a2a::TaskState;
use base::json;
use base::validation::violation;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::super::caller::Caller;
use super::super::error::ToolError;
use super::super::request::{Action, ReceivedTarget, TargetReference, is_answer, is_over};
use super::super::rules::{GROUP_FIELDS, MAX_CHOICES, MAX_MEMBERS};
use super::super::{RemoteAgent, admission, resolve};
use crate::handles::Handle;
use crate::targets::Target;

/// The fields of a request about a group that its members' requests repeat.
const SHARED: [&str; 3] = ["timeout_ms", "service_parameters", "history_length"];

/// The limits of a group in a continuation, which may come from anywhere.
const LIMITS: json::Limits = json::Limits {
    depth: 16,
    values: 10_000,
    memory: 1 << 20,
};

/// The longest group in a continuation, as JSON text.
const MAX_GROUP_BYTES: usize = 256 << 10;

/// The longest word and vote in a continuation, and the longest id of an agent's that is kept, in bytes.
const MAX_WORD_BYTES: usize = 64;
const MAX_VOTE_BYTES: usize = 1024;
const MAX_ID_BYTES: usize = 1024;

/// How the answers of a group become its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::remote_agent) enum Mode {
    /// Every answer counts.
    #[default]
    All,
    /// The first task that completes ends the others.
    First,
    /// Equal answers count together.
    Vote,
}

/// A group of calls, as `summary.continuation.group` has it: all that another process needs to go on.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(in crate::remote_agent) struct Group {
    /// Its handle.
    pub(super) id: String,
    pub(super) mode: Mode,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) quorum: Option<usize>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) choices: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) choice_pointer: Option<String>,
    /// The alias of the first that completed, or the choice that won.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) winner: Option<String>,
    pub(super) members: Vec<Member>,
}

/// One target of a group, and what is known of its message.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(in crate::remote_agent) struct Member {
    pub(super) target: Value,
    pub(super) message_id: String,
    /// The state of its task; `forgotten` if the agent does not know it any more. Without a task `pending`, `unknown`, `not_sent` or
    /// `answered`.
    pub(super) state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) task: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) conversation: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) vote: Option<String>,
}

impl Member {
    pub(super) fn alias(&self) -> &str {
        let name = |field: &str| self.target[field].as_str();
        name("target_alias")
            .or(name("target_url"))
            .unwrap_or_default()
    }

    /// Returns whether its answer is complete.
    pub(super) fn has_answer(&self) -> bool {
        is_answer(&self.state)
    }

    /// Returns whether nothing more comes of its message.
    pub(super) fn is_done(&self) -> bool {
        is_over(&self.state)
    }

    /// Returns how to continue with this target alone.
    pub(super) fn continuation(&self) -> Value {
        let mut continuation = json!({ "target": self.target });
        for (name, known) in [("task", &self.task), ("conversation", &self.conversation)] {
            if let Some(known) = known {
                continuation[name] = known.clone();
            }
        }
        continuation
    }

    /// Takes over what the continuation of a call says. Returns whether it says anything new.
    pub(super) fn learn(&mut self, mut continuation: Value) -> bool {
        let is_short = |id: &Value| {
            id.as_str()
                .is_some_and(|id| (1..=MAX_ID_BYTES).contains(&id.len()))
        };
        let (mut task, conversation) = (
            continuation["task"].take(),
            continuation["conversation"].take(),
        );
        let before = (self.state.clone(), self.task.is_some());
        if is_short(&task["task_id"]) {
            if let Some(state) = task["status"].as_str() {
                // A state of the agent's own is none of the words here.
                let known = TaskState::from_name(state);
                self.state = match known.is_foreign() {
                    true => "unknown".to_owned(),
                    false => known.as_str().to_owned(),
                };
                if state.len() > MAX_WORD_BYTES {
                    task["status"] = "unknown".into();
                }
            }
            self.task = Some(task);
        }
        if is_short(&conversation["context_id"]) {
            self.conversation = Some(conversation);
        }
        before != (self.state.clone(), self.task.is_some())
    }
}

impl Group {
    /// Returns whether it has the messages of `other`, to the same targets.
    pub(super) fn has_members_of(&self, other: &Self) -> bool {
        let is_same = |own: &Member, other: &Member| {
            own.message_id == other.message_id && own.target == other.target
        };
        let (own, others) = (&self.members, &other.members);
        own.len() == others.len()
            && own
                .iter()
                .zip(others)
                .all(|(own, other)| is_same(own, other))
    }

    /// Returns how many equal votes decide.
    pub(super) fn needed(&self) -> usize {
        self.quorum.unwrap_or(self.members.len() / 2 + 1)
    }

    /// Returns whether its answers are votes.
    pub(super) fn is_counted(&self) -> bool {
        self.mode == Mode::Vote && (!self.choices.is_empty() || self.choice_pointer.is_some())
    }

    /// Reads a group of a continuation.
    ///
    /// # Errors
    /// It is not one that this tool wrote.
    fn read(value: &Value) -> Result<Self, ToolError> {
        let text = value.to_string();
        if text.len() > MAX_GROUP_BYTES {
            return Err(invalid(format!(
                "is longer than {} KiB, so it is not a group of an earlier result; pass its summary.continuation unchanged",
                MAX_GROUP_BYTES >> 10
            )));
        }
        let read = json::from_str::<Self>(&text, LIMITS);
        let group = read.map_err(|e| {
            invalid(format!(
                "is not a group of an earlier result: {e}; pass its summary.continuation unchanged"
            ))
        })?;
        let is_bounded = group.id.parse::<Handle>().is_ok()
            && (1..=MAX_MEMBERS).contains(&group.members.len())
            && group.choices.len() <= MAX_CHOICES
            && group.members.iter().all(|member| {
                member.state.len() <= MAX_WORD_BYTES
                    && member.message_id.len() <= MAX_WORD_BYTES
                    && member
                        .vote
                        .as_ref()
                        .is_none_or(|vote| vote.len() <= MAX_VOTE_BYTES)
            });
        match is_bounded {
            true => Ok(group),
            false => Err(invalid(
                "is not a group of an earlier result: pass its summary.continuation unchanged"
                    .to_owned(),
            )),
        }
    }

    /// Checks the targets of a continuation as those of a new group are checked. One that is not configured is an error of its
    /// member alone, and a handle does not lead to it either.
    ///
    /// # Errors
    /// There are more than the operator allows, one is named twice, or the caller may not use one: the group would show it.
    fn check_targets(&mut self, tool: &RemoteAgent, caller: &Caller) -> Result<(), ToolError> {
        let (count, most) = (self.members.len(), tool.limits.group_targets);
        if count > most {
            return Err(invalid(format!(
                "has {count} targets, and the operator allows {most} in one group (limits.groupTargets)"
            )));
        }
        let mut known: Vec<Arc<Target>> = Vec::new();
        for member in &mut self.members {
            let named = ReceivedTarget::deserialize(&member.target).map_err(|e| {
                invalid(format!(
                    "has a target that is not one of an earlier result: {e}; pass its summary.continuation unchanged"
                ))
            })?;
            let Ok(target) = resolve::by_continuation(&named, &tool.catalog) else {
                let task = member.task.as_mut().and_then(Value::as_object_mut);
                task.and_then(|task| task.remove("task_handle"));
                continue;
            };
            admission::authorize(&target, &tool.catalog, caller)?;
            let is_same =
                |other: &Arc<Target>| other.key == target.key && other.alias == target.alias;
            if known.iter().any(is_same) {
                return Err(invalid(
                    "names a target twice; pass the summary.continuation of an earlier result unchanged"
                        .to_owned(),
                ));
            }
            known.push(target);
        }
        Ok(())
    }
}

/// Returns the error for a continuation with a wrong group.
fn invalid(message: String) -> ToolError {
    let params = json!({ "property": "group" });
    let place = "/continuation/group";
    let wrong = violation(place, "not", params, &message);
    ToolError::invalid(vec![wrong], 0)
}

/// The calls of a request.
pub(super) struct Plan {
    pub(super) action: Action,
    pub(super) group: Group,
    /// The request of each member's call; `None` where there is nothing to ask.
    pub(super) requests: Vec<Option<Value>>,
}

impl Plan {
    /// Reads the plan of a valid request, with every id that it needs. Nothing has been sent.
    ///
    /// # Errors
    /// The group is larger than the operator allows or names a target twice, the caller may not use one of its targets, or a
    /// continuation has no group.
    pub(super) fn read(
        tool: &RemoteAgent,
        request: &mut Map<String, Value>,
        caller: &Caller,
    ) -> Result<Self, ToolError> {
        let action = request.get("action").and_then(Value::as_str);
        let action = action.and_then(Action::from_name).unwrap_or(Action::Status);
        match action {
            Action::Send => Self::of_send(tool, request, caller),
            action => Self::of_continuation(tool, action, request, caller),
        }
    }

    fn of_send(
        tool: &RemoteAgent,
        request: &mut Map<String, Value>,
        caller: &Caller,
    ) -> Result<Self, ToolError> {
        let mut take = |name: &str| request.remove(name).unwrap_or_default();
        let aliases: Vec<String> = read_field(take("target_aliases"));
        let [mode, quorum, choices, choice_pointer] = GROUP_FIELDS.map(&mut take);
        let most = tool.limits.group_targets;
        if aliases.len() > most {
            let message = format!(
                "names {} targets, and the operator allows {most} in one message (limits.groupTargets); nothing was sent",
                aliases.len()
            );
            let params = json!({ "limit": most });
            let place = "/target_aliases";
            let cap = violation(place, "maxItems", params, &message);
            return Err(ToolError::invalid(vec![cap], 0));
        }
        let follows = ["follow_updates", "blocking"];
        if !follows.iter().any(|name| request.contains_key(*name)) {
            // A task is known early, so that it can be cancelled.
            request.insert("follow_updates".to_owned(), true.into());
        }
        let mut members = Vec::new();
        let mut requests = Vec::new();
        for alias in aliases {
            let target = resolve::by_alias(&alias, &tool.catalog)?;
            admission::authorize(&target, &tool.catalog, caller)?;
            let message_id = tool.env.uuid().to_string();
            let mut member = request.clone();
            member.insert("target_alias".to_owned(), alias.into());
            member.insert("message_id".to_owned(), message_id.clone().into());
            requests.push(Some(Value::Object(member)));
            members.push(Member {
                target: json!(TargetReference::new(&target)),
                message_id,
                state: "pending".to_owned(),
                task: None,
                conversation: None,
                vote: None,
            });
        }
        Ok(Self {
            action: Action::Send,
            group: Group {
                id: Handle::new(tool.env.uuid()).to_string(),
                mode: read_field(mode),
                quorum: quorum.as_f64().map(|quorum| quorum as usize),
                choices: read_field(choices),
                choice_pointer: read_field(choice_pointer),
                winner: None,
                members,
            },
            requests,
        })
    }

    fn of_continuation(
        tool: &RemoteAgent,
        action: Action,
        request: &Map<String, Value>,
        caller: &Caller,
    ) -> Result<Self, ToolError> {
        let continuation = request.get("continuation").unwrap_or(&Value::Null);
        let mut group = Group::read(&continuation["group"])?;
        group.check_targets(tool, caller)?;
        let shared = SHARED
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), request.get(name)?.clone())));
        let shared: Map<String, Value> = shared.collect();
        let is_decided = group.winner.is_some();
        let request_of = |member: &Member| {
            member.task.as_ref()?;
            let action = match action {
                Action::Cancel if member.is_done() => return None,
                // Nothing is waited for any more.
                Action::Watch if is_decided || member.is_done() => Action::Status,
                action => action,
            };
            let mut own = shared.clone();
            own.insert("action".to_owned(), action.as_str().into());
            own.insert("continuation".to_owned(), member.continuation());
            Some(Value::Object(own))
        };
        let requests = group.members.iter().map(request_of).collect();
        for member in &mut group.members {
            // The process that sent it, or was about to, is gone.
            if member.state == "pending" {
                member.state = "unknown".to_owned();
            }
        }
        Ok(Self {
            action,
            group,
            requests,
        })
    }
}

/// Reads a field that the schema has checked.
fn read_field<T: Default + for<'de> Deserialize<'de>>(value: Value) -> T {
    serde_json::from_value(value).unwrap_or_default()
}
