//! Options of a call, for the code that opens a peer.

use std::path::PathBuf;

use base::field_order::FieldOrder;
use egress::SendState;
use tokio::time::Instant;

/// Options of a call.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallOptions<'a> {
    /// The service parameters of the request, in order. They override those of the target.
    pub parameters: &'a [(String, String)],
    /// The conversation, if the request or a handle names one.
    pub context_id: Option<&'a str>,
    /// The id of the OpenClaw session to continue (the end of its key), if it differs from that of the conversation.
    pub session: Option<&'a str>,
    /// The calling session of the host, if the host names it.
    pub host: Option<&'a HostSession>,
    /// Receives the order in which the peer writes the fields of forms.
    pub field_order: Option<&'a FieldOrder>,
    /// When a blocking send stops waiting. A peer that supports it then returns a task, so that the call can end
    /// without losing the work.
    pub wait_until: Option<Instant>,
    /// The state of the message that is being sent, for a call that ends first.
    pub send_state: Option<&'a SendState>,
}

/// A session of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostSession {
    /// The session's key.
    pub session_key: String,
    /// The state directory of the host.
    pub state_dir: Option<PathBuf>,
}
