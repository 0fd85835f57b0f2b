//! The expected results of each client: the sent values, except for limits and bugs of the client.

use serde_json::{Value, json};

use super::columns::{Binding, Client, Column, Version};

/// The expected result of an operation.
#[derive(Debug, Clone, PartialEq)]
pub enum Expected {
    /// This value.
    Returned(Value),
    /// A value that deviates because of the client, with the reason.
    Deviates(&'static str, Value),
    /// The client, or the server through it, rejects the call.
    Refused(Refusal),
    /// The client does not have the operation.
    NotOffered,
}

/// A client's form of an error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Refusal {
    /// The name of its error.
    pub error: &'static str,
    /// The `reason` of the `ErrorInfo`, if the client exposes it.
    pub reason: Option<&'static str>,
    /// A part of its message.
    pub message: &'static str,
    /// The reason, if the error is one of the client and not of the server.
    pub client_fault: Option<&'static str>,
}

/// Its protobuf has bytes where its types have base64, and the client mixes them up.
const BASE64_TWICE: &str = "the client takes the base64 text of a file for its bytes, and writes and reads base64 of base64";
const NO_FILE_NAMES: &str = "the client drops the names of files";
const NO_LIST_OPERATION: &str = "the client has no such operation in 0.3";
const STATUS_ONLY: &str = "the client looks at the status of a refusal and not at its body";

pub fn expected_result(column: Column, operation: &str) -> Expected {
    let refused = match operation {
        "not_found" => Some(("TASK_NOT_FOUND", "unknown task `no-such-task`")),
        "not_cancelable" => Some(("TASK_NOT_CANCELABLE", "has ended and cannot be canceled")),
        "bad_webhook" => Some(("INVALID_PARAMS", "`url` begins with `ftp:`")),
        _ => None,
    };
    if let Some((reason, message)) = refused {
        return Expected::Refused(refusal(column, reason, message));
    }
    deviation(column, operation)
        .unwrap_or_else(|| Expected::Returned(default_expectation(column, operation)))
}

/// Returns the correct result of an operation.
fn default_expectation(column: Column, operation: &str) -> Value {
    match operation {
        "card" => json!({"name": "OpenClaw", "streaming": true}),
        "send" => json!({"state": "completed", "text": "alpha beta hello"}),
        "message" => json!({"text": "hello"}),
        "return_immediately" => json!({"settled": false}),
        "parts" => parts("AP9oZWxsbw==", Some("a.bin")),
        "artifact_parts" => json!({
            "bytes": "AP9oZWxsbw==", "link": "https://files.test/b.png",
            "data": {"count": number(column, 2), "nested": {"list": ["x", null, true]}},
        }),
        "fail" => json!({"state": "failed", "text": "because"}),
        "reject" => json!({"state": "rejected", "text": "because"}),
        "ask" => json!({
            "first_state": "input-required", "question": "which?",
            "state": "completed", "text": "you said blue", "same": true,
        }),
        "stream" => json!({"first": "task", "state": "completed", "text": numbers(5)}),
        "resubscribe" => json!({"first": "task", "state": "completed", "text": numbers(20)}),
        "get" => json!({"state": "completed", "text": "hello", "history": "echo hello"}),
        "list" => json!({"texts": ["hello"], "total": 1}),
        "cancel" => json!({"state": "canceled"}),
        "push_configs" => {
            json!({"created": true, "fetched": "hook-1", "listed": ["hook-1"], "remaining": 0})
        }
        "push" => webhook_report(column),
        _ => panic!("`{operation}` is no operation"),
    }
}

/// Returns the result of a client that deviates.
fn deviation(column: Column, operation: &str) -> Option<Expected> {
    let Column {
        client,
        binding,
        version,
    } = column;
    let old_rest = (binding, version) == (Binding::HttpJson, Version::V0_3);
    let python = matches!(client, Client::Py13 | Client::Py03);
    Some(match (operation, client) {
        ("list", Client::Py03 | Client::Js03) => Expected::NotOffered,
        ("list", Client::Py13) if version == Version::V0_3 => Expected::Refused(Refusal {
            error: "NotImplementedError",
            reason: None,
            message: "ListTasks is not supported in A2A v0.3",
            client_fault: Some(NO_LIST_OPERATION),
        }),
        ("list", Client::Js13) if old_rest => Expected::Refused(Refusal {
            error: "UnsupportedOperationError",
            reason: Some("UNSUPPORTED_OPERATION"),
            message: "tasks/list has no equivalent in v0.3 HTTP+JSON",
            client_fault: Some(NO_LIST_OPERATION),
        }),
        ("list", Client::Js13) if version == Version::V0_3 => Expected::Refused(Refusal {
            error: "JsonRpcTransportError",
            reason: Some("INTERNAL_ERROR"),
            message: "Method not found: tasks/list",
            client_fault: Some(NO_LIST_OPERATION),
        }),
        ("parts", _) if old_rest && python => {
            Expected::Deviates(BASE64_TWICE, parts("QVA5b1pXeHNidz09", Some("a.bin")))
        }
        ("parts", _) if old_rest => Expected::Deviates(NO_FILE_NAMES, parts("AP9oZWxsbw==", None)),
        ("artifact_parts", _) if old_rest && python => Expected::Refused(Refusal {
            error: "UnicodeDecodeError",
            reason: None,
            message: "'utf-8' codec can't decode byte 0xff in position 1",
            client_fault: Some(BASE64_TWICE),
        }),
        ("push_configs", Client::Py13) if old_rest => Expected::Refused(Refusal {
            error: "NotImplementedError",
            reason: None,
            message: "list_task_push_notification_configs not supported in v0.3 REST",
            client_fault: Some("the client can neither list nor delete webhooks"),
        }),
        ("push_configs", Client::Py03) => Expected::Deviates(
            "the client can neither list nor delete webhooks",
            json!({"created": true, "fetched": "hook-1"}),
        ),
        _ => return None,
    })
}

/// Returns a client's form of an error of the server.
fn refusal(column: Column, reason: &'static str, message: &'static str) -> Refusal {
    let client = column.client;
    let rpc = column.binding == Binding::JsonRpc;
    let error = match reason {
        "TASK_NOT_FOUND" => "TaskNotFoundError",
        "TASK_NOT_CANCELABLE" => "TaskNotCancelableError",
        _ if client == Client::Js13 => "RequestMalformedError",
        _ => "InvalidParamsError",
    };
    let default = Refusal {
        error,
        reason: Some(reason),
        message,
        client_fault: None,
    };
    let status = |error, message| Refusal {
        error,
        reason: None,
        message,
        client_fault: Some(STATUS_ONLY),
    };
    match (client, reason) {
        // The client chooses the class by the `ErrorInfo`, and does not expose it.
        (Client::Py13, _) => Refusal {
            reason: None,
            ..default
        },
        (Client::Js13, _) => default,
        (Client::Py03, _) if rpc => Refusal {
            error: "JSONRPCError",
            ..default
        },
        (Client::Py03, "TASK_NOT_FOUND") => status("A2AClientHTTPError", "404 Not Found"),
        (Client::Py03, "TASK_NOT_CANCELABLE") => status("A2AClientHTTPError", "409 Conflict"),
        (Client::Py03, _) => status("A2AClientHTTPError", "422 Unprocessable"),
        (Client::Js03, "INVALID_PARAMS") => Refusal {
            error: if rpc {
                "JSONRPCTransportError"
            } else {
                "Error"
            },
            reason: rpc.then_some(reason),
            ..default
        },
        // It has its own texts for the errors that it knows.
        (Client::Js03, "TASK_NOT_FOUND") if rpc => Refusal {
            message: "Task not found",
            ..default
        },
        (Client::Js03, _) if rpc => Refusal {
            message: "Task cannot be canceled",
            ..default
        },
        (Client::Js03, _) => Refusal {
            reason: None,
            ..default
        },
    }
}

/// Returns what the agent received beside the text.
fn parts(bytes: &str, name: Option<&str>) -> Value {
    let mut file = json!({"mediaType": "application/octet-stream", "raw": bytes});
    if let Some(name) = name {
        file["filename"] = name.into();
    }
    let link = json!({"mediaType": "image/png", "url": "https://files.test/b.png"});
    json!({"parts": [file, link]})
}

/// Returns what the webhook of a task received.
fn webhook_report(column: Column) -> Value {
    let (states, media_type) = match column.version {
        Version::V1 => (
            json!(["TASK_STATE_WORKING", "TASK_STATE_COMPLETED"]),
            "application/a2a+json",
        ),
        Version::V0_3 => (json!(["working", "completed"]), "application/json"),
    };
    json!({
        "states": states, "type": [media_type], "authorization": ["Bearer cred"], "token": ["tok"],
    })
}

/// Returns `0 1 2 …` up to `count`.
fn numbers(count: u32) -> String {
    (0..count).map(|number| format!("{number} ")).collect()
}

/// Python's client of 1.0 represents all numbers as floats, as the protobuf does.
fn number(column: Column, number: i32) -> Value {
    match column.client {
        Client::Py13 => f64::from(number).into(),
        _ => number.into(),
    }
}
