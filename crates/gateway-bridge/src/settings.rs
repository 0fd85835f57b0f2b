//! The settings of a gateway.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use url::Url;

use base::redact::Secrets;
use collective::{MAX_FRAME_BYTES, SUBPROTOCOL, TriadConfig};
use egress::credential::Trust;

use super::{Signer, TRIAD};

/// The maximum time that a message waits for the list of agents, and its share of `timeout`.
const MAX_LIST_WAIT: Duration = Duration::from_secs(1);
const LIST_WAIT_DIVISOR: u32 = 8;

/// The settings of a gateway. `Debug` omits credentials.
#[derive(Clone)]
pub struct Settings {
    /// The URL, `ws` or `wss`.
    pub url: Url,
    /// The dialect, or `Auto` to detect it.
    pub dialect: DialectChoice,
    /// The subprotocol that the client offers.
    pub protocol: String,
    /// The shared token, API key or JWT.
    pub token: Option<SecretString>,
    /// The timeout of connecting, including the handshake.
    pub timeout: Duration,
    /// The silence after which the client sends a ping.
    pub heartbeat: Duration,
    /// Whether an address that is not loopback is allowed, with `wss`.
    pub allow_remote: bool,
    /// Whether the token goes into the URL, which only the dialect `heretek-js` needs.
    pub token_in_query: bool,
    /// The agents that may be called besides the triad. Empty allows all.
    pub agents: Vec<String>,
    /// The triad.
    pub triad: TriadConfig,
    /// The maximum size of a received frame, in bytes.
    pub frame_bytes: usize,
    /// How long a blocking message waits for its reply before the call returns a task.
    pub default_wait: Duration,
    /// The TLS trust of `wss`; `None` uses the system's.
    pub trust: Option<Arc<Trust>>,
    /// Signs messages to a gateway of `a2a-v1`; `None` leaves them unsigned.
    pub signer: Option<Signer>,
}

impl Settings {
    /// Returns the default settings for the gateway at `url`.
    pub fn new(url: Url) -> Self {
        Self {
            url,
            dialect: DialectChoice::Auto,
            protocol: SUBPROTOCOL.to_owned(),
            token: None,
            timeout: Duration::from_secs(30),
            heartbeat: Duration::from_secs(30),
            allow_remote: false,
            token_in_query: false,
            agents: Vec::new(),
            triad: TriadConfig::default(),
            frame_bytes: MAX_FRAME_BYTES,
            default_wait: Duration::from_secs(20),
            trust: None,
            signer: None,
        }
    }

    /// Returns whether this agent may be called. The triad always may: it is not an agent.
    pub fn allows(&self, agent: &str) -> bool {
        agent == TRIAD || self.agents.is_empty() || self.agents.iter().any(|name| name == agent)
    }

    /// Returns how long a message waits for the list of agents before it is sent. This is a share of `timeout`, because
    /// a gateway need not answer.
    pub(crate) fn list_wait(&self) -> Duration {
        (self.timeout / LIST_WAIT_DIVISOR).min(MAX_LIST_WAIT)
    }

    /// Returns the gateway's URL for display.
    pub(crate) fn display_url(&self) -> String {
        display_url(&self.url)
    }
}

/// Returns the URL of a gateway for display: without user info, query and fragment, which may contain credentials.
pub(crate) fn display_url(url: &Url) -> String {
    let path = match url.path() {
        "/" => "",
        path => path,
    };
    format!("{}{path}", url.origin().ascii_serialization())
}

/// The dialect of a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DialectChoice {
    /// Detected from the first frame.
    #[default]
    Auto,
    /// Protocol 4 of the OpenClaw gateway.
    #[serde(rename = "openclaw")]
    OpenClaw,
    /// `a2a-v1`.
    A2aV1,
    /// The protocol of the JavaScript gateway.
    HeretekJs,
}

/// Shorter values are not redacted: they would match ordinary text.
const MIN_SECRET_BYTES: usize = 6;

impl Settings {
    /// Returns the token in every form that a gateway may repeat it in.
    pub(crate) fn secrets(&self) -> Secrets {
        let token = self.token.iter().cloned();
        let long = token.filter(|token| token.expose_secret().len() >= MIN_SECRET_BYTES);
        Secrets::in_all_forms(long)
    }
}

/// Redacts the token in a text of a gateway.
pub(crate) fn without_token<'a>(text: &'a str, settings: &Settings) -> Cow<'a, str> {
    let token = settings.token.as_ref().map(ExposeSecret::expose_secret);
    match token {
        Some(token) if token.len() >= MIN_SECRET_BYTES && text.contains(token) => {
            text.replace(token, "[redacted]").into()
        }
        _ => text.into(),
    }
}

base::debug_fields!(self: Settings {
    url = self.url.origin().ascii_serialization(), dialect, protocol, token = self.token.is_some(),
    timeout, heartbeat, allow_remote, token_in_query, agents, triad,
});

/// Returns whether a text frame is only a sign of life. Some gateways and proxies send such frames, which no protocol defines.
pub(crate) fn is_keep_alive(frame: &str) -> bool {
    let text = frame.trim().trim_matches('"');
    matches!(text, "" | "{}") || peer::is_keep_alive(text)
}
