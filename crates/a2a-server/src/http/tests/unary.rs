//! All operations except streams, for each version over each binding.

use a2a::{Dialect, Transport, Version};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::http::operations::{Answer, DialectAnswer};
use crate::service::{ANONYMOUS_CLIENT, CallContext};

use super::harness::{Reply, Server, V1, message, message_0_3, proto_0_3};

/// The version and the binding of a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Interface {
    Rpc1,
    Rest1,
    Rpc0,
    Rest0,
}

pub(super) const ALL_INTERFACES: [Interface; 4] = [
    Interface::Rpc1,
    Interface::Rest1,
    Interface::Rpc0,
    Interface::Rest0,
];

pub(super) async fn rest(
    server: &Server,
    interface: Interface,
    method: Method,
    path: &str,
    body: Option<Value>,
) -> Reply {
    let (base, headers): (&str, &[(&str, &str)]) = match interface {
        Interface::Rest0 => ("/rest/v1", &[]),
        _ => ("/rest", &[V1]),
    };
    let body = body.map(|body| body.to_string());
    server
        .request(method, &format!("{base}{path}"), headers, body)
        .await
}

/// Sends `text`, and returns the answer in this form.
pub(super) async fn send(
    server: &Server,
    interface: Interface,
    text: &str,
    configuration: Value,
) -> Value {
    match interface {
        Interface::Rpc1 => {
            let params = json!({"message": message(text), "configuration": configuration});
            server.rpc("SendMessage", params).await.result()
        }
        Interface::Rpc0 => {
            let params = json!({"message": message_0_3(text), "configuration": configuration});
            server.rpc_0_3("message/send", params).await.result()
        }
        Interface::Rest1 | Interface::Rest0 => {
            let message = match interface {
                Interface::Rest0 => proto_0_3(text),
                _ => message(text),
            };
            let body = json!({"message": message, "configuration": configuration});
            let reply = rest(server, interface, Method::POST, "/message:send", Some(body)).await;
            assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
            reply.json()
        }
    }
}

async fn send_blocking(server: &Server, interface: Interface, text: &str) -> Value {
    let configuration = match interface {
        Interface::Rpc1 | Interface::Rest1 => json!({"returnImmediately": false}),
        Interface::Rpc0 | Interface::Rest0 => json!({"blocking": true}),
    };
    send(server, interface, text, configuration).await
}

async fn send_immediate(server: &Server, interface: Interface, text: &str) -> Value {
    send(server, interface, text, immediate_configuration(interface)).await
}

pub(super) fn immediate_configuration(interface: Interface) -> Value {
    match interface {
        Interface::Rpc1 | Interface::Rest1 => json!({"returnImmediately": true}),
        Interface::Rpc0 | Interface::Rest0 => json!({"blocking": false}),
    }
}

/// Returns the task in an answer to a message.
pub(super) fn task(interface: Interface, answer: &Value) -> &Value {
    match interface {
        Interface::Rpc0 => answer,
        _ => &answer["task"],
    }
}

fn state(interface: Interface, name: &str) -> String {
    match (interface, name) {
        (Interface::Rpc0, name) => name.to_owned(),
        (Interface::Rest0, "canceled") => "TASK_STATE_CANCELLED".to_owned(),
        (_, name) => format!("TASK_STATE_{}", name.to_uppercase()),
    }
}

#[track_caller]
fn assert_state(interface: Interface, task: &Value, name: &str) {
    let expected = state(interface, name);
    assert_eq!(task["status"]["state"], expected, "{interface:?}");
}

#[tokio::test]
async fn send_returns_the_completed_task() {
    let server = Server::start().await;
    for interface in ALL_INTERFACES {
        let answer = send_blocking(&server, interface, "echo over there").await;
        let task = task(interface, &answer);
        assert_state(interface, task, "completed");
        assert_eq!(
            task["artifacts"][0]["parts"][0]["text"], "over there",
            "{interface:?}"
        );
        assert!(task["contextId"].is_string(), "{interface:?}");
        let parts = match interface {
            Interface::Rest0 => &task["history"][0]["content"],
            _ => &task["history"][0]["parts"],
        };
        assert_eq!(parts[0]["text"], "echo over there", "{interface:?}");
    }
}

/// The task as the server decodes it, in the form of an interface.
async fn decoded(server: &Server, interface: Interface, id: &str, length: Option<i32>) -> String {
    let (version, transport) = match interface {
        Interface::Rpc1 => (Version::V1_0, Transport::JsonRpc),
        Interface::Rest1 => (Version::V1_0, Transport::HttpJson),
        Interface::Rpc0 => (Version::V0_3, Transport::JsonRpc),
        Interface::Rest0 => (Version::V0_3, Transport::HttpJson),
    };
    let caller = CallContext {
        client: ANONYMOUS_CLIENT.to_owned(),
        authenticated: false,
        version,
        agent: None,
    };
    let task = server.service.get(&caller, id, length).await.unwrap();
    let answer = Answer::Task(task);
    let answer = DialectAnswer(&answer, Dialect::new(version, transport));
    let json = serde_json::to_string(&answer).unwrap();
    match transport {
        Transport::JsonRpc => format!(r#"{{"jsonrpc":"2.0","id":1,"result":{json}}}"#),
        _ => json,
    }
}

#[tokio::test]
async fn finished_task_is_answered_byte_for_byte_as_decoded() {
    let server = Server::start().await;
    let mut ids = Vec::new();
    for text in [
        "echo \u{1} \"ü\" \\ \u{2028}",
        "fail",
        "reject",
        "ask",
        "hello",
    ] {
        let answer = send_blocking(&server, Interface::Rpc1, text).await;
        if let Some(id) = answer["task"]["id"].as_str() {
            ids.push(id.to_owned());
        }
    }
    assert!(ids.len() > 3, "{ids:?}");
    for interface in ALL_INTERFACES {
        for (id, length) in ids.iter().zip([None, Some(0), Some(1), Some(7)].repeat(2)) {
            // Over HTTP+JSON of 0.3, 0 is the absence of a number.
            let is_absent = matches!((interface, length), (Interface::Rest0, Some(0)));
            let decoded_length = length.filter(|_| !is_absent);
            let expected = decoded(&server, interface, id, decoded_length).await;
            let reply = get_with(&server, interface, id, length).await;
            assert_eq!(reply.text, expected, "{interface:?} {length:?}");
        }
    }
}

async fn get_with(server: &Server, interface: Interface, id: &str, length: Option<i32>) -> Reply {
    let mut params = json!({"id": id});
    if let Some(length) = length {
        params["historyLength"] = length.into();
    }
    let query = length.map(|length| format!("?historyLength={length}"));
    let path = format!("/tasks/{id}{}", query.unwrap_or_default());
    match interface {
        Interface::Rpc1 => server.rpc("GetTask", params).await,
        Interface::Rpc0 => server.rpc_0_3("tasks/get", params).await,
        Interface::Rest1 | Interface::Rest0 => {
            rest(server, interface, Method::GET, &path, None).await
        }
    }
}

#[tokio::test]
async fn json_rpc_task_of_0_3_has_kind_and_no_wrapper() {
    let server = Server::start().await;
    let answer = send_blocking(&server, Interface::Rpc0, "echo a").await;
    assert_eq!(answer["kind"], "task");
    assert_eq!(answer["history"][0]["kind"], "message");
    assert_eq!(answer["history"][0]["role"], "user");
    assert_eq!(answer["artifacts"][0]["parts"][0]["kind"], "text");
}

/// Sends a message with this part, and returns the response.
async fn send_part(server: &Server, interface: Interface, part: &Value) -> Reply {
    let list = Value::from(vec![part.clone()]);
    match interface {
        Interface::Rpc1 | Interface::Rest1 => {
            let mut params = json!({"message": message("")});
            params["message"]["parts"] = list;
            match interface {
                Interface::Rpc1 => server.rpc("SendMessage", params).await,
                _ => {
                    rest(
                        server,
                        interface,
                        Method::POST,
                        "/message:send",
                        Some(params),
                    )
                    .await
                }
            }
        }
        Interface::Rpc0 => {
            let mut params =
                json!({"message": message_0_3(""), "configuration": {"blocking": true}});
            params["message"]["parts"] = list;
            server.rpc_0_3("message/send", params).await
        }
        Interface::Rest0 => {
            let mut body = json!({"message": proto_0_3(""), "configuration": {"blocking": true}});
            body["message"]["content"] = list;
            rest(server, interface, Method::POST, "/message:send", Some(body)).await
        }
    }
}

#[tokio::test]
async fn part_is_read_in_every_spelling_over_every_interface() {
    let server = Server::start().await;
    for interface in ALL_INTERFACES {
        for part in [
            json!({"kind": "Text", "text": "echo hi"}),
            json!({"kind": "TEXT", "text": "echo hi"}),
            json!({"kind": "TextPart", "text": "echo hi"}),
            json!({"root": {"kind": "text", "text": "echo hi"}}),
            json!({"part": {"$case": "text", "value": "echo hi"}}),
        ] {
            let reply = send_part(&server, interface, &part).await;
            assert_eq!(reply.status, StatusCode::OK, "{interface:?} {part}");
            assert!(
                reply.text.contains("\"hi\""),
                "{interface:?} {}",
                reply.text
            );
        }
        let reply = send_part(&server, interface, &json!({"kind": "video", "video": "x"})).await;
        let text = &reply.text;
        assert!(
            text.contains("is of the kind `video`"),
            "{interface:?} {text}"
        );
    }
}

#[tokio::test]
async fn send_may_return_a_message() {
    let server = Server::start().await;
    for interface in ALL_INTERFACES {
        let answer = send_blocking(&server, interface, "message hello").await;
        let (message, parts, role) = match interface {
            Interface::Rpc0 => (&answer, "parts", "agent"),
            Interface::Rest0 => (&answer["message"], "content", "ROLE_AGENT"),
            _ => (&answer["message"], "parts", "ROLE_AGENT"),
        };
        assert_eq!(message[parts][0]["text"], "hello", "{interface:?}");
        assert_eq!(message["role"], role, "{interface:?}");
    }
}

#[tokio::test]
async fn non_blocking_send_returns_unfinished_task() {
    let server = Server::start().await;
    for interface in ALL_INTERFACES {
        let answer = send_immediate(&server, interface, "slow").await;
        let found = &task(interface, &answer)["status"]["state"];
        let open = [state(interface, "submitted"), state(interface, "working")];
        assert!(
            open.iter().any(|state| found == state.as_str()),
            "{interface:?}: {found}"
        );
    }
}

#[tokio::test]
async fn send_blocks_by_default_in_1_0_only() {
    let server = Server::start().await;
    for interface in ALL_INTERFACES {
        let answer = send(&server, interface, "slow 200", json!({})).await;
        let found = task(interface, &answer)["status"]["state"].clone();
        let done = found == state(interface, "completed");
        assert_eq!(
            done,
            matches!(interface, Interface::Rpc1 | Interface::Rest1),
            "{interface:?}: {found}"
        );
    }
}

#[tokio::test]
async fn waiting_server_answers_0_3_with_message() {
    let server = Server::changed(|options| options.settings.async_mode = false).await;
    let answer = send(&server, Interface::Rpc0, "say done", json!({})).await;
    assert_eq!(answer["kind"], "message");
    assert_eq!(answer["parts"][0]["text"], "done");
    let answer = send(&server, Interface::Rest0, "say done", json!({})).await;
    assert_eq!(answer["message"]["content"][0]["text"], "done");
}

pub(super) async fn get(
    server: &Server,
    interface: Interface,
    id: &str,
    length: Option<u32>,
) -> Reply {
    let mut params = json!({"id": id});
    if let Some(length) = length {
        params["historyLength"] = length.into();
    }
    let query = length.map_or_else(String::new, |length| format!("?historyLength={length}"));
    match interface {
        Interface::Rpc1 => server.rpc("GetTask", params).await,
        Interface::Rpc0 => server.rpc_0_3("tasks/get", params).await,
        _ => {
            let path = format!("/tasks/{id}{query}");
            rest(server, interface, Method::GET, &path, None).await
        }
    }
}

pub(super) fn bare(interface: Interface, reply: &Reply) -> Value {
    match interface {
        Interface::Rpc1 | Interface::Rpc0 => reply.result(),
        _ => reply.json(),
    }
}

#[tokio::test]
async fn get_returns_task_without_wrapper() {
    let server = Server::start().await;
    let id = server.complete_task().await;
    for interface in ALL_INTERFACES {
        let task = bare(interface, &get(&server, interface, &id, None).await);
        assert_eq!(task["id"], id.as_str(), "{interface:?}");
        assert_state(interface, &task, "completed");
        assert_eq!(
            task["history"].as_array().unwrap().len(),
            1,
            "{interface:?}"
        );
    }
}

#[tokio::test]
async fn history_length_zero_omits_history() {
    let server = Server::start().await;
    let id = server.complete_task().await;
    for interface in ALL_INTERFACES {
        let task = bare(interface, &get(&server, interface, &id, Some(0)).await);
        let has_no_history = task.get("history").is_none();
        assert_eq!(
            has_no_history,
            !matches!(interface, Interface::Rest0),
            "{interface:?}"
        );
    }
}

#[tokio::test]
async fn timestamp_is_utc() {
    let server = Server::start().await;
    let id = server.complete_task().await;
    for interface in ALL_INTERFACES {
        let task = bare(interface, &get(&server, interface, &id, None).await);
        let time = task["status"]["timestamp"].as_str().unwrap();
        assert!(
            time.ends_with('Z') && time.contains('T'),
            "{interface:?}: {time}"
        );
    }
}

pub(super) async fn cancel(server: &Server, interface: Interface, id: &str) -> Reply {
    match interface {
        Interface::Rpc1 => server.rpc("CancelTask", json!({"id": id})).await,
        Interface::Rpc0 => server.rpc_0_3("tasks/cancel", json!({"id": id})).await,
        _ => {
            let path = format!("/tasks/{id}:cancel");
            rest(server, interface, Method::POST, &path, Some(json!({}))).await
        }
    }
}

#[tokio::test]
async fn cancel_returns_canceled_task() {
    let server = Server::start().await;
    for interface in ALL_INTERFACES {
        let id = server.start_slow_task().await;
        let task = bare(interface, &cancel(&server, interface, &id).await);
        assert_state(interface, &task, "canceled");
    }
}

#[tokio::test]
async fn terminal_task_is_not_cancelable() {
    let server = Server::start().await;
    let id = server.complete_task().await;
    assert_eq!(cancel(&server, Interface::Rpc1, &id).await.code(), -32002);
    assert_eq!(cancel(&server, Interface::Rpc0, &id).await.code(), -32002);
    let reply = cancel(&server, Interface::Rest1, &id).await;
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
    assert_eq!(reply.json()["error"]["status"], "FAILED_PRECONDITION");
    let reply = cancel(&server, Interface::Rest0, &id).await;
    assert_eq!(reply.status, StatusCode::CONFLICT);
    assert_eq!(reply.json()["code"], -32002);
}

#[tokio::test]
async fn http_json_cancel_needs_no_body() {
    let server = Server::start().await;
    for path in ["/rest/tasks", "/rest/v1/tasks"] {
        let id = server.start_slow_task().await;
        let headers: &[_] = if path == "/rest/tasks" { &[V1] } else { &[] };
        let path = format!("{path}/{id}:cancel");
        let reply = server.request(Method::POST, &path, headers, None).await;
        assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    }
}

#[tokio::test]
async fn null_body_is_empty() {
    let server = Server::start().await;
    let id = server.start_slow_task().await;
    let path = format!("/rest/tasks/{id}:cancel");
    let reply = server.post(&path, &[V1], Value::Null).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
}

#[tokio::test]
async fn list_returns_pages() {
    let server = Server::start().await;
    for _ in 0..3 {
        server.complete_task().await;
    }
    let first = server
        .rpc("ListTasks", json!({"pageSize": 2}))
        .await
        .result();
    assert_eq!(first["tasks"].as_array().unwrap().len(), 2);
    assert_eq!(
        (&first["pageSize"], &first["totalSize"]),
        (&json!(2), &json!(3))
    );
    assert_eq!(first["tasks"][0].get("artifacts"), None);
    let token = first["nextPageToken"].as_str().unwrap();
    let path =
        format!("/rest/tasks?pageSize=2&includeArtifacts=true&historyLength=0&pageToken={token}");
    let second = server.get(&path, &[V1]).await.json();
    assert_eq!(second["tasks"].as_array().unwrap().len(), 1);
    assert_eq!(second["nextPageToken"], "");
    assert_eq!(second["tasks"][0].get("history"), None);
    assert!(second["tasks"][0]["artifacts"].is_array());
}

#[tokio::test]
async fn list_filters_by_context_state_and_time() {
    let server = Server::start().await;
    server.complete_task().await;
    let slow = server.start_slow_task().await;
    let task = server.rpc("GetTask", json!({"id": slow})).await.result();
    let context = task["contextId"].as_str().unwrap();
    let listed = server
        .rpc("ListTasks", json!({"contextId": context}))
        .await
        .result();
    assert_eq!(listed["totalSize"], 1);
    assert_eq!(listed["tasks"][0]["id"], slow.as_str());
    let path =
        "/rest/tasks?status=TASK_STATE_COMPLETED&statusTimestampAfter=2020-01-01T00:00:00+00:00";
    let listed = server.get(path, &[V1]).await.json();
    assert_eq!(listed["totalSize"], 1);
    let path = "/rest/tasks?statusTimestampAfter=2999-01-01T00:00:00Z";
    assert_eq!(server.get(path, &[V1]).await.json()["tasks"], json!([]));
}

#[tokio::test]
async fn page_size_is_1_to_100() {
    let server = Server::start().await;
    for size in [0, 101] {
        let reply = server.rpc("ListTasks", json!({"pageSize": size})).await;
        assert_eq!(reply.code(), -32602, "{size}");
    }
}

#[tokio::test]
async fn list_path_of_0_3_lists_tasks() {
    let server = Server::start().await;
    let id = server.complete_task().await;
    let listed = rest(&server, Interface::Rest0, Method::GET, "/tasks", None)
        .await
        .json();
    assert_eq!(listed["tasks"][0]["id"], id.as_str());
    assert_eq!(listed["nextPageToken"], "");
    // The protobuf type of 0.3 has only these two fields, and its clients reject others.
    assert_eq!(listed.as_object().unwrap().len(), 2);
}
