//! A failed call, as it is told.

use serde_json::{Map, Value};

use peer::{Delivered, PeerError, PeerErrorKind};

use super::Reason;

/// What to do next about a message that may have arrived.
const MAYBE_SENT: &str = "The agent may have the message and be working on it: find out before you send it again. \
With follow_updates or task_requirement: required there is a task to ask about.";

/// The whole message of an error for an invalid request; its faults are in `details.errors`.
const INVALID: &str = "remote_agent input validation failed";

/// A failed call.
#[derive(Debug, Clone)]
pub struct ToolError {
    /// Why.
    pub reason: Reason,
    /// What failed and why, as a sentence without a full stop.
    pub message: String,
    /// What is known beside that. `hint` is added from the table unless it is there.
    pub details: Map<String, Value>,
    /// The same call may succeed later.
    pub retryable: bool,
    /// Whether the peer has seen the request that failed.
    pub delivered: Delivered,
}

impl ToolError {
    /// An error of which no more is known.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            details: Map::new(),
            retryable: reason.retryable(),
            delivered: Delivered::Unknown,
        }
    }

    /// The error for a request with these faults, in Ajv's form, and `more` that are not listed. The hint ends with the first.
    pub fn invalid(errors: Vec<Value>, more: usize) -> Self {
        let reason = Reason::InvalidRequest;
        let hint = match errors.first() {
            Some(first) => format!("{} First: {}.", reason.hint(), fault(first)),
            None => reason.hint().to_owned(),
        };
        let error = Self::new(reason, INVALID)
            .with("hint", hint)
            .with("source", "ajv")
            .with("tool", "remote_agent")
            .with("errors", errors);
        if more > 0 {
            error.with("more_errors", more)
        } else {
            error
        }
    }

    /// The same error with one more detail.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    /// The same error, where it is known whether the peer has seen the request.
    #[must_use]
    pub fn delivered(mut self, delivered: Delivered) -> Self {
        self.delivered = delivered;
        self
    }

    /// The same error, told as one of sending. A message that may have arrived is not to be sent again as it is.
    #[must_use]
    pub fn of_send(mut self) -> Self {
        let delivered = self.delivered.as_str();
        self.details.insert("delivered".into(), delivered.into());
        if self.retryable && self.delivered != Delivered::No {
            self.retryable = false;
            if !self.details.contains_key("latest_event_summary") {
                self.details
                    .entry("hint")
                    .or_insert_with(|| MAYBE_SENT.into());
            }
        }
        self
    }
}

impl ToolError {
    /// The same error, told as one of the local gateway, whose settings are others than a target's.
    #[must_use]
    pub fn of_gateway(mut self) -> Self {
        if let Some(hint) = gateway_hint(self.reason) {
            self.details.entry("hint").or_insert_with(|| hint.into());
        }
        self
    }
}

/// A fault of a request as the end of a sentence.
fn fault(error: &Value) -> String {
    let [place, message] =
        ["instancePath", "message"].map(|field| error[field].as_str().unwrap_or_default());
    match place {
        // The schema's sentences lack a subject, the others have one.
        "" if message.starts_with("must ") => format!("the request {message}"),
        "" => message.to_owned(),
        place => format!("{place} {message}"),
    }
}

/// What to do next about the local gateway, where the table speaks of agents elsewhere.
fn gateway_hint(reason: Reason) -> Option<&'static str> {
    Some(match reason {
        Reason::AgentNotAllowed => {
            "Call list_targets and use one of the targets it shows; an operator can add this agent to gateway.allowedAgents."
        }
        Reason::CredentialUnresolved => {
            "Ask the operator to set the secret of gateway.token, and use the tool through a running gateway."
        }
        Reason::Dns | Reason::Unreachable => {
            "Check that the gateway runs and gateway.url is its address, then call again."
        }
        Reason::Tls => "Ask the operator to check the gateway's certificate and gateway.url.",
        Reason::AddressRefused => {
            "The gateway must be on this machine; an operator can let it be elsewhere with gateway.allowRemote and an address with wss."
        }
        Reason::HttpStatus | Reason::RedirectRefused | Reason::InvalidResponse => {
            "Ask the operator to check gateway.url: something else than a gateway may answer there."
        }
        Reason::AuthRequired => {
            "Ask the operator to set gateway.token to the gateway's shared token."
        }
        Reason::CardUnavailable => {
            "Call list_targets to see which agents the gateway has, and what is wrong with it."
        }
        Reason::Unaddressable => {
            "Leave out what the message names: a local gateway cannot carry it."
        }
        _ => return None,
    })
}

impl From<PeerError> for ToolError {
    fn from(error: PeerError) -> Self {
        let mut told = Self::new(error.kind.into(), error.message);
        if let PeerErrorKind::Gateway(code) = error.kind {
            told = told.with("gateway_code", code.number()).of_gateway();
        }
        if let Some(code) = error.rpc_code {
            told = told.with("rpcCode", code);
        }
        if let Some(data) = error.rpc_data {
            told = told.with("rpcData", data);
        }
        if let Some(status) = error.http_status {
            told = told.with("http_status", status);
        }
        if !error.auth_schemes.is_empty() {
            told = told.with("auth_schemes", error.auth_schemes);
        }
        if let Some(transports) = error.transports {
            told = told
                .with("unsupported", transports.unsupported)
                .with("supported", transports.supported);
        }
        told.delivered(error.delivered)
    }
}
