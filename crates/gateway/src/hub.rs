//! What all connections share.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, UNIX_EPOCH};

use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use collective::{Envelope, ErrorCode};
use common::environment::Environment;
use common::log::Log;
use egress::Net;

use super::access::{Keyring, Operation};
use super::access_control::AccessControl;
use super::audit::{Audit, Outcome, Passed};
use super::client::Client;
use super::config::ServerConfig;
use super::outbox::Load;
use super::own_service::MAX_CONCURRENT;
use super::pace::Pace;
use super::questions::Question;
use super::refusal::Refusal;
use super::registry::Registry;
use super::reply_context::ReplyContext;
use super::services::Services;
use super::sessions::Sessions;
use super::triad::Triad;

/// What all connections share.
pub(super) struct Hub {
    pub(super) config: ServerConfig,
    pub(super) access: AccessControl,
    pub(super) keyring: Keyring,
    pub(super) sessions: Sessions,
    pub(super) audit: Audit,
    pub(super) triad: Triad,
    pub(super) services: Services,
    /// Turns of who manages sessions.
    pub(super) managing: Semaphore,
    pub(super) load: Arc<Load>,
    pub(super) net: Arc<dyn Net>,
    pub(super) env: Arc<dyn Environment>,
    pub(super) log: Arc<dyn Log>,
    pub(super) pace: Pace,
    /// Work that goes on beside the connections.
    pub(super) tasks: TaskTracker,
    pub(super) stopping: CancellationToken,
    registry: RwLock<Registry>,
}

/// What a hub is made of.
pub(super) struct Parts {
    pub(super) config: ServerConfig,
    pub(super) keyring: Keyring,
    pub(super) sessions: Sessions,
    pub(super) audit: Audit,
    pub(super) net: Arc<dyn Net>,
    pub(super) env: Arc<dyn Environment>,
    pub(super) log: Arc<dyn Log>,
}

impl Hub {
    pub(super) fn new(parts: Parts, pace: Pace) -> Arc<Self> {
        let config = parts.config;
        Arc::new(Self {
            registry: RwLock::new(Registry::new(&config.agents)),
            access: AccessControl::new(&config),
            triad: Triad::new(&config.triad),
            services: Services::new(&config.services),
            managing: Semaphore::new(MAX_CONCURRENT),
            load: Load::new(config.limits.total_queue_bytes),
            keyring: parts.keyring,
            sessions: parts.sessions,
            audit: parts.audit,
            net: parts.net,
            env: parts.env,
            log: parts.log,
            pace,
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            config,
        })
    }

    pub(super) fn registry(&self) -> RwLockReadGuard<'_, Registry> {
        self.registry.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn registry_mut(&self) -> RwLockWriteGuard<'_, Registry> {
        self.registry
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The time of day, in milliseconds since 1970.
    pub(super) fn millis(&self) -> u64 {
        let since = self.env.system_time().duration_since(UNIX_EPOCH);
        let millis = since.unwrap_or(Duration::ZERO).as_millis();
        u64::try_from(millis).unwrap_or(u64::MAX)
    }

    /// Whether a client may do something.
    ///
    /// # Errors
    /// 5001 it has not said who it is, 5004 it may not.
    pub(super) fn may(
        &self,
        client: &Client,
        said: Option<&str>,
        operation: Operation<'_>,
    ) -> Result<(), Refusal> {
        let Some(identity) = client.identity() else {
            self.keyring.anonymous()?;
            return Ok(());
        };
        let speaks_as = client.speaks_as(said);
        Ok(self
            .keyring
            .may(identity, speaks_as.as_deref(), operation)?)
    }

    /// Says to a client why not, and waits until there is room to say it.
    pub(super) async fn refuse(&self, client: &Client, context: &ReplyContext, refusal: &Refusal) {
        self.answer(client, context.refuse(refusal)).await;
    }

    /// Answers a client, and waits until there is room for the answer.
    pub(super) async fn answer(&self, client: &Client, answer: Envelope) {
        let answer = answer.with("timestamp", self.millis());
        // Who is gone needs no answer.
        let _ = client.outbox.answer(answer.to_text().into()).await;
    }

    /// The message of `context` could not be brought to its end; its sender is told, if there is room.
    pub(super) fn fail(&self, asker: &Client, question: &Question, refusal: &Refusal) {
        let error = refusal
            .answer(None)
            .with_metadata("correlationId", &*question.correlation)
            .with_metadata("parentId", &*question.message)
            .with("timestamp", self.millis());
        let _ = asker.outbox.text(error.to_text());
    }

    /// A question is no longer open: its asker may ask another. Gives the asker, if it is still there.
    pub(super) fn settled(&self, question: &Question) -> Option<Arc<Client>> {
        let asker = question.asker.upgrade()?;
        asker.asked.fetch_sub(1, Ordering::Relaxed);
        (!asker.outbox.is_over()).then_some(asker)
    }

    /// A client has gone: its agents are offline, and who waits for an answer from it is told.
    pub(super) fn leave(&self, client: &Arc<Client>) {
        client.outbox.gone();
        self.registry_mut().leave(client);
        self.give_up(client, |question| {
            let delivered = question
                .number
                .is_some_and(|n| client.outbox.may_have_left(n));
            match delivered {
                false => Refusal::offline(&question.agent),
                true => Refusal::new(
                    ErrorCode::AgentError,
                    format!(
                        "`{}` left before it answered; it may have done what it was asked",
                        question.agent
                    ),
                ),
            }
        });
    }

    /// What `client` was asked will not be answered.
    pub(super) fn give_up(&self, client: &Client, why: impl Fn(&Question) -> Refusal) {
        for question in client.questions.end() {
            if let Some(asker) = self.settled(&question)
                && question.owed
            {
                self.fail(&asker, &question, &why(&question));
            }
        }
    }

    /// What `client` was asked and took too long to answer.
    pub(super) fn expire_questions(&self, client: &Client) {
        for question in client.questions.expired(self.env.now()) {
            if let Some(asker) = self.settled(&question)
                && question.owed
            {
                let message = format!(
                    "`{}` did not answer in time; it may do so later",
                    question.agent
                );
                self.fail(
                    &asker,
                    &question,
                    &Refusal::new(ErrorCode::AgentError, message),
                );
            }
        }
    }

    /// Notes what came of a message.
    pub(super) fn note(
        &self,
        client: &Client,
        context: Option<&ReplyContext>,
        from: Option<&str>,
        outcome: Outcome,
    ) {
        if !self.config.audit.enabled {
            return;
        }
        let name = client.name(from);
        self.audit.write(&Passed {
            time: self.env.system_time(),
            id: context.and_then(|context| context.id.as_deref()),
            kind: context.map(|context| context.kind),
            from: Some(&name),
            to: context.and_then(|context| context.destination.as_deref()),
            identity: client.identity().map(|identity| identity.name.as_str()),
            outcome,
        });
    }
}
