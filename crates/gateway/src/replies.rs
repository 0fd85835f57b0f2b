//! Answers of agents, on their way to who asked.

use serde_json::Value;

use collective::{Envelope, ErrorCode, Kind};

use super::audit::Outcome;
use super::client::Client;
use super::hub::Hub;
use super::outbox::EnqueueError;
use super::questions::Question;
use super::refusal::Refusal;
use super::reply_context::ReplyContext;

impl Hub {
    /// An answer need not say whom it is for: who asked does.
    pub(super) fn addressed(&self, client: &Client, envelope: Envelope) -> Envelope {
        if envelope.kind() != Kind::Message || envelope.field("agent").is_some() {
            return envelope;
        }
        let question = client.questions.of(&envelope);
        match question {
            Some(question) => envelope.with("agent", &*question.asker_name),
            None => envelope,
        }
    }

    /// Takes a `response` or an `error`, which only answer.
    pub(super) async fn answered(
        &self,
        client: &Client,
        envelope: Envelope,
        context: &ReplyContext,
    ) -> Result<Outcome, Refusal> {
        let question = client.questions.of(&envelope);
        match question {
            Some(question) => self.reply(client, &question, envelope).await,
            None if context.kind == Kind::Error => Ok(Outcome::Dropped),
            None => Err(Refusal::new(
                ErrorCode::InvalidContent,
                "the response answers nothing that is open here; say `metadata.correlationId` of the request",
            )),
        }
    }

    /// Hands an answer to who asked. Before it is handed over, it is kept.
    pub(super) async fn reply(
        &self,
        client: &Client,
        question: &Question,
        envelope: Envelope,
    ) -> Result<Outcome, Refusal> {
        let ids = (
            envelope.correlation_id().map(str::to_owned),
            envelope.parent_id().map(str::to_owned),
        );
        let close = || client.questions.close(ids.0.as_deref(), ids.1.as_deref());
        let is_error = envelope.kind() == Kind::Error;
        let answer = self.stamped(envelope, question);
        if !is_error && !question.kept {
            let kept = self.keep(&question.agent, &answer, question.session.as_deref());
            if let Err(refusal) = kept.await {
                // Later there may be room; anything else will be the same again, and who asked waits.
                if refusal.code != ErrorCode::AgentBusy
                    && let Some(question) = close()
                    && let Some(asker) = self.settled(&question)
                    && question.owed
                {
                    self.fail(&asker, &question, &lost(&question.agent, &refusal));
                }
                return Err(refusal);
            }
        }
        let gone = || {
            let message = "who asked is no longer connected; the answer was not delivered";
            Refusal::new(ErrorCode::AgentOffline, message)
        };
        let Some(asker) = question.asker.upgrade() else {
            close();
            return Err(gone());
        };
        match asker.outbox.text(answer.to_text()) {
            Ok(_) => {
                if let Some(question) = close() {
                    self.settled(&question);
                }
                Ok(Outcome::Delivered)
            }
            Err(EnqueueError::Gone) => {
                close();
                Err(gone())
            }
            Err(full) => {
                client.questions.kept(ids.0.as_deref(), ids.1.as_deref());
                Err(Refusal::unsent(&question.asker_name, full))
            }
        }
    }

    /// An answer as who asked gets it: by the ids it was asked under, and from who was asked.
    pub(super) fn stamped(&self, envelope: Envelope, question: &Question) -> Envelope {
        let mut answer = envelope
            .with("correlationId", Value::Null)
            .with("agent", &*question.asker_name)
            .with("from", &*question.agent)
            .with("sessionId", question.session.as_deref())
            .with_metadata("correlationId", &*question.correlation)
            .with_metadata("parentId", &*question.message);
        if answer.id().is_none() {
            answer = answer.with("id", format!("msg-{}", self.env.uuid()));
        }
        if answer.field("timestamp").is_none() {
            answer = answer.with("timestamp", self.millis());
        }
        answer
    }
}

fn lost(agent: &str, why: &Refusal) -> Refusal {
    let message = format!(
        "`{agent}` answered, and its answer could not be kept: {}",
        why.message
    );
    Refusal::new(why.code, message)
}
