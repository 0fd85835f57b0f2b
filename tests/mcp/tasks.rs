//! Long calls as MCP tasks, whose ids are continuations.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::*;

/// Calls the tool, expects a task and returns its id.
fn begin(host: &mut Host, words: &str) -> String {
    let answer = host.call_with(send_request(words), supports_tasks());
    assert_eq!(answer["result"]["resultType"], "task", "{answer}");
    assert_eq!(answer["result"]["status"], "working");
    answer["result"]["taskId"].as_str().unwrap().to_owned()
}

/// Returns the id of a task over standard input and output.
fn id_of(target: &Value, task: &Value) -> String {
    let kept = json!({"target": target, "task": {"task_id": task}, "at": "then"});
    format!("rat1.{}", URL_SAFE_NO_PAD.encode(kept.to_string()))
}

fn get(host: &mut Host, id: &str) -> Value {
    host.request("tasks/get", modern(json!({"taskId": id}), supports_tasks()))
}

/// Polls a task until it leaves `working`.
fn finish(host: &mut Host, id: &str) -> Value {
    let until = std::time::Instant::now() + PATIENCE;
    loop {
        let answer = get(host, id);
        if answer["result"]["status"] != "working" {
            return answer;
        }
        assert!(std::time::Instant::now() < until, "{answer}");
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn long_call_is_a_task_that_ends_with_its_result() {
    let server = Server::scripted(&["--task-store", "memory"]);
    let mut host = Host::start(&["--url", server.url()]);
    let id = begin(&mut host, "slow 2000");
    let ended = finish(&mut host, &id);
    assert_eq!(ended["result"]["status"], "completed", "{ended}");
    assert_eq!(ended["result"]["result"]["isError"], false);
}

#[test]
fn short_call_is_answered_at_once() {
    let server = Server::scripted(&["--task-store", "memory"]);
    let mut host = Host::start(&["--url", server.url()]);
    let answer = host.call_with(send_request("echo hello"), supports_tasks());
    assert_ne!(answer["result"]["resultType"], "task", "{answer}");
    assert!(text(&answer).contains("hello"));
}

#[test]
fn client_without_tasks_waits_for_the_result() {
    let server = Server::scripted(&["--task-store", "memory"]);
    let mut host = Host::start(&["--url", server.url()]);
    let answer = host.call_with(send_request("slow 1500"), json!({}));
    assert_eq!(envelope(&answer)["ok"], true, "{answer}");
}

#[test]
fn task_survives_the_kill_of_the_server() {
    let server = Server::scripted(&["--task-store", "memory"]);
    let mut first = Host::start(&["--url", server.url()]);
    let id = begin(&mut first, "slow 3000");
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    let mut second = Host::start(&["--url", server.url()]);
    assert_eq!(get(&mut second, &id)["result"]["status"], "working");
    assert_eq!(finish(&mut second, &id)["result"]["status"], "completed");
}

#[test]
fn cancelled_task_is_cancelled_at_the_agent() {
    let server = Server::scripted(&["--task-store", "memory"]);
    let mut host = Host::start(&["--url", server.url()]);
    let id = begin(&mut host, "begun work");
    let answer = host.request(
        "tasks/cancel",
        modern(json!({"taskId": id}), supports_tasks()),
    );
    assert!(answer["error"].is_null(), "{answer}");
    assert_eq!(finish(&mut host, &id)["result"]["status"], "cancelled");
    assert_eq!(states(&server), ["TASK_STATE_CANCELED"]);
}

#[test]
fn failed_task_is_completed_with_an_error() {
    let server = Server::scripted(&["--task-store", "memory"]);
    let mut host = Host::start(&["--url", server.url()]);
    let failed = host.call_with(send_request("fail why"), json!({}));
    let continuation = &envelope(&failed)["summary"]["continuation"];
    let id = id_of(&continuation["target"], &continuation["task"]["task_id"]);
    let ended = get(&mut host, &id);
    assert_eq!(ended["result"]["status"], "completed", "{ended}");
    assert_eq!(ended["result"]["result"]["isError"], true);
}

#[test]
fn id_that_leads_elsewhere_is_refused() {
    let server = Server::scripted(&["--task-store", "memory"]);
    let mut host = Host::start(&["--url", server.url()]);
    let elsewhere = json!({"target_url": "http://169.254.169.254/", "card_path": "/.well-known/agent-card.json", "preferred_transports": ["JSONRPC"]});
    let forged = id_of(&elsewhere, &json!("7"));
    for id in [forged.as_str(), "rat1.", "7"] {
        let answer = get(&mut host, id);
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
}

#[test]
fn question_reaches_the_person_and_the_answer_the_agent() {
    let server = Server::scripted(&["--task-store", "memory"]);
    let mut host = Host::start(&["--url", server.url(), "--ask-user"]);
    let can_ask = json!({"elicitation": {"form": {}}});
    let asked = host.call_with(send_request("ask which colour"), can_ask.clone());
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let question = &asked["result"]["inputRequests"]["answer"];
    assert_eq!(question["method"], "elicitation/create");
    assert_eq!(
        question["params"]["message"],
        "The remote agent target asks: \"which colour\""
    );
    let mut again = calling(send_request("ask which colour"));
    again["requestState"] = asked["result"]["requestState"].clone();
    again["inputResponses"] =
        json!({"answer": {"action": "accept", "content": {"answer": "green"}}});
    let answered = host.request("tools/call", modern(again, can_ask));
    assert!(text(&answered).contains("green"), "{answered}");
    assert_eq!(states(&server), ["TASK_STATE_COMPLETED"]);
}

#[test]
fn question_reaches_the_model_without_the_option() {
    let server = Server::scripted(&["--task-store", "memory"]);
    let mut host = Host::start(&["--url", server.url()]);
    let asked = host.call_with(
        send_request("ask which colour"),
        json!({"elicitation": {"form": {}}}),
    );
    assert!(text(&asked).contains("input-required"), "{asked}");
}

#[test]
fn question_reaches_the_person_in_an_earlier_version() {
    let server = Server::scripted(&["--task-store", "memory"]);
    let mut host = Host::start(&["--url", server.url(), "--ask-user"]);
    let client = json!({"name": "support", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": client});
    host.request("initialize", params);
    host.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
    let call = host.send("tools/call", calling(send_request("ask which colour")));
    let question = host.receive();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    let result = json!({"action": "accept", "content": {"answer": "green"}});
    host.write(&json!({"jsonrpc": "2.0", "id": question["id"], "result": result}).to_string());
    let answered = host.answer(call);
    assert!(text(&answered).contains("green"), "{answered}");
}
