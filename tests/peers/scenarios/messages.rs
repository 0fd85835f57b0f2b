//! Single messages.

use serde_json::{Value, json};

use super::{Run, kinds};
use crate::outcome::Outcome;
use crate::peer::Peer;
use crate::servers::{Binding, Vendor};

pub fn card_is_read(mut peer: Peer) -> Run {
    let (answer, _) = peer.plugin.call(&json!({"action": "list_targets"}));

    assert_eq!(answer["ok"], true, "{answer:#}");
    let target = &answer["summary"]["targets"][0];
    if peer.column.vendor == Vendor::OpenClaw {
        assert_eq!(target["streaming_supported"], false, "{target:#}");
        let skill = &target["peer_card"]["skills"][0];
        assert_eq!(skill["id"], "main", "{target:#}");
        return Ok(Outcome::Green);
    }
    assert_eq!(target["target_name"], peer.column.server(), "{target:#}");
    assert_eq!(target["streaming_supported"], true, "{target:#}");
    // The card's first interface is the preferred one. Cards of 0.3 list it again.
    let card = &target["peer_card"];
    let others = card["additional_interfaces"]
        .as_array()
        .into_iter()
        .flatten();
    let mut bindings: Vec<&str> = others
        .filter_map(|other| other["transport"].as_str())
        .collect();
    bindings.extend(card["preferred_transport"].as_str());
    bindings.sort_unstable();
    bindings.dedup();
    assert_eq!(bindings, ["HTTP+JSON", "JSONRPC"], "{target:#}");
    assert_eq!(card["skills"][0]["id"], "act", "{target:#}");
    Ok(Outcome::Green)
}

pub fn preferred_binding_and_version_are_used(mut peer: Peer) -> Run {
    let (answer, _) = peer.send("where", json!({}));

    let summary = &answer["summary"];
    assert_eq!(
        summary["protocol_version"], peer.column.version,
        "{answer:#}"
    );
    assert_eq!(
        summary["transport"],
        peer.column.binding.name(),
        "{answer:#}"
    );
    if peer.column.vendor == Vendor::OpenClaw {
        return Ok(Outcome::Green);
    }
    let path = match (peer.column.binding, peer.column.version) {
        (Binding::JsonRpc, _) => "/rpc",
        (Binding::HttpJson, "0.3") => "/rest/v1/message:send",
        (Binding::HttpJson, _) => "/rest/message:send",
    };
    assert_eq!(summary["message_text"], path, "{answer:#}");
    Ok(Outcome::Green)
}

pub fn message_is_answered_by_a_message(mut peer: Peer) -> Run {
    let (answer, updates) = peer.send("message: hi", json!({}));

    if peer.column.vendor == Vendor::OpenClaw {
        return is_the_reply_in_a_task(&answer);
    }
    assert_is_the_message(&answer);
    assert_eq!(answer["raw"]["kind"], "message", "{answer:#}");
    assert_eq!(answer["raw"]["role"], "agent", "{answer:#}");
    assert_eq!(answer["raw"]["parts"][0]["kind"], "text", "{answer:#}");
    assert_eq!(answer["raw"]["parts"][0]["text"], "hi", "{answer:#}");
    assert!(updates.is_empty(), "{updates:#?}");
    Ok(Outcome::Green)
}

pub fn message_arrives_by_stream(mut peer: Peer) -> Run {
    let (answer, updates) = peer.send("message: hi", json!({"follow_updates": true}));

    if peer.column.vendor == Vendor::OpenClaw {
        return is_the_reply_in_a_task(&answer);
    }
    // The stream is one event, the message, on every server.
    assert_is_the_message(&answer);
    assert_eq!(kinds(&answer["raw"]["events"]), ["message"], "{answer:#}");
    assert_eq!(updates.len(), 1, "{updates:#?}");
    Ok(Outcome::Green)
}

/// Checks that the channel creates a task for every message.
fn is_the_reply_in_a_task(answer: &Value) -> Run {
    let task = super::task(answer)?;
    assert_eq!(task["status"], "completed", "{answer:#}");
    assert_eq!(answer["summary"]["message_text"], "hi", "{answer:#}");
    Ok(Outcome::Deviates("a task, not a message"))
}

fn assert_is_the_message(answer: &Value) {
    assert_eq!(answer["ok"], true, "{answer:#}");
    let summary = &answer["summary"];
    assert_eq!(summary["response_kind"], "message", "{answer:#}");
    assert_eq!(summary["message_text"], "hi", "{answer:#}");
    // Every server creates a context, but no task.
    let conversation = &summary["continuation"]["conversation"];
    assert!(conversation["context_id"].is_string(), "{answer:#}");
    assert_eq!(summary["continuation"].get("task"), None, "{answer:#}");
}
