//! Whether a message is taken, and where it belongs.

use a2a::v1_0::{Message, Role};

use super::Send;
use super::agents;
use super::core::{Core, refused};
use crate::call_context::CallContext;
use crate::task_record::TaskRecord;
use a2a::{A2aError, ErrorReason};

/// How long an id that a client makes up may be, in bytes.
const MAX_ID_BYTES: usize = 512;

impl Core {
    /// Whether a message can be taken at all.
    pub(super) fn check(&self, message: &Message) -> Result<(), A2aError> {
        let limit = self.settings.limits.parts;
        let ids = [
            ("message.messageId", Some(&message.message_id)),
            ("message.contextId", message.context_id.as_ref()),
            ("message.taskId", message.task_id.as_ref()),
        ];
        for (place, id) in ids {
            if id.is_some_and(|id| id.len() > MAX_ID_BYTES) {
                return Err(invalid(
                    format!("`{place}` is longer than {MAX_ID_BYTES} bytes"),
                    place,
                ));
            }
        }
        if message.message_id.is_empty() {
            let place = "message.messageId";
            return Err(invalid(
                format!("`{place}` is empty; give every message an id of its own"),
                place,
            ));
        }
        if message.role != Role::User {
            let text = "`message.role` has to be the user's: agents do not send messages to agents' servers in their own name";
            return Err(invalid(text.to_owned(), "message.role"));
        }
        if message.parts.is_empty() {
            let text = "`message.parts` is empty; say something";
            return Err(invalid(text.to_owned(), "message.parts"));
        }
        if message.parts.len() > limit {
            return Err(invalid(
                format!(
                    "the message has {} parts, and {limit} are taken; put more into one part",
                    message.parts.len()
                ),
                "message.parts",
            ));
        }
        Ok(())
    }

    /// The agent that the request is for, if it names one or the settings do.
    pub(super) async fn agent(
        &self,
        caller: &CallContext,
        send: &Send,
    ) -> Result<Option<String>, A2aError> {
        let Some(name) = agents::named(caller, send)? else {
            return Ok(None);
        };
        let agents = self.agents.get(&*self.executor).await?;
        if agents.iter().any(|agent| agent.name == name) {
            Ok(Some(name))
        } else {
            Err(agents::unknown(&name, &agents))
        }
    }

    /// The context and session of a message that begins a task.
    pub(super) async fn conversation(
        &self,
        caller: &CallContext,
        context: Option<&str>,
    ) -> Result<(String, String), A2aError> {
        let several = self.settings.several_clients;
        let client = several.then_some(caller.client.as_str());
        let usual = self.usual_context();
        let own = usual.as_ref().map(|usual| match client {
            Some(client) => format!("{usual}:{client}"),
            None => usual.clone(),
        });
        // The usual conversation of another client is his, even before he has opened it.
        if let (Some(context), Some(usual), Some(own)) = (context, &usual, &own)
            && several
            && context != own
            && context
                .strip_prefix(usual.as_str())
                .is_some_and(|rest| rest.starts_with(':'))
        {
            return Err(context_not_found(context));
        }
        let context_id = match (context, &own) {
            (Some(context), _) => context.to_owned(),
            (None, Some(own)) => own.clone(),
            (None, None) => self.env.uuid().to_string(),
        };
        let session = match (&self.settings.session_id, &own) {
            (Some(session), Some(own)) if !several && context_id == *own => session.clone(),
            _ => self.sessions.session_id(client, &context_id),
        };
        let claimed = self
            .store
            .get_or_create_context(&context_id, &caller.client, &session)
            .await
            .map_err(|error| refused(error, ""))?;
        if claimed.owner != caller.client {
            return Err(context_not_found(&context_id));
        }
        Ok((context_id, claimed.session))
    }

    /// The context of messages that name none, where the settings give them one session.
    fn usual_context(&self) -> Option<String> {
        let session = self.settings.session_id.as_ref()?;
        Some(
            self.sessions
                .context_id(session)
                .unwrap_or_else(|| session.clone()),
        )
    }
}

/// Whether the message can be the task's at all.
pub(super) fn check_matches_task(
    record: &TaskRecord,
    context: Option<&str>,
    agent: Option<&str>,
) -> Result<(), A2aError> {
    let id = &record.task.id;
    if context.is_some_and(|context| context != record.task.context_id) {
        return Err(invalid(
            format!(
                "the task `{id}` is of another context; leave `contextId` out, or give the task's own"
            ),
            "message.contextId",
        ));
    }
    if agent.is_some_and(|agent| record.agent.as_deref().is_some_and(|own| own != agent)) {
        return Err(invalid(
            format!(
                "the task `{id}` is another agent's; ask that one, or send a message without `taskId`"
            ),
            "metadata",
        ));
    }
    Ok(())
}

/// Whether a message can be added to the task now.
pub(super) fn check_accepts_message(record: &TaskRecord, most: usize) -> Result<(), A2aError> {
    let id = &record.task.id;
    if record.is_terminal() {
        return Err(A2aError::new(
            ErrorReason::UnsupportedOperation,
            format!(
                "the task `{id}` is settled, nothing can be added to it; send the message without `taskId`, in the same context"
            ),
        ));
    }
    if !record.is_interrupted() {
        return Err(A2aError::new(
            ErrorReason::UnsupportedOperation,
            format!(
                "the task `{id}` is being worked on and asks for nothing; wait until it is done or asks, cancel it, or send the message without `taskId`, which queues it in the same context"
            ),
        ));
    }
    if record.task.history.as_ref().map_or(0, Vec::len) >= most {
        return Err(A2aError::new(
            ErrorReason::ResourceExhausted,
            format!(
                "the task `{id}` has {most} messages, as many as one may have; cancel it and begin another"
            ),
        ));
    }
    Ok(())
}

fn invalid(text: String, field: &str) -> A2aError {
    A2aError::new(ErrorReason::InvalidParams, text).at(field)
}

/// Says the same of another client's context and of one that is reserved for him.
fn context_not_found(context_id: &str) -> A2aError {
    A2aError::new(
        ErrorReason::TaskNotFound,
        format!("there is no context `{context_id}` of yours; leave `contextId` out and a new one is begun"),
    )
    .at("message.contextId")
}
