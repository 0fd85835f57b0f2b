//! The tool with agents behind the real gateway.

use serde_json::{Value, json};

use crate::{
    Behind,
    gateway_rig::{answer, send, state, with},
};

type Test = (&'static str, fn(&Behind));

macro_rules! tests {
    ($($name:ident)*) => { &[$((stringify!($name), $name as fn(&Behind))),*] };
}

/// The tests, in their order.
pub const TESTS: &[Test] = tests![
    agents_are_listed_with_role_and_status_and_without_paths
    message_is_answered_as_a_task
    conversation_goes_on_in_the_same_session
    stream_shows_text_and_the_tool_in_between
    two_agents_answer_side_by_side
    second_instance_watches_run_of_first
    second_instance_reads_status_of_first
    running_task_is_canceled_by_any_instance
    image_reaches_the_agent_and_other_files_are_named
    missing_agent_is_reported_with_present_ones
    orphaned_run_is_forgotten
    invalid_token_is_reported
    control_ui_page_is_reported
];

/// The tests that change the gateway, which run last.
pub const LAST: &[Test] = tests![
    death_of_gateway_fails_its_run
    answer_survives_restart
];

fn agents_are_listed_with_role_and_status_and_without_paths(behind: &Behind) {
    let listed = behind.tool.good(json!({"action": "list_targets"}));
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
            .contains(behind.host.state().parent().unwrap().to_str().unwrap()),
        "{listed:#}"
    );
    assert_eq!(
        listed["summary"]["gateway"]["dialect"], "openclaw/4",
        "{listed:#}"
    );
}

fn message_is_answered_as_a_task(behind: &Behind) {
    let envelope = behind.tool.good(send("alpha", "say hello"));
    assert_eq!(state(&envelope), "completed");
    assert!(answer(&envelope).contains("say hello"), "{envelope:#}");
    let usage = &envelope["raw"]["metadata"]["openclaw"]["usage"];
    assert!(
        usage["total"].as_u64().is_some_and(|total| total > 0),
        "{envelope:#}"
    );
}

fn conversation_goes_on_in_the_same_session(behind: &Behind) {
    let first = behind.tool.good(with(
        send("alpha", "the word is plum"),
        "context_id",
        json!("talk:1/x"),
    ));
    assert_eq!(first["raw"]["contextId"], "talk:1/x");
    behind.tool.good(with(
        send("alpha", "which word was it"),
        "context_id",
        json!("talk:1/x"),
    ));
    let remembers = |body: &Value| {
        let all = body["messages"].to_string();
        all.contains("which word was it")
            && all.contains("the word is plum")
            && all.contains("session=agent:alpha:a2a-talk-1-x")
    };
    behind
        .model
        .requests
        .wait("the model to see both messages", remembers);
}

fn stream_shows_text_and_the_tool_in_between(behind: &Behind) {
    let running = behind.tool.begin(with(
        send("beta", "LIST the folder"),
        "follow_updates",
        json!(true),
    ));
    let updates = running.updates.clone();
    let envelope = running.envelope();
    assert_eq!(state(&envelope), "completed", "{envelope:#}");
    assert!(
        answer(&envelope).starts_with("The tool said:"),
        "{envelope:#}"
    );
    let said = |text: &str| {
        updates
            .all(|update| update.to_string().contains(text))
            .len()
    };
    assert!(
        said("Tool ls started.") >= 1 && said("Tool ls completed.") >= 1,
        "{:#?}",
        updates.all(|_| true)
    );
    assert!(said("Let me look.") >= 1);
    assert!(!answer(&envelope).contains("Let me look."), "{envelope:#}");
}

fn two_agents_answer_side_by_side(behind: &Behind) {
    let follow = |agent: &str| {
        behind
            .tool
            .begin(with(send(agent, "SLOW 15"), "follow_updates", json!(true)))
    };
    let (alpha, beta) = (follow("alpha"), follow("beta"));
    alpha.continuation();
    beta.continuation();
    for envelope in [alpha.envelope(), beta.envelope()] {
        assert_eq!(state(&envelope), "completed");
        let words: Vec<_> = (0..15).map(|n| format!("word{n}")).collect();
        assert_eq!(
            answer(&envelope).split_whitespace().collect::<Vec<_>>(),
            words
        );
    }
}

/// Starts a run with the shared tool. Returns its continuation and the call.
fn under_way(behind: &Behind, agent: &str, words: u32) -> (Value, crate::gateway_rig::Running) {
    let message = with(
        send(agent, &format!("SLOW {words}")),
        "follow_updates",
        json!(true),
    );
    let running = behind
        .tool
        .begin(with(message, "timeout_ms", json!(60_000)));
    (running.continuation(), running)
}

/// Returns the call of `action` on the task of `continuation`.
fn about(action: &str, continuation: &Value) -> Value {
    json!({"action": action, "continuation": continuation})
}

fn second_instance_watches_run_of_first(behind: &Behind) {
    let (continuation, running) = under_way(behind, "alpha", 25);
    let watched = behind
        .another(json!({}))
        .good(about("watch", &continuation));
    assert_eq!(state(&watched), "completed", "{watched:#}");
    assert_eq!(answer(&watched), answer(&running.envelope()));
}

fn second_instance_reads_status_of_first(behind: &Behind) {
    let (continuation, running) = under_way(behind, "beta", 20);
    let other = behind.another(json!({}));
    assert_eq!(
        state(&other.good(about("status", &continuation))),
        "working"
    );
    let first = running.envelope();
    let status = other.good(about("status", &continuation));
    assert_eq!(
        (state(&status), answer(&status)),
        ("completed", answer(&first))
    );
}

fn running_task_is_canceled_by_any_instance(behind: &Behind) {
    let (continuation, running) = under_way(behind, "alpha", 200);
    let canceled = behind.tool.good(about("cancel", &continuation));
    assert_eq!(state(&canceled), "canceled", "{canceled:#}");
    assert_eq!(state(&running.envelope()), "canceled");

    let (continuation, running) = under_way(behind, "alpha", 200);
    let canceled = behind
        .another(json!({}))
        .good(about("cancel", &continuation));
    assert_eq!(state(&canceled), "canceled", "{canceled:#}");
    assert_eq!(state(&running.envelope()), "canceled");
}

fn image_reaches_the_agent_and_other_files_are_named(behind: &Behind) {
    let dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let mut message = send("charlie", "what do you see");
    message["parts"].as_array_mut().unwrap().extend([
        json!({"kind": "file", "name": "dot.png", "mime_type": "image/png", "bytes": dot}),
        json!({"kind": "file", "name": "a.zip", "mime_type": "application/zip", "bytes": "UEsDBA=="}),
        json!({"kind": "data", "data": {"weight": 3}}),
    ]);
    let envelope = behind.tool.good(message);
    let said = answer(&envelope);
    for part in [
        "[Image dot.png, attached]",
        "a.zip, application/zip, 4 bytes: not attached",
        "\"weight\": 3",
    ] {
        assert!(said.contains(part), "no {part} in {said}");
    }
}

fn missing_agent_is_reported_with_present_ones(behind: &Behind) {
    let envelope = behind.tool.call(send("ghost", "hello"));
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

fn orphaned_run_is_forgotten(behind: &Behind) {
    let call = json!({"action": "status", "target_alias": "gateway:alpha", "task_id": "unknown"});
    let envelope = behind.tool.call(call);
    assert_eq!(
        envelope["error"]["reason"], "task_forgotten",
        "{envelope:#}"
    );
}

fn invalid_token_is_reported(behind: &Behind) {
    let tool = behind.another(json!({"token": "not-the-token-of-this-gateway"}));
    let envelope = tool.call(send("alpha", "hello"));
    assert_eq!(envelope["error"]["reason"], "auth_failed", "{envelope:#}");
    let all = envelope.to_string();
    assert!(
        all.contains("gateway.token") && !all.contains("not-the-token"),
        "{envelope:#}"
    );
}

fn control_ui_page_is_reported(behind: &Behind) {
    // A proxy of a gateway may answer with a page instead of an upgrade.
    let page = page_of(&behind.http());
    let server = crate::http::serve(move |_, stream| {
        crate::http::answer(stream, "200 OK", "text/html; charset=utf-8", &page)
    });
    let tool = behind.another(json!({"url": format!("ws://{server}/")}));
    let envelope = tool.call(send("alpha", "hello"));
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
fn page_of(url: &str) -> String {
    let address = url.strip_prefix("http://").unwrap().parse().unwrap();
    let (status, body) = crate::http::get(address, "/");
    assert_eq!(status, 200, "{body}");
    assert!(body.to_ascii_lowercase().contains("<html"), "{body}");
    body
}

/// The observations of a gateway that was killed during a run and restarted.
pub struct Restart {
    /// The call during whose run the gateway was killed.
    cut: Value,
    /// The status of that run in a new instance.
    cut_later: Value,
    /// A call that ended before.
    done: Value,
    /// The status of its run in a new instance.
    done_later: Value,
}

fn restart(behind: &Behind) -> &Restart {
    behind.restart.get_or_init(|| {
        let done = behind.tool.good(with(
            send("beta", "remember this"),
            "follow_updates",
            json!(true),
        ));
        let mut of_done = done["summary"]["continuation"].clone();
        of_done["task"]
            .as_object_mut()
            .unwrap()
            .remove("task_handle");
        let (of_cut, running) = under_way(behind, "alpha", 400);
        behind.kill();
        behind.boot();
        let fresh = behind.another(json!({}));
        Restart {
            cut: running.envelope(),
            cut_later: fresh.good(about("status", &of_cut)),
            done,
            done_later: fresh.good(about("status", &of_done)),
        }
    })
}

fn death_of_gateway_fails_its_run(behind: &Behind) {
    let Restart { cut, cut_later, .. } = restart(behind);
    // The plugin reports a failed run if it reconnects in time, else an unknown one.
    assert!(
        cut["ok"] == false || matches!(state(cut), "failed" | "working"),
        "{cut:#}"
    );
    assert_eq!(state(cut_later), "failed", "{cut_later:#}");
    assert!(
        cut_later.to_string().contains("the gateway restarted"),
        "{cut_later:#}"
    );
}

fn answer_survives_restart(behind: &Behind) {
    let Restart {
        done, done_later, ..
    } = restart(behind);
    assert_eq!(
        (state(done_later), answer(done_later)),
        ("completed", answer(done))
    );
}
