//! `list_targets`: the configured targets, with what their cards say.

use std::time::{Duration, SystemTime};

use futures_util::{StreamExt as _, stream};
use serde_json::{Map, Value, json};

use crate::peer::{CardView, Skill};
use crate::targets::{KnownCard, Target};

use super::RemoteAgent;
use super::admission::may_use;
use super::bounds::Bounds;
use super::caller::Caller;
use super::envelope;
use super::error::{Reason, ToolError};
use super::request::Action;
use super::session;

/// A card that takes longer is reported as slow; the others are shown meanwhile.
const CARD_WAIT: Duration = Duration::from_secs(10);

/// Shows every configured target that `caller` may use. Their cards are refreshed side by side, as many at a time as
/// calls may run. They take no turns at the gate: a target that is busy can still be listed.
pub(super) async fn list_targets(
    tool: &RemoteAgent,
    caller: &Caller,
    bounds: &Bounds,
) -> Result<String, ToolError> {
    let bounds = bounds.shorter(CARD_WAIT);
    let targets = tool.catalog.targets().iter();
    let targets: Vec<_> = targets.filter(|target| may_use(target, caller)).collect();
    let cards: Vec<_> = targets
        .iter()
        .map(|target| card(tool, target, &bounds))
        .collect();
    let cards = stream::iter(cards)
        .buffered(tool.limits.concurrency)
        .collect::<Vec<_>>()
        .await;
    let mut summary = Vec::new();
    let mut raw = Vec::new();
    for (target, outcome) in targets.iter().zip(cards) {
        if let Err(error) = &outcome
            && matches!(error.reason, Reason::Aborted | Reason::ShuttingDown)
        {
            return Err(error.clone());
        }
        let listed = Listed::of(tool, target, outcome);
        summary.push(listed.summary(target));
        raw.push(listed.raw(target));
    }
    Ok(envelope::success(
        Action::ListTargets.as_str(),
        json!({ "targets": summary }),
        raw,
    ))
}

async fn card(
    tool: &RemoteAgent,
    target: &Target,
    bounds: &Bounds,
) -> Result<KnownCard, ToolError> {
    session::resolved(target)?;
    match bounds.run(tool.cards.get(target, bounds.left())).await {
        Ok(known) => Ok(known?),
        Err(error) if error.reason == Reason::Timeout => Err(ToolError::new(
            Reason::Timeout,
            "the agent card did not come in time",
        )),
        Err(error) => Err(error),
    }
}

/// A target's card, or why there is none.
struct Listed {
    view: CardView,
    streaming: Option<bool>,
    refreshed: String,
    error: Option<Value>,
}

impl Listed {
    fn of(tool: &RemoteAgent, target: &Target, outcome: Result<KnownCard, ToolError>) -> Self {
        let now = || timestamp(tool.world.wall());
        match outcome {
            Err(error) => {
                let error = error.with("target_alias", target.alias.clone());
                Self {
                    view: CardView::default(),
                    streaming: None,
                    refreshed: now(),
                    error: Some(envelope::shown(error)),
                }
            }
            Ok(known) => {
                let stale = known.stale.map(|error| envelope::shown(error.into()));
                let refreshed = timestamp(known.refreshed);
                match &known.card.view {
                    Ok(view) => Self {
                        view: view.clone(),
                        streaming: known.card.streaming,
                        refreshed,
                        error: stale,
                    },
                    Err(why) => {
                        let error = ToolError::new(Reason::InvalidResponse, why.clone());
                        Self {
                            view: CardView::default(),
                            streaming: None,
                            refreshed,
                            error: Some(envelope::shown(error)),
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
        let transports: Vec<_> = target.reach.preferred.iter().map(|t| t.as_str()).collect();
        object([
            (
                "target",
                object([
                    ("baseUrl", json!(target.url)),
                    ("cardPath", json!(target.card_path)),
                    ("preferredTransports", json!(transports)),
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

/// The names that one of the two views of a card goes by.
struct Names {
    preferred_transport: &'static str,
    additional_interfaces: &'static str,
    push_notifications: &'static str,
    state_transition_history: &'static str,
    default_input_modes: &'static str,
    default_output_modes: &'static str,
    input_modes: &'static str,
    output_modes: &'static str,
}

const SNAKE: Names = Names {
    preferred_transport: "preferred_transport",
    additional_interfaces: "additional_interfaces",
    push_notifications: "push_notifications",
    state_transition_history: "state_transition_history",
    default_input_modes: "default_input_modes",
    default_output_modes: "default_output_modes",
    input_modes: "input_modes",
    output_modes: "output_modes",
};

const CAMEL: Names = Names {
    preferred_transport: "preferredTransport",
    additional_interfaces: "additionalInterfaces",
    push_notifications: "pushNotifications",
    state_transition_history: "stateTransitionHistory",
    default_input_modes: "defaultInputModes",
    default_output_modes: "defaultOutputModes",
    input_modes: "inputModes",
    output_modes: "outputModes",
};

fn card_json(view: &CardView, names: &Names) -> Value {
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

fn skill_json(skill: &Skill, names: &Names) -> Value {
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

/// An object of whatever is known.
fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let known = fields.into_iter().filter(|(_, value)| !value.is_null());
    Value::Object(
        known
            .map(|(key, value)| (key.to_owned(), value))
            .collect::<Map<_, _>>(),
    )
}

/// ISO 8601 in UTC with milliseconds.
fn timestamp(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}
