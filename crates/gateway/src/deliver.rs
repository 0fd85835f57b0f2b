//! Messages to agents.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::Value;

use collective::{Envelope, ErrorCode, Kind};

use super::access::Operation;
use super::audit::Outcome;
use super::client::Client;
use super::hub::Hub;
use super::names::CLIENT;
use super::outbox::{EnqueueError, Item};
use super::questions::{AskError, Question};
use super::refusal::Refusal;
use super::reply_context::ReplyContext;
use super::sessions::Entry;
use super::status::Status;

/// So many of its own questions may one client have open.
const MAX_PENDING_QUESTIONS: usize = 1024;

impl Hub {
    /// Takes a message: an answer to what its sender was asked, or something new for an agent.
    pub(super) async fn message(
        &self,
        client: &Arc<Client>,
        envelope: Envelope,
        context: &ReplyContext,
    ) -> Result<Outcome, Refusal> {
        let question = client.questions.of(&envelope);
        if let Some(question) = question {
            // With the same ids it may go on to a third: that is a message of its own.
            let back = envelope.agent().is_none_or(|agent| {
                let asker = question.asker.upgrade();
                *agent == *question.asker_name || asker.is_some_and(|asker| asker.is(agent))
            });
            if back {
                return self.reply(client, &question, envelope).await;
            }
        }
        self.pass_on(client, envelope, context).await
    }

    /// Takes how an agent is: progress of a question where it names one, else for the registry (000 §8.2).
    pub(super) async fn status(
        &self,
        client: &Arc<Client>,
        envelope: Envelope,
        context: &ReplyContext,
    ) -> Result<Outcome, Refusal> {
        let question = client.questions.of(&envelope);
        if let Some(question) = question {
            let told = question.asker.upgrade().is_some_and(|asker| {
                let progress = self.stamped(envelope, &question);
                asker.outbox.text(progress.to_text()).is_ok()
            });
            return Ok(if told {
                Outcome::Delivered
            } else {
                Outcome::Dropped
            });
        }
        let word = envelope.said("status").ok_or_else(|| {
            Refusal::new(
                ErrorCode::MissingField,
                "`content.status` is missing: a message of the type `status` tells how an agent is",
            )
        })?;
        let status = Status::from_word(word).ok_or_else(|| {
            let message =
                "`content.status` is one of `online`, `offline`, `busy`, `idle` and `error`";
            Refusal::new(ErrorCode::InvalidContent, message)
        })?;
        let names = client.names();
        let meant: Vec<&Arc<str>> = match envelope.said("agent") {
            Some(one) => names.iter().filter(|name| ***name == *one).collect(),
            None => names.iter().collect(),
        };
        if meant.is_empty() {
            return Err(Refusal::new(
                ErrorCode::PermissionDenied,
                "only who serves an agent can say how it is; advertise it in `supportedAgents` first",
            ));
        }
        {
            let mut registry = self.registry_mut();
            for name in meant {
                registry.change(name, status);
            }
        }
        self.acknowledge(client, context).await;
        Ok(Outcome::Done)
    }

    /// Says that it is done, to who wants to be told.
    pub(super) async fn acknowledge(&self, client: &Client, context: &ReplyContext) {
        if context.wants_answer {
            let content = serde_json::json!({"result": "ok"});
            self.answer(client, context.answer(Kind::Response, content))
                .await;
        }
    }

    /// Hands a message to the agent it names. Before it is handed over, it is kept.
    pub(super) async fn pass_on(
        &self,
        client: &Arc<Client>,
        envelope: Envelope,
        context: &ReplyContext,
    ) -> Result<Outcome, Refusal> {
        let agent: Arc<str> = envelope.agent().unwrap_or_default().into();
        let from = client.name(envelope.from());
        self.may(client, envelope.from(), Operation::Send(&agent))?;
        let server = self.registry().reach(&agent)?;
        let now = self.millis();
        if envelope.is_expired(now) {
            return Err(outlived(&agent));
        }
        let id: Arc<str> = match envelope.id() {
            Some(id) => id.into(),
            None => format!("msg-{}", self.env.uuid()).into(),
        };
        let has_workspace = self.registry().knows(&agent);
        let session = match has_workspace {
            true => Some(self.session(client, &agent, &envelope, context).await?),
            false => envelope.session_id().map(Into::into),
        };
        let mut envelope = envelope
            .with("id", &*id)
            .with("from", &*from)
            .with("sessionId", session.as_deref());
        if envelope.field("timestamp").is_none() {
            envelope = envelope.with("timestamp", now);
        }
        let key = match context.wants_answer || context.correlation.is_some() {
            false => None,
            true => Some(self.ask(client, &server, context, &agent, from, &id, session.clone())?),
        };
        if let Err(refusal) = self.keep(&agent, &envelope, session.as_deref()).await {
            return Err(self.taken_back(&server, key.as_deref(), refusal));
        }
        if let Some(key) = &key {
            envelope = envelope.with_metadata("correlationId", &**key);
        }
        match server
            .outbox
            .put(self.item(client, &server, &envelope, context, key.as_deref()))
        {
            Ok(number) => {
                if let Some(key) = &key {
                    server.questions.placed(key, number);
                }
                Ok(Outcome::Delivered)
            }
            Err(unsent) => {
                let refusal = Refusal::unsent(&agent, unsent);
                Err(self.taken_back(&server, key.as_deref(), refusal))
            }
        }
    }

    /// The session that a message belongs to: its own, else a new one. What nobody answers tells its sender of no session;
    /// all such messages of a connection are in one.
    async fn session(
        &self,
        client: &Client,
        agent: &str,
        envelope: &Envelope,
        context: &ReplyContext,
    ) -> Result<Arc<str>, Refusal> {
        if let Some(id) = envelope.session_id() {
            return Ok(id.into());
        }
        if self.config.strict {
            return Ok(self.sessions.create(agent, None).await?.into());
        }
        if context.wants_answer {
            return Ok(format!("sess-{}", self.env.uuid()).into());
        }
        let connection = client.id().trim_start_matches(CLIENT);
        Ok(format!("sess-{connection}").into())
    }

    pub(super) async fn keep(
        &self,
        agent: &str,
        envelope: &Envelope,
        session: Option<&str>,
    ) -> Result<(), Refusal> {
        let Some(session) = session.filter(|_| self.registry().knows(agent)) else {
            return Ok(());
        };
        let kept = self
            .sessions
            .append(agent, &Entry::of(envelope, session, self.env.system_time()));
        Ok(kept.await?)
    }

    #[expect(clippy::too_many_arguments, reason = "each is a field of the question")]
    fn ask(
        &self,
        client: &Arc<Client>,
        server: &Client,
        context: &ReplyContext,
        agent: &Arc<str>,
        asker_name: Arc<str>,
        message: &Arc<str>,
        session: Option<Arc<str>>,
    ) -> Result<Arc<str>, Refusal> {
        if client.asked.fetch_add(1, Ordering::Relaxed) >= MAX_PENDING_QUESTIONS {
            client.asked.fetch_sub(1, Ordering::Relaxed);
            return Err(Refusal::busy(
                format!(
                    "{MAX_PENDING_QUESTIONS} messages of this connection wait for their answers; wait for one of them"
                ),
                Duration::from_secs(1),
            ));
        }
        let correlation = context
            .correlation
            .as_deref()
            .map_or_else(|| Arc::clone(message), Into::into);
        let question = Question {
            asker: Arc::downgrade(client),
            asker_name,
            correlation,
            message: Arc::clone(message),
            agent: Arc::clone(agent),
            session,
            owed: context.wants_answer,
            number: None,
            until: self.env.now() + self.pace.answer,
            kept: false,
        };
        server.questions.ask(question).map_err(|not_asked| {
            client.asked.fetch_sub(1, Ordering::Relaxed);
            let unsent = match not_asked {
                AskError::TooMany => EnqueueError::Full,
                AskError::Gone => EnqueueError::Gone,
            };
            Refusal::unsent(agent, unsent)
        })
    }

    /// A message was not handed over: nobody answers it. Gives why, for its sender.
    fn taken_back(&self, server: &Client, key: Option<&str>, why: Refusal) -> Refusal {
        if let Some(question) = key.and_then(|key| server.questions.close(Some(key), None)) {
            self.settled(&question);
        }
        why
    }

    /// What goes into the agent's outbox. A message with a time to live is looked at again when its turn comes.
    fn item(
        &self,
        client: &Arc<Client>,
        server: &Arc<Client>,
        envelope: &Envelope,
        context: &ReplyContext,
        key: Option<&str>,
    ) -> Item {
        let text = envelope.to_text().into();
        let seconds = envelope.metadata("ttl").and_then(Value::as_f64);
        let (Some(written), Some(seconds)) = (envelope.timestamp(), seconds) else {
            return Item::Text(text);
        };
        let millis = Duration::try_from_secs_f64(seconds.max(0.0)).map_or(u64::MAX, |ttl| {
            u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX)
        });
        let (sender, server) = (Arc::downgrade(client), Arc::downgrade(server));
        let (context, key) = (context.clone(), key.map(str::to_owned));
        let until = written.saturating_add(millis);
        let agent: Arc<str> = envelope.agent().unwrap_or_default().into();
        let expired = Box::new(move || {
            let Some(sender) = sender.upgrade() else {
                return;
            };
            let server = server.upgrade().zip(key.as_deref());
            let question = server.and_then(|(server, key)| server.questions.close(Some(key), None));
            if question.is_some() {
                sender.asked.fetch_sub(1, Ordering::Relaxed);
            }
            let error = context.refuse(&outlived(&agent)).with("timestamp", until);
            let _ = sender.outbox.text(error.to_text());
        });
        Item::Perishable(text, until, expired)
    }
}

fn outlived(agent: &str) -> Refusal {
    Refusal::new(
        ErrorCode::InvalidContent,
        format!("the message is older than its `ttl` and was not delivered to `{agent}`"),
    )
}
