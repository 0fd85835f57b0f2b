//! Authentication, authorization, rate limits, and which web pages may connect.

mod keyring;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::{Duration, Instant, SystemTime};

use http::{HeaderMap, Uri};

use crate::config::{AgentConfig, Permissions, ServerConfig};
use base::named;
use collective::{ErrorCode, GATEWAY};
use http_server::host::{self, HostNames, is_forwarded};

pub use keyring::Keyring;

/// A refused credential or operation. The error never contains a credential.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct AccessError {
    /// The code in the error registry, from 5001 to 5004.
    pub code: ErrorCode,
    /// The refused action, the reason and a hint, as a sentence without a full stop. The gateway may send it to the client.
    pub message: String,
}

impl AccessError {
    fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

/// The identity of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The name of its key, certificate or token; `anonymous` without authentication.
    pub name: String,
    /// Its roles.
    pub roles: Vec<String>,
    /// The agent that its credential names.
    pub agent: Option<String>,
    /// The kind of its credential.
    pub kind: IdentityKind,
}

named! {
    /// The kind of an identity's credential.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum IdentityKind {
        /// An API key.
        Key = "key",
        /// A client certificate.
        Certificate = "certificate",
        /// A JSON Web Token.
        Token = "token",
        /// None, because the gateway does not authenticate clients.
        Anonymous = "anonymous",
        /// None, because the gateway itself runs the agent. Without any role, such a client may serve its name, read its
        /// workspace, send, vote and subscribe. It may do nothing else, and the permissions of the agent may restrict it
        /// further.
        Local = "local",
    }
}

impl Identity {
    /// Returns whether the client is an agent that the gateway itself runs.
    pub fn is_local(&self) -> bool {
        self.kind == IdentityKind::Local
    }

    /// Returns the name by which its shares are counted. Credentials of two kinds are two identities, whatever their names
    /// are: the issuer of tokens does not know the names of the keys.
    pub fn share_key(&self) -> String {
        format!("{}:{}", self.kind.as_str(), self.name)
    }
}

/// The identity of a valid credential, and the expiry of the credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authenticated {
    /// The identity.
    pub identity: Identity,
    /// The expiry; `None` means that the credential does not expire.
    pub expires_at: Option<SystemTime>,
}

impl From<Identity> for Authenticated {
    /// Returns an identity that does not expire.
    fn from(identity: Identity) -> Self {
        Self {
            identity,
            expires_at: None,
        }
    }
}

/// An operation that needs permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation<'a> {
    /// Send a message to this agent.
    Send(&'a str),
    /// Send a proposal to the triad.
    Propose,
    /// Vote.
    Vote,
    /// Subscribe to a channel.
    Subscribe,
    /// Broadcast a message.
    Broadcast,
    /// Send a request to this service.
    Request(&'a str),
    /// Read the sessions of this workspace.
    Workspace(&'a str),
    /// Act as this agent and receive its messages.
    Serve(&'a str),
}

/// The permissions of roles and agents.
struct Rules {
    roles: BTreeMap<String, Permissions>,
    agents: HashMap<String, Permissions>,
}

impl Rules {
    fn new(config: &ServerConfig) -> Self {
        let own = |agent: &AgentConfig| Some((agent.name.clone(), agent.permissions.clone()?));
        Self {
            roles: config.roles.clone(),
            agents: config.agents.iter().filter_map(own).collect(),
        }
    }

    /// Checks that a role of the identity allows the operation, and that the permissions of the agent `speaks_as` do too.
    fn authorize(
        &self,
        identity: &Identity,
        speaks_as: Option<&str>,
        operation: Operation<'_>,
    ) -> Result<(), AccessError> {
        if !self.by_role(identity, speaks_as, operation) {
            let message = format!(
                "`{}` may not {operation}; the gateway's operator can allow it for a role",
                identity.name
            );
            return Err(AccessError::new(ErrorCode::PermissionDenied, message));
        }
        let own = speaks_as.and_then(|agent| Some((agent, self.agents.get(agent)?)));
        match own {
            Some((agent, own)) if !is_own(speaks_as, operation) && !own.allow(operation) => {
                let message = format!(
                    "the agent `{agent}` may not {operation}; the gateway's operator can allow it in the agent's permissions"
                );
                Err(AccessError::new(ErrorCode::PermissionDenied, message))
            }
            _ => Ok(()),
        }
    }

    fn by_role(
        &self,
        identity: &Identity,
        speaks_as: Option<&str>,
        operation: Operation<'_>,
    ) -> bool {
        if identity.is_local() {
            return match operation {
                Operation::Send(_) | Operation::Vote | Operation::Subscribe => true,
                Operation::Serve(name) | Operation::Workspace(name) => {
                    identity.agent.as_deref() == Some(name)
                }
                Operation::Propose | Operation::Broadcast | Operation::Request(_) => false,
            };
        }
        // Without roles, any authenticated client is allowed. A credential for one agent may serve only that agent.
        if self.roles.is_empty() {
            return match (operation, &identity.agent) {
                (Operation::Serve(name), Some(agent)) => agent == name,
                _ => true,
            };
        }
        if matches!(operation, Operation::Serve(name) if identity.agent.as_deref() == Some(name)) {
            return true;
        }
        // The gateway checked the permission when the client started to act as the agent.
        if is_own(speaks_as, operation) && !matches!(operation, Operation::Serve(_)) {
            return true;
        }
        let mut roles = identity
            .roles
            .iter()
            .filter_map(|role| self.roles.get(role));
        roles.any(|role| role.allow(operation))
    }
}

/// Returns whether the operation only concerns the agent itself.
fn is_own(speaks_as: Option<&str>, operation: Operation<'_>) -> bool {
    match operation {
        Operation::Workspace(name) | Operation::Serve(name) => speaks_as == Some(name),
        _ => false,
    }
}

impl Permissions {
    fn allow(&self, operation: Operation<'_>) -> bool {
        let listed = |list: &[String], name: &str| list.iter().any(|one| one == "*" || one == name);
        match operation {
            Operation::Send(agent) => listed(&self.send, agent),
            Operation::Propose => self.propose,
            Operation::Vote => self.vote,
            Operation::Subscribe => self.subscribe,
            Operation::Broadcast => self.broadcast,
            // `*` does not include the service `gateway`, which manages the gateway.
            Operation::Request(GATEWAY) => self.request.iter().any(|one| one == GATEWAY),
            Operation::Request(service) => listed(&self.request, service),
            Operation::Workspace(agent) => listed(&self.workspaces, agent),
            Operation::Serve(agent) => listed(&self.serve, agent),
        }
    }
}

impl fmt::Display for Operation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send(agent) => write!(f, "send to `{}`", agent.escape_debug()),
            Self::Propose => f.write_str("propose"),
            Self::Vote => f.write_str("vote"),
            Self::Subscribe => f.write_str("subscribe"),
            Self::Broadcast => f.write_str("broadcast"),
            Self::Request(service) => write!(
                f,
                "send requests to the service `{}`",
                service.escape_debug()
            ),
            Self::Workspace(agent) => {
                write!(f, "read the workspace `{}`", agent.escape_debug())
            }
            Self::Serve(agent) => write!(f, "speak as `{}`", agent.escape_debug()),
        }
    }
}

/// A token bucket with a sustained rate and a burst, in constant time and memory.
#[derive(Debug, Clone)]
pub struct RateLimit {
    /// The interval between two messages at the sustained rate.
    interval: Duration,
    /// The time by which a client may be ahead of its rate.
    max_ahead: Duration,
    /// The time at which the bucket is full again.
    full_at: Instant,
}

impl RateLimit {
    /// Creates a limit of `per_second` messages per second with bursts of `burst` messages. 0 counts as 1.
    pub fn new(per_second: u64, burst: u64, now: Instant) -> Self {
        let per_second = u32::try_from(per_second.max(1)).unwrap_or(u32::MAX);
        Self::with_interval(Duration::from_secs(1) / per_second, burst, now)
    }

    /// Creates a limit of one message per `interval` with bursts of `burst` messages. 0 counts as 1.
    pub(crate) fn with_interval(interval: Duration, burst: u64, now: Instant) -> Self {
        Self {
            interval,
            max_ahead: interval.saturating_mul(u32::try_from(burst.max(1) - 1).unwrap_or(u32::MAX)),
            full_at: now,
        }
    }

    /// Returns whether the whole burst is available.
    pub(crate) fn is_full(&self, now: Instant) -> bool {
        self.full_at <= now
    }

    /// Acquires one message.
    ///
    /// # Errors
    /// The time until the next message is allowed.
    pub fn try_acquire(&mut self, now: Instant) -> Result<(), Duration> {
        let full_at = self.full_at.max(now);
        let ahead = full_at.saturating_duration_since(now);
        if ahead > self.max_ahead {
            return Err(ahead - self.max_ahead);
        }
        self.full_at = full_at + self.interval;
        Ok(())
    }
}

/// The hosts and origins that may open a WebSocket.
pub(crate) struct OriginCheck {
    names: HostNames,
    /// The scheme of the gateway's own origin.
    scheme: &'static str,
    origins: Vec<String>,
    /// Whether the gateway accepts forwarded requests: only if clients must authenticate.
    accepts_forwarded: bool,
}

impl OriginCheck {
    pub(crate) fn new(config: &ServerConfig) -> Self {
        let hosts = config.hosts.iter().map(String::as_str);
        Self {
            names: HostNames::new(config.listen.ip(), hosts),
            scheme: if config.tls.is_some() {
                "https"
            } else {
                "http"
            },
            origins: config.origins.clone(),
            accepts_forwarded: config.auth.is_some(),
        }
    }

    /// Checks the host, the origin and the proxy headers of a request.
    ///
    /// # Errors
    /// The reason of the refusal, with a hint.
    pub(crate) fn check(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), &'static str> {
        let host = host::requested_host(headers, uri).ok();
        let Some(host) = host.filter(|host| self.names.contains(host.host())) else {
            return Err(
                "cannot open a WebSocket: `Host` is not a name of this gateway; connect to its address, or add the name to `hosts` of its configuration",
            );
        };
        let own = format!("{}://{host}", self.scheme);
        let is_configured = |origin: &str| self.origins.iter().any(|known| known == origin);
        if host::is_foreign_origin(headers, &own, is_configured) {
            return Err(
                "cannot open a WebSocket: the page is of another origin; add it to `origins` of the gateway's configuration to let it connect",
            );
        }
        if is_forwarded(headers) && !self.accepts_forwarded {
            return Err(
                "cannot open a WebSocket: a proxy forwarded the request, and this gateway does not authenticate clients; set `auth`, or connect directly",
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
