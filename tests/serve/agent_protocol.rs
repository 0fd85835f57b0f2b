//! The endpoints of the Agent Protocol, against the running server. The first test makes the requests of the protocol's
//! public collection of checks (`testing_suite/agent_protocol_v1.json`) and checks what that collection checks.

use serde_json::{Value, json};
use testkit::support::serve::Server;

use crate::serve::plain::{Answer, call, client, exchange};

const TASKS: &str = "/ap/v1/agent/tasks";
const JSON: &str = "Content-Type: application/json";
const FORM: &str = "Content-Type: multipart/form-data; boundary=b0undary";
const WRITE: &str = "Write the word 'Washington' to a .txt file";

fn server() -> Server {
    Server::scripted(&["--task-store", "memory"])
}

fn get(server: &Server, path: &str) -> Answer {
    exchange(server, &format!("GET {TASKS}{path}"), &[], "")
}

fn post(server: &Server, path: &str, body: &Value) -> Answer {
    exchange(
        server,
        &format!("POST {TASKS}{path}"),
        &[JSON],
        &body.to_string(),
    )
}

/// Creates a task, and returns its path.
fn created(server: &Server, input: &str) -> String {
    let task = post(server, "", &json!({"input": input})).json();
    format!("/{}", task["task_id"].as_str().unwrap())
}

fn form(text: &str) -> String {
    let head = "Content-Disposition: form-data; name=\"file\"; filename=\"../output.txt\"";
    let path = "Content-Disposition: form-data; name=\"relative_path\"";
    format!(
        "--b0undary\r\n{path}\r\n\r\nfolder/\r\n--b0undary\r\n{head}\r\nContent-Type: text/html\r\n\r\n{text}\r\n--b0undary--\r\n"
    )
}

fn uploaded(server: &Server, task: &str, text: &str) -> Value {
    let line = format!("POST {TASKS}{task}/artifacts");
    let answer = exchange(server, &line, &[FORM], &form(text));
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

#[track_caller]
fn has(value: &Value, fields: &[&str]) {
    for field in fields {
        assert!(value.get(field).is_some(), "`{field}` is missing: {value}");
    }
}

#[test]
fn requests_of_the_public_checks_succeed() {
    let server = server();
    assert_eq!(get(&server, "").status, 200);
    let created = post(
        &server,
        "",
        &json!({"input": WRITE, "additional_input": {"test_run_id": "123"}}),
    );
    assert_eq!(created.status, 200, "{created:?}");
    assert!(created.head.contains("content-type: application/json"));
    let task = created.json();
    has(
        &task,
        &["task_id", "input", "additional_input", "artifacts"],
    );
    let path = format!("/{}", task["task_id"].as_str().unwrap());
    let step = post(&server, &format!("{path}/steps"), &json!({"input": WRITE}));
    assert_eq!(step.status, 200, "{step:?}");
    let step = step.json();
    has(
        &step,
        &[
            "task_id",
            "step_id",
            "status",
            "output",
            "artifacts",
            "is_last",
        ],
    );
    let step = format!("{path}/steps/{}", step["step_id"].as_str().unwrap());
    assert_eq!(get(&server, &step).status, 200);
    let steps = get(&server, &format!("{path}/steps")).json();
    has(&steps, &["steps", "pagination"]);
    has(
        &get(&server, &path).json(),
        &["task_id", "input", "additional_input", "artifacts"],
    );
    post(&server, "", &json!({"input": WRITE}));
    let page = get(&server, "?page_size=1&current_page=1").json();
    assert_eq!(page["pagination"]["page_size"], 1, "{page}");
    assert_eq!(page["tasks"].as_array().unwrap().len(), 1, "{page}");
    let artifact = uploaded(&server, &path, "Washington");
    let artifact = artifact["artifact_id"].as_str().unwrap().to_owned();
    let download = get(&server, &format!("{path}/artifacts/{artifact}"));
    assert_eq!(
        (download.status, download.body.as_str()),
        (200, "Washington")
    );
}

#[test]
fn step_runs_the_task_and_returns_its_output() {
    let server = server();
    let task = created(&server, "task one two three");
    let step = post(&server, &format!("{task}/steps"), &json!({})).json();
    assert_eq!(
        (&step["status"], &step["is_last"]),
        (&json!("completed"), &json!(true))
    );
    assert_eq!(step["output"], "alpha beta one two three", "{step}");
    assert_eq!(step["artifacts"].as_array().unwrap().len(), 1, "{step}");
    assert_eq!(step["artifacts"][0]["agent_created"], true, "{step}");
    let seen = call(&server, "GetTask", &json!({"id": step["step_id"]}));
    let context = seen["result"]["contextId"].as_str().unwrap();
    assert_eq!(format!("/{context}"), task, "a task is a context of A2A");
}

#[test]
fn delegation_continues_with_every_step() {
    let server = server();
    let steps = format!("{}/steps", created(&server, "who"));
    let delegation = json!({"hop": 3, "chain": "c"});
    let body = json!({"additional_input": {"openclaw-remote-agent/delegation": delegation}});
    let step = post(&server, &steps, &body).json();
    let seen = call(&server, "GetTask", &json!({"id": step["step_id"]}));
    let parts = &seen["result"]["artifacts"][0]["parts"][0]["data"];
    assert_eq!(parts["delegation"], delegation, "{seen}");
    let next = json!({"input": "who", "additional_input": {"other": 1}});
    let step = post(&server, &steps, &next).json();
    let seen = call(&server, "GetTask", &json!({"id": step["step_id"]}));
    let parts = &seen["result"]["artifacts"][0]["parts"][0]["data"];
    assert_eq!(parts["delegation"], delegation, "{seen}");
}

#[test]
fn question_is_answered_by_the_next_step() {
    let server = server();
    let steps = format!("{}/steps", created(&server, "ask"));
    let asked = post(&server, &steps, &json!({})).json();
    assert_eq!(
        (&asked["status"], &asked["is_last"]),
        (&json!("completed"), &json!(false))
    );
    let answered = post(&server, &steps, &json!({"input": "blue"})).json();
    assert_eq!(answered["step_id"], asked["step_id"], "{answered}");
    assert_eq!(answered["is_last"], true, "{answered}");
}

#[test]
fn step_without_input_is_refused_once_the_task_ran() {
    let server = server();
    let steps = format!("{}/steps", created(&server, "echo once"));
    assert_eq!(post(&server, &steps, &json!({})).status, 200);
    let refused = post(&server, &steps, &json!({}));
    assert_eq!(refused.status, 422, "{refused:?}");
    assert!(refused.body.contains("`input` is missing"), "{refused:?}");
}

#[test]
fn uploaded_file_is_part_of_the_first_step() {
    let server = server();
    let task = created(&server, "parts");
    let artifact = uploaded(&server, &task, "Washington");
    assert_eq!(artifact["file_name"], "output.txt", "{artifact}");
    assert_eq!(artifact["relative_path"], "folder/", "{artifact}");
    let step = post(&server, &format!("{task}/steps"), &json!({})).json();
    let seen = call(&server, "GetTask", &json!({"id": step["step_id"]}));
    let file = &seen["result"]["history"][0]["parts"][1];
    assert_eq!(file["filename"], "output.txt", "{seen}");
    let listed = get(&server, &format!("{task}/artifacts")).json();
    assert_eq!(listed["artifacts"][0], artifact, "{listed}");
}

#[test]
fn upload_above_two_megabytes_is_taken() {
    let server = server();
    let task = created(&server, "echo x");
    let text = "x".repeat(3 << 20);
    let artifact = uploaded(&server, &task, &text);
    let id = artifact["artifact_id"].as_str().unwrap();
    let download = get(&server, &format!("{task}/artifacts/{id}"));
    assert_eq!(download.body.len(), text.len());
}

#[test]
fn page_of_steps_has_its_steps_and_the_total() {
    let server = server();
    let task = created(&server, "echo 1");
    for number in 1..=3 {
        let input = json!({"input": format!("echo {number}")});
        post(&server, &format!("{task}/steps"), &input);
    }
    let page = get(&server, &format!("{task}/steps?page_size=2&current_page=2")).json();
    assert_eq!(page["pagination"]["total_items"], 3, "{page}");
    assert_eq!(page["steps"].as_array().unwrap().len(), 1, "{page}");
    assert_eq!(page["steps"][0]["input"], "echo 3", "{page}");
}

#[test]
fn artifact_of_a_step_is_downloaded() {
    let server = server();
    let task = created(&server, "task one two");
    let step = post(&server, &format!("{task}/steps"), &json!({})).json();
    let id = step["artifacts"][0]["artifact_id"].as_str().unwrap();
    let download = get(&server, &format!("{task}/artifacts/{id}"));
    assert_eq!(download.body, step["output"].as_str().unwrap());
    let other = created(&server, "echo x");
    let foreign = get(&server, &format!("{other}/artifacts/{id}"));
    assert_eq!(foreign.status, 404, "{foreign:?}");
}

#[test]
fn download_is_no_page_of_the_server() {
    let server = server();
    let task = created(&server, "echo x");
    let artifact = uploaded(&server, &task, "<script>alert(1)</script>");
    let id = artifact["artifact_id"].as_str().unwrap();
    let download = get(&server, &format!("{task}/artifacts/{id}"));
    for line in [
        "content-type: application/octet-stream",
        "content-disposition: attachment",
        "x-content-type-options: nosniff",
    ] {
        assert!(download.head.contains(line), "{}", download.head);
    }
}

#[test]
fn unknown_ids_are_404_and_wrong_input_422() {
    let server = server();
    let task = created(&server, "echo x");
    for path in ["/none", "/none/steps", "/none/artifacts"] {
        assert_eq!(get(&server, path).status, 404, "{path}");
    }
    for path in ["steps/none", "artifacts/none"] {
        assert_eq!(
            get(&server, &format!("{task}/{path}")).status,
            404,
            "{path}"
        );
    }
    assert_eq!(
        post(&server, "/none/steps", &json!({"input": "x"})).status,
        404
    );
    assert_eq!(post(&server, "", &json!({"input": 7})).status, 422);
    let agent = json!({"input": "x", "additional_input": {"agent": "none"}});
    assert_eq!(post(&server, "", &agent).status, 422);
    assert_eq!(get(&server, "?page_size=0").status, 422);
}

#[test]
fn tasks_of_other_clients_and_web_pages_are_refused() {
    let state = tempfile::tempdir().unwrap();
    let (ada, bob) = (
        client(state.path(), "ada", &[]),
        client(state.path(), "bob", &[]),
    );
    let server = Server::scripted(&["--state-dir", state.path().to_str().unwrap()]);
    let line = format!("POST {TASKS}");
    let body = json!({"input": "echo mine"}).to_string();
    assert_eq!(exchange(&server, &line, &[JSON], &body).status, 401);
    let task = exchange(&server, &line, &[JSON, &ada], &body).json();
    let path = format!("{TASKS}/{}", task["task_id"].as_str().unwrap());
    let step = format!("POST {path}/steps");
    assert_eq!(exchange(&server, &step, &[JSON, &bob], "{}").status, 404);
    assert_eq!(exchange(&server, &step, &[JSON, &ada], "{}").status, 200);
    for path in [
        path.clone(),
        format!("{path}/steps"),
        format!("{path}/artifacts"),
    ] {
        let line = format!("GET {path}");
        assert_eq!(exchange(&server, &line, &[&bob], "").status, 404, "{path}");
        assert_eq!(exchange(&server, &line, &[&ada], "").status, 200, "{path}");
    }
    let listed = exchange(&server, &format!("GET {TASKS}"), &[&bob], "").json();
    assert_eq!(listed["tasks"], json!([]), "{listed}");
    let foreign = exchange(
        &server,
        &line,
        &[JSON, &ada, "Origin: https://evil.example"],
        &body,
    );
    assert_eq!(foreign.status, 403, "{foreign:?}");
    let host = exchange(&server, &line, &[JSON, &ada, "Host: evil.example"], &body);
    assert_eq!(host.status, 403, "{host:?}");
}

#[test]
fn started_tasks_survive_a_restart() {
    let state = tempfile::tempdir().unwrap();
    let flags = ["--state-dir", state.path().to_str().unwrap()];
    let before = Server::scripted(&flags);
    let task = created(&before, "echo kept");
    post(
        &before,
        &format!("{task}/steps"),
        &json!({"additional_input": {"mode": "test"}}),
    );
    assert!(before.stop().status.success());
    let after = Server::scripted(&flags);
    let kept = get(&after, &task).json();
    assert_eq!(kept["input"], "echo kept", "{kept}");
    assert_eq!(kept["additional_input"], json!({"mode": "test"}), "{kept}");
}
