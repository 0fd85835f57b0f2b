//! Options of a call, for the code that opens a peer.

use std::path::PathBuf;

use tokio::time::Instant;

/// Options of a call.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallOptions<'a> {
    /// The request's service parameters, in order; they override the target's own.
    pub parameters: &'a [(String, String)],
    /// The conversation it belongs to, where the request or a handle names one.
    pub context_id: Option<&'a str>,
    /// The session of OpenClaw to go on in, by the id that its key ends with, where it is not the conversation's own.
    pub session: Option<&'a str>,
    /// The host's session that calls, where the host says which.
    pub host: Option<&'a HostSession>,
    /// Until when an answer that is to come at once is waited for. A peer that can make a task of it does so then, so that
    /// what it goes on with is not lost with the call.
    pub until: Option<Instant>,
}

/// A session of the host that the tool is called from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostSession {
    /// The session's key.
    pub session_key: String,
    /// The state directory of the host.
    pub state_dir: Option<PathBuf>,
}
