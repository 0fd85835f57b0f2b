//! Outcomes of runs, including runs of other clients.

use super::*;

/// Responds to two requests that wait for a cancelled run.
async fn send_end_twice(gateway: &mut Gateway) {
    for _ in 0..2 {
        gateway
            .respond(
                "agent.wait",
                json!({"status": "error", "endedAt": 7, "stopReason": "rpc"}),
            )
            .await;
    }
}

#[tokio::test]
async fn ended_run_is_reported_without_wait() {
    let (link, mut gateway) = connected().await;
    let call = call_context();
    let answers = async {
        let params = gateway
            .respond(
                "agent.wait",
                json!({"status": "ok", "endedAt": 7, "terminalReply": {"text": "hi"}}),
            )
            .await;
        assert_eq!(params, json!({"runId": "run-9", "timeoutMs": 0}));
    };
    let (task, ()) = tokio::join!(link.get_task(&call, "run-9"), answers);
    let task = task.unwrap();
    assert_eq!(
        (
            task.state(),
            task.json()["artifacts"][0]["parts"][0]["text"].as_str()
        ),
        (TaskState::Completed, Some("hi"))
    );
}

#[tokio::test]
async fn answer_that_the_wait_does_not_repeat_comes_from_the_history() {
    let whole = json!({"messages": [{"role": "assistant", "content": "hello", "__openclaw": {"runId": "run-9"}}]});
    for (context, session, history, text) in [
        (
            Some("ctx"),
            "agent:alpha:a2a-ctx",
            whole.clone(),
            Some("hello"),
        ),
        (None, "agent:alpha:main", whole, Some("hello")),
        (
            Some("ctx"),
            "agent:alpha:a2a-ctx",
            json!({"messages": []}),
            None,
        ),
    ] {
        let (link, mut gateway) = connected().await;
        let call = CallContext {
            context_id: context.map(str::to_owned),
            ..call_context()
        };
        let answers = async {
            gateway
                .respond("agent.wait", json!({"status": "ok", "endedAt": 5}))
                .await;
            let entry =
                json!({"id": "t", "runId": "run-9", "status": "completed", "sessionKey": session});
            if context.is_none() {
                gateway
                    .respond("tasks.list", json!({"tasks": [entry]}))
                    .await;
            }
            let params = gateway.respond("chat.history", history).await;
            assert_eq!(params["sessionKey"], session);
            if context.is_none() {
                gateway
                    .respond("tasks.list", json!({"tasks": [entry]}))
                    .await;
            }
        };
        let (task, ()) = tokio::join!(link.get_task(&call, "run-9"), answers);
        let task = task.unwrap();
        assert_eq!(task.state(), TaskState::Completed);
        let answer = &task.json()["artifacts"][0]["parts"][0]["text"];
        assert_eq!(answer.as_str(), text, "{context:?}");
    }
}

#[tokio::test]
async fn next_connection_knows_the_session_of_a_run() {
    let runs = Arc::default();
    let (link, mut gateway) = reconnected(Arc::clone(&runs)).await;
    let call = CallContext {
        context_id: None,
        ..call_context()
    };
    let outgoing = SendRequest {
        blocking: false,
        ..text_message("hello")
    };
    let (reply, (_, params)) = tokio::join!(link.send(&call, &outgoing), gateway.accept());
    let started = task(reply);
    drop((link, gateway));
    let (link, mut gateway) = reconnected(runs).await;
    let answers = async {
        gateway
            .respond("agent.wait", json!({"status": "ok", "endedAt": 5}))
            .await;
        let history = json!({"messages": [{"role": "assistant", "content": "hello", "__openclaw": {"runId": "run-1"}}]});
        let asked = gateway.respond("chat.history", history).await;
        assert_eq!(asked["sessionKey"], params["sessionKey"]);
    };
    let (task, ()) = tokio::join!(link.get_task(&call, "run-1"), answers);
    let task = task.unwrap();
    assert_eq!(task.context_id(), started.context_id());
    assert_eq!(task.json()["artifacts"][0]["parts"][0]["text"], "hello");
}

#[tokio::test]
async fn watcher_gets_the_answer_that_the_wait_does_not_repeat() {
    let (link, mut gateway) = connected().await;
    let call = call_context();
    let (stream, ()) = tokio::join!(
        link.resubscribe(&call, "run-9"),
        answer_running_run(&mut gateway)
    );
    let mut stream = stream.unwrap();
    let ends = async {
        gateway
            .respond("agent.wait", json!({"status": "ok", "endedAt": 7}))
            .await;
        gateway.respond("chat.history", json!({"messages": [{"role": "assistant", "content": "hello", "__openclaw": {"runId": "run-9"}}]})).await;
    };
    let ((reported, end), ()) = tokio::join!(collect_events(&mut *stream), ends);
    assert!(end.is_ok());
    let texts: Vec<_> = reported
        .iter()
        .filter_map(|event| event.pointer("/artifact/parts/0/text"))
        .collect();
    assert_eq!(texts, ["hello"]);
}

#[tokio::test]
async fn run_is_found_in_ledger_after_gateway_restart() {
    let (link, mut gateway) = connected().await;
    let call = CallContext {
        agent: "alpha".into(),
        ..CallContext::default()
    };
    let answers = async {
        gateway
            .respond("agent.wait", json!({"runId": "run-9", "status": "timeout"}))
            .await;
        let params = gateway.respond("tasks.list", json!({"tasks": [{"id": "t", "runId": "run-9", "status": "completed", "sessionKey": "agent:alpha:a2a-ctx"}]})).await;
        assert_eq!(params["agentId"], "alpha");
        let params = gateway.respond("chat.history", json!({"messages": [{"role": "assistant", "content": "hi", "__openclaw": {"runId": "run-9"}}]})).await;
        assert_eq!(params["sessionKey"], "agent:alpha:a2a-ctx");
    };
    let (task, ()) = tokio::join!(link.get_task(&call, "run-9"), answers);
    let task = task.unwrap();
    assert_eq!(
        (task.state(), task.context_id()),
        (TaskState::Completed, Some("ctx"))
    );
    assert_eq!(task.json()["artifacts"][0]["parts"][0]["text"], "hi");
}

/// Answers the queries about `run-9`, which runs.
async fn answer_running_run(gateway: &mut Gateway) {
    gateway
        .respond("agent.wait", json!({"status": "timeout"}))
        .await;
    gateway
        .respond(
            "tasks.list",
            json!({"tasks": [{"id": "t", "runId": "run-9", "status": "running"}]}),
        )
        .await;
}

/// Responds to every query about a run that the gateway does not know it, with this list of tasks.
async fn answer_unknown_run(gateway: &mut Gateway, listed: Value) {
    gateway
        .respond("agent.wait", json!({"status": "timeout"}))
        .await;
    for _ in 0..2 {
        gateway.respond("tasks.list", listed.clone()).await;
    }
}

#[tokio::test]
async fn unknown_run_is_forgotten() {
    let (link, mut gateway) = connected().await;
    let call = call_context();
    for listed in [json!({"tasks": []}), json!([]), json!("tasks")] {
        let (task, ()) = tokio::join!(
            link.get_task(&call, "run-9"),
            answer_unknown_run(&mut gateway, listed)
        );
        assert_eq!(task.unwrap_err().kind, PeerErrorKind::TaskForgotten);
    }
    let (stream, ()) = tokio::join!(
        link.resubscribe(&call, "run-9"),
        answer_unknown_run(&mut gateway, json!({"tasks": []}))
    );
    assert!(stream.is_err_and(|error| error.kind == PeerErrorKind::TaskForgotten));
}

#[tokio::test]
async fn watcher_of_foreign_run_gets_its_text_and_end() {
    let (link, mut gateway) = connected().await;
    let call = call_context();
    let (stream, ()) = tokio::join!(
        link.resubscribe(&call, "run-9"),
        answer_running_run(&mut gateway)
    );
    let mut stream = stream.unwrap();
    gateway
        .agent(
            "run-9",
            "assistant",
            json!({"text": "one two", "delta": " two", "itemId": "1"}),
        )
        .await;
    let ends = async {
        gateway
            .respond(
                "agent.wait",
                json!({"status": "ok", "endedAt": 7, "terminalReply": {"text": "one two"}}),
            )
            .await;
    };
    let ((reported, end), ()) = tokio::join!(collect_events(&mut *stream), ends);
    assert!(end.is_ok());
    let texts: Vec<_> = reported
        .iter()
        .filter_map(|event| event.pointer("/artifact/parts/0/text"))
        .collect();
    assert_eq!(texts, ["one two"]);
    assert_eq!(reported.last().unwrap()["status"]["state"], "completed");
}

#[tokio::test]
async fn run_is_aborted_in_its_session() {
    let (link, mut gateway) = connected().await;
    let call = call_context();
    let aborts = async {
        let params = gateway
            .respond(
                "chat.abort",
                json!({"ok": true, "aborted": true, "runIds": ["run-9"]}),
            )
            .await;
        assert_eq!(
            params,
            json!({"sessionKey": "agent:alpha:a2a-ctx", "runId": "run-9"})
        );
        send_end_twice(&mut gateway).await;
    };
    let (task, ()) = tokio::join!(link.cancel(&call, "run-9"), aborts);
    assert_eq!(task.unwrap().state(), TaskState::Canceled);
}

#[tokio::test]
async fn run_of_other_connection_is_canceled_in_ledger() {
    let (link, mut gateway) = connected().await;
    let call = call_context();
    let aborts = async {
        let (id, _) = gateway.next_request("chat.abort").await;
        gateway.refuse(&id, "INVALID_REQUEST", "unauthorized").await;
        gateway
            .respond(
                "tasks.list",
                json!({"tasks": [{"id": "task-7", "runId": "run-9", "status": "running"}]}),
            )
            .await;
        let params = gateway
            .respond("tasks.cancel", json!({"found": true, "cancelled": true}))
            .await;
        assert_eq!(params["taskId"], "task-7");
        send_end_twice(&mut gateway).await;
    };
    let (task, ()) = tokio::join!(link.cancel(&call, "run-9"), aborts);
    assert_eq!(task.unwrap().state(), TaskState::Canceled);
}
