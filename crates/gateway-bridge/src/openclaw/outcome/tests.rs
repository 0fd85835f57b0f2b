#![allow(clippy::unwrap_used)]
use super::*;

#[test]
fn last_response_has_answer_and_usage() {
    let response = json!({"runId": "r", "status": "ok", "summary": "completed", "result": {
        "payloads": [{"text": "Done.", "mediaUrl": null}],
        "meta": {"durationMs": 1293, "agentMeta": {"sessionFile": "/home/user/s.jsonl", "provider": "p", "model": "m", "usage": {"total": 30}}}
    }});
    let task = from_response(&response).task("r", "c").unwrap();
    assert_eq!(task.state().as_str(), "completed");
    assert_eq!(
        task.json()["artifacts"][0]["parts"],
        json!([{"kind": "text", "text": "Done."}])
    );
    assert_eq!(
        task.json()["metadata"],
        json!({"openclaw": {"durationMs": 1293, "provider": "p", "model": "m", "usage": {"total": 30}}})
    );
}

#[test]
fn failed_run_has_its_reason() {
    let response = json!({"status": "error", "summary": "failed", "result": {"payloads": [{"text": "Agent run failed.", "isError": true}]}});
    let outcome = from_response(&response);
    assert_eq!(
        (outcome.state, outcome.text.as_deref(), outcome.parts.len()),
        ("failed", Some("Agent run failed."), 0)
    );
}

#[test]
fn completed_status_does_not_hide_a_failure() {
    let part = json!({"text": "part"});
    for (result, text, parts) in [
        (
            json!({"payloads": [], "meta": {"error": {"kind": "context_overflow", "message": "too long"}}}),
            "too long",
            0,
        ),
        (
            json!({"meta": {"error": {"kind": "retry_limit"}}}),
            FAILED_TEXT,
            0,
        ),
        (
            json!({"payloads": [part], "meta": {"aborted": true}}),
            ABORTED_TEXT,
            1,
        ),
        (
            json!({"payloads": [part], "meta": {"stopReason": "error"}}),
            FAILED_TEXT,
            1,
        ),
        (
            json!({"payloads": [{"text": "boom", "isError": true}]}),
            "boom",
            0,
        ),
        (
            json!({"payloads": [{"text": "hm", "isReasoning": true}, {"text": "boom", "isError": true}]}),
            "boom",
            0,
        ),
    ] {
        let outcome =
            from_response(&json!({"status": "ok", "summary": "completed", "result": result}));
        assert_eq!(
            (outcome.state, outcome.text.as_deref()),
            ("failed", Some(text)),
            "{result}"
        );
        assert_eq!(outcome.parts.len(), parts, "{result}");
    }
}

#[test]
fn reported_problem_and_reasoning_do_not_change_an_answer() {
    let payloads = json!([{"text": "thinking", "isReasoning": true}, {"text": "on it", "isCommentary": true},{"text": "slow", "isError": true}, {"text": "hello"}]);
    let meta = json!({"aborted": false, "error": null, "stopReason": "stop"});
    let outcome =
        from_response(&json!({"status": "ok", "result": {"payloads": payloads, "meta": meta}}));
    let texts: Vec<_> = outcome.parts.iter().map(|part| &part["text"]).collect();
    assert_eq!(
        (outcome.state, texts),
        ("completed", vec![&json!("slow"), &json!("hello")])
    );
}

#[test]
fn aborted_run_is_canceled_and_timed_out_run_failed() {
    let aborted = json!({"status": "timeout", "summary": "aborted", "stopReason": "rpc"});
    let late = json!({"status": "timeout", "summary": "aborted", "timeoutPhase": "provider", "result": {"payloads": [{"text": "Request timed out", "isError": true}]}});
    assert_eq!(from_response(&aborted).state, "canceled");
    assert_eq!(from_response(&late).state, "failed");
}

#[test]
fn wait_distinguishes_end_from_timeout() {
    assert_eq!(from_wait(&json!({"runId": "r", "status": "timeout"})), None);
    let late = json!({"status": "timeout", "endedAt": 7, "timeoutPhase": "provider", "error": "Request timed out"});
    assert_eq!(
        from_wait(&late).unwrap().text.as_deref(),
        Some("Request timed out")
    );
    let aborted = json!({"status": "error", "endedAt": 7, "stopReason": "rpc"});
    assert_eq!(from_wait(&aborted).unwrap().state, "canceled");
    let done = json!({"status": "ok", "endedAt": 7, "terminalReply": {"disposition": "visible", "text": "Done."}});
    assert_eq!(
        from_wait(&done).unwrap().parts,
        [json!({"kind": "text", "text": "Done."})]
    );
    let silent = json!({"status": "ok", "endedAt": 7, "terminalReply": {"disposition": "empty"}});
    assert_eq!(from_wait(&silent).unwrap().parts.len(), 0);
}

#[test]
fn both_responses_read_the_state_by_value() {
    for (status, state) in [
        ("ok", "completed"),
        ("OK", "completed"),
        ("completed", "completed"),
        ("Done", "completed"),
        ("success", "completed"),
        ("failed", "failed"),
        ("ERROR", "failed"),
        ("failure", "failed"),
        ("aborted", "canceled"),
        ("cancelled", "canceled"),
        ("Canceled", "canceled"),
    ] {
        let response = json!({"runId": "r", "status": status, "error": "boom"});
        let last = from_response(&response);
        let waited = from_wait(&response).unwrap();
        assert_eq!((last.state, waited.state), (state, state), "{status}");
        if state == "failed" {
            let boom = Some("boom");
            assert_eq!((last.text.as_deref(), waited.text.as_deref()), (boom, boom));
        }
    }
}

#[test]
fn run_without_a_clear_end_is_not_completed() {
    for (response, text) in [
        (json!({"status": "timeout"}), "the agent's run timed out"),
        (json!({"status": "timed_out"}), "the agent's run timed out"),
        (json!({"status": "paused"}), "the status `paused`"),
        (json!({"status": "running"}), "the status `running`"),
        (json!({"status": true}), "without a status"),
        (
            json!({"status": "paused", "error": {"message": "boom"}}),
            "boom",
        ),
        (json!({"runId": "r"}), "without a status"),
        (json!(null), "without a status"),
    ] {
        let outcome = from_response(&response);
        assert_eq!(outcome.state, "failed", "{response}");
        assert!(outcome.text.unwrap().contains(text), "{response}");
    }
    assert_eq!(from_wait(&json!({"status": "paused"})), None);
    let ended = from_wait(&json!({"status": "paused", "endedAt": 7}));
    assert_eq!(ended.unwrap().state, "failed");
}

#[test]
fn result_without_a_status_is_the_answer() {
    let outcome = from_response(&json!({"result": {"payloads": [{"text": "Done."}]}}));
    assert_eq!((outcome.state, outcome.parts.len()), ("completed", 1));
}

#[test]
fn run_goes_on_after_a_response_that_says_so() {
    for status in ["accepted", "Accepted", "queued", "in_flight", "running"] {
        assert!(goes_on(&json!({"status": status})), "{status}");
    }
    for response in [json!({"status": "ok"}), json!({"status": "odd"}), json!({})] {
        assert!(!goes_on(&response), "{response}");
    }
}

#[test]
fn ledger_distinguishes_abort_from_restart() {
    let state = |entry: Value| from_record(&entry).state;
    assert_eq!(
        state(json!({"status": "cancelled", "error": "Cancelled by operator."})),
        "canceled"
    );
    assert_eq!(
        state(
            json!({"status": "cancelled", "error": "Task execution process exited before restart."})
        ),
        "failed"
    );
    assert_eq!(state(json!({"status": "timed_out"})), "failed");
    assert_eq!(state(json!({"status": "Succeeded"})), "completed");
    assert_eq!(state(json!({"status": "lost"})), "failed");
    assert_eq!(state(json!({"status": "queued"})), "submitted");
    assert_eq!(state(json!({"status": "running"})), "working");
}

#[test]
fn history_has_the_answer_of_each_run() {
    let history = json!({"messages": [
        {"role": "user", "content": "x", "idempotencyKey": "r:user"},
        {"role": "assistant", "content": [{"type": "text", "text": "Let me look."}, {"type": "toolCall"}], "__openclaw": {"runId": "r"}},
        {"role": "assistant", "content": [{"type": "text", "text": "Done."}], "__openclaw": {"runId": "r"}},
        {"role": "assistant", "content": "Another", "__openclaw": {"runId": "s"}}
    ]});
    assert_eq!(find_answer(&history, "r").as_deref(), Some("Done."));
    assert_eq!(find_answer(&history, "s").as_deref(), Some("Another"));
    assert_eq!(find_answer(&history, "t"), None);
}

#[test]
fn media_urls_become_files_with_their_types() {
    let payload = json!({"text": "See.", "mediaUrl": "https://example.com/a/pic.png?size=2", "mediaUrls": null});
    assert_eq!(
        parts_of(&payload),
        [
            json!({"kind": "text", "text": "See."}),
            json!({"kind": "file", "file": {"uri": "https://example.com/a/pic.png?size=2", "name": "pic.png", "mimeType": "image/png"}})
        ]
    );
}

#[test]
fn repeated_media_url_is_one_file() {
    let payload = json!({"mediaUrl": "https://e.com/a.mp3", "mediaUrls": ["https://e.com/a.mp3", "https://e.com/b"]});
    let parts = parts_of(&payload);
    assert_eq!(parts.len(), 2);
    assert_eq!(parts[0]["file"]["mimeType"], "audio/mpeg");
    assert_eq!(parts[1]["file"].get("mimeType"), None);
}

#[test]
fn data_url_stays_bytes() {
    for (url, file) in [
        (
            "data:image/png;base64,iVBORw0=",
            json!({"bytes": "iVBORw0=", "mimeType": "image/png"}),
        ),
        (
            "DATA:a/b;charset=x;base64,aGk=#x",
            json!({"bytes": "aGk=", "mimeType": "a/b;charset=x"}),
        ),
        ("data:;base64,aGk=", json!({"bytes": "aGk="})),
    ] {
        let part = json!({"kind": "file", "file": file});
        assert_eq!(parts_of(&json!({"mediaUrl": url})), [part], "{url}");
    }
    for url in ["data:a/b,hi", "data:a/b;base64", "data:a/b;base64,aGk%3D"] {
        let part = &parts_of(&json!({"mediaUrl": url}))[0];
        assert!(
            part["text"].to_string().contains("unreadable encoding"),
            "{part}"
        );
    }
}

#[test]
fn hides_path_of_gateway_machine() {
    for path in [
        "/home/user1/.openclaw/media/x.png",
        "file:///home/user1/x.png",
        "C:\\Users\\user1\\x.png",
        "./media/x.png",
    ] {
        let part = parts_of(&json!({"mediaUrl": path}))[0].to_string();
        assert!(
            part.contains("x.png") && !part.contains("user1") && !part.contains("media/"),
            "{part}"
        );
    }
}
