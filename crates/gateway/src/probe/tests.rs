#![allow(clippy::unwrap_used)]

use super::*;

fn says(text: &str) -> Occupant {
    known(&Frame::Text(text.to_owned()))
}

#[test]
fn gateways_are_told_apart_by_what_they_say() {
    let challenge =
        r#"{"type":"event","event":"connect.challenge","payload":{"nonce":"n","ts":1}}"#;
    assert_eq!(says(challenge), Occupant::OpenClaw);
    let acknowledge = r#"{"type":"handshake","content":{"action":"acknowledge","clientId":"c"}}"#;
    assert_eq!(says(acknowledge), Occupant::A2aV1);
    let who =
        r#"{"type":"error","content":{"error":"AUTH_REQUIRED","message":"who?","code":5001}}"#;
    assert_eq!(says(who), Occupant::A2aV1);
    let welcome = r#"{"type":"welcome","clientId":"gw-1","gateway":{"version":"1.0.0"}}"#;
    assert_eq!(says(welcome), Occupant::HeretekJs);
    assert_eq!(says("hello"), Occupant::Unknown);
}

#[test]
fn every_occupant_is_named_with_what_to_do() {
    let all = [
        Occupant::OpenClaw,
        Occupant::A2aV1,
        Occupant::HeretekJs,
        Occupant::Web(200),
        Occupant::Unknown,
        Occupant::Silent,
    ];
    for occupant in all {
        let text = occupant.to_string();
        assert!(text.contains("another port"), "{text}");
    }
}
