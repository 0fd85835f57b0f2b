//! The requests of a peer, with a way to wait for them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::sync::watch;

use crate::http::Request;

/// One request as a peer received it.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// Upper-case method.
    pub method: String,
    /// Path and query as sent.
    pub path: String,
    /// Header names in lower case; values of repeated headers joined with `, `.
    pub headers: BTreeMap<String, String>,
    /// The body: parsed when it is JSON, else its text; `None` when it is empty.
    pub body: Option<Value>,
}

impl From<&Request> for Recorded {
    fn from(request: &Request) -> Self {
        let text = || Value::String(String::from_utf8_lossy(&request.body).into_owned());
        let body = (!request.body.is_empty())
            .then(|| serde_json::from_slice(&request.body).unwrap_or_else(|_| text()));
        Self {
            method: request.method.clone(),
            path: request.target.clone(),
            headers: request.headers.clone(),
            body,
        }
    }
}

impl Recorded {
    /// Returns `{method, path, headers, body}`.
    pub fn to_json(&self) -> Value {
        let mut entry = json!({"method": self.method, "path": self.path, "headers": self.headers});
        if let Some(body) = &self.body {
            entry["body"] = body.clone();
        }
        entry
    }

    /// Returns the JSON-RPC method of the body, if it has one.
    pub fn rpc_method(&self) -> Option<&str> {
        self.body.as_ref()?.get("method")?.as_str()
    }
}

#[derive(Debug)]
pub(super) struct Log {
    requests: Mutex<Vec<Recorded>>,
    counted: watch::Sender<usize>,
    connections: watch::Sender<usize>,
}

impl Log {
    pub(super) fn new() -> Self {
        Self {
            requests: Mutex::new(Vec::new()),
            counted: watch::Sender::new(0),
            connections: watch::Sender::new(0),
        }
    }

    pub(super) fn record(&self, request: Recorded) {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.push(request);
        self.counted.send_replace(requests.len());
    }

    pub(super) fn connected(&self) {
        self.connections.send_modify(|count| *count += 1);
    }

    pub(super) fn requests(&self) -> Vec<Recorded> {
        self.requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn connections(&self) -> usize {
        *self.connections.borrow()
    }

    pub(super) async fn wait_for_requests(&self, count: usize) {
        // The sender lives in `self`, so the channel cannot close while this waits.
        let _ = self
            .counted
            .subscribe()
            .wait_for(|seen| *seen >= count)
            .await;
    }

    pub(super) async fn wait_for_connections(&self, count: usize) {
        let _ = self
            .connections
            .subscribe()
            .wait_for(|seen| *seen >= count)
            .await;
    }
}
