//! `list_targets`: the configured targets, with their cards in the names of the contract and in those of A2A, and the
//! agents of the local gateway.

mod local;
mod rank;
mod tasks;

use std::cmp::Reverse;
use std::time::{Duration, SystemTime};

use a2a::{CardView, OAuthFlow, Scheme, Skill};
use futures_util::stream::FuturesOrdered;
use futures_util::{StreamExt as _, future};
use local::AgentPresence;
use rank::Query;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use tasks::Tasks;

use super::admission::{may_see, sees_all};
use super::caller::Caller;
use super::deadline::Deadline;
use super::error::{Reason, ToolError};
use super::request::Action;
use super::{RemoteAgent, call, envelope};
use crate::targets::{FetchedCard, Target, for_user};

/// How long the listing waits for a card or for the local gateway.
const CARD_WAIT: Duration = Duration::from_secs(10);

/// Lists every configured target that `caller` may see, with its tasks if the host requests them, and the agents of the
/// local gateway; those that fit a `query` best come first. Refreshes cards concurrently, as many as calls may run,
/// without permits of the concurrency limiter, so that a busy target can be listed.
pub(super) async fn list_targets(
    tool: &RemoteAgent,
    caller: &Caller,
    query: Option<&str>,
    deadline: &Deadline,
) -> Result<String, ToolError> {
    let deadline = deadline.with_limit(CARD_WAIT);
    let targets = tool.catalog.targets().iter();
    let targets = targets.filter(|target| may_see(target, caller));
    let targets: Vec<_> = targets
        .map(|target| for_user(target, caller.user.as_deref()))
        .collect();
    let cards = async {
        // Not a future for each target at once: thousands of them would take megabytes.
        let (mut cards, mut running) = (Vec::new(), FuturesOrdered::new());
        for target in &targets {
            running.push_back(card_and_tasks(tool, target, caller, &deadline));
            if running.len() == tool.limits.concurrency {
                cards.extend(running.next().await);
            }
        }
        cards.extend(running.collect::<Vec<_>>().await);
        cards
    };
    let local = local::agents(tool, caller, &deadline);
    let budget = async {
        match caller.list_tasks {
            true => call::Account::problem(tool, caller, &deadline).await,
            false => None,
        }
    };
    let (cards, local, budget_error) = future::join3(cards, local, budget).await;
    let mut listing = Listing {
        query: query.map(Query::new),
        targets: Vec::with_capacity(targets.len()),
    };
    for (target, (outcome, tasks)) in targets.iter().zip(cards) {
        let flows = oauth_flows(&outcome, target, caller);
        listing.add(tool, target, outcome, None, |shown| {
            if !flows.is_empty() {
                shown["oauth_flows"] = json!(flows);
            }
            tasks.merge_into(shown);
            add_allowed_agents(shown, target, caller);
            add_health(tool, shown, target, caller);
        })?;
    }
    let mut gateway = None;
    if let Some(local) = local {
        for agent in local.agents {
            let target = &agent.target;
            listing.add(tool, target, agent.card, Some(&agent.standing), |shown| {
                add_allowed_agents(shown, target, caller);
            })?;
        }
        gateway = Some(local.gateway);
    }
    let (targets, raw): (Vec<_>, Vec<_>) = listing.into_order().unzip();
    let summary = Summary {
        budget_error,
        gateway,
        targets,
    };
    Ok(envelope::success(
        Action::ListTargets.as_str(),
        summary,
        raw,
    ))
}

#[derive(Serialize)]
struct Summary {
    #[serde(skip_serializing_if = "Option::is_none")]
    budget_error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gateway: Option<Value>,
    targets: Vec<Box<RawValue>>,
}

/// Tells an operator which agents may use a target. Agents see only targets that they may use.
fn add_allowed_agents(shown: &mut Value, target: &Target, caller: &Caller) {
    if sees_all(caller) && !target.allowed_agents.is_empty() {
        shown["allowed_agents"] = json!(target.allowed_agents);
    }
}

/// Adds how calls to a target fared: for an operator, and for an agent only that its calls are refused now.
fn add_health(tool: &RemoteAgent, shown: &mut Value, target: &Target, caller: &Caller) {
    let now = tool.env.now();
    let health = match caller.operator.is_some() {
        true => tool.health.figures(&target.key, now),
        false => tool.health.retry_after(&target.key, now),
    };
    if let Some(health) = health {
        shown["health"] = health;
    }
}

/// Returns the flows of authorization servers in the card of a target without a credential, for an operator who may add one.
/// The plugin itself uses no address of them.
fn oauth_flows(
    outcome: &Result<FetchedCard, ToolError>,
    target: &Target,
    caller: &Caller,
) -> Vec<OAuthFlow> {
    let (Ok(fetched), true, None) = (
        outcome,
        caller.operator.is_some(),
        &target.peer_config.credential,
    ) else {
        return Vec::new();
    };
    let schemes = fetched.card.security.schemes.iter();
    schemes
        .filter_map(|named| match &named.scheme {
            Scheme::OAuth2 { flows } => Some(flows.clone()),
            _ => None,
        })
        .flatten()
        .collect()
}

/// The targets in both forms of the result, as text: values take several times as much, and thousands of them leave the
/// caches of the processor.
struct Listing {
    query: Option<Query>,
    /// How well each fits the query, and its forms.
    targets: Vec<(usize, [Box<RawValue>; 2])>,
}

impl Listing {
    /// Adds a target with its card or the error, and `more` to the first form.
    ///
    /// # Errors
    /// The call has ended.
    fn add(
        &mut self,
        tool: &RemoteAgent,
        target: &Target,
        outcome: Result<FetchedCard, ToolError>,
        standing: Option<&AgentPresence>,
        more: impl FnOnce(&mut Value),
    ) -> Result<(), ToolError> {
        if let Err(error) = &outcome
            && matches!(error.reason, Reason::Aborted | Reason::ShuttingDown)
        {
            return Err(error.clone());
        }
        let listed = ListedTarget::new(tool, target, outcome);
        let mut forms = [listed.summary(target), listed.raw(target)];
        if let Some(standing) = standing {
            forms.iter_mut().for_each(|form| standing.merge_into(form));
        }
        more(&mut forms[0]);
        let score = self.query.as_ref().map(|query| query.score(&forms[0]));
        let [summary, raw] = forms.map(|form| to_raw_value(&form));
        if let (Ok(summary), Ok(raw)) = (summary, raw) {
            self.targets.push((score.unwrap_or(0), [summary, raw]));
        }
        Ok(())
    }

    /// Returns the forms of each target. Those that fit equally stay in their order.
    fn into_order(mut self) -> impl Iterator<Item = (Box<RawValue>, Box<RawValue>)> {
        self.targets.sort_by_key(|(score, _)| Reverse(*score));
        let targets = self.targets.into_iter();
        targets.map(|(_, [summary, raw])| (summary, raw))
    }
}

/// Returns the card of a target, and its tasks if the host requests them.
async fn card_and_tasks(
    tool: &RemoteAgent,
    target: &Target,
    caller: &Caller,
    deadline: &Deadline,
) -> (Result<FetchedCard, ToolError>, Tasks) {
    let card = card(tool, target, deadline).await;
    let tasks = match &card {
        Ok(card) if caller.list_tasks => tasks::list(tool, target, card, deadline).await,
        _ => Tasks::default(),
    };
    (card, tasks)
}

async fn card(
    tool: &RemoteAgent,
    target: &Target,
    deadline: &Deadline,
) -> Result<FetchedCard, ToolError> {
    call::check_secret(target)?;
    match deadline
        .run(tool.cards.get(target, deadline.remaining()))
        .await
    {
        Ok(cached) => Ok(cached?),
        Err(error) if error.reason == Reason::Timeout => Err(ToolError::new(
            Reason::Timeout,
            "the agent card did not arrive in time",
        )),
        Err(error) => Err(error),
    }
}

/// A target's card, or the error.
struct ListedTarget {
    view: CardView,
    streaming: Option<bool>,
    refreshed: String,
    error: Option<Value>,
    clock_skew: Option<i64>,
    pin: Option<Value>,
    card_url: Option<String>,
}

impl ListedTarget {
    fn new(tool: &RemoteAgent, target: &Target, outcome: Result<FetchedCard, ToolError>) -> Self {
        let now = || timestamp(tool.env.system_time());
        match outcome {
            Err(error) => {
                let error = error.with("target_alias", target.alias.clone());
                Self {
                    view: CardView::default(),
                    streaming: None,
                    refreshed: now(),
                    error: Some(envelope::error_json(error)),
                    clock_skew: None,
                    pin: None,
                    card_url: None,
                }
            }
            Ok(cached) => {
                let stale = cached.stale.map(|error| envelope::error_json(error.into()));
                let refreshed = timestamp(cached.refreshed);
                let clock_skew = cached.clock_skew;
                let pin = cached.pin.map(|pin| pin.to_json());
                let card_url = cached.card.found_at.clone();
                match &cached.card.view {
                    Ok(view) => Self {
                        view: view.clone(),
                        streaming: cached.card.streaming,
                        refreshed,
                        error: stale,
                        clock_skew,
                        pin,
                        card_url,
                    },
                    Err(message) => {
                        let error = ToolError::new(Reason::InvalidResponse, message.clone());
                        Self {
                            view: CardView::default(),
                            streaming: None,
                            refreshed,
                            error: Some(envelope::error_json(error)),
                            clock_skew,
                            pin,
                            card_url,
                        }
                    }
                }
            }
        }
    }

    fn description<'a>(&'a self, target: &'a Target) -> Option<&'a str> {
        target
            .description
            .as_deref()
            .or(self.view.description.as_deref())
    }

    fn summary(&self, target: &Target) -> Value {
        object([
            ("target_alias", json!(target.alias)),
            ("target_url", json!(target.url)),
            ("default", json!(target.default)),
            ("tags", json!(target.tags)),
            ("examples", json!(target.examples)),
            ("target_name", json!(self.view.name)),
            ("description", json!(self.description(target))),
            ("streaming_supported", json!(self.streaming)),
            ("peer_card", card_json(&self.view, &SNAKE)),
            ("last_refreshed_at", json!(self.refreshed)),
            ("last_refresh_error", json!(self.error)),
            ("clock_skew_seconds", json!(self.clock_skew)),
            ("card_pin", json!(self.pin)),
            ("card_url", json!(self.card_url)),
        ])
    }

    fn raw(&self, target: &Target) -> Value {
        let mut card = card_json(&self.view, &CAMEL);
        if let Some(card) = card.as_object_mut() {
            let more = object([
                ("displayName", json!(self.view.name)),
                ("description", json!(self.view.description)),
                ("lastRefreshedAt", json!(self.refreshed)),
                ("lastRefreshError", json!(self.error)),
            ]);
            card.extend(
                more.as_object()
                    .into_iter()
                    .flatten()
                    .map(|(k, v)| (k.clone(), v.clone())),
            );
        }
        object([
            (
                "target",
                object([
                    ("baseUrl", json!(target.url)),
                    ("cardPath", json!(target.card_path)),
                    ("preferredTransports", json!(target.transport_names())),
                    ("alias", json!(target.alias)),
                    ("displayName", json!(self.view.name)),
                    ("description", json!(self.description(target))),
                    ("streamingSupported", json!(self.streaming)),
                ]),
            ),
            ("configuredDescription", json!(target.description)),
            ("default", json!(target.default)),
            ("tags", json!(target.tags)),
            ("examples", json!(target.examples)),
            ("card", card),
        ])
    }
}

/// Formats a time in ISO 8601, UTC, with milliseconds.
fn timestamp(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}

/// The member names of one form of a card.
struct MemberNames {
    preferred_transport: &'static str,
    additional_interfaces: &'static str,
    push_notifications: &'static str,
    state_transition_history: &'static str,
    default_input_modes: &'static str,
    default_output_modes: &'static str,
    input_modes: &'static str,
    output_modes: &'static str,
}

/// The contract's names.
const SNAKE: MemberNames = MemberNames {
    preferred_transport: "preferred_transport",
    additional_interfaces: "additional_interfaces",
    push_notifications: "push_notifications",
    state_transition_history: "state_transition_history",
    default_input_modes: "default_input_modes",
    default_output_modes: "default_output_modes",
    input_modes: "input_modes",
    output_modes: "output_modes",
};

/// A2A's names.
const CAMEL: MemberNames = MemberNames {
    preferred_transport: "preferredTransport",
    additional_interfaces: "additionalInterfaces",
    push_notifications: "pushNotifications",
    state_transition_history: "stateTransitionHistory",
    default_input_modes: "defaultInputModes",
    default_output_modes: "defaultOutputModes",
    input_modes: "inputModes",
    output_modes: "outputModes",
};

/// Converts a card to JSON with these names.
fn card_json(view: &CardView, names: &MemberNames) -> Value {
    let can = &view.capabilities;
    let extensions = (!can.extensions.is_empty()).then_some(&can.extensions);
    let skills: Vec<Value> = view
        .skills
        .iter()
        .map(|skill| skill_json(skill, names))
        .collect();
    object([
        (names.preferred_transport, json!(view.preferred_transport)),
        (
            names.additional_interfaces,
            json!(view.additional_interfaces),
        ),
        (
            "capabilities",
            object([
                ("streaming", json!(can.streaming)),
                (names.push_notifications, json!(can.push_notifications)),
                (
                    names.state_transition_history,
                    json!(can.state_transition_history),
                ),
                ("extensions", json!(extensions)),
            ]),
        ),
        (names.default_input_modes, json!(view.default_input_modes)),
        (names.default_output_modes, json!(view.default_output_modes)),
        ("skills", json!(skills)),
    ])
}

fn skill_json(skill: &Skill, names: &MemberNames) -> Value {
    let some = |modes: &[String]| {
        if modes.is_empty() {
            Value::Null
        } else {
            json!(modes)
        }
    };
    object([
        ("id", json!(skill.id)),
        ("name", json!(skill.name)),
        ("description", json!(skill.description)),
        ("tags", json!(skill.tags)),
        ("examples", json!(skill.examples)),
        (names.input_modes, some(&skill.input_modes)),
        (names.output_modes, some(&skill.output_modes)),
    ])
}

/// Builds an object of the fields that are not null.
fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let known = fields.into_iter().filter(|(_, value)| !value.is_null());
    Value::Object(
        known
            .map(|(key, value)| (key.to_owned(), value))
            .collect::<Map<_, _>>(),
    )
}
