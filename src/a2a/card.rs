//! Reading agent cards (A2A 0.3 §5.5), as tidy or untidy as they come.

use std::collections::HashSet;
use std::hash::Hash;

use serde_json::{Map, Value};

use crate::peer::{Capabilities, Card, CardView, Interface, Skill};

/// Reads a card.
///
/// # Errors
/// Why the peer cannot be called with it.
pub(super) fn read(json: &Value) -> Result<Card, String> {
    let card = json.as_object().ok_or("the card is not a JSON object")?;
    let interfaces = interfaces(card);
    if interfaces.is_empty() {
        return Err(if card.contains_key("supportedInterfaces") {
            "the card offers no interface of A2A 0.3".into()
        } else {
            "the card names no `url` to call".into()
        });
    }
    let view = view(card);
    Ok(Card {
        interfaces,
        streaming: flag(card.get("capabilities"), "streaming"),
        has_extended_card: flag(Some(json), "supportsAuthenticatedExtendedCard").unwrap_or(false),
        view,
    })
}

/// The main interface, then the additional ones, then those of a newer card that speak 0.3 too.
fn interfaces(card: &Map<String, Value>) -> Vec<Interface> {
    let mut all = Vec::new();
    if let Some(url) = text(card.get("url")) {
        let transport = text(card.get("preferredTransport")).unwrap_or_else(|| "JSONRPC".into());
        let newer =
            text(card.get("protocolVersion")).is_some_and(|version| !version.starts_with("0."));
        if !newer {
            all.push(interface(transport, url));
        }
    }
    if !all.is_empty() {
        all.extend(declared(card.get("additionalInterfaces")));
    }
    for entry in items(card.get("supportedInterfaces")) {
        let speaks_it =
            text(entry.get("protocolVersion")).is_some_and(|version| version.starts_with("0.3"));
        if let (true, Some(transport), Some(url)) = (
            speaks_it,
            text(entry.get("protocolBinding")),
            text(entry.get("url")),
        ) {
            all.push(interface(transport, url));
        }
    }
    once(all)
}

fn view(card: &Map<String, Value>) -> Result<CardView, String> {
    let capabilities = card.get("capabilities");
    Ok(CardView {
        name: text(card.get("name")),
        description: text(card.get("description")),
        preferred_transport: text(card.get("preferredTransport")),
        additional_interfaces: once(declared(card.get("additionalInterfaces")).collect()),
        capabilities: Capabilities {
            streaming: flag(capabilities, "streaming"),
            push_notifications: flag(capabilities, "pushNotifications"),
            state_transition_history: flag(capabilities, "stateTransitionHistory"),
            extensions: capabilities
                .and_then(|c| c.get("extensions"))
                .map(|list| {
                    items(Some(list))
                        .iter()
                        .filter(|e| e.is_object())
                        .cloned()
                        .collect()
                })
                .unwrap_or_default(),
        },
        default_input_modes: texts(card.get("defaultInputModes")),
        default_output_modes: texts(card.get("defaultOutputModes")),
        skills: items(card.get("skills"))
            .iter()
            .map(skill)
            .collect::<Result<_, _>>()?,
    })
}

fn skill(json: &Value) -> Result<Skill, String> {
    let skill = json
        .as_object()
        .ok_or("the card has a skill that is not an object")?;
    let name = text(skill.get("name")).unwrap_or_default();
    Ok(Skill {
        id: text(skill.get("id")).unwrap_or_default(),
        description: text(skill.get("description")).unwrap_or_else(|| name.clone()),
        name,
        tags: texts(skill.get("tags")),
        examples: texts(skill.get("examples")),
        input_modes: texts(skill.get("inputModes")),
        output_modes: texts(skill.get("outputModes")),
    })
}

fn declared(list: Option<&Value>) -> impl Iterator<Item = Interface> {
    items(list).iter().filter_map(|entry| {
        Some(interface(
            text(entry.get("transport"))?,
            text(entry.get("url"))?,
        ))
    })
}

fn interface(transport: String, url: String) -> Interface {
    Interface {
        transport,
        url,
        version: None,
        tenant: None,
    }
}

fn items(list: Option<&Value>) -> &[Value] {
    list.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Text without the space around it; `None` where nothing is left.
fn text(value: Option<&Value>) -> Option<String> {
    let text = value?.as_str()?.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// The texts of a list, each once. A bare string counts as the list of its characters: that is how lists have always
/// been gone through here, and a card that is wrong in this way should look wrong.
fn texts(value: Option<&Value>) -> Vec<String> {
    let all: Vec<String> = match value {
        Some(Value::Array(list)) => list.iter().filter_map(|item| text(Some(item))).collect(),
        Some(Value::String(text)) => text
            .chars()
            .map(String::from)
            .filter(|c| !c.trim().is_empty())
            .collect(),
        _ => Vec::new(),
    };
    once(all)
}

/// Each item where it first stands. The number of items is the peer's to choose, so this takes one look at each.
fn once<T: Clone + Eq + Hash>(mut all: Vec<T>) -> Vec<T> {
    let mut seen = HashSet::with_capacity(all.len());
    all.retain(|item| seen.insert(item.clone()));
    all
}

fn flag(object: Option<&Value>, key: &str) -> Option<bool> {
    object?.get(key)?.as_bool()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    #[test]
    fn a_card_that_says_only_where_it_lives_can_be_called() {
        let card = read(&json!({ "url": " http://a.example/rpc " })).unwrap();
        assert_eq!(
            card.interfaces,
            [interface("JSONRPC".into(), "http://a.example/rpc".into())]
        );
        assert_eq!(card.streaming, None);
    }

    #[test]
    fn a_card_without_an_address_is_refused() {
        for json in [json!(null), json!([]), json!({}), json!({ "url": "" })] {
            assert!(read(&json).is_err(), "{json}");
        }
    }

    #[test]
    fn a_newer_card_is_used_as_far_as_it_speaks_0_3() {
        let only_new = json!({ "supportedInterfaces": [{ "url": "http://a/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0" }] });
        assert!(read(&only_new).unwrap_err().contains("0.3"));
        let both = json!({ "supportedInterfaces": [{ "url": "http://a/old", "protocolBinding": "JSONRPC", "protocolVersion": "0.3.0" }] });
        assert_eq!(read(&both).unwrap().interfaces[0].url, "http://a/old");
    }

    #[test]
    fn a_broken_skill_spoils_the_view_and_not_the_call() {
        let card = read(&json!({ "url": "http://a/", "skills": [null] })).unwrap();
        assert!(card.view.is_err());
    }
}
