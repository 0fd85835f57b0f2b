#![allow(clippy::unwrap_used)]

use super::*;

fn occupant(text: &str) -> Occupant {
    recognize(&Frame::Text(text.to_owned()))
}

#[test]
fn first_frame_identifies_gateway() {
    let challenge =
        r#"{"type":"event","event":"connect.challenge","payload":{"nonce":"n","ts":1}}"#;
    assert_eq!(occupant(challenge), Occupant::OpenClaw);
    let acknowledge = r#"{"type":"handshake","content":{"action":"acknowledge","clientId":"c"}}"#;
    assert_eq!(occupant(acknowledge), Occupant::A2aV1);
    let error =
        r#"{"type":"error","content":{"error":"AUTH_REQUIRED","message":"who?","code":5001}}"#;
    assert_eq!(occupant(error), Occupant::A2aV1);
    let welcome = r#"{"type":"welcome","clientId":"gw-1","gateway":{"version":"1.0.0"}}"#;
    assert_eq!(occupant(welcome), Occupant::HeretekJs);
    assert_eq!(occupant("hello"), Occupant::Unknown);
}

#[test]
fn text_of_occupant_has_next_step() {
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
