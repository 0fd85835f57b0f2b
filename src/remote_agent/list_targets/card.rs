//! A card in the names of the contract and in those of A2A.

use serde_json::{Map, Value, json};

use a2a::{CardView, Skill};

/// The member names of one form of a card.
pub(super) struct Names {
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
pub(super) const SNAKE: Names = Names {
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
pub(super) const CAMEL: Names = Names {
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
pub(super) fn card_json(view: &CardView, names: &Names) -> Value {
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

/// Builds an object of the fields that are not null.
pub(super) fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    let known = fields.into_iter().filter(|(_, value)| !value.is_null());
    Value::Object(
        known
            .map(|(key, value)| (key.to_owned(), value))
            .collect::<Map<_, _>>(),
    )
}
