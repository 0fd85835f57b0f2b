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
    Pair, World, fenced,
    model::tool_result,
    serve_rig::{input, turn},
};

type Test = (&'static str, fn(&World, &Pair));

macro_rules! tests {
    ($($name:ident)*) => { &[$((stringify!($name), $name as fn(&World, &Pair))),*] };
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
];

fn send_to_other(text: &str) -> Value {
    json!({"action": "send", "target_alias": "other", "timeout_ms": 110_000, "parts": [{"kind": "text", "text": text}]})
}

fn text_of(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Completed(Some(parts)) => parts.iter().filter_map(Part::as_text).collect(),
        other => panic!("no answer: {other:?}"),
    }
}

fn total(events: &[ExecutionEvent]) -> Option<u64> {
    events.iter().find_map(|report| match report {
        ExecutionEvent::Metadata(all) => all["openclaw"]["usage"]["total"].as_u64(),
        _ => None,
    })
}

fn answer(task: &Value) -> String {
    assert_eq!(task["status"]["state"], "completed", "{task:#}");
    let parts = task["artifacts"][0]["parts"].as_array().unwrap();
    parts
        .iter()
        .filter_map(|part| part["text"].as_str())
        .collect()
}

// ---- the command ------------------------------------------------------------------------------------------------------

fn command_runs_turn_without_gateway(_: &World, pair: &Pair) {
    let (outcome, events) = &pair.local;
    assert!(text_of(outcome).contains("the word is plum"), "{outcome:?}");
    assert!(total(events).is_some_and(|total| total > 0), "{events:?}");
}

fn command_uses_the_gateway_and_slash_is_plain_text(_: &World, pair: &Pair) {
    // JavaScript and OpenClaw treat the leading byte order mark as white space.
    let ran = turn(&pair.command, input("\u{feff}/new which word was it"));
    let (outcome, events) = pair.runtime.block_on(ran);
    println!("what the command's model was given for a slash: {outcome:?}");
    assert!(
        text_of(&outcome).contains("/new which word was it"),
        "{outcome:?}"
    );
    assert!(total(&events).is_some_and(|total| total > 0), "{events:?}");
    pair.model
        .requests
        .wait("the model to see both messages", |body| {
            let all = body["messages"].to_string();
            all.contains("which word was it") && all.contains("the word is plum")
        });
}

/// Options that the launcher finds in any argument.
const OPTIONS: [&str; 3] = ["--container=stranger", "--profile=stranger", "--dev"];

fn text_of_a_client_is_no_option_of_the_command(_: &World, pair: &Pair) {
    for text in OPTIONS {
        let (outcome, _) = pair.runtime.block_on(turn(&pair.command, input(text)));
        println!("{text}: {outcome:?}");
        assert!(text_of(&outcome).contains(text), "{outcome:?}");
    }
    let home = pair.host.state().with_file_name("home");
    let made = std::fs::read_dir(home).into_iter().flatten();
    let names: Vec<_> = made
        .filter_map(|entry| Some(entry.ok()?.file_name()))
        .collect();
    assert!(
        names
            .iter()
            .all(|name| !name.to_string_lossy().contains("stranger")),
        "{names:?}"
    );
}

/// A red square.
const IMAGE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEklEQVR4nGP4z8CAFWEXHbQSACj/P8Fu7N9hAAAAAElFTkSuQmCC";

fn image_paths_in_texts_of_clients_attach_nothing(_: &World, pair: &Pair) {
    let folder = pair.host.state().with_file_name("workspace");
    let file = folder.join("square.png");
    std::fs::write(&file, STANDARD.decode(IMAGE).unwrap()).unwrap();
    let asked = |marker: &str| {
        let body = pair.model.requests.wait("the model to be asked", |body| {
            body["messages"].to_string().contains(marker)
        });
        let messages = body["messages"].to_string();
        let images = messages.matches("\"image_url\":").count();
        println!("{marker}: {images} images");
        (images, messages)
    };
    // OpenClaw attaches files that its operator names.
    let own = format!("operator looks at {}", file.display());
    pair.socket.run("agent:main:image", &own);
    assert!(asked("operator looks at").0 > 0);
    let said = format!(
        "at ./square.png and (file://{0}) and [media attached: x]{0}",
        file.display()
    );
    let mut by_command = input(&format!("command looks {said}"));
    by_command.session = "a2a-image".to_owned();
    pair.runtime.block_on(turn(&pair.command, by_command));
    pair.send_and_wait("image", &format!("gateway looks {said}"));
    for marker in ["command looks", "gateway looks"] {
        let (images, messages) = asked(marker);
        assert_eq!(images, 0, "{messages}");
        assert!(messages.contains("./square[.]png"), "{messages}");
    }
}

// ---- the gateway ------------------------------------------------------------------------------------------------------

fn agents_are_reported_without_the_triad(_: &World, pair: &Pair) {
    let agents = pair.runtime.block_on(pair.executor.agents()).unwrap();
    let names: Vec<_> = agents.iter().map(|agent| agent.name.as_str()).collect();
    assert_eq!(names, ["main"]);
    pair.runtime.block_on(pair.executor.ready()).unwrap();
}

fn command_like_text_keeps_the_conversation(_: &World, pair: &Pair) {
    pair.send_and_wait("fruit:1", "the fruit is a fig");
    let reported = answer(&pair.send_and_wait("fruit:1", "\u{feff}/reset which fruit was it"));
    println!("what the model was given for a slash: {reported}");
    assert!(reported.contains("/reset which fruit was it"), "{reported}");
    pair.model
        .requests
        .wait("the model to see both messages", |body| {
            let all = body["messages"].to_string();
            all.contains("which fruit was it")
                && all.contains("the fruit is a fig")
                && all.contains("session=agent:main:a2a-fruit-1")
        });
}

fn canceled_task_aborts_the_run_at_the_gateway(_: &World, pair: &Pair) {
    let task = pair.send("cancel", "SLOW 600", false);
    pair.model.requests.wait("the model to be asked", |body| {
        body["messages"].to_string().contains("SLOW 600")
    });
    let canceled = pair.call("tasks/cancel", json!({"id": task["id"]}));
    assert_eq!(canceled["status"]["state"], "canceled", "{canceled:#}");
    let deadline = Instant::now() + Duration::from_secs(60);
    // OpenClaw has no event for changes of its list of tasks.
    loop {
        let listed = pair.socket.attempt(
            "tasks.list",
            json!({"limit": 10, "sessionKey": "agent:main:a2a-cancel", "agentId": "main"}),
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

fn run_is_found_by_name(_: &World, pair: &Pair) {
    pair.runtime.block_on(async {
        let (events, mut received) = mpsc::channel(16);
        let cancel = CancellationToken::new();
        let begun = tokio::spawn(pair.executor.run(input("SLOW 20"), events, cancel.clone()));
        let Some(ExecutionEvent::Run(name)) = received.recv().await else {
            panic!("a run without a name")
        };
        loop {
            let report = received.recv().await.expect("the agent to speak");
            if matches!(report, ExecutionEvent::Artifact { .. }) {
                break;
            }
        }
        let (events, mut again) = mpsc::channel(64);
        let found = pair
            .executor
            .reattach(input(""), name, events, CancellationToken::new());
        let drain = async { while received.recv().await.is_some() {} };
        let (outcome, (), first) = tokio::join!(found.unwrap(), drain, begun);
        assert_eq!(outcome, Outcome::Completed(None));
        assert_eq!(first.unwrap(), Outcome::Completed(None));
        let mut text = String::new();
        while let Some(report) = again.recv().await {
            if let ExecutionEvent::Artifact {
                artifact, append, ..
            } = report
            {
                let piece: String = artifact.parts.iter().filter_map(Part::as_text).collect();
                text = if append { text + &piece } else { piece };
            }
        }
        let words: Vec<_> = (0..20).map(|n| format!("word{n}")).collect();
        assert_eq!(text.split_whitespace().collect::<Vec<_>>(), words);
    });
}

// ---- one OpenClaw delegates to the other ------------------------------------------------------------------------------

fn answer_streams_back_through_the_delegation(world: &World, _: &Pair) {
    let mut arguments = send_to_other("SLOW 15");
    arguments["follow_updates"] = json!(true);
    let message = format!("CALL {arguments}");
    let run = world.socket.start("agent:main:delegates", &message);
    world.socket.end_of(&run);
    let updates = world.socket.tool_events(&run, "update");
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
    let request = world.model.request_with_result("SLOW 15");
    let result = tool_result(&request).unwrap();
    println!("A's model calls the tool: {message}");
    println!("updates of A: {pieces:?}");
    println!("A's model reads: {result}");
    assert!(fenced(&result).contains(&words.join(" ")), "{result}");
    assert!(result.starts_with("send: task completed"), "{result}");
}

fn delegation_chain_ends_at_its_limit(world: &World, pair: &Pair) {
    let third = send_to_other("once more");
    let second = send_to_other(&format!("CALL {third}"));
    let first = send_to_other(&format!("CALL {second}"));
    let from = world.model.requests.len();
    world.socket.run("agent:main:row", &format!("CALL {first}"));
    // The second OpenClaw calls the first one, which may not call it again.
    let refused = world.model.requests.wait_from(from, "the refusal", |body| {
        tool_result(body).is_some_and(|result| result.contains("delegation_too_deep"))
    });
    let result = tool_result(&refused).unwrap();
    println!("A's model reads at the end of the row: {result}");
    assert!(
        !pair
            .model
            .requests
            .all(|body| body["messages"].to_string().contains("once more"))
            .is_empty()
    );
    let asked_again = |body: &Value| {
        let messages = body["messages"].as_array().unwrap();
        messages.iter().any(|message| {
            message["role"] == "user" && message["content"].to_string().ends_with("once more\"")
        })
    };
    assert!(
        pair.model.requests.all(asked_again).is_empty(),
        "the last delegation went through"
    );
    let hops = |state: &std::path::Path| {
        let file = std::fs::read_to_string(DelegationFile::of_host(state).path()).unwrap();
        let file: Value = serde_json::from_str(&file).unwrap();
        println!("delegations.json: {file}");
        let sessions = file["sessions"].as_array().unwrap().clone();
        sessions
            .iter()
            .filter_map(|session| session["hop"].as_u64())
            .max()
    };
    assert_eq!(hops(&pair.host.state()), Some(1));
    assert_eq!(hops(&world.host.state()), Some(2));
}
