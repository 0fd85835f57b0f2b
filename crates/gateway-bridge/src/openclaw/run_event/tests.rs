#![allow(clippy::unwrap_used)]
use serde_json::{json, value::to_raw_value};

use super::*;

fn decode(decoder: &mut RunEventDecoder, stream: &str, data: Value) -> Option<RunEvent> {
    let payload =
        json!({"runId": "r", "stream": stream, "data": data, "sessionKey": "agent:alpha:a2a-x"});
    decoder.decode(&to_raw_value(&payload).unwrap())
}

fn assistant(decoder: &mut RunEventDecoder, data: Value) -> Option<RunEvent> {
    decode(decoder, "assistant", data)
}

fn said(text: &str, delta: &str, item: &str) -> Value {
    json!({"text": text, "delta": delta, "itemId": item})
}

fn text(whole: bool, text: &str) -> Option<RunEvent> {
    Some(RunEvent::Text {
        whole,
        text: text.into(),
    })
}

#[test]
fn text_chunks_are_appended() {
    let mut decoder = RunEventDecoder::default();
    let first = said("word0", "word0", "a:1");
    let second = said("word0 word1", " word1", "a:1");
    assert_eq!(assistant(&mut decoder, first), text(true, "word0"));
    assert_eq!(assistant(&mut decoder, second), text(false, " word1"));
}

#[test]
fn late_stream_gets_the_whole_text_first() {
    let late = said("word0 word1", " word1", "a:1");
    assert_eq!(
        assistant(&mut RunEventDecoder::default(), late),
        text(true, "word0 word1")
    );
}

#[test]
fn missed_chunk_sends_the_whole_text() {
    let mut decoder = RunEventDecoder::default();
    assistant(&mut decoder, said("a", "a", "1"));
    let later = said("a b c", " c", "1");
    assert_eq!(assistant(&mut decoder, later), text(true, "a b c"));
}

#[test]
fn text_after_a_tool_is_a_new_text() {
    let mut decoder = RunEventDecoder::default();
    assistant(&mut decoder, said("Let me look.", "Let me look.", "1"));
    let next = said("It", "It", "2");
    assert_eq!(assistant(&mut decoder, next), text(true, "It"));
}

#[test]
fn replaced_text_is_whole() {
    let mut decoder = RunEventDecoder::default();
    assistant(&mut decoder, said("ab", "ab", "1"));
    let other = json!({"text": "xyz", "delta": "z", "itemId": "1", "replace": true});
    assert_eq!(assistant(&mut decoder, other), text(true, "xyz"));
}

#[test]
fn tool_is_reported_at_start_and_end() {
    let mut decoder = RunEventDecoder::default();
    let item = |phase: &str, status: &str, error: Value| json!({"itemId": "tool:c", "toolCallId": "c", "name": "read", "kind": "tool", "phase": phase, "status": status, "error": error});
    let tool = |event| match event {
        Some(RunEvent::Tool(tool)) => Some((tool.phase, tool.status.unwrap(), tool.text)),
        _ => None,
    };
    let started = decode(&mut decoder, "item", item("start", "running", Value::Null));
    assert_eq!(tool(started), Some(("start", "running".into(), None)));
    let failed = item("end", "failed", json!("no such file"));
    let failed = tool(decode(&mut decoder, "item", failed));
    let reason = Some("no such file".into());
    assert_eq!(failed, Some(("end", "failed".into(), reason)));
    let progress = item("update", "running", Value::Null);
    assert_eq!(decode(&mut decoder, "item", progress), None);
}

#[test]
fn tool_progress_is_cut_to_a_few_lines() {
    let long = "é".repeat(MAX_TOOL_TEXT_BYTES);
    let update = json!({"phase": "update", "name": "exec", "toolCallId": "c", "partialResult": {"content": [{"type": "text", "text": long}]}});
    let Some(RunEvent::Tool(tool)) = decode(&mut RunEventDecoder::default(), "tool", update) else {
        unreachable!("expected an update")
    };
    let text = tool.text.unwrap();
    assert!(
        text.len() <= MAX_TOOL_TEXT_BYTES + '…'.len_utf8() && text.ends_with('…'),
        "{text}"
    );
}

#[test]
fn remark_is_reported_when_complete() {
    let mut decoder = RunEventDecoder::default();
    let remark =
        |phase: &str| json!({"kind": "preamble", "phase": phase, "progressText": "Let me look."});
    assert_eq!(decode(&mut decoder, "item", remark("update")), None);
    assert_eq!(
        decode(&mut decoder, "item", remark("end")),
        Some(RunEvent::Remark("Let me look.".into()))
    );
}

#[test]
fn unexpected_run_sends_no_report() {
    for (stream, data) in [
        ("thinking", json!({"text": "hm"})),
        ("usage", json!({"outputTokens": 5})),
        ("lifecycle", json!({"phase": "model"})),
        ("tool", json!({"phase": "start", "name": "read"})),
        ("assistant", json!({})),
        ("assistant", json!(7)),
    ] {
        assert_eq!(
            decode(&mut RunEventDecoder::default(), stream, data.clone()),
            None,
            "{stream} {data}"
        );
    }
}
