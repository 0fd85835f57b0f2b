//! Requests of clients, and their serialization in each version.

mod v0_3;
mod v1_0;

use serde::Serialize;
use serde_json::{Map, Value};

use super::task::Part;
use super::{Dialect, V03Dialect};

/// One message to a peer, with how its answer is wanted (A2A 0.3 §7.1).
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
    /// Media types the caller can take, in order of preference.
    pub accepted_output_modes: Vec<String>,
    /// The peer should answer when the task is done or waits, not before.
    pub blocking: bool,
    /// The caller will listen to the task that comes of it, and wants to hear all of it.
    pub followed: bool,
    /// The maximum number of the newest messages should come back.
    pub history_length: Option<u64>,
    /// The push notification configuration, in the contract's camelCase.
    pub push_notification_config: Option<Value>,
    /// Extra data for the peer.
    pub metadata: Option<Map<String, Value>>,
}

/// The parameters that say a [`SendRequest`], written as a dialect does.
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
    /// Returns the parameters that say `request`. Only 1.0 knows tenants.
    pub fn new(request: &'a SendRequest, dialect: Dialect, tenant: Option<&'a str>) -> Self {
        Self(match dialect {
            Dialect::V0_3(V03Dialect::Rpc) => Params::V0_3Rpc(v0_3::SendParams::new(request)),
            Dialect::V0_3(V03Dialect::Rest) => Params::V0_3Rest(v0_3::send_body(request)),
            Dialect::V1_0 => Params::V1_0(v1_0::SendParams::new(request, tenant)),
        })
    }
}
