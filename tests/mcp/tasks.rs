//! Long calls as MCP tasks, whose ids are continuations.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::*;
use crate::cli::sign_in;

/// Calls the tool, expects a task and returns its id.
fn start_task(host: &mut Host, text: &str) -> String {
    let answer = host.call_with(send_request(text), tasks_capability());
    assert_eq!(answer["result"]["resultType"], "task", "{answer}");
    assert_eq!(answer["result"]["status"], "working");
    answer["result"]["taskId"].as_str().unwrap().to_owned()
}

/// Returns the id of a task over standard input and output.
fn encode_task_id(target: &Value, task: &Value) -> String {
    let payload = json!({"target": target, "task": {"task_id": task}, "at": "then"});
    format!("rat1.{}", URL_SAFE_NO_PAD.encode(payload.to_string()))
}

fn get_task(host: &mut Host, id: &str) -> Value {
    host.request(
        "tasks/get",
        with_metadata(json!({"taskId": id}), tasks_capability()),
    )
}

/// Polls a task until it leaves `working`.
fn wait_for_end(host: &mut Host, id: &str) -> Value {
    let deadline = std::time::Instant::now() + ANSWER_TIMEOUT;
    loop {
        let answer = get_task(host, id);
        if answer["result"]["status"] != "working" {
            return answer;
        }
        assert!(std::time::Instant::now() < deadline, "{answer}");
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn long_call_is_a_task_that_ends_with_its_result() {
    let (_server, mut host) = host_without_handshake(&[]);
    let id = start_task(&mut host, "slow 2000");
    let answer = wait_for_end(&mut host, &id);
    assert_eq!(answer["result"]["status"], "completed", "{answer}");
    assert_eq!(answer["result"]["result"]["isError"], false);
}

#[test]
fn short_call_is_answered_without_a_task() {
    let (_server, mut host) = host_without_handshake(&[]);
    let answer = host.call_with(send_request("echo hello"), tasks_capability());
    assert_ne!(answer["result"]["resultType"], "task", "{answer}");
    assert!(text(&answer).contains("hello"));
}

#[test]
fn client_without_tasks_waits_for_the_result() {
    let (_server, mut host) = host_without_handshake(&[]);
    let answer = host.call_with(send_request("slow 1500"), json!({}));
    assert_eq!(envelope(&answer)["ok"], true, "{answer}");
}

#[test]
fn task_survives_the_kill_of_the_server() {
    let server = Server::scripted(&["--task-store", "memory"]);
    let mut first = Host::start(&["--url", server.url()]);
    let id = start_task(&mut first, "slow 3000");
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    let mut second = Host::start(&["--url", server.url()]);
    assert_eq!(get_task(&mut second, &id)["result"]["status"], "working");
    assert_eq!(
        wait_for_end(&mut second, &id)["result"]["status"],
        "completed"
    );
}

#[test]
fn cancelled_task_is_cancelled_at_the_agent() {
    let (server, mut host) = host_without_handshake(&[]);
    let id = start_task(&mut host, "begun work");
    let answer = host.request(
        "tasks/cancel",
        with_metadata(json!({"taskId": id}), tasks_capability()),
    );
    assert!(answer["error"].is_null(), "{answer}");
    assert_eq!(
        wait_for_end(&mut host, &id)["result"]["status"],
        "cancelled"
    );
    assert_eq!(task_states(&server), ["TASK_STATE_CANCELED"]);
}

#[test]
fn failed_task_is_completed_with_an_error() {
    let (_server, mut host) = host_without_handshake(&[]);
    let failed = host.call_with(send_request("fail because"), json!({}));
    let continuation = &envelope(&failed)["summary"]["continuation"];
    let id = encode_task_id(&continuation["target"], &continuation["task"]["task_id"]);
    let answer = get_task(&mut host, &id);
    assert_eq!(answer["result"]["status"], "completed", "{answer}");
    assert_eq!(answer["result"]["result"]["isError"], true);
}

#[test]
fn id_of_another_target_is_refused() {
    let (_server, mut host) = host_without_handshake(&[]);
    let foreign_target = json!({"target_url": "http://169.254.169.254/", "card_path": "/.well-known/agent-card.json", "preferred_transports": ["JSONRPC"]});
    let forged = encode_task_id(&foreign_target, &json!("7"));
    for id in [forged.as_str(), "rat1.", "7"] {
        let answer = get_task(&mut host, id);
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
}

#[test]
fn question_reaches_the_person_and_the_answer_the_agent() {
    let (server, mut host) = host_without_handshake(&["--ask-user"]);
    let can_ask = json!({"elicitation": {"form": {}}});
    let question_result = host.call_with(send_request("ask which colour"), can_ask.clone());
    assert_eq!(
        question_result["result"]["resultType"], "input_required",
        "{question_result}"
    );
    let requests = question_result["result"]["inputRequests"]
        .as_object()
        .unwrap();
    let (id, question) = requests.iter().next().unwrap();
    assert_eq!(question["method"], "elicitation/create");
    let message = question["params"]["message"].as_str().unwrap();
    assert!(
        message.ends_with("asks about \"ask which colour\": \"which colour\""),
        "{message}"
    );
    let mut repeated = call_params(send_request("ask which colour"));
    repeated["requestState"] = question_result["result"]["requestState"].clone();
    repeated["inputResponses"] = json!({id: {"action": "accept", "content": {"answer": "green"}}});
    let final_result = host.request("tools/call", with_metadata(repeated, can_ask));
    assert!(text(&final_result).contains("green"), "{final_result}");
    assert_eq!(task_states(&server), ["TASK_STATE_COMPLETED"]);
}

#[test]
fn question_reaches_the_model_without_the_option() {
    let (_server, mut host) = host_without_handshake(&[]);
    let question_result = host.call_with(
        send_request("ask which colour"),
        json!({"elicitation": {"form": {}}}),
    );
    assert!(
        text(&question_result).contains("input-required"),
        "{question_result}"
    );
}

#[test]
fn question_reaches_the_person_in_an_earlier_version() {
    let (_server, mut host) = host_without_handshake(&["--ask-user"]);
    let client = json!({"name": "support", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": client});
    host.request("initialize", params);
    host.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
    let call = host.send("tools/call", call_params(send_request("ask which colour")));
    let question = host.receive();
    assert_eq!(question["method"], "elicitation/create", "{question}");
    let result = json!({"action": "accept", "content": {"answer": "green"}});
    host.write(&json!({"jsonrpc": "2.0", "id": question["id"], "result": result}).to_string());
    let final_result = host.answer(call);
    assert!(text(&final_result).contains("green"), "{final_result}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sign_in_reaches_the_person_as_a_link_and_the_call_goes_on() {
    let pending = json!({"status": 400, "json": {"error": "authorization_pending"}});
    let peers = sign_in::start(json!([pending, {"json": sign_in::token()}])).await;
    let config = sign_in::config("mcp-sign-in", &peers, &json!({}));
    let login = peers.origin("login").to_owned();
    let check = move || {
        let mut host = Host::start(&["--ask-user", "--config", &config]);
        let client = json!({"name": "support", "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {"url": {}}}, "clientInfo": client});
        host.request("initialize", params);
        host.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        let mut request = send_request("hello");
        request["target_alias"] = json!("desk");
        let call = host.send("tools/call", call_params(request));
        let question = host.receive();
        assert_eq!(question["params"]["mode"], "url", "{question}");
        let url = format!("{login}/go?code=WDJB-MJHT");
        assert_eq!(question["params"]["url"], url, "{question}");
        // The person agrees to open the link, and the token ends the question.
        let accepted =
            json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}});
        host.write(&accepted.to_string());
        let answer = host.answer(call);
        assert!(text(&answer).contains("pong"), "{answer}");
        assert!(!answer.to_string().contains("s3cret"), "{answer}");
        host.end();
    };
    tokio::task::spawn_blocking(check).await.unwrap();
}

/// In MCP 2026-07-28 the call ends with the question, and the repeated one finds the sign-in that was begun.
#[tokio::test(flavor = "multi_thread")]
async fn sign_in_survives_between_the_calls_of_the_present_version() {
    let pending = json!({"status": 400, "json": {"error": "authorization_pending"}});
    // One a second, while the calls before the last one run.
    let answers = vec![pending; 6]
        .into_iter()
        .chain([json!({"json": sign_in::token()})]);
    let peers = sign_in::start(Value::Array(answers.collect())).await;
    let config = sign_in::config("mcp-sign-in-state", &peers, &json!({}));
    let check = move || {
        let mut host = Host::start(&["--ask-user", "--config", &config]);
        let mut request = send_request("hello");
        request["target_alias"] = json!("desk");
        let call = |host: &mut Host, declared: Value, state: &Value, responses: Value| {
            let mut params = call_params(request.clone());
            if !state.is_null() {
                params["requestState"] = state.clone();
                params["inputResponses"] = responses;
            }
            host.request("tools/call", with_metadata(params, declared))
        };
        let links = || json!({"elicitation": {"url": {}}});
        let asked = call(&mut host, links(), &Value::Null, Value::Null);
        assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
        let requests = asked["result"]["inputRequests"].as_object().unwrap();
        let (id, question) = requests.iter().next().unwrap();
        assert_eq!(question["params"]["mode"], "url", "{question}");
        let state = &asked["result"]["requestState"];
        // A client that shows forms gets the same sign-in as a form.
        let forms = json!({"elicitation": {"form": {}}});
        let again = call(&mut host, forms, &Value::Null, Value::Null);
        let form = &again["result"]["inputRequests"][id];
        assert_eq!(form["params"]["mode"], "form", "{again}");
        // A state that this process did not issue finds no sign-in.
        let accepted = json!({id: {"action": "accept"}});
        let forged = format!("{}x", state.as_str().unwrap());
        let refused = call(&mut host, links(), &json!(forged), accepted.clone());
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
        let answer = call(&mut host, links(), state, accepted);
        assert!(text(&answer).contains("pong"), "{answer}");
        assert!(!answer.to_string().contains("s3cret"), "{answer}");
        host.end();
        peers
    };
    let peers = tokio::task::spawn_blocking(check).await.unwrap();
    let codes = peers.log("login").into_iter();
    let codes = codes.filter(|request| request.path == "/device").count();
    assert_eq!(codes, 1);
    assert_eq!(
        peers
            .log("desk")
            .iter()
            .filter(|request| request.method == "POST")
            .count(),
        1
    );
}
