//! The tool with agents behind the real gateway.

use serde_json::{Value, json};

use crate::{
    GatewayFixture,
    gateway_fixture::{artifact_text, send_request, task_state, with_field},
};

type Test = (&'static str, fn(&GatewayFixture));

macro_rules! tests {
    ($($name:ident)*) => { &[$((stringify!($name), $name as fn(&GatewayFixture))),*] };
}

/// The tests, in order.
pub const TESTS: &[Test] = tests![
    agents_are_listed_with_role_and_status_and_without_paths
    message_is_answered_as_a_task
    conversation_continues_in_the_same_session
    stream_reports_text_and_tool_calls
    two_agents_answer_concurrently
    second_instance_watches_run_of_first
    second_instance_reads_status_of_first
    running_task_is_canceled_by_any_instance
    image_reaches_the_agent_and_other_files_are_named
    unknown_agent_error_lists_agents
    orphaned_run_is_forgotten
    invalid_token_is_reported
    control_ui_page_is_reported
];

/// The tests that kill the gateway. They run last.
pub const RESTART_TESTS: &[Test] = tests![
    gateway_kill_fails_its_run
    answer_survives_restart
];

fn agents_are_listed_with_role_and_status_and_without_paths(fixture: &GatewayFixture) {
    let listed = fixture.tool.call_ok(json!({"action": "list_targets"}));
    let targets = listed["summary"]["targets"].as_array().unwrap();
    let named = |name: &str| {
        let found = targets
            .iter()
            .find(|target| target["target_alias"] == format!("gateway:{name}"));
        found.unwrap_or_else(|| panic!("no {name} in {listed:#}"))
    };
    for agent in ["main", "alpha", "beta", "charlie", "triad"] {
        named(agent);
    }
    println!(
        "the agent and the gateway in the listing: {:#} {:#}",
        named("alpha"),
        listed["summary"]["gateway"]
    );
    assert!(
        named("alpha").to_string().contains("steward of safety"),
        "{listed:#}"
    );
    assert!(
        !listed
            .to_string()
            .contains(fixture.host.state().parent().unwrap().to_str().unwrap()),
        "{listed:#}"
    );
    assert_eq!(
        listed["summary"]["gateway"]["dialect"], "openclaw/4",
        "{listed:#}"
    );
}

fn message_is_answered_as_a_task(fixture: &GatewayFixture) {
    let envelope = fixture.tool.call_ok(send_request("alpha", "say hello"));
    assert_eq!(task_state(&envelope), "completed");
    assert!(
        artifact_text(&envelope).contains("say hello"),
        "{envelope:#}"
    );
    let usage = &envelope["raw"]["metadata"]["openclaw"]["usage"];
    assert!(
        usage["total"].as_u64().is_some_and(|total| total > 0),
        "{envelope:#}"
    );
}

fn conversation_continues_in_the_same_session(fixture: &GatewayFixture) {
    let first = fixture.tool.call_ok(with_field(
        send_request("alpha", "the word is plum"),
        "context_id",
        json!("talk:1/x"),
    ));
    assert_eq!(first["raw"]["contextId"], "talk:1/x");
    fixture.tool.call_ok(with_field(
        send_request("alpha", "which word was it"),
        "context_id",
        json!("talk:1/x"),
    ));
    let has_both_messages = |body: &Value| {
        let all = body["messages"].to_string();
        all.contains("which word was it")
            && all.contains("the word is plum")
            && all.contains("session=agent:alpha:a2a-talk-1-x")
    };
    fixture
        .model
        .requests
        .wait("a request with both messages", has_both_messages);
}

fn stream_reports_text_and_tool_calls(fixture: &GatewayFixture) {
    let running = fixture.tool.start(with_field(
        send_request("beta", "LIST the folder"),
        "follow_updates",
        json!(true),
    ));
    let updates = running.updates.clone();
    let envelope = running.envelope();
    assert_eq!(task_state(&envelope), "completed", "{envelope:#}");
    assert!(
        artifact_text(&envelope).starts_with("The tool said:"),
        "{envelope:#}"
    );
    let count_updates = |text: &str| {
        updates
            .all(|update| update.to_string().contains(text))
            .len()
    };
    assert!(
        count_updates("Tool ls started.") >= 1 && count_updates("Tool ls completed.") >= 1,
        "{:#?}",
        updates.all(|_| true)
    );
    assert!(count_updates("Let me look.") >= 1);
    assert!(
        !artifact_text(&envelope).contains("Let me look."),
        "{envelope:#}"
    );
}

fn two_agents_answer_concurrently(fixture: &GatewayFixture) {
    let follow = |agent: &str| {
        fixture.tool.start(with_field(
            send_request(agent, "SLOW 15"),
            "follow_updates",
            json!(true),
        ))
    };
    let (alpha, beta) = (follow("alpha"), follow("beta"));
    alpha.wait_for_continuation();
    beta.wait_for_continuation();
    for envelope in [alpha.envelope(), beta.envelope()] {
        assert_eq!(task_state(&envelope), "completed");
        let words: Vec<_> = (0..15).map(|n| format!("word{n}")).collect();
        assert_eq!(
            artifact_text(&envelope)
                .split_whitespace()
                .collect::<Vec<_>>(),
            words
        );
    }
}

/// Starts a run with the shared tool. Returns its continuation and the call.
fn start_run(
    fixture: &GatewayFixture,
    agent: &str,
    words: u32,
) -> (Value, crate::gateway_fixture::RunningCall) {
    let message = with_field(
        send_request(agent, &format!("SLOW {words}")),
        "follow_updates",
        json!(true),
    );
    let running = fixture
        .tool
        .start(with_field(message, "timeout_ms", json!(60_000)));
    (running.wait_for_continuation(), running)
}

/// Returns the call of `action` on the task of `continuation`.
fn task_request(action: &str, continuation: &Value) -> Value {
    json!({"action": action, "continuation": continuation})
}

fn second_instance_watches_run_of_first(fixture: &GatewayFixture) {
    let (continuation, running) = start_run(fixture, "alpha", 25);
    let watched = fixture
        .new_tool(json!({}))
        .call_ok(task_request("watch", &continuation));
    assert_eq!(task_state(&watched), "completed", "{watched:#}");
    assert_eq!(artifact_text(&watched), artifact_text(&running.envelope()));
}

fn second_instance_reads_status_of_first(fixture: &GatewayFixture) {
    let (continuation, running) = start_run(fixture, "beta", 20);
    let other = fixture.new_tool(json!({}));
    assert_eq!(
        task_state(&other.call_ok(task_request("status", &continuation))),
        "working"
    );
    let first = running.envelope();
    let status = other.call_ok(task_request("status", &continuation));
    assert_eq!(
        (task_state(&status), artifact_text(&status)),
        ("completed", artifact_text(&first))
    );
}

fn running_task_is_canceled_by_any_instance(fixture: &GatewayFixture) {
    let (continuation, running) = start_run(fixture, "alpha", 200);
    let canceled = fixture.tool.call_ok(task_request("cancel", &continuation));
    assert_eq!(task_state(&canceled), "canceled", "{canceled:#}");
    assert_eq!(task_state(&running.envelope()), "canceled");

    let (continuation, running) = start_run(fixture, "alpha", 200);
    let canceled = fixture
        .new_tool(json!({}))
        .call_ok(task_request("cancel", &continuation));
    assert_eq!(task_state(&canceled), "canceled", "{canceled:#}");
    assert_eq!(task_state(&running.envelope()), "canceled");
}

fn image_reaches_the_agent_and_other_files_are_named(fixture: &GatewayFixture) {
    let png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let mut message = send_request("charlie", "what do you see");
    message["parts"].as_array_mut().unwrap().extend([
        json!({"kind": "file", "name": "dot.png", "mime_type": "image/png", "bytes": png}),
        json!({"kind": "file", "name": "a.zip", "mime_type": "application/zip", "bytes": "UEsDBA=="}),
        json!({"kind": "data", "data": {"weight": 3}}),
    ]);
    let envelope = fixture.tool.call_ok(message);
    let text = artifact_text(&envelope);
    for part in [
        "[Image dot.png, attached]",
        "a.zip, application/zip, 4 bytes: not attached",
        "\"weight\": 3",
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
}

fn unknown_agent_error_lists_agents(fixture: &GatewayFixture) {
    let envelope = fixture.tool.call(send_request("ghost", "hello"));
    assert_eq!(
        envelope["error"]["code"], "TARGET_RESOLUTION_ERROR",
        "{envelope:#}"
    );
    assert!(
        envelope["error"]["message"]
            .as_str()
            .unwrap()
            .contains("alpha"),
        "{envelope:#}"
    );
}

fn orphaned_run_is_forgotten(fixture: &GatewayFixture) {
    let call = json!({"action": "status", "target_alias": "gateway:alpha", "task_id": "unknown"});
    let envelope = fixture.tool.call(call);
    assert_eq!(
        envelope["error"]["reason"], "task_forgotten",
        "{envelope:#}"
    );
}

fn invalid_token_is_reported(fixture: &GatewayFixture) {
    let tool = fixture.new_tool(json!({"token": "not-the-token-of-this-gateway"}));
    let envelope = tool.call(send_request("alpha", "hello"));
    assert_eq!(envelope["error"]["reason"], "auth_failed", "{envelope:#}");
    let all = envelope.to_string();
    assert!(
        all.contains("gateway.token") && !all.contains("not-the-token"),
        "{envelope:#}"
    );
}

fn control_ui_page_is_reported(fixture: &GatewayFixture) {
    // A proxy of a gateway may answer with a page instead of an upgrade.
    let page = fetch_page(&fixture.http_url());
    let server = crate::http::serve(move |_, stream| {
        crate::http::answer(stream, "200 OK", "text/html; charset=utf-8", &page)
    });
    let tool = fixture.new_tool(json!({"url": format!("ws://{server}/")}));
    let envelope = tool.call(send_request("alpha", "hello"));
    assert_eq!(
        envelope["error"]["reason"], "protocol_error",
        "{envelope:#}"
    );
    assert!(
        envelope["error"]["message"]
            .as_str()
            .unwrap()
            .contains("web page"),
        "{envelope:#}"
    );
}

/// Returns the page of the gateway for browsers.
fn fetch_page(url: &str) -> String {
    let address = url.strip_prefix("http://").unwrap().parse().unwrap();
    let (status, body) = crate::http::get(address, "/");
    assert_eq!(status, 200, "{body}");
    assert!(body.to_ascii_lowercase().contains("<html"), "{body}");
    body
}

/// The calls before a kill of the gateway, and the status of their tasks after it.
pub struct Restart {
    /// The call during whose run the gateway was killed.
    interrupted: Value,
    /// The status of that run in a new instance.
    interrupted_status: Value,
    /// A call that ended before the kill.
    completed: Value,
    /// The status of its run in a new instance.
    completed_status: Value,
}

fn kill_and_restart(fixture: &GatewayFixture) -> &Restart {
    fixture.restart.get_or_init(|| {
        let completed = fixture.tool.call_ok(with_field(
            send_request("beta", "remember this"),
            "follow_updates",
            json!(true),
        ));
        let mut completed_continuation = completed["summary"]["continuation"].clone();
        completed_continuation["task"]
            .as_object_mut()
            .unwrap()
            .remove("task_handle");
        let (interrupted_continuation, running) = start_run(fixture, "alpha", 400);
        fixture.kill();
        fixture.boot();
        let new_tool = fixture.new_tool(json!({}));
        Restart {
            interrupted: running.envelope(),
            interrupted_status: new_tool.call_ok(task_request("status", &interrupted_continuation)),
            completed,
            completed_status: new_tool.call_ok(task_request("status", &completed_continuation)),
        }
    })
}

fn gateway_kill_fails_its_run(fixture: &GatewayFixture) {
    let Restart {
        interrupted,
        interrupted_status,
        ..
    } = kill_and_restart(fixture);
    // The plugin reports a failed run if it reconnects in time, else an unknown one.
    assert!(
        interrupted["ok"] == false || matches!(task_state(interrupted), "failed" | "working"),
        "{interrupted:#}"
    );
    assert_eq!(
        task_state(interrupted_status),
        "failed",
        "{interrupted_status:#}"
    );
    assert!(
        interrupted_status
            .to_string()
            .contains("the gateway restarted"),
        "{interrupted_status:#}"
    );
}

fn answer_survives_restart(fixture: &GatewayFixture) {
    let Restart {
        completed,
        completed_status,
        ..
    } = kill_and_restart(fixture);
    assert_eq!(
        (
            task_state(completed_status),
            artifact_text(completed_status)
        ),
        ("completed", artifact_text(completed))
    );
}
