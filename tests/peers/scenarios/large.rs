//! Large answers.

use serde_json::{Value, json};

use super::{Run, task};
use crate::outcome::Outcome;
use crate::peer::Peer;

/// The repeated text of every agent.
const PIECE: &str = "0123456789abcdef";
const BYTES: usize = 5 * 1024 * 1024;

pub fn large_artifact_arrives_in_a_reply(peer: Peer) -> Run {
    arrives(peer, json!({}))
}

pub fn large_artifact_arrives_by_stream(peer: Peer) -> Run {
    arrives(peer, json!({"follow_updates": true}))
}

fn arrives(mut peer: Peer, how: Value) -> Run {
    let (answer, _) = peer.send("big", how);

    // A failed assertion must not print the whole answer.
    assert_eq!(task(&answer)?["status"], "completed");
    let artifacts = answer["summary"]["artifacts"].as_array().unwrap();
    assert_eq!(artifacts.len(), 1);
    let text = artifacts[0]["parts"][0]["text"].as_str().unwrap();
    assert_eq!(text.len(), BYTES);
    assert!(
        text.as_bytes()
            .chunks(PIECE.len())
            .all(|piece| piece == PIECE.as_bytes())
    );
    Ok(Outcome::Green)
}
