//! Credentials that a peer repeats in pieces or in another form.

use serde_json::{Value, json};

use crate::credentials::recorded_tool::RecordedTool;
use crate::credentials::tool_fixture::{
    card, message, result, send_request, status, stream_request,
};

const TOKEN: &str = "sesame-7f3a-opens";

fn artifact_chunk(text: &str, append: bool) -> Value {
    result(
        json!({"kind": "artifact-update", "taskId": "t-1", "contextId": "c-1", "append": append,
        "artifact": {"artifactId": "a", "parts": [{"kind": "text", "text": text}]}}),
    )
}

fn working(text: &str) -> Value {
    let mut event = status("working", false);
    event["status"]["message"] = message(text);
    result(event)
}

fn completed() -> Value {
    result(status("completed", true))
}

/// Returns the log and the envelope of a call to a peer with this token that streams these events.
async fn streamed(token: &str, events: Vec<Value>) -> (RecordedTool, Value) {
    let script = json!({"main": {"card": card(), "rpc": {"message/stream": {"sse": events}}}});
    call_tool(token, script, &stream_request()).await
}

async fn call_tool(token: &str, script: Value, request: &Value) -> (RecordedTool, Value) {
    let peers = crate::credentials::tool_fixture::peers(script).await;
    let auth = json!({"type": "bearer", "token": token});
    let target = json!({"baseUrl": peers.origin("main"), "auth": auth});
    let mut recorded = RecordedTool::with_target(&target);
    let envelope = recorded.call(request).await;
    (recorded, envelope)
}

/// Returns the log of a call to a peer that answers with this message.
async fn answer_with_message(token: &str, message: Value) -> (RecordedTool, Value) {
    let script = json!({"main": {"card": card(), "rpc": {"message/send": result(message)}}});
    call_tool(token, script, &send_request()).await
}

/// Returns the texts of all artifact pieces, one after another.
fn joined_text<'a>(events: impl Iterator<Item = &'a Value>) -> String {
    let parts = events.filter_map(|event| event["artifact"]["parts"].as_array());
    let texts = parts.flatten().filter_map(|part| part["text"].as_str());
    texts.collect()
}

#[tokio::test]
async fn hides_token_cut_in_two_pieces() {
    let events = vec![
        artifact_chunk("It is sesame-", false),
        result(status("working", false)),
        artifact_chunk("7f3a-opens, truly", true),
        completed(),
    ];
    let (recorded, envelope) = streamed(TOKEN, events).await;
    recorded.assert_omits(&["sesame-", "7f3a-opens"]);
    let clean = "It is [redacted], truly";
    assert_eq!(envelope["summary"]["message_text"], clean, "{envelope}");
    let raw = envelope["raw"]["events"].as_array().unwrap();
    assert_eq!(joined_text(raw.iter()), clean);
    assert_eq!(joined_text(recorded.updates()), clean);
    let reading = recorded.render(&envelope);
    assert!(reading.contains(clean), "{reading}");
}

#[tokio::test]
async fn hides_token_that_arrives_by_characters() {
    let text = format!("{TOKEN} and {TOKEN}s");
    let mut events: Vec<_> = text
        .char_indices()
        .map(|(at, _)| artifact_chunk(&text[at..=at], at > 0))
        .collect();
    events.push(completed());
    let (recorded, envelope) = streamed(TOKEN, events).await;
    let clean = "[redacted] and [redacted]s";
    assert_eq!(envelope["summary"]["message_text"], clean, "{envelope}");
    let raw = envelope["raw"]["events"].as_array().unwrap();
    assert_eq!(joined_text(raw.iter()), clean);
    assert_eq!(joined_text(recorded.updates()), clean);
}

#[tokio::test]
async fn hides_token_cut_by_a_lost_connection() {
    let cut = json!({"sse": [artifact_chunk("sesame-7f", false)], "end": "destroy"});
    let rest = json!({"sse": [artifact_chunk("3a-opens!", true), completed()]});
    let whole = json!({"kind": "task", "id": "t-1", "contextId": "c-1", "status": {"state": "completed"},
        "artifacts": [{"artifactId": "a", "parts": [{"kind": "text", "text": "sesame-7f"}, {"kind": "text", "text": "3a-opens!"}]}]});
    let script = json!({"main": {"card": card(), "rpc": {
        "message/stream": cut, "tasks/resubscribe": rest, "tasks/get": result(whole)}}});
    let (recorded, envelope) = call_tool(TOKEN, script, &stream_request()).await;
    recorded.assert_omits(&["sesame-7f", "3a-opens"]);
    assert_eq!(
        envelope["summary"]["message_text"], "[redacted]!",
        "{envelope}"
    );
}

#[tokio::test]
async fn hides_token_cut_by_the_parts_of_a_message() {
    let mut message = message("the key: sesame-");
    let parts = message["parts"].as_array_mut().unwrap();
    parts.push(json!({"kind": "data", "data": {"n": 1}}));
    parts.push(json!({"kind": "text", "text": "7f3a-opens"}));
    let (recorded, envelope) = answer_with_message(TOKEN, message).await;
    recorded.assert_omits(&["sesame-", "7f3a-opens"]);
    let clean = "the key: [redacted]\n\n";
    assert_eq!(envelope["summary"]["message_text"], clean, "{envelope}");
}

#[tokio::test]
async fn hides_token_cut_by_status_messages() {
    let events = vec![
        working("the key: sesame-"),
        working("7f3a-"),
        working("opens it"),
        completed(),
    ];
    let (recorded, _) = streamed(TOKEN, events).await;
    recorded.assert_omits(&["sesame-", "7f3a-", "opens"]);
}

#[tokio::test]
async fn hides_token_in_the_messages_of_a_history() {
    let history = json!([message("sesame-"), message("7f3a-opens")]);
    let task = json!({"kind": "task", "id": "t-1", "contextId": "c-1", "status": {"state": "completed"}, "history": history});
    let (recorded, _) = answer_with_message(TOKEN, task).await;
    recorded.assert_omits(&["sesame-", "7f3a-opens"]);
}

#[tokio::test]
async fn hides_token_that_is_a_number() {
    let mut message = message("see the data");
    let data = json!({"n": 1_234_567_890_123_u64, "f": 1.234_567_890_123e12, "kept": 1234});
    message["parts"][0] = json!({"kind": "data", "data": data});
    let (_, envelope) = answer_with_message("1234567890123", message).await;
    let clean = json!({"n": "[redacted]", "f": "[redacted]", "kept": 1234});
    assert_eq!(envelope["raw"]["parts"][0]["data"], clean, "{envelope}");
}

#[tokio::test]
async fn hides_token_in_every_form_a_peer_may_write() {
    const KEY: &str = "open+sesame/7f3a==";
    let reported = [
        "https://a.example/?k=open%2Bsesame%2F7f3a%3D%3D",
        "https://a.example/?k=open%2bsesame%2f7f3a%3d%3d",
        "https://a.example/open%2Bsesame/7f3a%3D%3D",
        "{\"k\": \"open+sesame\\/7f3a==\"}",
        // The Base64 of the key, of `x:` and the key, and of `xy:` and the key, each with further bytes.
        "b3BlbitzZXNhbWUvN2YzYT09",
        "b3BlbitzZXNhbWUvN2YzYT09Cg==",
        "eDpvcGVuK3Nlc2FtZS83ZjNhPT0K",
        "eHk6b3BlbitzZXNhbWUvN2YzYT09Cg==",
    ];
    let mut message = message("see the files");
    for (at, text) in reported.iter().enumerate() {
        let file = json!({"uri": text, "name": format!("{at} {text}.txt"), "bytes": text});
        let part = json!({"kind": "file", "file": file, "metadata": {*text: text}});
        message["parts"].as_array_mut().unwrap().push(part);
    }
    let (recorded, envelope) = answer_with_message(KEY, message).await;
    recorded.assert_omits(&[KEY, "sesame", "7f3a", "NhbWU", "Nlc2Ft", "zZXNhb"]);
    let parts = envelope["raw"]["parts"].as_array().unwrap();
    assert_eq!(parts.len(), reported.len() + 1, "{envelope}");
}

#[tokio::test]
async fn hides_token_with_characters_of_no_width_in_it() {
    let (recorded, envelope) =
        answer_with_message(TOKEN, message("ses\u{200b}ame-7f\u{ad}3a-opens")).await;
    assert_eq!(
        envelope["summary"]["message_text"], "[redacted]",
        "{envelope}"
    );
    let reading = recorded.render(&envelope);
    assert!(!reading.contains("7f3a"), "{reading}");
}

#[tokio::test]
async fn keeps_text_that_only_begins_like_the_token() {
    let events = vec![
        artifact_chunk("a s", false),
        artifact_chunk("es", true),
        artifact_chunk("ame-7f3b", true),
        working("sees"),
        working("all"),
        artifact_chunk(" sesame-7f", true),
        completed(),
    ];
    let (recorded, envelope) = streamed(TOKEN, events).await;
    let text = "a sesame-7f3b sesame-7f";
    assert_eq!(envelope["summary"]["message_text"], text, "{envelope}");
    assert_eq!(
        joined_text(envelope["raw"]["events"].as_array().unwrap().iter()),
        text
    );
    assert_eq!(joined_text(recorded.updates()), text);
    let statuses = recorded.statuses();
    assert_eq!(statuses, ["sees", "all"]);
}
