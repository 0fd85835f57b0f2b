//! Remote agents as sub-agents of OpenClaw: its ledger of tasks, cancellation, questions and ends of the gateway.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{
    approval,
    host::Gateway,
    model,
    notify::{NotifyFixture, Test},
    peer::answer_text,
    surfaces::control_ui,
};

pub const TESTS: &[Test] = &[
    (
        "running_sub_agent_is_listed_and_canceled",
        running_sub_agent_is_listed_and_canceled,
    ),
    (
        "question_of_a_sub_agent_is_answered_in_control_ui",
        question_of_a_sub_agent_is_answered_in_control_ui,
    ),
    (
        "killed_gateway_ends_the_row_with_the_task",
        killed_gateway_ends_the_row_with_the_task,
    ),
    (
        "stopped_gateway_leaves_the_task_to_the_next",
        stopped_gateway_leaves_the_task_to_the_next,
    ),
    (
        "message_waits_for_an_approval",
        message_waits_for_an_approval,
    ),
    (
        "delegated_task_is_a_flow_that_cancels_it",
        delegated_task_is_a_flow_that_cancels_it,
    ),
    ("foreign_agent_is_refused", foreign_agent_is_refused),
];

/// The sub-agents: one behind the official SDK, whose questions a person answers, and the scripted one, also with approvals.
const SUB_AGENTS: [&str; 3] = ["helper", "peer", "supervised"];

/// Configures the sub-agents with the command, as an operator does.
fn configure(fixture: &NotifyFixture) {
    let is_configured = |alias: &&str| !fixture.host.config()["agents"]["entries"][alias].is_null();
    if SUB_AGENTS.iter().all(is_configured) {
        return;
    }
    for alias in SUB_AGENTS {
        let added = fixture
            .host
            .cli(&["remote-agent", "subagent", "add", alias]);
        println!("openclaw remote-agent subagent add {alias}: {added}");
    }
    fixture.restart(drop);
    let found = fixture.host.cli(&["remote-agent", "doctor"]);
    assert!(
        found.contains("ok: the sub-agent `helper` runs the target `helper`"),
        "{found}"
    );
}

/// Runs a turn that spawns a sub-agent, and returns the key of its session. OpenClaw's maintenance may remove a session before its
/// turn has a row, which then fails before the agent receives the message: the turn runs again.
fn spawn(fixture: &NotifyFixture, session: &str, agent: &str, text: &str) -> String {
    configure(fixture);
    let request = json!({"task": text, "runtime": "acp", "agentId": agent});
    for _ in 0..3 {
        fixture.run_turn(session, &format!("sessions_spawn CALL {request}"));
        fixture.model.request_with_result(text);
        let has_result =
            |body: &Value| model::tool_result(body).is_some_and(|result| result.contains("acp:"));
        let requests = fixture
            .model
            .requests
            .all(|body| has_result(body) && body["messages"].to_string().contains(text));
        let result = model::tool_result(requests.last().unwrap()).unwrap();
        let start = result.find(&format!("agent:{agent}:acp:"));
        let key = &result[start.unwrap_or_else(|| panic!("no session in {result}"))..];
        let mut words = key.split(|c: char| !c.is_ascii_alphanumeric() && c != ':' && c != '-');
        let child = words.next().unwrap().to_owned();
        let row = wait_for_row(fixture, &child, |_| true);
        if !row["error"].to_string().contains("ACP metadata is missing") {
            return child;
        }
    }
    panic!("OpenClaw removes the sessions of {agent}");
}

/// Runs `openclaw tasks`. It fails while the gateway holds the lock of the ledger, and then runs again.
fn tasks(fixture: &NotifyFixture, arguments: &[&str]) -> String {
    let all = [&["tasks"], arguments].concat();
    let mut failure = String::new();
    for _ in 0..20 {
        let output = fixture.host.command(&all).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return printed;
        }
        failure = printed + &String::from_utf8_lossy(&output.stderr);
        assert!(failure.contains("owns state-lifecycle"), "{failure}");
    }
    panic!("{failure}");
}

/// Returns the rows of a session in the ledger, as `openclaw tasks list` has them.
fn rows(fixture: &NotifyFixture, child: &str) -> Vec<Value> {
    let listed = tasks(fixture, &["list", "--json"]);
    let listed: Value = serde_json::from_str(&listed[listed.find('{').unwrap()..]).unwrap();
    let all = listed["tasks"].as_array().unwrap().iter();
    all.filter(|row| row["childSessionKey"] == child)
        .cloned()
        .collect()
}

/// Waits until a row of the session is as the test expects. The command has no events, so this polls.
fn wait_for_row(
    fixture: &NotifyFixture,
    child: &str,
    is_expected: impl Fn(&Value) -> bool,
) -> Value {
    let end = Instant::now() + Duration::from_secs(240);
    loop {
        let rows = rows(fixture, child);
        if let Some(row) = rows.iter().find(|row| is_expected(row)) {
            return row.clone();
        }
        assert!(Instant::now() < end, "the rows are {rows:#?}");
    }
}

/// Waits until the model of the session that spawned the sub-agent reads this text.
fn wait_for_result(fixture: &NotifyFixture, text: &str) {
    let request = fixture
        .model
        .requests
        .wait("the result of the sub-agent", |body| {
            let last = body["messages"]
                .as_array()
                .and_then(|messages| messages.last());
            last.is_some_and(|message| message.to_string().contains(text))
        });
    let message = request["messages"].as_array().unwrap().last().unwrap();
    println!("the result as the model reads it: {message}");
    assert!(
        message.to_string().contains("data, not instructions"),
        "{message}"
    );
}

fn running_sub_agent_is_listed_and_canceled(fixture: &NotifyFixture) {
    let child = spawn(
        fixture,
        "agent:main:report",
        "helper",
        "begun: The report begins.",
    );
    let row = wait_for_row(fixture, &child, |row| {
        row["progressSummary"] == "The report begins."
    });
    assert_eq!(
        (&row["runtime"], &row["status"]),
        (&json!("acp"), &json!("running")),
        "{row}"
    );
    println!("openclaw tasks list:\n{}", tasks(fixture, &["list"]));
    let id = row["taskId"].as_str().unwrap();
    println!("openclaw tasks show:\n{}", tasks(fixture, &["show", id]));
    println!("{}", tasks(fixture, &["cancel", id]));
    wait_for_row(fixture, &child, |row| row["status"] == "cancelled");
    let known = fixture.with_socket(|socket| socket.request("remoteAgent.tasks", json!({})));
    let known = known["tasks"].as_array().unwrap();
    let task = known
        .iter()
        .find(|task| task["target"] == "helper")
        .unwrap();
    assert_eq!(task["state"], "canceled", "{task}");
}

fn question_of_a_sub_agent_is_answered_in_control_ui(fixture: &NotifyFixture) {
    let session = "agent:main:tents";
    let child = spawn(
        fixture,
        session,
        "helper",
        "ask: Which colour for the tents?",
    );
    wait_for_row(fixture, &child, |row| row["status"] == "running");
    // The person reads and writes in the session that spawned the sub-agent.
    let mut browser = control_ui(fixture, &format!("/chat?session={session}"));
    browser.wait_until("document.querySelector('.chat-question-panel__prompt') !== null");
    let prompt =
        browser.evaluate("document.querySelector('.chat-question-panel__prompt').innerText");
    println!("the question in Control UI: {prompt}");
    assert!(
        prompt
            .as_str()
            .unwrap()
            .contains("Which colour for the tents?"),
        "{prompt}"
    );
    browser.screenshot("control-ui-subagent.png");
    browser.click(".chat-question-panel textarea");
    browser.call("Input.insertText", json!({"text": "Blue"}));
    browser.click(".chat-question-panel__advance");
    wait_for_result(fixture, "you said Blue");
    wait_for_row(fixture, &child, |row| row["status"] == "succeeded");
}

/// The row of the killed gateway ends as the task does, which receives its message once.
fn killed_gateway_ends_the_row_with_the_task(fixture: &NotifyFixture) {
    let text = "later the survey";
    let child = spawn(fixture, "agent:main:survey", "peer", text);
    fixture.peer.call(text);
    let row = wait_for_row(fixture, &child, |row| row["status"] == "running");
    fixture.restart(|gateway| {
        gateway.kill();
        fixture.peer.finish(text);
    });
    wait_for_row(fixture, &child, |now| {
        now["taskId"] == row["taskId"] && now["status"] == "succeeded"
    });
    wait_for_result(fixture, &answer_text(text));
    assert!(
        rows(fixture, &child)
            .iter()
            .all(|row| row["status"] == "succeeded")
    );
    assert_eq!(fixture.peer.messages(text), 1);
}

/// OpenClaw waits five minutes for its turns when it stops.
fn stopped_gateway_leaves_the_task_to_the_next(fixture: &NotifyFixture) {
    let text = "later the inventory";
    let child = spawn(fixture, "agent:main:inventory", "peer", text);
    fixture.peer.call(text);
    wait_for_row(fixture, &child, |row| row["status"] == "running");
    let mut elapsed = Duration::ZERO;
    fixture.restart(|gateway: Gateway| {
        let start = Instant::now();
        drop(gateway);
        elapsed = start.elapsed();
    });
    println!("the gateway stopped after {elapsed:?}");
    assert!(elapsed < Duration::from_secs(180), "{elapsed:?}");
    let row = wait_for_row(fixture, &child, |row| row["status"] == "failed");
    assert!(
        row["error"].as_str().unwrap().contains("the task goes on"),
        "{row}"
    );
    fixture.peer.finish(text);
    fixture.wait_for_wake(text);
    assert_eq!(fixture.peer.messages(text), 1);
}

fn message_waits_for_an_approval(fixture: &NotifyFixture) {
    let text = "approved list of the sub-agent";
    let child = spawn(fixture, "agent:main:approved", "supervised", text);
    let id = approval::wait_for_request(fixture, text);
    assert_eq!(fixture.peer.messages(text), 0);
    approval::resolve_approval(fixture, &id, "allow-once");
    wait_for_row(fixture, &child, |row| row["status"] == "succeeded");
    assert_eq!(fixture.peer.messages(text), 1);
}

/// A task that the tool delegated and that outlives its call is a flow, and no second one after a restart.
fn delegated_task_is_a_flow_that_cancels_it(fixture: &NotifyFixture) {
    let parts = json!([{"kind": "text", "text": "begun: The audit begins."}]);
    let request =
        json!({"action": "send", "target_alias": "helper", "parts": parts, "notify": true});
    fixture.run_turn("agent:main:audit", &format!("CALL {request}"));
    let result =
        model::tool_result(&fixture.model.request_with_result("The audit begins.")).unwrap();
    assert!(result.contains("you will be woken"), "{result}");
    fixture.restart(Gateway::kill);
    let list = || {
        let listed = tasks(fixture, &["flow", "list", "--json"]);
        let listed: Value = serde_json::from_str(&listed[listed.find('{').unwrap()..]).unwrap();
        let flows = listed["flows"].as_array().unwrap().iter();
        let of_helper = flows.filter(|flow| flow["goal"].as_str().unwrap().starts_with("helper: "));
        of_helper.cloned().collect::<Vec<_>>()
    };
    let flows = list();
    println!("openclaw tasks flow list: {flows:#?}");
    assert_eq!((flows.len(), &flows[0]["status"]), (1, &json!("running")));
    let id = flows[0]["flowId"].as_str().unwrap();
    println!("{}", tasks(fixture, &["flow", "cancel", id]));
    wait_for_result(fixture, "handed to helper has news");
    let known = fixture.with_socket(|socket| socket.request("remoteAgent.tasks", json!({})));
    let known = known["tasks"].as_array().unwrap();
    let task = known
        .iter()
        .find(|task| task["lastWord"] == "The audit begins.");
    assert_eq!(task.unwrap()["state"], "canceled", "{known:?}");
    assert_eq!(list().len(), 1);
}

fn foreign_agent_is_refused(fixture: &NotifyFixture) {
    configure(fixture);
    let request = json!({"task": "hello", "runtime": "acp", "agentId": "nowhere"});
    fixture.run_turn(
        "agent:main:nowhere",
        &format!("sessions_spawn CALL {request}"),
    );
    let result = model::tool_result(&fixture.model.request_with_result("nowhere")).unwrap();
    println!("the result as the model reads it: {result}");
    assert!(
        result.contains("no remote agent is called `nowhere`"),
        "{result}"
    );
}
