//! Requests of clients, and their serialization in each version.

mod v0_3;
mod v1_0;

use serde::Serialize;
use serde_json::{Map, Value};

use super::task::Part;
use super::{Dialect, V03Dialect};

/// A message to a peer, with options for the answer (A2A 0.3 §7.1).
#[derive(Debug, Clone, Default)]
pub struct SendRequest {
    /// The message's id; the same for every attempt to deliver it.
    pub message_id: String,
    /// The parts.
    pub parts: Vec<Part>,
    /// The task it continues.
    pub task_id: Option<String>,
    /// The conversation it belongs to.
    pub context_id: Option<String>,
    /// Tasks it refers to without continuing them.
    pub reference_task_ids: Vec<String>,
    /// The media types that the caller accepts, in order of preference.
    pub accepted_output_modes: Vec<String>,
    /// Whether the peer should answer only when the task is terminal or interrupted.
    pub blocking: bool,
    /// Whether the caller subscribes to the resulting task and needs all of its events.
    pub followed: bool,
    /// The maximum number of the newest messages in the answer.
    pub history_length: Option<u64>,
    /// The push notification configuration, in the contract's camelCase.
    pub push_notification_config: Option<Value>,
    /// The URIs of the extensions that the message uses.
    pub extensions: Vec<String>,
    /// The metadata of the message itself, which extensions read.
    pub message_metadata: Map<String, Value>,
    /// Extra data for the peer.
    pub metadata: Option<Map<String, Value>>,
}

/// The parameters of a [`SendRequest`] in a dialect.
#[derive(Serialize)]
#[serde(transparent)]
pub struct SendParams<'a>(Params<'a>);

#[derive(Serialize)]
#[serde(untagged)]
enum Params<'a> {
    V0_3Rpc(v0_3::SendParams<'a>),
    V0_3Rest(Value),
    V1_0(v1_0::SendParams<'a>),
}

impl<'a> SendParams<'a> {
    /// Creates the parameters of `request`. Only 1.0 has tenants.
    pub fn new(request: &'a SendRequest, dialect: Dialect, tenant: Option<&'a str>) -> Self {
        Self(match dialect {
            Dialect::V0_3(V03Dialect::Rpc) => Params::V0_3Rpc(v0_3::SendParams::new(request)),
            Dialect::V0_3(V03Dialect::Rest) => Params::V0_3Rest(v0_3::send_body(request)),
            Dialect::V1_0 => Params::V1_0(v1_0::SendParams::new(request, tenant)),
        })
    }
}
