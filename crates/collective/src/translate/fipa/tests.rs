#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::ErrorCode;
use crate::translate::testing::any_envelope;

const NOW: u64 = 1_711_843_200_000;

fn envelope(frame: Value) -> Envelope {
    Envelope::from_value(frame).unwrap()
}

fn read(acl: Value) -> Vec<Value> {
    let all = from_fipa(&acl, NOW).unwrap();
    all.into_iter().map(Envelope::into_json).collect()
}

fn one(acl: Value) -> Value {
    let mut all = read(acl);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

fn translation_error(acl: Value) -> (ErrorCode, String) {
    let malformed = from_fipa(&acl, NOW).unwrap_err();
    (malformed.code, malformed.message)
}

#[test]
fn h_49_each_table_row_translates_both_ways() {
    // The table of Heretek A2A §12.3, its `response (vote: …)` read as votes.
    let table = json!([
        ["inform", "message", {"role": "agent", "content": "hi"}],
        ["request", "request", {"service": "search", "query": "x"}],
        ["agree", "vote", {"proposalId": "p", "vote": "approve"}],
        ["refuse", "vote", {"proposalId": "p", "vote": "reject"}],
        ["propose", "proposal", {"proposal": "Do it"}],
        ["accept-proposal", "decision", {"proposalId": "p", "result": "approved"}],
        ["reject-proposal", "decision", {"proposalId": "p", "result": "rejected"}],
    ]);
    for row in table.as_array().unwrap() {
        let (performative, kind, content) = (&row[0], &row[1], &row[2]);
        let frame = json!({"type": kind, "from": "steward", "agent": "alpha", "content": content, "timestamp": NOW});
        let acl = to_fipa(&envelope(frame.clone())).unwrap();
        assert_eq!(&acl["performative"], performative);
        let plain = json!({"performative": performative, "sender": "steward", "receiver": "alpha", "content": content,
            "language": "json", "ontology": "heretek-v1"});
        for (parameter, value) in plain.as_object().unwrap() {
            assert_eq!(&acl[parameter], value, "{performative}");
        }
        assert_eq!(one(plain), frame, "{performative}");
    }
}

#[test]
fn h_49_decision_is_written_by_its_result() {
    let decision = |result| {
        let content = json!({"proposalId": "p", "result": result});
        to_fipa(&envelope(json!({"type": "decision", "content": content}))).unwrap()
    };
    assert_eq!(decision("approved")["performative"], "accept-proposal");
    assert_eq!(decision("rejected")["performative"], "reject-proposal");
}

#[test]
fn h_49_voting_response_is_written_as_a_vote() {
    for (vote, performative) in [
        ("approve", "agree"),
        ("reject", "refuse"),
        ("abstain", "inform"),
    ] {
        let content = json!({"result": "ok", "vote": vote});
        let acl = to_fipa(&envelope(json!({"type": "response", "content": content}))).unwrap();
        assert_eq!(acl["performative"], performative);
        let back = one(acl);
        assert_eq!(back["type"], "response");
    }
}

#[test]
fn h_49_abstention_counts_for_neither_side() {
    let vote =
        json!({"type": "vote", "from": "beta", "content": {"proposalId": "p", "vote": "abstain"}});
    let acl = to_fipa(&envelope(vote.clone())).unwrap();
    assert_eq!(acl["performative"], "inform");
    assert_eq!(one(acl), vote);
}

#[test]
fn error_is_not_an_inform() {
    for (name, performative) in [
        ("AGENT_OFFLINE", "failure"),
        ("INVALID_JSON", "not-understood"),
        ("INVALID_CONTENT", "not-understood"),
        ("something else", "failure"),
    ] {
        let error = json!({"type": "error", "content": {"error": name, "message": "no"}});
        assert_eq!(
            to_fipa(&envelope(error)).unwrap()["performative"],
            performative,
            "{name}"
        );
    }
    let failed =
        one(json!({"performative": "failure", "sender": "alpha", "content": "out of memory"}));
    assert_eq!(
        failed["content"],
        json!({"error": "AGENT_ERROR", "code": 3004, "message": "out of memory"})
    );
}

#[test]
fn ids_and_conversations_have_their_parameters() {
    let frame = json!({
        "type": "message", "id": "m-2", "from": "alpha", "agent": "steward", "sessionId": "s", "timestamp": 7,
        "content": {"role": "assistant", "content": {"parts": []}},
        "metadata": {"correlationId": "c", "parentId": "m-1", "priority": "high"}, "mood": "calm",
    });
    let acl = to_fipa(&envelope(frame.clone())).unwrap();
    assert_eq!(
        acl,
        json!({
            "performative": "inform", "sender": "alpha", "receiver": "steward",
            "content": {"role": "assistant", "content": {"parts": []}},
            "language": "json", "ontology": "heretek-v1",
            "reply-with": "m-2", "in-reply-to": "m-1", "conversation-id": "c",
            "X-heretek": {"type": "message", "sessionId": "s", "timestamp": 7, "metadata": {"priority": "high"}, "mood": "calm"},
        })
    );
    assert_eq!(one(acl), frame);
}

#[test]
fn foreign_message_round_trips() {
    let acl = json!({"performative": "INFORM", "sender": {"name": "a@home", "addresses": ["http://a"]}, "receiver": "steward",
        "content": "((rain tomorrow))", "language": "fipa-sl", "ontology": "weather", "protocol": "fipa-request", "reply-by": "20260331T000000000Z"});
    let frame = one(acl.clone());
    assert_eq!(
        frame["content"],
        json!({"role": "agent", "content": "((rain tomorrow))"})
    );
    assert_eq!(frame["from"], "a@home");
    assert_eq!(frame["timestamp"], NOW);
    let mut back = to_fipa(&envelope(frame)).unwrap();
    back.as_object_mut().unwrap().remove(EXTENSION_FIELD);
    assert_eq!(back, acl);
}

#[test]
fn unknown_performative_stays_in_the_message() {
    for performative in ["cfp", "query-ref", "subscribe", "x-greet"] {
        let frame =
            one(json!({"performative": performative, "receiver": "alpha", "content": "hi"}));
        assert_eq!(frame["type"], "message");
        assert_eq!(
            to_fipa(&envelope(frame)).unwrap()["performative"],
            performative
        );
    }
}

#[test]
fn each_receiver_has_a_message() {
    let acl = json!({"performative": "inform", "receiver": ["alpha", {"name": "beta"}], "content": "hi", "reply-with": "m", "conversation-id": "c"});
    let all = read(acl);
    let agents: Vec<_> = all
        .iter()
        .map(|frame| {
            (
                frame["agent"].as_str().unwrap(),
                frame["id"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(agents, [("alpha", "m-1"), ("beta", "m-2")]);
    assert!(
        all.iter()
            .all(|frame| frame["metadata"]["correlationId"] == "c")
    );
}

#[test]
fn proposal_to_the_triad_has_any_receiver() {
    let receivers = json!(["alpha", "beta", "charlie"]);
    let frame = one(
        json!({"performative": "propose", "receiver": receivers, "content": "Do it", "conversation-id": "p"}),
    );
    assert_eq!(frame["content"], json!({"proposal": "Do it"}));
    assert_eq!(frame.get("agent"), None);
    let back = to_fipa(&envelope(frame)).unwrap();
    assert_eq!(
        (&back["receiver"], &back["content"]),
        (&receivers, &json!("Do it"))
    );
}

#[test]
fn vote_belongs_to_proposal_of_its_conversation() {
    for (parameter, found) in [("conversation-id", "p"), ("in-reply-to", "p")] {
        let frame = one(
            json!({"performative": "agree", "sender": "alpha", parameter: found, "content": "fits the roadmap"}),
        );
        assert_eq!(
            frame["content"],
            json!({"vote": "approve", "proposalId": "p", "reasoning": "fits the roadmap"})
        );
    }
}

#[test]
fn h_49_agreement_without_proposal_is_response() {
    for (performative, vote) in [("agree", "approve"), ("refuse", "reject")] {
        for (content, expected) in [
            (json!("Not today"), json!({"result": "Not today"})),
            (json!({"result": 7}), json!({"result": 7})),
            (
                json!({"reasoning": "x"}),
                json!({"result": {"reasoning": "x"}}),
            ),
            (json!(null), json!({"result": vote})),
        ] {
            let acl = json!({"performative": performative, "sender": "alpha", "receiver": "steward", "content": content});
            let frame = one(acl.clone());
            let mut expected = expected;
            expected["vote"] = json!(vote);
            assert_eq!(frame["type"], "response");
            assert_eq!(frame["content"], expected);
            let mut back = to_fipa(&envelope(frame.clone())).unwrap();
            assert_eq!(one(back.clone()), frame);
            back.as_object_mut().unwrap().remove(EXTENSION_FIELD);
            let parameters = ["performative", "sender", "receiver"];
            for parameter in parameters {
                assert_eq!(back[parameter], acl[parameter]);
            }
            assert_eq!(back.get("content").unwrap_or(&Value::Null), &acl["content"]);
        }
    }
}

#[test]
fn request_addresses_its_receiver() {
    let frame =
        one(json!({"performative": "request", "receiver": "search", "content": "find rain"}));
    assert_eq!(
        frame["content"],
        json!({"service": "search", "request": "find rain"})
    );
}

#[test]
fn untranslatable_message_is_rejected_with_its_place() {
    let table = json!([
        [[], "INVALID_TYPE", "object"],
        [{}, "MISSING_FIELD", "`performative`"],
        [{"performative": 1}, "INVALID_TYPE", "`performative`"],
        [{"performative": "inform", "content": "x"}, "MISSING_FIELD", "`agent`"],
        [{"performative": "inform", "receiver": "a"}, "MISSING_FIELD", "`content.content`"],
        [{"performative": "inform", "receiver": "a", "content": [1]}, "INVALID_TYPE", "`content.content`"],
        [{"performative": "inform", "receiver": 7, "content": "x"}, "INVALID_TYPE", "`receiver`"],
        [{"performative": "inform", "sender": ["a", "b"], "receiver": "c", "content": "x"}, "INVALID_TYPE", "`sender`"],
        [{"performative": "propose", "content": {"plan": "x"}}, "MISSING_FIELD", "`content.proposal`"],
        [{"performative": "request", "content": "x"}, "MISSING_FIELD", "`content.service`"],
        [{"performative": "agree", "conversation-id": "p", "content": {"vote": "reject"}}, "INVALID_CONTENT", "`content.vote`"],
        [{"performative": "accept-proposal", "conversation-id": "p", "content": {"result": "rejected"}},
            "INVALID_CONTENT", "`content.result`"],
    ]);
    for row in table.as_array().unwrap() {
        let (code, message) = translation_error(row[0].clone());
        assert_eq!(code.name(), row[1], "{row}");
        assert!(message.contains(row[2].as_str().unwrap()), "{message}");
    }
}

#[test]
fn credential_is_not_translated() {
    let auth = json!({"type": "auth", "content": {"token": "s3cret"}});
    let refused = to_fipa(&envelope(auth)).unwrap_err();
    assert!(!refused.message.contains("s3cret"));
    let extension = json!({"performative": "inform", "content": {"token": "s3cret"}, "X-heretek": {"type": "auth"}});
    assert_eq!(translation_error(extension).0, ErrorCode::InvalidContent);
}

#[test]
fn embedded_envelope_does_not_override_performative() {
    let acl = json!({"performative": "refuse", "conversation-id": "p", "content": {"reasoning": "no"},
        "X-heretek": {"type": "vote", "timestamp": 1}});
    assert_eq!(one(acl)["content"]["vote"], "reject");
    let acl = json!({"performative": "reject-proposal", "content": {"proposalId": "p"}, "X-heretek": {"type": "message"}});
    assert_eq!(one(acl)["type"], "decision");
}

fn any_performative() -> impl Strategy<Value = &'static str> {
    let known = "inform Inform request agree refuse propose accept-proposal reject-proposal failure not-understood \
        cfp query-if x-own";
    proptest::sample::select(known.split(' ').collect::<Vec<_>>())
}

proptest! {
    #[test]
    fn envelope_round_trips(frame in any_envelope()) {
        let acl = to_fipa(&envelope(frame.clone())).unwrap();
        prop_assert_eq!(read(acl), vec![frame]);
    }

    #[test]
    fn foreign_message_is_returned_unchanged(
        performative in any_performative(),
        text in "[a-z( )]{1,12}",
        object in any::<bool>(),
        sl in any::<bool>(),
        conversation in proptest::option::of("[a-z]{1,5}"),
    ) {
        let content = if object { json!({"reasoning": text, "proposal": text}) } else { json!(text) };
        let language = if sl { "fipa-sl" } else { "json" };
        let mut acl = json!({"performative": performative, "sender": "a", "receiver": "b", "content": content, "language": language,
            "ontology": "heretek-v1", "protocol": "own"});
        if let Some(conversation) = conversation {
            acl["conversation-id"] = json!(conversation);
        }
        let frame = one(acl.clone());
        let mut back = to_fipa(&envelope(frame.clone())).unwrap();
        // With the embedded envelope, the result is the same envelope; without it, the same foreign message.
        prop_assert_eq!(one(back.clone()), frame);
        back.as_object_mut().unwrap().remove(EXTENSION_FIELD);
        prop_assert_eq!(back, acl);
    }
}
