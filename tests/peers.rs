//! Our client against the official A2A 0.3 servers, over both of their HTTP bindings.
//!
//! The agents are in `tests/peers/`: the first word of a message says what they do. What a comment here says a server
//! sends was measured on that server.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    missing_docs
)]

#[path = "peers/calls.rs"]
mod calls;
#[path = "support/driver.rs"]
mod driver;
#[path = "peers/lifecycle.rs"]
mod lifecycle;
#[path = "peers/parts.rs"]
mod parts;
#[path = "support/sdk.rs"]
mod sdk;

use driver::Driver;
use sdk::{Sdk, Server};
use serde_json::{Map, Value, json};

/// How a server is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Binding {
    JsonRpc,
    HttpJson,
}

/// One server over one binding, and a plugin that is configured for it.
struct Peer {
    sdk: Sdk,
    binding: Binding,
    server: &'static Server,
    plugin: Driver,
}

impl Peer {
    fn config(&self) -> Value {
        config(self.server, self.binding)
    }

    /// A second process with a plugin of its own, configured alike.
    fn second_plugin(&self) -> Driver {
        Driver::start(&self.config())
    }

    /// Sends a text, with more request fields.
    fn send(&mut self, text: &str, more: Value) -> (Value, Vec<Value>) {
        let parts = json!({"parts": [{"kind": "text", "text": text}]});
        self.plugin.call(&request(
            "send",
            &[json!({"target_alias": "peer"}), parts, more],
        ))
    }

    /// Asks something about a task by the continuation of an earlier answer, as it was handed out.
    fn follow_up(&mut self, action: &str, earlier: &Value) -> (Value, Vec<Value>) {
        self.plugin.call(&request(action, &[continuation(earlier)]))
    }
}

fn config(server: &Server, binding: Binding) -> Value {
    let transport = match binding {
        Binding::JsonRpc => "JSONRPC",
        Binding::HttpJson => "HTTP+JSON",
    };
    let target =
        json!({"alias": "peer", "baseUrl": server.origin, "preferredTransports": [transport]});
    json!({"enabled": true, "targets": [target]})
}

/// A flat request out of an action and objects with its fields.
fn request(action: &str, fields: &[Value]) -> Value {
    let mut request = Map::new();
    request.insert("action".into(), action.into());
    for fields in fields {
        request.extend(fields.as_object().expect("an object of fields").clone());
    }
    Value::Object(request)
}

/// The continuation of an answer as a request field.
fn continuation(answer: &Value) -> Value {
    json!({"continuation": answer["summary"]["continuation"]})
}

/// The task of an answer that succeeded.
fn task(answer: &Value) -> &Value {
    assert_eq!(answer["ok"], true, "{answer:#}");
    assert_eq!(answer["summary"]["response_kind"], "task", "{answer:#}");
    &answer["summary"]["continuation"]["task"]
}

/// The error of an answer that the peer refused.
fn refusal(answer: &Value) -> &Value {
    assert_eq!(answer["ok"], false, "{answer:#}");
    assert_eq!(answer["error"]["code"], "A2A_SDK_ERROR", "{answer:#}");
    &answer["error"]
}

/// Each behaviour as a test of its own against each server and binding.
macro_rules! against_every_peer {
    ($($room:ident::$behaviour:ident),+ $(,)?) => {
        against_every_peer!(@peer py03_jsonrpc Py03 JsonRpc $($room::$behaviour),+);
        against_every_peer!(@peer py03_http_json Py03 HttpJson $($room::$behaviour),+);
        against_every_peer!(@peer js03_jsonrpc Js03 JsonRpc $($room::$behaviour),+);
        against_every_peer!(@peer js03_http_json Js03 HttpJson $($room::$behaviour),+);
    };
    (@peer $name:ident $sdk:ident $binding:ident $($room:ident::$behaviour:ident),+) => {
        mod $name {
            $(
                #[test]
                fn $behaviour() {
                    let (sdk, binding) = (super::Sdk::$sdk, super::Binding::$binding);
                    let Some(server) = super::sdk::server(sdk) else { return };
                    let plugin = super::Driver::start(&super::config(server, binding));
                    super::$room::$behaviour(super::Peer { sdk, binding, server, plugin });
                }
            )+
        }
    };
}

against_every_peer! {
    calls::the_card_is_read,
    calls::the_preferred_binding_is_spoken,
    calls::a_message_is_answered_by_a_message,
    calls::a_message_arrives_by_stream,
    calls::a_task_is_waited_for,
    calls::a_streamed_task_arrives_chunk_by_chunk,
    calls::a_failed_task_is_an_answer,
    calls::a_failed_task_arrives_by_stream,
    calls::an_agent_that_crashes_is_reported,
    calls::an_agent_that_crashes_in_a_stream_is_reported,
    lifecycle::a_question_is_answered_after_a_restart,
    lifecycle::a_question_is_answered_by_stream_after_a_restart,
    lifecycle::a_running_task_is_cancelled,
    lifecycle::a_finished_task_is_not_cancelled,
    lifecycle::a_status_is_asked_by_handle,
    lifecycle::a_status_is_asked_by_task_id,
    lifecycle::an_unknown_task_is_refused,
    lifecycle::a_second_instance_watches,
    lifecycle::a_watcher_keeps_what_it_heard_before_a_cancel,
    lifecycle::a_finished_task_can_be_watched,
    parts::binary_file_and_data_reach_the_agent,
    parts::a_text_file_reaches_the_agent,
    parts::file_and_data_come_back,
}
