//! Tasks that live on after the call that made them.

use serde_json::{Value, json};

use super::calls::kinds;
use super::driver::Reply;
use super::{Binding, Peer, Sdk, continuation, refusal, request, task};

/// The server returns at once, the task runs on.
fn in_background() -> Value {
    json!({"blocking": false})
}

pub(super) fn a_question_is_answered_after_a_restart(peer: Peer) {
    ask_and_answer(peer, &json!({}));
}

pub(super) fn a_question_is_answered_by_stream_after_a_restart(peer: Peer) {
    // Both servers end the stream at the question. The stream of the answer has no `task` event, only the artifact and
    // the end.
    ask_and_answer(peer, &json!({"follow_updates": true}));
}

fn ask_and_answer(mut peer: Peer, how: &Value) {
    let (question, _) = peer.send("ask: which one?", how.clone());
    let asked = task(&question);
    assert_eq!(asked["status"], "input-required", "{question:#}");
    assert_eq!(asked["can_resume_send"], true, "{question:#}");
    assert_eq!(
        question["summary"]["status_message"], "which one?",
        "{question:#}"
    );

    peer.plugin.init(&peer.config());
    let blue = json!({"parts": [{"kind": "text", "text": "blue"}]});
    let (answer, _) = peer.plugin.call(&request(
        "send",
        &[continuation(&question), blue, how.clone()],
    ));

    assert_eq!(task(&answer)["task_id"], asked["task_id"], "{answer:#}");
    assert_eq!(task(&answer)["status"], "completed", "{answer:#}");
    assert_eq!(
        answer["summary"]["message_text"], "you said blue",
        "{answer:#}"
    );
}

pub(super) fn a_running_task_is_cancelled(mut peer: Peer) {
    let (sent, _) = peer.send("slow", in_background());
    assert_eq!(task(&sent)["status"], "working", "{sent:#}");

    let (cancelled, _) = peer.follow_up("cancel", &sent);

    // `canceled` over JSON-RPC, `TASK_STATE_CANCELLED` over HTTP+JSON; js03 answers 202 there.
    assert_eq!(task(&cancelled)["status"], "canceled", "{cancelled:#}");
    assert_eq!(
        cancelled["raw"]["status"]["state"], "canceled",
        "{cancelled:#}"
    );
    let (later, _) = peer.follow_up("status", &sent);
    assert_eq!(task(&later)["status"], "canceled", "{later:#}");
}

pub(super) fn a_finished_task_is_not_cancelled(mut peer: Peer) {
    let (sent, _) = peer.send("task: gamma", json!({}));

    let (answer, _) = peer.follow_up("cancel", &sent);

    // -32002 over JSON-RPC, HTTP 409 over HTTP+JSON.
    let error = refusal(&answer);
    let said = match peer.sdk {
        Sdk::Py03 => "Task cannot be canceled",
        Sdk::Js03 => "Task not cancelable",
    };
    assert!(error.to_string().contains(said), "{answer:#}");
    if peer.binding == Binding::JsonRpc {
        assert_eq!(error["details"]["rpcCode"], -32002, "{answer:#}");
    }
}

pub(super) fn a_status_is_asked_by_handle(mut peer: Peer) {
    let (sent, _) = peer.send("task: gamma", json!({}));
    let handle = &task(&sent)["task_handle"];

    let (answer, _) = peer
        .plugin
        .call(&json!({"action": "status", "task_handle": handle}));

    assert_is_the_finished_task(&answer, &sent);
    assert_eq!(&task(&answer)["task_handle"], handle, "{answer:#}");
}

pub(super) fn a_status_is_asked_by_task_id(mut peer: Peer) {
    let (sent, _) = peer.send("task: gamma", json!({}));
    let id = &task(&sent)["task_id"];

    peer.plugin.init(&peer.config());
    let by_id = json!({"action": "status", "target_alias": "peer", "task_id": id});
    let (answer, _) = peer.plugin.call(&by_id);

    assert_is_the_finished_task(&answer, &sent);
}

fn assert_is_the_finished_task(answer: &Value, sent: &Value) {
    assert_eq!(task(answer)["task_id"], task(sent)["task_id"], "{answer:#}");
    assert_eq!(task(answer)["status"], "completed", "{answer:#}");
    assert_eq!(
        answer["raw"]["artifacts"], sent["raw"]["artifacts"],
        "{answer:#}"
    );
    assert_eq!(
        answer["summary"]["message_text"], "alpha beta gamma",
        "{answer:#}"
    );
}

pub(super) fn an_unknown_task_is_refused(mut peer: Peer) {
    let unknown = json!({"action": "status", "target_alias": "peer", "task_id": "no-such-task"});
    let (answer, _) = peer.plugin.call(&unknown);

    // -32001 over JSON-RPC. HTTP 404 over HTTP+JSON: py03 `{"message":…}`, js03 `{"code":-32001,"message":…}`.
    let error = refusal(&answer);
    assert!(error.to_string().contains("Task not found"), "{answer:#}");
    if peer.binding == Binding::JsonRpc {
        assert_eq!(error["details"]["rpcCode"], -32001, "{answer:#}");
    }
}

pub(super) fn a_second_instance_watches(mut peer: Peer) {
    // The agent waits for a subscriber before it says anything: only a real subscription ends this.
    let (sent, _) = peer.send("watched: gamma", json!({"task_requirement": "required"}));
    assert_eq!(task(&sent)["status"], "working", "{sent:#}");

    let mut second = peer.second_plugin();
    let (answer, updates) = second.call(&request("watch", &[continuation(&sent)]));

    // py03 subscribes by GET only over HTTP+JSON (POST is 405) and begins with the next event; js03 begins with the
    // task. While a second client is subscribed, py03 stores each later chunk twice: its `tasks/get` would answer
    // `alpha beta beta gamma gamma`, so the text must come from the stream.
    assert_eq!(task(&answer)["status"], "completed", "{answer:#}");
    assert_eq!(
        answer["summary"]["message_text"], "alpha beta gamma",
        "{answer:#}"
    );
    let mut events = vec![
        "artifact-update",
        "artifact-update",
        "artifact-update",
        "status-update",
    ];
    if peer.sdk == Sdk::Js03 {
        events.insert(0, "task");
    }
    assert_eq!(kinds(&answer["raw"]["events"]), events, "{answer:#}");
    assert_eq!(updates.len(), events.len(), "{updates:#?}");
}

pub(super) fn a_watcher_keeps_what_it_heard_before_a_cancel(mut peer: Peer) {
    let (sent, _) = peer.send("held: begun", in_background());
    let mut second = peer.second_plugin();
    let patient = json!({"timeout_ms": 60_000});
    let watch = second.begin(&request("watch", &[continuation(&sent), patient]));
    // The agent says this once the subscription stands.
    loop {
        match second.next(watch) {
            Reply::Update(update) if update["raw"]["kind"] == "artifact-update" => break,
            Reply::Update(_) => {}
            Reply::Result(answer) => panic!("the watch ended before the cancel: {answer:#}"),
        }
    }

    let (cancelled, _) = peer.follow_up("cancel", &sent);
    assert_eq!(task(&cancelled)["status"], "canceled", "{cancelled:#}");

    // js03 tells every subscriber. py03 tells only the one who cancelled: the watcher's stream stays open and says
    // nothing but `: ping` for ever, until the watcher asks.
    let answer = loop {
        if let Reply::Result(answer) = second.next(watch) {
            break answer;
        }
    };
    assert_eq!(task(&answer)["status"], "canceled", "{answer:#}");
    assert_eq!(answer["summary"]["message_text"], "begun", "{answer:#}");
}

pub(super) fn a_finished_task_can_be_watched(mut peer: Peer) {
    let (sent, _) = peer.send("task: gamma", json!({}));

    let (answer, _) = peer.follow_up("watch", &sent);

    // js03 streams the finished task once and ends. py03 refuses, with -32602 in the stream over JSON-RPC and a connection
    // cut before any event over HTTP+JSON, and tells how the task stands when asked.
    assert_eq!(task(&answer)["status"], "completed", "{answer:#}");
    assert_eq!(
        answer["summary"]["message_text"], "alpha beta gamma",
        "{answer:#}"
    );
}
