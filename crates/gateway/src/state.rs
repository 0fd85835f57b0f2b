//! The state that all connections share.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use base::environment::Environment;
use base::log::{Level, Log};
use base::text::first_chars;
use base::visible::visible;
use collective::{Envelope, ErrorCode, Kind};
use egress::HttpClient;
use http_server::auth_limit::AuthLimiter;
use http_server::connection_limit::end_site;

use super::access::{Authenticated, Identity, Keyring, Operation, OriginCheck};
use super::audit::{Audit, AuditRecord, Outcome};
use super::channels::{EventFeed, GatewayEvent};
use super::config::{ServerConfig, ServiceConfig};
use super::connected_client::{Client, PendingRequest};
use super::frames::{ReplyContext, RequestError};
use super::links::Links;
use super::outbox::{ByteBudget, Close};
use super::proposals::Triad;
use super::refusals::{Admission, Refusals};
use super::registry::Registry;
use super::sessions::Sessions;
use super::shares::{Shares, Totals};
use super::signing::Signing;

/// The maximum length of a name or id in the log, in characters.
const MAX_LOGGED_CHARS: usize = 200;

/// The maximum number of concurrent session operations. Each uses a thread and the disk.
const MAX_CONCURRENT_MANAGEMENT: usize = 4;

/// The number of different wrong tokens that an address may send at once.
const MAX_GUESSES: u32 = 10;

/// The time after which an address may send one more wrong token.
const GUESS_INTERVAL: Duration = Duration::from_secs(2);

/// The time between a refused message that is only counted and the record of the count.
const COUNT_INTERVAL: Duration = Duration::from_mins(1);

/// The maximum number of concurrent requests to services.
const MAX_CONCURRENT_REQUESTS: usize = 64;

/// The state that all connections share.
pub(super) struct GatewayState {
    pub(super) config: ServerConfig,
    pub(super) origin_check: OriginCheck,
    pub(super) keyring: Keyring,
    pub(super) signing: Signing,
    pub(super) sessions: Sessions,
    pub(super) audit: Audit,
    refusals: Refusals,
    pub(super) triad: Triad,
    pub(super) links: Links,
    pub(super) events: EventFeed,
    pub(super) services: ServiceCatalog,
    /// Permits for session operations.
    pub(super) management: Semaphore,
    pub(super) queue_budget: Arc<ByteBudget>,
    pub(super) shares: Shares,
    pub(super) auth_limiter: AuthLimiter,
    pub(super) net: Arc<dyn HttpClient>,
    pub(super) env: Arc<dyn Environment>,
    pub(super) log: Arc<dyn Log>,
    pub(super) timeouts: Timeouts,
    /// Tasks that run independently of a connection.
    pub(super) tasks: TaskTracker,
    pub(super) stopping: CancellationToken,
    registry: RwLock<Registry>,
}

/// The arguments of [`GatewayState::new`].
pub(super) struct StateParts {
    pub(super) config: ServerConfig,
    pub(super) keyring: Keyring,
    pub(super) signing: Signing,
    pub(super) sessions: Sessions,
    pub(super) audit: Audit,
    pub(super) links: Links,
    pub(super) net: Arc<dyn HttpClient>,
    pub(super) env: Arc<dyn Environment>,
    pub(super) log: Arc<dyn Log>,
}

impl GatewayState {
    pub(super) fn new(parts: StateParts, timeouts: Timeouts) -> Arc<Self> {
        let config = parts.config;
        Arc::new(Self {
            shares: Shares::new(
                parts.keyring.is_required(),
                Totals {
                    connections: config.limits.connections,
                    services: MAX_CONCURRENT_REQUESTS,
                    management: MAX_CONCURRENT_MANAGEMENT / 2,
                    queue_bytes: config.limits.total_queue_bytes,
                },
            ),
            auth_limiter: AuthLimiter::new(MAX_GUESSES, GUESS_INTERVAL),
            registry: RwLock::new(Registry::new(&config.agents, parts.keyring.is_required())),
            origin_check: OriginCheck::new(&config),
            triad: Triad::new(&config.triad, parts.keyring.is_required()),
            events: EventFeed::new(parts.env.uuid().simple().to_string()),
            services: ServiceCatalog::new(&config.services),
            management: Semaphore::new(MAX_CONCURRENT_MANAGEMENT),
            queue_budget: ByteBudget::new(config.limits.total_queue_bytes),
            keyring: parts.keyring,
            signing: parts.signing,
            sessions: parts.sessions,
            audit: parts.audit,
            links: parts.links,
            refusals: Refusals::default(),
            net: parts.net,
            env: parts.env,
            log: parts.log,
            timeouts,
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            config,
        })
    }

    pub(super) fn registry(&self) -> RwLockReadGuard<'_, Registry> {
        self.registry.read()
    }

    pub(super) fn registry_mut(&self) -> RwLockWriteGuard<'_, Registry> {
        self.registry.write()
    }

    /// Returns the time of day, in milliseconds since 1970.
    pub(super) fn now_millis(&self) -> u64 {
        self.env.unix_millis()
    }

    /// Authenticates a client, and counts its connection towards the share of its identity.
    ///
    /// # Errors
    /// 3003 if the identity has its share of connections.
    pub(super) fn admit(
        &self,
        client: &Client,
        authenticated: Authenticated,
    ) -> Result<(), RequestError> {
        if !client.has_share() {
            let key: Arc<str> = authenticated.identity.share_key().into();
            let Some(connection) = self.shares.open_connection(&key) else {
                let message = format!(
                    "`{}` has its share of the gateway's connections; close one of them, or try again later",
                    authenticated.identity.name
                );
                return Err(RequestError::busy(message, Duration::from_secs(5)));
            };
            if let Some(queue) = self.shares.queue(&key) {
                client.outbox.set_share(queue);
            }
            client.set_share(key, connection);
        }
        client.authenticate(authenticated);
        Ok(())
    }

    /// Checks that a client may perform an operation. `from` is the sender in its message.
    ///
    /// # Errors
    /// 5001 before authentication, 5004 without permission.
    pub(super) fn authorize(
        &self,
        client: &Client,
        from: Option<&str>,
        operation: Operation<'_>,
    ) -> Result<(), RequestError> {
        let Some(identity) = client.identity() else {
            self.keyring.anonymous()?;
            return Ok(());
        };
        // The lists of a link that this gateway dials are its permissions.
        if identity.is_local() && client.link().is_some() {
            return Ok(());
        }
        let speaks_as = client.speaks_as(from);
        Ok(self
            .keyring
            .authorize(identity, speaks_as.as_deref(), operation)?)
    }

    /// Verifies the signature of a message that the gateway is about to deliver, and sets its status.
    ///
    /// # Errors
    /// 5002 if the client must sign and the signature does not count.
    pub(super) fn check_signature(
        &self,
        client: &Client,
        envelope: Envelope,
    ) -> Result<Envelope, RequestError> {
        // The gateway behind a link, which its certificate names, vouches for its agents: no signature passes a link.
        let is_exempt =
            client.link().is_some() || client.identity().is_some_and(Identity::is_local);
        self.signing.check(envelope, is_exempt, self.now_millis())
    }

    /// Sends an error about a refused message to its sender. Waits for room in the outbox.
    pub(super) async fn send_error(
        &self,
        client: &Client,
        context: &ReplyContext,
        error: &RequestError,
    ) {
        self.send(client, context.error(error)).await;
    }

    /// Sends a reply to a client. Waits for room in the outbox.
    pub(super) async fn send(&self, client: &Client, reply: Envelope) {
        let reply = reply.with("timestamp", self.now_millis());
        // The client may have disconnected.
        let _ = client.outbox.send(reply.to_text().into()).await;
    }

    /// Sends the requester an error instead of a reply, if its outbox has room.
    pub(super) fn send_failure(
        &self,
        requester: &Client,
        pending: &PendingRequest,
        error: &RequestError,
    ) {
        let error = error
            .to_envelope()
            .with_metadata("correlationId", &*pending.correlation_id)
            .with_metadata("parentId", &*pending.message_id)
            .with("timestamp", self.now_millis());
        let _ = requester.outbox.try_send(error.to_text());
    }

    /// Releases the requester's slot of a completed request. Returns the requester if it is still connected.
    pub(super) fn complete(&self, pending: &PendingRequest) -> Option<Arc<Client>> {
        let requester = pending.requester.upgrade()?;
        requester.open_requests.fetch_sub(1, Ordering::Relaxed);
        (!requester.outbox.is_closed()).then_some(requester)
    }

    /// Removes a disconnected client. Its agents go offline, and its pending requests fail.
    pub(super) fn remove_client(&self, client: &Arc<Client>) {
        client.outbox.abandon();
        self.registry_mut().remove_client(client);
        self.detach_link(client);
        self.fail_pending(client, |pending| {
            let delivered = pending
                .outbox_number
                .is_some_and(|n| client.outbox.may_be_written(n));
            match (delivered, client.link()) {
                (false, _) => RequestError::offline(&pending.agent),
                (true, Some(link)) => link.interrupted(&pending.agent),
                (true, None) => RequestError::new(
                    ErrorCode::AgentError,
                    format!(
                        "`{}` disconnected before it replied; it may have done the work",
                        pending.agent
                    ),
                ),
            }
        });
    }

    /// Records that a link is up. A new connection of a link ends the one before.
    pub(super) fn attach_link(&self, client: &Arc<Client>) {
        let Some(link) = client.link() else { return };
        let is_earlier = |other: &&Arc<Client>| {
            !Arc::ptr_eq(other, client) && other.link().is_some_and(|one| Arc::ptr_eq(one, link))
        };
        let earlier: Vec<_> = self
            .registry()
            .clients()
            .filter(is_earlier)
            .cloned()
            .collect();
        for other in earlier {
            other.outbox.close(Close::REPLACED);
            self.remove_client(&other);
        }
        link.set_up(self.now_millis());
        self.log.log(
            Level::Info,
            &format!("the link `{}` is up", link.config.name),
        );
    }

    /// Records that a link is down, unless it has another connection.
    fn detach_link(&self, client: &Arc<Client>) {
        let Some(link) = client.link() else { return };
        let is_of_link = |other: &Arc<Client>| {
            let other = other.link();
            other.is_some_and(|other| Arc::ptr_eq(other, link))
        };
        let is_connected = self.registry().clients().any(is_of_link);
        // The client of a link that this gateway dials logs why.
        if !is_connected && link.set_down(self.now_millis()) && link.config.url.is_none() {
            let line = format!(
                "the link `{}` is down until the other gateway connects",
                link.config.name
            );
            self.log.log(Level::Warn, &line);
        }
    }

    /// Fails every pending request of `client`.
    pub(super) fn fail_pending(
        &self,
        client: &Client,
        error: impl Fn(&PendingRequest) -> RequestError,
    ) {
        for pending in client.pending.close() {
            if let Some(requester) = self.complete(&pending)
                && pending.reply_required
            {
                self.send_failure(&requester, &pending, &error(&pending));
            }
        }
    }

    /// Fails the pending requests of `client` whose deadline has passed.
    pub(super) fn expire_pending(&self, client: &Client) {
        for pending in client.pending.remove_expired(self.env.now()) {
            if let Some(requester) = self.complete(&pending)
                && pending.reply_required
            {
                let message = format!(
                    "`{}` did not reply in time; it may reply later",
                    pending.agent
                );
                let error = RequestError::new(ErrorCode::AgentError, message);
                self.send_failure(&requester, &pending, &error);
            }
        }
    }

    /// Publishes an event to the subscribers of `gateway:events`.
    pub(super) fn publish(&self, event: GatewayEvent<'_>) {
        self.events.publish(event, self.now_millis());
    }

    /// Logs a message without its content: a refused one at the level `info`, others at `debug`, because the audit log has
    /// them. A client above its limits must not fill the log.
    fn log_message(
        &self,
        client: &Client,
        context: Option<&ReplyContext>,
        from: &str,
        outcome: Outcome,
    ) {
        let kind = context.map(|context| context.kind);
        let level = match outcome {
            Outcome::Refused(code) if code != ErrorCode::AgentBusy => Level::Info,
            _ => Level::Debug,
        };
        if !self.log.enabled(level) {
            return;
        }
        let identity = client.identity().map(|identity| identity.name.as_str());
        let to = context.and_then(|context| context.destination.as_deref());
        let id = context.and_then(|context| context.id.as_deref());
        let fields = [
            ("type", kind.map(Kind::as_str)),
            ("client", identity),
            ("from", Some(from)),
            ("to", to),
            ("id", id),
            ("outcome", Some(outcome.name())),
        ];
        let mut line = "message".to_owned();
        for (name, value) in fields {
            if let Some(value) = value {
                let value = visible(value);
                // As JSON, so that a value cannot look like another field.
                line += &format!(" {name}={}", json!(first_chars(&value, MAX_LOGGED_CHARS)));
            }
        }
        self.log.log(level, &line);
    }

    /// Returns whether to record a refused message. Above a rate of its sender, the message is only counted, and one record
    /// has the count: refusals are cheap for a client, and must not displace the records of accepted messages.
    fn records_refusal(self: &Arc<Self>, client: &Client) -> bool {
        let sender = match client.address() {
            Some(address) if !client.has_share() => end_site(address).to_string().into(),
            _ => client.share_key(),
        };
        let sender = match self.refusals.admit(sender, self.env.now()) {
            Admission::Recorded => return true,
            Admission::Counted => return false,
            Admission::FirstCounted(sender) => sender,
        };
        let state = Arc::clone(self);
        self.tasks.spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(COUNT_INTERVAL) => {}
                () = state.stopping.cancelled() => {}
            }
            let count = state.refusals.take_count(&sender);
            let line = format!("refused {count} more messages from={}", json!(&*sender));
            state.log.log(Level::Info, &line);
            state.audit.write(&AuditRecord {
                time: state.env.system_time(),
                id: None,
                kind: None,
                from: Some(&sender),
                to: None,
                identity: None,
                outcome: Outcome::Refusals,
                count: Some(count),
            });
        });
        false
    }

    /// Writes the outcome of a message to the log and to the audit log. Also publishes an event if the gateway refused the message.
    pub(super) fn record(
        self: &Arc<Self>,
        client: &Client,
        context: Option<&ReplyContext>,
        from: Option<&str>,
        outcome: Outcome,
    ) {
        let name = client.name(from);
        if let Outcome::Refused(code) = outcome {
            let event = GatewayEvent::new("refused")
                .with("id", context.and_then(|context| context.id.as_deref()))
                .with("type", context.map(|context| context.kind.as_str()))
                .with("from", &*name)
                .with(
                    "to",
                    context.and_then(|context| context.destination.as_deref()),
                )
                .with("error", code.name())
                .with("code", code.number());
            self.publish(event.live_only());
            if !self.records_refusal(client) {
                return;
            }
        }
        self.log_message(client, context, &name, outcome);
        if !self.config.audit.enabled {
            return;
        }
        self.audit.write(&AuditRecord {
            time: self.env.system_time(),
            id: context.and_then(|context| context.id.as_deref()),
            kind: context.map(|context| context.kind),
            from: Some(&name),
            to: context.and_then(|context| context.destination.as_deref()),
            identity: client.identity().map(|identity| identity.name.as_str()),
            outcome,
            count: None,
        });
    }
}

/// The configured services.
pub(super) struct ServiceCatalog {
    all: Vec<ServiceConfig>,
    pub(super) permits: Arc<Semaphore>,
}

impl ServiceCatalog {
    pub(super) fn new(services: &[ServiceConfig]) -> Self {
        Self {
            all: services.to_vec(),
            permits: Arc::new(Semaphore::new(MAX_CONCURRENT_REQUESTS)),
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&ServiceConfig> {
        self.all.iter().find(|service| service.service_id == name)
    }

    /// Lists the services for discovery. The configuration refuses endpoints with user info or a query.
    pub(super) fn list(&self) -> Vec<Value> {
        let entry = |service: &ServiceConfig| {
            json!({
                "serviceId": service.service_id,
                "endpoint": service.endpoint,
                "capabilities": service.capabilities,
                "healthEndpoint": service.health_endpoint,
            })
        };
        self.all.iter().map(entry).collect()
    }
}

/// The timeouts of the gateway. Only tests change the defaults.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// The timeout of the TLS handshake, and that of the upgrade request.
    pub handshake: Duration,
    /// How long an evicted connection may still take to send its upgrade request.
    pub eviction_grace: Duration,
    /// The timeout for the credential of a new connection.
    pub authentication: Duration,
    /// The timeout of a write to a client's socket.
    pub write: Duration,
    /// The timeout of a reply to a message without a `ttl`.
    pub reply: Duration,
    /// The timeout of a service's response.
    pub service: Duration,
    /// How long the client may take to close after either side ended the connection.
    pub close: Duration,
    /// The timeout of running work at shutdown.
    pub shutdown: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            eviction_grace: Duration::from_secs(1),
            authentication: Duration::from_secs(10),
            write: Duration::from_secs(10),
            reply: Duration::from_mins(30),
            service: Duration::from_secs(30),
            close: Duration::from_secs(1),
            shutdown: Duration::from_secs(5),
        }
    }
}
