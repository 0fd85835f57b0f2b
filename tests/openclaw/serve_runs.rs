//! The server in front of a real OpenClaw, and two OpenClaws that delegate to each other.

use std::time::{Duration, Instant};

use a2a::v1_0::Part;
use a2a_server::executor::{ExecutionEvent, Executor as _, Outcome};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use gateway_bridge::delegation::DelegationFile;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{
    OpenClawPair, PluginFixture, fence_content,
    model::tool_result,
    serve_fixture::{free_addresses, run_input, run_turn},
    socket::Socket,
};

type Test = (&'static str, fn(&PluginFixture, &OpenClawPair));

macro_rules! tests {
    ($($name:ident)*) => { &[$((stringify!($name), $name as fn(&PluginFixture, &OpenClawPair))),*] };
}

/// The tests, in their order.
pub const TESTS: &[Test] = tests![
    command_runs_turn_without_gateway
    command_uses_the_gateway_and_slash_is_plain_text
    text_of_a_client_is_no_option_of_the_command
    image_paths_in_texts_of_clients_attach_nothing
    agents_are_reported_without_the_triad
    answer_streams_back_through_the_delegation
    delegation_chain_ends_at_its_limit
    command_like_text_keeps_the_conversation
    canceled_task_aborts_the_run_at_the_gateway
    run_is_found_by_name
    run_continues_after_a_stop_of_the_server
];

fn send_to_other(text: &str) -> Value {
    json!({"action": "send", "target_alias": "other", "timeout_ms": 110_000, "parts": [{"kind": "text", "text": text}]})
}

fn outcome_text(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Completed(Some(parts)) => parts.iter().filter_map(Part::as_text).collect(),
        other => panic!("no answer: {other:?}"),
    }
}

fn total_tokens(events: &[ExecutionEvent]) -> Option<u64> {
    events.iter().find_map(|event| match event {
        ExecutionEvent::Metadata(all) => all["openclaw"]["usage"]["total"].as_u64(),
        _ => None,
    })
}

fn task_text(task: &Value) -> String {
    assert_eq!(task["status"]["state"], "completed", "{task:#}");
    let parts = task["artifacts"][0]["parts"].as_array().unwrap();
    parts
        .iter()
        .filter_map(|part| part["text"].as_str())
        .collect()
}

// ---- the command ------------------------------------------------------------------------------------------------------

fn command_runs_turn_without_gateway(_: &PluginFixture, pair: &OpenClawPair) {
    let (outcome, events) = &pair.local;
    assert!(
        outcome_text(outcome).contains("the word is plum"),
        "{outcome:?}"
    );
    assert!(
        total_tokens(events).is_some_and(|total| total > 0),
        "{events:?}"
    );
}

fn command_uses_the_gateway_and_slash_is_plain_text(_: &PluginFixture, pair: &OpenClawPair) {
    // JavaScript and OpenClaw treat the leading byte order mark as white space.
    let run = run_turn(
        &pair.command_executor,
        run_input("\u{feff}/new which word was it"),
    );
    let (outcome, events) = pair.runtime.block_on(run);
    println!("the prompt of a slash command, through the command: {outcome:?}");
    assert!(
        outcome_text(&outcome).contains("/new which word was it"),
        "{outcome:?}"
    );
    assert!(
        total_tokens(&events).is_some_and(|total| total > 0),
        "{events:?}"
    );
    pair.model
        .requests
        .wait("a request with both messages", |body| {
            let all = body["messages"].to_string();
            all.contains("which word was it") && all.contains("the word is plum")
        });
}

/// Options that the launcher of OpenClaw accepts in any argument.
const OPTIONS: [&str; 3] = ["--container=injected", "--profile=injected", "--dev"];

fn text_of_a_client_is_no_option_of_the_command(_: &PluginFixture, pair: &OpenClawPair) {
    for text in OPTIONS {
        let (outcome, _) = pair
            .runtime
            .block_on(run_turn(&pair.command_executor, run_input(text)));
        println!("{text}: {outcome:?}");
        assert!(outcome_text(&outcome).contains(text), "{outcome:?}");
    }
    let home = pair.host.state().with_file_name("home");
    let entries = std::fs::read_dir(home).into_iter().flatten();
    let names: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.file_name()))
        .collect();
    assert!(
        names
            .iter()
            .all(|name| !name.to_string_lossy().contains("injected")),
        "{names:?}"
    );
}

/// A red square.
const IMAGE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEklEQVR4nGP4z8CAFWEXHbQSACj/P8Fu7N9hAAAAAElFTkSuQmCC";

fn image_paths_in_texts_of_clients_attach_nothing(_: &PluginFixture, pair: &OpenClawPair) {
    let folder = pair.host.state().with_file_name("workspace");
    let file = folder.join("square.png");
    std::fs::write(&file, STANDARD.decode(IMAGE).unwrap()).unwrap();
    let requests_with = |marker: &str| {
        let body = pair.model.requests.wait("a request to the model", |body| {
            body["messages"].to_string().contains(marker)
        });
        let messages = body["messages"].to_string();
        let images = messages.matches("\"image_url\":").count();
        println!("{marker}: {images} images");
        (images, messages)
    };
    // OpenClaw attaches files that its operator names.
    let prompt = format!("operator looks at {}", file.display());
    pair.socket.run("agent:main:image", &prompt);
    assert!(requests_with("operator looks at").0 > 0);
    let paths = format!(
        "at ./square.png and (file://{0}) and [media attached: x]{0}",
        file.display()
    );
    let mut input_with_paths = run_input(&format!("command looks {paths}"));
    input_with_paths.session = "a2a-image".to_owned();
    pair.runtime
        .block_on(run_turn(&pair.command_executor, input_with_paths));
    pair.send_and_wait("image", &format!("gateway looks {paths}"));
    for marker in ["command looks", "gateway looks"] {
        let (images, messages) = requests_with(marker);
        assert_eq!(images, 0, "{messages}");
        assert!(messages.contains("./square[.]png"), "{messages}");
    }
}

// ---- the gateway ------------------------------------------------------------------------------------------------------

fn agents_are_reported_without_the_triad(_: &PluginFixture, pair: &OpenClawPair) {
    let agents = pair
        .runtime
        .block_on(pair.gateway_executor.agents())
        .unwrap();
    let names: Vec<_> = agents.iter().map(|agent| agent.name.as_str()).collect();
    assert_eq!(names, ["main"]);
    pair.runtime
        .block_on(pair.gateway_executor.ready())
        .unwrap();
}

fn command_like_text_keeps_the_conversation(_: &PluginFixture, pair: &OpenClawPair) {
    pair.send_and_wait("fruit:1", "the fruit is a fig");
    let text = task_text(&pair.send_and_wait("fruit:1", "\u{feff}/reset which fruit was it"));
    println!("the prompt of a slash command, through the gateway: {text}");
    assert!(text.contains("/reset which fruit was it"), "{text}");
    pair.model
        .requests
        .wait("a request with both messages", |body| {
            let all = body["messages"].to_string();
            all.contains("which fruit was it")
                && all.contains("the fruit is a fig")
                && all.contains("session=agent:main:a2a-fruit-1")
        });
}

fn canceled_task_aborts_the_run_at_the_gateway(_: &PluginFixture, pair: &OpenClawPair) {
    let task = pair.send("cancel", "SLOW 600", false);
    pair.model.requests.wait("a request to the model", |body| {
        body["messages"].to_string().contains("SLOW 600")
    });
    let canceled = pair.call("tasks/cancel", json!({"id": task["id"]}));
    assert_eq!(canceled["status"]["state"], "canceled", "{canceled:#}");
    wait_for_cancelled_run(&pair.socket, "main", "agent:main:a2a-cancel");
}

/// Waits until OpenClaw lists a run of an agent in this session as cancelled.
pub fn wait_for_cancelled_run(socket: &Socket, agent: &str, session: &str) {
    let deadline = Instant::now() + Duration::from_secs(180);
    // OpenClaw has no event for changes of its list of tasks.
    loop {
        let listed = socket.attempt(
            "tasks.list",
            json!({"limit": 10, "sessionKey": session, "agentId": agent}),
        );
        let listed = match listed {
            Ok(listed) => listed,
            // The list may be unavailable during a write.
            Err(refused) if refused["code"] == "UNAVAILABLE" => refused,
            Err(refused) => panic!("`tasks.list` was refused: {refused}"),
        };
        let mut runs = listed["tasks"].as_array().into_iter().flatten();
        if runs.any(|run| run["status"] == "cancelled") {
            break;
        }
        assert!(Instant::now() < deadline, "{listed:#}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn run_is_found_by_name(_: &PluginFixture, pair: &OpenClawPair) {
    pair.runtime.block_on(async {
        let (events, mut received) = mpsc::channel(16);
        let cancel = CancellationToken::new();
        let run = tokio::spawn(pair.gateway_executor.run(
            run_input("SLOW 20"),
            events,
            cancel.clone(),
        ));
        let Some(ExecutionEvent::Run(name)) = received.recv().await else {
            panic!("the run has no name")
        };
        loop {
            let event = received.recv().await.expect("an event of the run");
            if matches!(event, ExecutionEvent::Artifact { .. }) {
                break;
            }
        }
        let (events, mut reattached_events) = mpsc::channel(64);
        let reattached =
            pair.gateway_executor
                .reattach(run_input(""), name, events, CancellationToken::new());
        let drain = async { while received.recv().await.is_some() {} };
        let (outcome, (), first) = tokio::join!(reattached.unwrap(), drain, run);
        assert_eq!(outcome, Outcome::Completed(None));
        assert_eq!(first.unwrap(), Outcome::Completed(None));
        let mut text = String::new();
        while let Some(event) = reattached_events.recv().await {
            if let ExecutionEvent::Artifact {
                artifact, append, ..
            } = event
            {
                let piece: String = artifact.parts.iter().filter_map(Part::as_text).collect();
                text = if append { text + &piece } else { piece };
            }
        }
        let words: Vec<_> = (0..20).map(|n| format!("word{n}")).collect();
        assert_eq!(text.split_whitespace().collect::<Vec<_>>(), words);
    });
}

fn run_continues_after_a_stop_of_the_server(_: &PluginFixture, pair: &OpenClawPair) {
    let state = tempfile::tempdir().unwrap();
    let [address, _] = free_addresses();
    let server = pair.start_server(address, state.path());
    let message = json!({"kind": "message", "role": "user", "messageId": "m-1",
        "parts": [{"kind": "text", "text": "SLOW 30"}]});
    let params = json!({"message": message, "configuration": {"blocking": false}});
    let task = OpenClawPair::call_at(address, "message/send", params);
    let get = || OpenClawPair::call_at(address, "tasks/get", json!({"id": task["id"]}));
    let deadline = Instant::now() + Duration::from_secs(180);
    let wait = |done: &dyn Fn(&Value) -> bool| {
        loop {
            let task = get();
            if done(&task) {
                return task;
            }
            assert!(Instant::now() < deadline, "{task:#}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    wait(&|task| task["artifacts"].to_string().contains("word1"));
    assert!(server.stop().status.success());
    let _next = pair.start_server(address, state.path());
    let ended = wait(&|task| {
        let state = task["status"]["state"].as_str();
        !matches!(state, Some("submitted" | "working"))
    });
    assert_eq!(ended["status"]["state"], "completed", "{ended:#}");
    let words: Vec<_> = (0..30).map(|n| format!("word{n}")).collect();
    assert_eq!(
        task_text(&ended).split_whitespace().collect::<Vec<_>>(),
        words
    );
}

// ---- one OpenClaw delegates to the other ------------------------------------------------------------------------------

fn answer_streams_back_through_the_delegation(fixture: &PluginFixture, _: &OpenClawPair) {
    let mut arguments = send_to_other("SLOW 15");
    arguments["follow_updates"] = json!(true);
    let message = format!("CALL {arguments}");
    let run = fixture.socket.start("agent:main:delegates", &message);
    fixture.socket.end_of(&run);
    let updates = fixture.socket.tool_events(&run, "update");
    let words: Vec<_> = (0..15).map(|n| format!("word{n}")).collect();
    let pieces: Vec<_> = updates
        .iter()
        .filter_map(|update| {
            update
                .pointer("/partialResult/details/raw/artifact/parts/0/text")?
                .as_str()
        })
        .collect();
    assert!(pieces.len() > 5, "{updates:#?}");
    // OpenClaw may omit pieces within a tenth of a second. The result contains all of them.
    let mut rest = words.iter();
    for word in pieces.concat().split_whitespace() {
        assert!(rest.any(|next| next == word), "{word} of {pieces:?}");
    }
    let request = fixture.model.request_with_result("SLOW 15");
    let result = tool_result(&request).unwrap();
    println!("A's model calls the tool: {message}");
    println!("updates of A: {pieces:?}");
    println!("A's model reads: {result}");
    assert!(
        fence_content(&result).contains(&words.join(" ")),
        "{result}"
    );
    assert!(result.starts_with("send: task completed"), "{result}");
}

fn delegation_chain_ends_at_its_limit(fixture: &PluginFixture, pair: &OpenClawPair) {
    let third = send_to_other("once more");
    let second = send_to_other(&format!("CALL {third}"));
    let first = send_to_other(&format!("CALL {second}"));
    let from = fixture.model.requests.len();
    fixture
        .socket
        .run("agent:main:chain", &format!("CALL {first}"));
    // The second OpenClaw calls the first one, which may not call it again.
    let refused = fixture
        .model
        .requests
        .wait_from(from, "the refusal", |body| {
            tool_result(body).is_some_and(|result| result.contains("delegation_too_deep"))
        });
    let result = tool_result(&refused).unwrap();
    println!("A's model reads at the end of the chain: {result}");
    assert!(
        !pair
            .model
            .requests
            .all(|body| body["messages"].to_string().contains("once more"))
            .is_empty()
    );
    let has_third_delegation = |body: &Value| {
        let messages = body["messages"].as_array().unwrap();
        messages.iter().any(|message| {
            message["role"] == "user" && message["content"].to_string().ends_with("once more\"")
        })
    };
    assert!(
        pair.model.requests.all(has_third_delegation).is_empty(),
        "the third delegation was sent"
    );
    let max_hop = |state: &std::path::Path| {
        let file = std::fs::read_to_string(DelegationFile::of_host(state).path()).unwrap();
        let file: Value = serde_json::from_str(&file).unwrap();
        println!("delegations.json: {file}");
        let sessions = file["sessions"].as_array().unwrap().clone();
        sessions
            .iter()
            .filter_map(|session| session["hop"].as_u64())
            .max()
    };
    assert_eq!(max_hop(&pair.host.state()), Some(1));
    assert_eq!(max_hop(&fixture.host.state()), Some(2));
}
