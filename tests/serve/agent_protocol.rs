//! The endpoints of the Agent Protocol, against the running server. The first test makes the requests of the protocol's
//! public collection of checks (`testing_suite/agent_protocol_v1.json`) and checks what that collection checks.

use serde_json::{Value, json};
use testkit::support::serve::Server;

use crate::serve::http_client::{Response, call, client, exchange};

const TASKS: &str = "/ap/v1/agent/tasks";
const JSON: &str = "Content-Type: application/json";
const MULTIPART: &str = "Content-Type: multipart/form-data; boundary=b0undary";
const INPUT: &str = "Write the word 'Washington' to a .txt file";

fn start_server() -> Server {
    Server::scripted(&["--task-store", "memory"])
}

fn get(server: &Server, path: &str) -> Response {
    exchange(server, &format!("GET {TASKS}{path}"), &[], "")
}

fn post(server: &Server, path: &str, body: &Value) -> Response {
    exchange(
        server,
        &format!("POST {TASKS}{path}"),
        &[JSON],
        &body.to_string(),
    )
}

/// Creates a task, and returns its path.
fn create_task(server: &Server, input: &str) -> String {
    let task = post(server, "", &json!({"input": input})).json();
    format!("/{}", task["task_id"].as_str().unwrap())
}

fn multipart_form(text: &str) -> String {
    let head = "Content-Disposition: form-data; name=\"file\"; filename=\"../output.txt\"";
    let path = "Content-Disposition: form-data; name=\"relative_path\"";
    format!(
        "--b0undary\r\n{path}\r\n\r\nfolder/\r\n--b0undary\r\n{head}\r\nContent-Type: text/html\r\n\r\n{text}\r\n--b0undary--\r\n"
    )
}

fn upload(server: &Server, task: &str, text: &str) -> Value {
    let line = format!("POST {TASKS}{task}/artifacts");
    let answer = exchange(server, &line, &[MULTIPART], &multipart_form(text));
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

#[track_caller]
fn assert_fields(value: &Value, fields: &[&str]) {
    for field in fields {
        assert!(value.get(field).is_some(), "`{field}` is missing: {value}");
    }
}

#[test]
fn requests_of_the_public_checks_succeed() {
    let server = start_server();
    assert_eq!(get(&server, "").status, 200);
    let create_task = post(
        &server,
        "",
        &json!({"input": INPUT, "additional_input": {"test_run_id": "123"}}),
    );
    assert_eq!(create_task.status, 200, "{create_task:?}");
    assert!(create_task.head.contains("content-type: application/json"));
    let task = create_task.json();
    assert_fields(
        &task,
        &["task_id", "input", "additional_input", "artifacts"],
    );
    let path = format!("/{}", task["task_id"].as_str().unwrap());
    let step = post(&server, &format!("{path}/steps"), &json!({"input": INPUT}));
    assert_eq!(step.status, 200, "{step:?}");
    let step = step.json();
    assert_fields(
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
    assert_fields(&steps, &["steps", "pagination"]);
    assert_fields(
        &get(&server, &path).json(),
        &["task_id", "input", "additional_input", "artifacts"],
    );
    post(&server, "", &json!({"input": INPUT}));
    let page = get(&server, "?page_size=1&current_page=1").json();
    assert_eq!(page["pagination"]["page_size"], 1, "{page}");
    assert_eq!(page["tasks"].as_array().unwrap().len(), 1, "{page}");
    let artifact = upload(&server, &path, "Washington");
    let artifact = artifact["artifact_id"].as_str().unwrap().to_owned();
    let download = get(&server, &format!("{path}/artifacts/{artifact}"));
    assert_eq!(
        (download.status, download.body.as_str()),
        (200, "Washington")
    );
}

#[test]
fn step_runs_the_task_and_returns_its_output() {
    let server = start_server();
    let task = create_task(&server, "task one two three");
    let step = post(&server, &format!("{task}/steps"), &json!({})).json();
    assert_eq!(
        (&step["status"], &step["is_last"]),
        (&json!("completed"), &json!(true))
    );
    assert_eq!(step["output"], "alpha beta one two three", "{step}");
    assert_eq!(step["artifacts"].as_array().unwrap().len(), 1, "{step}");
    assert_eq!(step["artifacts"][0]["agent_created"], true, "{step}");
    let a2a_task = call(&server, "GetTask", &json!({"id": step["step_id"]}));
    let context = a2a_task["result"]["contextId"].as_str().unwrap();
    assert_eq!(format!("/{context}"), task, "a task is a context of A2A");
}

#[test]
fn delegation_continues_with_every_step() {
    let server = start_server();
    let steps = format!("{}/steps", create_task(&server, "who"));
    let delegation = json!({"hop": 3, "chain": "c"});
    let body = json!({"additional_input": {"openclaw-remote-agent/delegation": delegation}});
    let step = post(&server, &steps, &body).json();
    let a2a_task = call(&server, "GetTask", &json!({"id": step["step_id"]}));
    let parts = &a2a_task["result"]["artifacts"][0]["parts"][0]["data"];
    assert_eq!(parts["delegation"], delegation, "{a2a_task}");
    let next = json!({"input": "who", "additional_input": {"other": 1}});
    let step = post(&server, &steps, &next).json();
    let a2a_task = call(&server, "GetTask", &json!({"id": step["step_id"]}));
    let parts = &a2a_task["result"]["artifacts"][0]["parts"][0]["data"];
    assert_eq!(parts["delegation"], delegation, "{a2a_task}");
}

#[test]
fn question_is_answered_by_the_next_step() {
    let server = start_server();
    let steps = format!("{}/steps", create_task(&server, "ask"));
    let first = post(&server, &steps, &json!({})).json();
    assert_eq!(
        (&first["status"], &first["is_last"]),
        (&json!("completed"), &json!(false))
    );
    let second = post(&server, &steps, &json!({"input": "blue"})).json();
    assert_eq!(second["step_id"], first["step_id"], "{second}");
    assert_eq!(second["is_last"], true, "{second}");
}

#[test]
fn step_without_input_is_refused_after_the_first() {
    let server = start_server();
    let steps = format!("{}/steps", create_task(&server, "echo once"));
    assert_eq!(post(&server, &steps, &json!({})).status, 200);
    let refused = post(&server, &steps, &json!({}));
    assert_eq!(refused.status, 422, "{refused:?}");
    assert!(refused.body.contains("`input` is missing"), "{refused:?}");
}

#[test]
fn uploaded_file_is_part_of_the_first_step() {
    let server = start_server();
    let task = create_task(&server, "parts");
    let artifact = upload(&server, &task, "Washington");
    assert_eq!(artifact["file_name"], "output.txt", "{artifact}");
    assert_eq!(artifact["relative_path"], "folder/", "{artifact}");
    let step = post(&server, &format!("{task}/steps"), &json!({})).json();
    let a2a_task = call(&server, "GetTask", &json!({"id": step["step_id"]}));
    let file = &a2a_task["result"]["history"][0]["parts"][1];
    assert_eq!(file["filename"], "output.txt", "{a2a_task}");
    let listed = get(&server, &format!("{task}/artifacts")).json();
    assert_eq!(listed["artifacts"][0], artifact, "{listed}");
}

#[test]
fn upload_above_two_megabytes_is_accepted() {
    let server = start_server();
    let task = create_task(&server, "echo x");
    let text = "x".repeat(3 << 20);
    let artifact = upload(&server, &task, &text);
    let id = artifact["artifact_id"].as_str().unwrap();
    let download = get(&server, &format!("{task}/artifacts/{id}"));
    assert_eq!(download.body.len(), text.len());
}

#[test]
fn page_of_steps_has_its_steps_and_the_total() {
    let server = start_server();
    let task = create_task(&server, "echo 1");
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
    let server = start_server();
    let task = create_task(&server, "task one two");
    let step = post(&server, &format!("{task}/steps"), &json!({})).json();
    let id = step["artifacts"][0]["artifact_id"].as_str().unwrap();
    let download = get(&server, &format!("{task}/artifacts/{id}"));
    assert_eq!(download.body, step["output"].as_str().unwrap());
    let other = create_task(&server, "echo x");
    let foreign = get(&server, &format!("{other}/artifacts/{id}"));
    assert_eq!(foreign.status, 404, "{foreign:?}");
}

#[test]
fn download_is_an_attachment() {
    let server = start_server();
    let task = create_task(&server, "echo x");
    let artifact = upload(&server, &task, "<script>alert(1)</script>");
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
fn unknown_ids_are_404_and_invalid_input_422() {
    let server = start_server();
    let task = create_task(&server, "echo x");
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
    let first_server = Server::scripted(&flags);
    let task = create_task(&first_server, "echo kept");
    post(
        &first_server,
        &format!("{task}/steps"),
        &json!({"additional_input": {"mode": "test"}}),
    );
    assert!(first_server.stop().status.success());
    let second_server = Server::scripted(&flags);
    let stored = get(&second_server, &task).json();
    assert_eq!(stored["input"], "echo kept", "{stored}");
    assert_eq!(
        stored["additional_input"],
        json!({"mode": "test"}),
        "{stored}"
    );
}
