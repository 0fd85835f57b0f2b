#![allow(clippy::unwrap_used)]
use serde_json::{json, value::to_raw_value};

use super::*;

fn decode(decoder: &mut RunEventDecoder, stream: &str, data: Value) -> Option<RunEvent> {
    let payload =
        json!({"runId": "r", "stream": stream, "data": data, "sessionKey": "agent:alpha:a2a-x"});
    decoder.decode(&to_raw_value(&payload).unwrap())
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
    let first = json!({"text": "word0", "delta": "word0", "itemId": "a:1"});
    let second = json!({"text": "word0 word1", "delta": " word1", "itemId": "a:1"});
    assert_eq!(
        decode(&mut decoder, "assistant", first),
        text(true, "word0")
    );
    assert_eq!(
        decode(&mut decoder, "assistant", second),
        text(false, " word1")
    );
}

#[test]
fn late_stream_gets_the_whole_text_first() {
    let late = json!({"text": "word0 word1", "delta": " word1", "itemId": "a:1"});
    assert_eq!(
        decode(&mut RunEventDecoder::default(), "assistant", late),
        text(true, "word0 word1")
    );
}

#[test]
fn missed_chunk_sends_the_whole_text() {
    let mut decoder = RunEventDecoder::default();
    decode(
        &mut decoder,
        "assistant",
        json!({"text": "a", "delta": "a", "itemId": "1"}),
    );
    let later = json!({"text": "a b c", "delta": " c", "itemId": "1"});
    assert_eq!(
        decode(&mut decoder, "assistant", later),
        text(true, "a b c")
    );
}

#[test]
fn text_after_a_tool_is_a_new_text() {
    let mut decoder = RunEventDecoder::default();
    decode(
        &mut decoder,
        "assistant",
        json!({"text": "Let me look.", "delta": "Let me look.", "itemId": "1"}),
    );
    let next = json!({"text": "It", "delta": "It", "itemId": "2"});
    assert_eq!(decode(&mut decoder, "assistant", next), text(true, "It"));
}

#[test]
fn replaced_text_is_whole() {
    let mut decoder = RunEventDecoder::default();
    decode(
        &mut decoder,
        "assistant",
        json!({"text": "ab", "delta": "ab", "itemId": "1"}),
    );
    let other = json!({"text": "xyz", "delta": "z", "itemId": "1", "replace": true});
    assert_eq!(decode(&mut decoder, "assistant", other), text(true, "xyz"));
}

#[test]
fn tool_is_reported_at_start_and_end() {
    let mut decoder = RunEventDecoder::default();
    let item = |phase: &str, status: &str, error: Value| json!({"itemId": "tool:c", "toolCallId": "c", "name": "read", "kind": "tool", "phase": phase, "status": status, "error": error});
    let tool = |event| match event {
        Some(RunEvent::Tool(tool)) => Some((tool.phase, tool.status.unwrap(), tool.text)),
        _ => None,
    };
    assert_eq!(
        tool(decode(
            &mut decoder,
            "item",
            item("start", "running", Value::Null)
        )),
        Some(("start", "running".into(), None))
    );
    assert_eq!(
        tool(decode(
            &mut decoder,
            "item",
            item("end", "failed", json!("no such file"))
        )),
        Some(("end", "failed".into(), Some("no such file".into())))
    );
    assert_eq!(
        decode(&mut decoder, "item", item("update", "running", Value::Null)),
        None
    );
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
