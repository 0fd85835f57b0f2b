//! One server over one binding, and a plugin for it.

use serde_json::{Map, Value, json};

use crate::driver::Driver;
use crate::sdk::Sdk;
use crate::servers::{Column, Vendor};

pub struct Peer {
    pub column: Column,
    pub plugin: Driver,
    config: Value,
}

impl Peer {
    pub fn new(column: Column, config: &Value) -> Self {
        Self {
            column,
            plugin: Driver::start(config),
            config: config.clone(),
        }
    }

    /// Returns the configuration of the plugin.
    pub fn config(&self) -> &Value {
        &self.config
    }

    /// Returns whether the server is of this SDK, over any binding.
    pub fn is_sdk(&self, sdk: Sdk) -> bool {
        self.column.vendor == Vendor::Sdk(sdk)
    }

    /// Returns whether it streams.
    pub fn supports_streaming(&self) -> bool {
        self.column.vendor != Vendor::OpenClaw
    }

    /// Starts a second process with the same configuration.
    pub fn second_plugin(&self) -> Driver {
        Driver::start(&self.config)
    }

    /// Restarts the plugin like a restart of the host.
    pub fn restart(&mut self) {
        self.plugin.init(&self.config);
    }

    /// Allows callback addresses that are not public.
    pub fn allow_callbacks(&mut self, url: &str) {
        self.config["policy"] = json!({"pushCallbackUrls": [url]});
        self.restart();
    }

    /// Sends a text, with further fields.
    pub fn send(&mut self, text: &str, fields: Value) -> (Value, Vec<Value>) {
        self.plugin.call(&send_fields(text, fields))
    }

    /// Calls an action on a task by the unchanged continuation of an earlier answer.
    pub fn follow_up(&mut self, action: &str, previous_answer: &Value) -> Value {
        self.plugin
            .call(&request(action, &[continuation(previous_answer)]))
            .0
    }
}

/// Returns a request that sends a text, with further fields.
pub fn send_fields(text: &str, fields: Value) -> Value {
    let parts = json!({"target_alias": "peer", "parts": [{"kind": "text", "text": text}]});
    request("send", &[parts, fields])
}

/// Returns a request of an action and objects with its fields.
pub fn request(action: &str, fields: &[Value]) -> Value {
    let mut request = Map::new();
    request.insert("action".into(), action.into());
    for fields in fields {
        request.extend(fields.as_object().expect("an object of fields").clone());
    }
    Value::Object(request)
}

/// Returns the continuation of an answer as a request field.
pub fn continuation(answer: &Value) -> Value {
    json!({"continuation": answer["summary"]["continuation"]})
}
