//! Peers that omit redundant fields.

use serde_json::{Value, json};
use testkit::conformance::peers::Recorded;

use crate::faults::dialect::{dialects, json_response};
use crate::faults::tool_fixture::{
    ToolFixture, message, peers, reason, result, send_request, status, stream_request, task,
};

/// The updates of the stream lack `taskId` and `contextId`; its first event is the task.
#[tokio::test]
async fn updates_without_ids_belong_to_task_of_stream() {
    for dialect in dialects() {
        let stream = dialect.stream_of_completed_task(dialect.working);
        let peers = dialect.peer(vec![(dialect.operations[1], stream)]).await;
        let envelope = ToolFixture::with_peers(&peers)
            .call(&stream_request())
            .await;
        assert_eq!(envelope["ok"], true, "{}: {envelope}", dialect.name);
        let summary = &envelope["summary"];
        assert_eq!(summary["message_text"], "the result", "{}", dialect.name);
        let task = &summary["continuation"]["task"];
        assert_eq!(task["task_id"], "t-1", "{}", dialect.name);
        assert_eq!(task["status"], "completed", "{}", dialect.name);
        let conversation = &summary["continuation"]["conversation"];
        assert_eq!(conversation["context_id"], "c-1", "{}", dialect.name);
        assert_eq!(envelope["raw"]["events"].as_array().unwrap().len(), 4);
    }
}

/// No event of the subscription has a task id.
#[tokio::test]
async fn watch_without_ids_belongs_to_the_task_it_watches() {
    for dialect in dialects() {
        let events = dialect.updates_of_completed_task();
        let final_task = dialect.task_in_state(dialect.completed);
        let peers = dialect
            .peer(vec![
                (dialect.operations[2], json!({"sse": events})),
                (dialect.operations[3], (dialect.answer)(final_task)),
            ])
            .await;
        let request = json!({"action": "watch", "task_id": "t-1"});
        let envelope = ToolFixture::with_peers(&peers).call(&request).await;
        assert_eq!(envelope["ok"], true, "{}: {envelope}", dialect.name);
        let summary = &envelope["summary"];
        assert_eq!(summary["message_text"], "the result", "{}", dialect.name);
        let task = &summary["continuation"]["task"];
        assert_eq!(task["task_id"], "t-1", "{}", dialect.name);
        assert_eq!(task["status"], "completed", "{}", dialect.name);
    }
}

/// The task has no id: it has a result, but no continuation.
#[tokio::test]
async fn stream_without_task_id_has_a_result() {
    for dialect in dialects() {
        let events = dialect.updates_of_completed_task();
        let peers = dialect
            .peer(vec![(dialect.operations[1], json!({"sse": events}))])
            .await;
        let envelope = ToolFixture::with_peers(&peers)
            .call(&stream_request())
            .await;
        assert_eq!(envelope["ok"], true, "{}: {envelope}", dialect.name);
        let summary = &envelope["summary"];
        assert_eq!(summary["message_text"], "the result", "{}", dialect.name);
        assert_eq!(summary["response_kind"], "task", "{}", dialect.name);
        assert!(summary["continuation"].is_null(), "{}", dialect.name);
    }
}

/// The message continues a task, and the stream breaks off without a task id: the call follows the task.
#[tokio::test]
async fn cut_stream_without_ids_resumes_its_task() {
    for dialect in dialects() {
        let cut = json!({"sse": [dialect.status(dialect.working)], "end": "destroy"});
        let resumed =
            json!({"sse": [dialect.artifact("the result"), dialect.status(dialect.completed)]});
        let final_task = (dialect.answer)(dialect.task_in_state(dialect.completed));
        let peers = dialect
            .peer(vec![
                (dialect.operations[1], cut),
                (dialect.operations[2], resumed),
                (dialect.operations[3], final_task),
            ])
            .await;
        let mut request = stream_request();
        request["task_id"] = json!("t-1");
        let envelope = ToolFixture::with_peers(&peers).call(&request).await;
        assert_eq!(envelope["ok"], true, "{}: {envelope}", dialect.name);
        let text = &envelope["summary"]["message_text"];
        assert_eq!(text, "the result", "{}", dialect.name);
    }
}

/// The stream breaks off before the task has ended or has an id.
#[tokio::test]
async fn cut_stream_without_task_is_an_error_with_output() {
    let dialect = &dialects()[0];
    let cut = json!({"sse": [dialect.artifact("half")], "end": "destroy"});
    let peers = dialect.peer(vec![(dialect.operations[1], cut)]).await;
    let envelope = ToolFixture::with_peers(&peers)
        .call(&stream_request())
        .await;
    assert_eq!(reason(&envelope), "stream_cut", "{envelope}");
    let summary = &envelope["error"]["details"]["latest_event_summary"];
    assert_eq!(summary["message_text"], "half", "{envelope}");
}

#[tokio::test]
async fn requested_task_needs_no_id() {
    for dialect in dialects() {
        let mut final_task = dialect.task_in_state(dialect.completed);
        final_task.as_object_mut().unwrap().remove("id");
        let answer = (dialect.answer)(final_task);
        let peers = dialect.peer(vec![(dialect.operations[3], answer)]).await;
        let request = json!({"action": "status", "task_id": "t-1"});
        let envelope = ToolFixture::with_peers(&peers).call(&request).await;
        assert_eq!(envelope["ok"], true, "{}: {envelope}", dialect.name);
        let task = &envelope["summary"]["continuation"]["task"];
        assert_eq!(task["task_id"], "t-1", "{}", dialect.name);
        assert_eq!(task["status"], "completed", "{}", dialect.name);
    }
}

/// A finished task without an id has a result. A running one cannot be found again.
#[tokio::test]
async fn new_task_without_id_counts_when_finished() {
    for dialect in dialects() {
        let answer = |state: &str| {
            let task = json!({"status": {"state": state}, "artifacts": [{"artifactId": "a", "parts": [{"text": "the result"}]}]});
            (dialect.answer)((dialect.task)(task))
        };
        let answers = json!([answer(dialect.completed), answer(dialect.working)]);
        let peers = dialect.peer(vec![(dialect.operations[0], answers)]).await;
        let fixture = ToolFixture::with_peers(&peers);
        let finished = fixture.call(&send_request()).await;
        assert_eq!(finished["ok"], true, "{}: {finished}", dialect.name);
        let text = &finished["summary"]["message_text"];
        assert_eq!(text, "the result", "{}", dialect.name);
        let working = fixture.call(&send_request()).await;
        assert_eq!(
            reason(&working),
            "invalid_response",
            "{}: {working}",
            dialect.name
        );
    }
}

/// `task_requirement: "required"` requires a task with an id.
#[tokio::test]
async fn required_task_has_an_id() {
    let answer = json!({"kind": "task", "status": {"state": "completed"}});
    let peers = dialects()[0]
        .peer(vec![("message/send", result(answer))])
        .await;
    let mut request = send_request();
    request["task_requirement"] = json!("required");
    let envelope = ToolFixture::with_peers(&peers).call(&request).await;
    assert_eq!(reason(&envelope), "invalid_response", "{envelope}");
    let message = envelope["error"]["message"].as_str().unwrap();
    assert!(message.contains("/id"), "{message}");
}

/// An answer or event may omit its wrapper or `kind`: its fields show what it is.
#[tokio::test]
async fn answer_kind_follows_from_its_shape() {
    for dialect in dialects() {
        let answers = json!([
            (dialect.answer)(dialect.task_in_state(dialect.completed)),
            (dialect.answer)(json!({"parts": [{"text": "hello"}]})),
        ]);
        let events = json!({"sse": [
            (dialect.event)(dialect.task_in_state(dialect.working)),
            (dialect.event)(json!({"taskId": "t-1", "artifact": {"artifactId": "a", "parts": [{"text": "the result"}]}})),
            (dialect.event)(json!({"status": {"state": dialect.completed}, "final": true})),
        ]});
        let peers = dialect
            .peer(vec![
                (dialect.operations[0], answers),
                (dialect.operations[1], events),
            ])
            .await;
        let fixture = ToolFixture::with_peers(&peers);
        let task = fixture.call(&send_request()).await;
        let status = &task["summary"]["continuation"]["task"]["status"];
        assert_eq!(status, "completed", "{}: {task}", dialect.name);
        let message_answer = fixture.call(&send_request()).await;
        assert_eq!(
            message_answer["summary"]["message_text"], "hello",
            "{}: {message_answer}",
            dialect.name
        );
        let followed = fixture.call(&stream_request()).await;
        let text = &followed["summary"]["message_text"];
        assert_eq!(text, "the result", "{}: {followed}", dialect.name);
        let status = &followed["summary"]["continuation"]["task"]["status"];
        assert_eq!(status, "completed", "{}: {followed}", dialect.name);
    }
}

/// The last event of the stream lacks `final`.
#[tokio::test]
async fn stream_without_a_final_mark_ends_with_its_task() {
    let mut last = status("completed", true);
    last.as_object_mut().unwrap().remove("final");
    let events = json!({"sse": [result(task("working")), result(last)], "end": "hang"});
    let peers = dialects()[0].peer(vec![("message/stream", events)]).await;
    let envelope = ToolFixture::with_peers(&peers)
        .call(&stream_request())
        .await;
    let status = &envelope["summary"]["continuation"]["task"]["status"];
    assert_eq!(status, "completed", "{envelope}");
}

/// Returns a task of two artifacts, neither of which has an id.
fn task_with_unnamed_artifacts() -> Value {
    json!({"id": "t-1", "status": {"state": "completed"}, "artifacts": [
        {"parts": [{"kind": "text", "text": "one"}]}, {"parts": [{"kind": "text", "text": "two"}]},
    ]})
}

#[tokio::test]
async fn artifacts_without_ids_are_numbered() {
    for dialect in dialects() {
        let mut answer = task_with_unnamed_artifacts();
        answer["status"]["state"] = json!(dialect.completed);
        let answer = (dialect.answer)(answer);
        let peers = dialect.peer(vec![(dialect.operations[3], answer)]).await;
        let fixture = ToolFixture::with_peers(&peers);
        let request = json!({"action": "status", "task_id": "t-1"});
        let final_task = fixture.call(&request).await;
        let artifacts = final_task["summary"]["artifacts"].as_array();
        let artifacts = artifacts
            .unwrap_or_else(|| panic!("{}: {final_task}", dialect.name))
            .iter();
        let ids: Vec<_> = artifacts.map(|artifact| &artifact["artifactId"]).collect();
        assert_eq!(ids, ["artifact-1", "artifact-2"], "{}", dialect.name);
        let page = json!({"action": "status", "task_id": "t-1", "artifact_id": "artifact-2"});
        let page = fixture.call(&page).await;
        assert_eq!(page["summary"]["artifact_page"]["text"], "two", "{page}");
    }
}

/// A piece without an artifact id continues the newest artifact, or starts one without `append`.
#[tokio::test]
async fn pieces_without_ids_continue_the_newest_artifact() {
    let artifact_update = |text: &str, append: bool| {
        let artifact = json!({"parts": [{"kind": "text", "text": text}]});
        result(json!({"kind": "artifact-update", "append": append, "artifact": artifact}))
    };
    let end = json!({"kind": "task", "id": "t-1", "status": {"state": "completed"}});
    let events = [
        artifact_update("o", false),
        artifact_update("ne", true),
        artifact_update("tw", false),
        artifact_update("o", true),
        result(end),
    ];
    let peers = dialects()[0]
        .peer(vec![("message/stream", json!({"sse": events}))])
        .await;
    let envelope = ToolFixture::with_peers(&peers)
        .call(&stream_request())
        .await;
    assert_eq!(
        envelope["summary"]["message_text"], "one\n\ntwo",
        "{envelope}"
    );
}

/// A marker such as the last chunk's may have no content.
#[tokio::test]
async fn artifact_without_parts_is_empty() {
    let dialect = &dialects()[0];
    let last_chunk = json!({"kind": "artifact-update", "taskId": "t-1", "append": true, "lastChunk": true, "artifact": {"artifactId": "a"}});
    let events = [
        dialect.artifact("whole"),
        result(last_chunk),
        result(task("completed")),
    ];
    let peers = dialect
        .peer(vec![("message/stream", json!({"sse": events}))])
        .await;
    let envelope = ToolFixture::with_peers(&peers)
        .call(&stream_request())
        .await;
    assert_eq!(envelope["summary"]["message_text"], "whole", "{envelope}");
}

/// Each exchange has its connection, so a missing JSON-RPC id is allowed, but not that of another request.
#[tokio::test]
async fn json_rpc_answer_needs_no_id_and_no_version() {
    let answers = [
        (json!({"result": message("pong")}), true),
        (json!({"id": null, "result": message("pong")}), true),
        (json!({"id": "1", "result": message("pong")}), true),
        (json!({"id": 1.0, "result": message("pong")}), true),
        (json!({"id": 2, "result": message("pong")}), false),
        (json!({"id": "other", "result": message("pong")}), false),
        (json!({"id": [1], "result": message("pong")}), false),
    ];
    for (answer, good) in answers {
        let peers = dialects()[0]
            .peer(vec![("message/send", json_response(answer.clone()))])
            .await;
        let envelope = ToolFixture::with_peers(&peers).call(&send_request()).await;
        assert_eq!(envelope["ok"], good, "{answer}: {envelope}");
        if !good {
            assert_eq!(reason(&envelope), "invalid_response", "{answer}");
        }
    }
}

/// Cards that lack fields with an implied or default value.
#[tokio::test]
async fn card_needs_one_address_only() {
    let url = "{{origin}}/a2a/jsonrpc";
    for (card, place) in [
        (json!({ "url": url }), "message/send"),
        (
            json!({"url": url, "capabilities": null, "skills": null, "name": null}),
            "message/send",
        ),
        (
            json!({"additionalInterfaces": [{"url": url, "transport": "JSONRPC"}]}),
            "message/send",
        ),
        (
            json!({"supportedInterfaces": [{"url": url, "protocolBinding": "JSONRPC"}]}),
            "SendMessage",
        ),
        (
            json!({"supportedInterfaces": [{"url": url, "protocolVersion": "1.0"}]}),
            "SendMessage",
        ),
        (
            json!({"supportedInterfaces": [{ "url": url }]}),
            "SendMessage",
        ),
    ] {
        let answer = result(json!({"parts": [{"text": "pong"}]}));
        let mut rpc = json!({});
        rpc[place] = answer;
        let peers = peers(json!({"main": {"card": card, "rpc": rpc}})).await;
        let envelope = ToolFixture::with_peers(&peers).call(&send_request()).await;
        assert_eq!(envelope["ok"], true, "{card}: {envelope}");
        let log = peers.log("main");
        let methods: Vec<_> = log.iter().filter_map(Recorded::rpc_method).collect();
        assert_eq!(methods, [place], "{card}");
    }
}

/// The tool refuses a field that the transport lacks before it sends anything.
#[tokio::test]
async fn references_over_http_json_0_3_are_refused() {
    let dialect = &dialects()[1];
    let answer =
        (dialect.answer)(json!({"message": {"messageId": "m", "content": [{"text": "pong"}]}}));
    let peers = dialect.peer(vec![(dialect.operations[0], answer)]).await;
    let mut request = send_request();
    request["reference_task_ids"] = json!(["t-0"]);
    let envelope = ToolFixture::with_peers(&peers).call(&request).await;
    assert_eq!(reason(&envelope), "unaddressable", "{envelope}");
    let posts = peers.log("main");
    assert!(posts.iter().all(|request| request.method != "POST"));
}
