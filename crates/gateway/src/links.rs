//! Links to other gateways: which agents pass in which direction, under which names, and whether a link is up.
//!
//! Both sides write the names of their own agents on the connection. The receiver appends the name of its link: `coder`
//! behind the link `berlin` is `coder@berlin`. No agent of this gateway has such a name.

use std::fs;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use lru::LruCache;
use parking_lot::Mutex;
use serde_json::{Value, json};
use url::Url;

use base::config::ConfigError;
use base::text::{hex, shortened};
use base::visible::visible;
use collective::signature::{SIGNATURE, SIGNATURE_STATUS};
use collective::{Envelope, ErrorCode, GATEWAY, Kind, MAX_FRAME_BYTES};
use egress::credential::{Trust, TrustError};
use ring::digest::{SHA256, digest};

use super::agent::{CLIENT_ID_PREFIX, TRIAD, validate_client_name};
use super::config::{LinkConfig, ServerConfig};
use super::frames::RequestError;
use super::sessions::is_agent_name;

/// The maximum number of links that a message passes.
pub(super) const MAX_HOPS: u64 = 4;

/// The metadata field with the number of links that a message has passed.
const HOPS: &str = "hops";

/// The maximum length of a name with those of its links, in characters: that of a name in an envelope.
const MAX_NAME_CHARS: usize = 128;

/// The size that the gateways may add to a message of a link, in bytes.
const ENVELOPE_BYTES: usize = 4096;

/// The number of broadcasts that the gateway remembers, so that none goes around.
const RECENT_BROADCASTS: NonZeroUsize = NonZeroUsize::new(4096).unwrap();

/// The maximum length of an error in the state of a link, in characters.
const MAX_ERROR_CHARS: usize = 500;

/// A link to another gateway.
pub(super) struct Link {
    pub(super) config: LinkConfig,
    /// The authorities and the client certificate of a gateway that dials.
    pub(super) trust: Option<Arc<Trust>>,
    status: Mutex<LinkStatus>,
}

base::debug_fields!(self: Link { name = self.config.name });

#[derive(Default)]
struct LinkStatus {
    is_up: bool,
    /// The time of the last change, in milliseconds since 1970; 0 before the first.
    since: u64,
    /// The last error and its time, in milliseconds since 1970.
    last_error: Option<(String, u64)>,
    /// Whether the log has the error of the current interruption.
    is_reported: bool,
}

impl Link {
    pub(super) fn new(config: LinkConfig) -> Result<Self, (&'static str, String)> {
        let trust = match &config.url {
            Some(_) => Some(Arc::new(read_trust(&config)?)),
            None => None,
        };
        Ok(Self {
            config,
            trust,
            status: Mutex::default(),
        })
    }

    /// Returns whether messages of this gateway may go to what the other gateway calls `name`: an agent, or its triad.
    pub(super) fn accepts(&self, name: &str) -> bool {
        let mut parts = name.split('@');
        name.len() + 1 + self.config.name.len() <= MAX_NAME_CHARS
            && parts
                .next()
                .is_some_and(|agent| agent == TRIAD || validate_client_name(agent).is_ok())
            && parts.all(is_agent_name)
            && self.config.agents.iter().any(|one| matches(one, name))
    }

    /// Returns whether this gateway lists an agent that the other gateway offers under `name`.
    pub(super) fn lists(&self, name: &str) -> bool {
        !is_triad(name) && self.accepts(name)
    }

    /// Returns whether the other gateway may know the agent `name`. An agent behind the link itself never goes back.
    pub(super) fn exports(&self, name: &str) -> bool {
        self.remote_name(name).is_none()
            && !name.starts_with(CLIENT_ID_PREFIX)
            && self.config.export.iter().any(|one| matches(one, name))
    }

    /// Returns the name in this gateway of an agent of the other one.
    pub(super) fn local_name(&self, name: &str) -> String {
        format!("{name}@{}", self.config.name)
    }

    /// Returns the name in the other gateway of an agent behind the link.
    pub(super) fn remote_name<'a>(&self, name: &'a str) -> Option<&'a str> {
        name.strip_suffix(self.config.name.as_str())?
            .strip_suffix('@')
    }

    /// Returns the sender of messages that have no agent of the other gateway as sender.
    pub(super) fn gateway_name(&self) -> String {
        self.local_name(GATEWAY)
    }

    /// Rewrites the names in a message of the other gateway.
    pub(super) fn incoming(&self, envelope: Envelope) -> Envelope {
        let from = self.local_name(envelope.from().unwrap_or(GATEWAY));
        let agent = envelope
            .content_str("agent")
            .map(|name| self.local_name(name));
        let envelope = envelope.with("from", from);
        match agent.filter(|_| envelope.kind() == Kind::Status) {
            Some(agent) => envelope.with_content("agent", agent),
            None => envelope,
        }
    }

    /// Rewrites the names in a message to the other gateway. A sender that the other gateway may not know is the gateway.
    ///
    /// # Errors
    /// 2005 for a message that is too large for the other gateway.
    pub(super) fn outgoing(&self, envelope: Envelope) -> Result<Envelope, RequestError> {
        let agent = envelope.agent().and_then(|agent| self.remote_name(agent));
        let agent = agent.map(str::to_owned);
        let is_known = envelope.from().is_some_and(|from| self.exports(from));
        let mut envelope = without_signature(envelope.with("agent", agent));
        if !is_known && envelope.kind() != Kind::Vote {
            envelope = envelope.with("from", GATEWAY);
        }
        if envelope.to_text().len() > MAX_FRAME_BYTES - ENVELOPE_BYTES {
            let message = format!(
                "the message is too large for the link `{}`; send at most {} bytes",
                self.config.name,
                MAX_FRAME_BYTES - ENVELOPE_BYTES
            );
            return Err(RequestError::new(ErrorCode::InvalidContent, message));
        }
        Ok(envelope)
    }

    /// Returns the error for an agent of a link without a connection.
    pub(super) fn offline(&self, agent: &str) -> RequestError {
        let message = format!(
            "`{agent}` is offline, because the link `{}` is down; the message was not delivered",
            self.config.name
        );
        RequestError::new(ErrorCode::AgentOffline, message)
    }

    /// Returns the error of a message whose fate is unknown, because the connection ended before the other gateway answered.
    pub(super) fn interrupted(&self, agent: &str) -> RequestError {
        let message = format!(
            "the link `{}` broke before an answer; `{agent}` may or may not have received the message",
            self.config.name
        );
        RequestError::new(ErrorCode::ConnectionReset, message)
    }

    /// Records a connection. `now` is in milliseconds since 1970.
    pub(super) fn set_up(&self, now: u64) {
        let mut status = self.status.lock();
        (status.is_up, status.since, status.is_reported) = (true, now, false);
    }

    /// Records the end of the connection. Returns whether there was one.
    pub(super) fn set_down(&self, now: u64) -> bool {
        let mut status = self.status.lock();
        let was_up = std::mem::replace(&mut status.is_up, false);
        if was_up {
            status.since = now;
        }
        was_up
    }

    /// Records why there is no connection. Returns whether this is the first error of the interruption.
    pub(super) fn set_error(&self, error: &str, now: u64) -> bool {
        let mut status = self.status.lock();
        status.last_error = Some((shortened(&visible(error), MAX_ERROR_CHARS), now));
        !std::mem::replace(&mut status.is_reported, true)
    }

    /// Returns whether the link uses TLS. A gateway that dials this one has a certificate, which it shows only in TLS.
    fn is_encrypted(&self) -> bool {
        let url = self.config.url.as_deref();
        url.is_none_or(|url| Url::parse(url).is_ok_and(|url| url.scheme() == "wss"))
    }

    /// Returns the state for the operator.
    fn to_json(&self) -> Value {
        let status = self.status.lock();
        let mut state = json!({
            "name": self.config.name,
            "direction": if self.config.url.is_some() { "outgoing" } else { "incoming" },
            "status": if status.is_up { "up" } else { "down" },
            "encrypted": self.is_encrypted(),
        });
        if status.since > 0 {
            state["since"] = status.since.into();
        }
        if let Some((error, at)) = &status.last_error {
            state["lastError"] = error.as_str().into();
            state["lastErrorAt"] = (*at).into();
        }
        state
    }
}

/// Returns whether a name matches a pattern, part by part between `@`. A part that ends in `*` matches every part with that
/// beginning, but never the triad.
fn matches(pattern: &str, name: &str) -> bool {
    let same = |(pattern, part): (&str, &str)| {
        let prefix = pattern.strip_suffix('*').filter(|_| part != TRIAD);
        pattern == part || prefix.is_some_and(|prefix| part.starts_with(prefix))
    };
    pattern.split('@').count() == name.split('@').count()
        && pattern.split('@').zip(name.split('@')).all(same)
}

/// Returns whether a name is that of a triad, here or behind links.
pub(super) fn is_triad(name: &str) -> bool {
    name.split('@').next() == Some(TRIAD)
}

/// Counts one more link in a message.
///
/// # Errors
/// 2005 for a message that has passed [`MAX_HOPS`] links.
pub(super) fn next_hop(envelope: Envelope) -> Result<Envelope, RequestError> {
    let hops = match envelope.metadata(HOPS) {
        None => Some(0),
        Some(hops) => hops.as_u64(),
    };
    match hops.filter(|hops| *hops < MAX_HOPS) {
        Some(hops) => Ok(envelope.with_metadata(HOPS, hops + 1)),
        None => {
            let message = format!(
                "the message has passed {MAX_HOPS} links; it was not delivered, to end a possible loop"
            );
            Err(RequestError::new(ErrorCode::InvalidContent, message))
        }
    }
}

/// Removes the signature of a message to a link, because it covers names of this side, and its status.
pub(super) fn without_signature(envelope: Envelope) -> Envelope {
    envelope
        .with_metadata(SIGNATURE, Value::Null)
        .with_metadata(SIGNATURE_STATUS, Value::Null)
}

fn read_trust(config: &LinkConfig) -> Result<Trust, (&'static str, String)> {
    let read = |key, path: &Option<PathBuf>| {
        let Some(path) = path else { return Ok(None) };
        let content = fs::read(path);
        content.map(Some).map_err(|error| {
            let message = format!("cannot read the file `{}`: {error}", path.display());
            (key, message)
        })
    };
    let authorities = read("caFile", &config.ca_file)?;
    let chain = read("certFile", &config.cert_file)?;
    let key = read("keyFile", &config.key_file)?;
    let own = chain.as_deref().zip(key.as_deref());
    Trust::read(authorities.as_deref(), own).map_err(|error| match error {
        TrustError::Authorities(cause) => ("caFile", format!("the file {cause}")),
        TrustError::Chain(cause) => ("certFile", format!("the file {cause}")),
        TrustError::Key(cause) => ("keyFile", format!("the file {cause}")),
    })
}

/// The links of a gateway.
pub(super) struct Links {
    all: Vec<Arc<Link>>,
    /// The digests of recent broadcasts.
    broadcasts: Mutex<LruCache<String, ()>>,
}

impl Links {
    /// Reads the files of the links.
    ///
    /// # Errors
    /// The first unusable file, with its JSON Pointer in the configuration.
    pub(super) fn load(config: &ServerConfig) -> Result<Self, ConfigError> {
        let links = config.links.iter().enumerate().map(|(i, link)| {
            let link = Link::new(link.clone());
            link.map(Arc::new)
                .map_err(|(key, message)| ConfigError::at(format!("/links/{i}/{key}"), message))
        });
        Ok(Self {
            all: links.collect::<Result<_, _>>()?,
            broadcasts: Mutex::new(LruCache::new(RECENT_BROADCASTS)),
        })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Link>> {
        self.all.iter()
    }

    /// Returns the link of a gateway that connects with the certificate of this name.
    pub(super) fn of_certificate(&self, name: &str) -> Option<&Arc<Link>> {
        let is_named = |link: &&Arc<Link>| link.config.certificate.as_deref() == Some(name);
        self.all.iter().find(is_named)
    }

    /// Returns the link that an agent is behind, if the link accepts the agent.
    pub(super) fn of_agent(&self, agent: &str) -> Option<&Arc<Link>> {
        let is_behind = |link: &&Arc<Link>| {
            let name = link.remote_name(agent);
            name.is_some_and(|name| link.accepts(name))
        };
        self.all.iter().find(is_behind)
    }

    /// Remembers a broadcast. Returns `false` if the gateway had it before.
    pub(super) fn is_new_broadcast(&self, envelope: &Envelope) -> bool {
        if self.all.is_empty() {
            return true;
        }
        // What no link changes. Senders choose their ids, so an id alone does not identify a broadcast.
        let (id, time) = (envelope.id(), envelope.field("timestamp"));
        let content = envelope.content();
        let whole = json!([id, time, content]).to_string();
        let key = hex(digest(&SHA256, whole.as_bytes()).as_ref());
        self.broadcasts.lock().put(key, ()).is_none()
    }

    /// Returns the state of the links for the operator; `None` without links.
    pub(super) fn to_json(&self) -> Option<Value> {
        let all: Vec<Value> = self.all.iter().map(|link| link.to_json()).collect();
        (!all.is_empty()).then(|| all.into())
    }
}

#[cfg(test)]
mod tests;
