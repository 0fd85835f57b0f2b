//! Starts a run: session, delegation record, and request.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::CallContext;
use crate::delegation::{self, Delegation, DelegationFile};
use a2a::SendRequest;
use base::log::Log;
use collective::ErrorCode;
use peer::{PeerError, PeerErrorKind};

use super::subscription::RunSubscription;
use super::{OpenClaw, message, run_status};

/// A started run.
pub(super) struct StartedRun {
    /// The run's id, which is the message's.
    pub run: String,
    /// The conversation of the run.
    pub context: String,
    /// The first response: accepted, or already ended.
    pub first: Value,
    /// The later events.
    pub subscription: RunSubscription,
}

impl OpenClaw {
    /// Starts a run with a message.
    ///
    /// # Errors
    /// [`PeerErrorKind::OwnSession`] if the target is the caller's own session. Otherwise the reason why the run did not
    /// start, or may not have started.
    pub(super) async fn start(
        &self,
        call: &CallContext,
        outgoing: &SendRequest,
    ) -> Result<StartedRun, PeerError> {
        let context = self.context(call, outgoing).await?;
        let key = run_status::context_session_key(call, &context);
        if call
            .session_key
            .as_deref()
            .is_some_and(|own| own.eq_ignore_ascii_case(&key))
        {
            let message = format!(
                "the context_id `{context}` of the agent `{}` is the caller's own session, which cannot wait for itself; answer directly, or use another context_id",
                call.agent
            );
            return Err(PeerError::new(PeerErrorKind::OwnSession, message));
        }
        record_delegation(call, outgoing, &key, &self.log).await?;
        let run = outgoing.message_id.clone();
        self.connection
            .with_runs(|runs| runs.insert(&run, &key, &context));
        let params = params(call, outgoing, &key, self.policy.image_bytes);
        let (first, subscription) = RunSubscription::start(&self.connection, &run, &params)
            .await
            .map_err(|failure| failure.into_peer_error("agent", &call.agent))?;
        Ok(StartedRun {
            run,
            context,
            first,
            subscription,
        })
    }

    /// Returns the conversation of a message: the one it names, the one of the task it continues, or a new one.
    async fn context(
        &self,
        call: &CallContext,
        outgoing: &SendRequest,
    ) -> Result<String, PeerError> {
        let named = outgoing.context_id.as_ref().or(call.context_id.as_ref());
        match (named, &outgoing.task_id) {
            (Some(context), _) => Ok(context.clone()),
            (None, Some(task)) => Ok(run_status::status(&self.connection, call, task)
                .await?
                .context),
            (None, None) => Ok(self.env.uuid().to_string()),
        }
    }
}

fn params(call: &CallContext, outgoing: &SendRequest, key: &str, image_bytes: usize) -> Value {
    let message = message::to_agent_message(&outgoing.parts, image_bytes);
    // `inputProvenance` would identify the sender, but the gateway does not record runs with it, and their status would not
    // survive a restart.
    let mut params = json!({
        "agentId": call.agent,
        "sessionKey": key,
        "message": message.text,
        "idempotencyKey": outgoing.message_id,
    });
    if !message.attachments.is_empty() {
        params["attachments"] = message.attachments.into();
    }
    if let Some(seconds) = timeout_seconds(outgoing) {
        params["timeout"] = seconds.into();
    }
    if let Some(level) = message_field(outgoing, THINKING_KEY).and_then(Value::as_str) {
        params["thinking"] = level.into();
    }
    params
}

/// The metadata key of the timeout of a run, in milliseconds.
pub const RUN_TIMEOUT_KEY: &str = "openclaw-remote-agent/run-timeout-ms";

/// The metadata key of the thinking level of a run, in OpenClaw's terms.
pub const THINKING_KEY: &str = "openclaw-remote-agent/thinking";

fn message_field<'a>(outgoing: &'a SendRequest, key: &str) -> Option<&'a Value> {
    outgoing.metadata.as_ref()?.get(key)
}

/// Returns the timeout of a run in seconds, the gateway's unit. `None` leaves it to the gateway's configuration.
fn timeout_seconds(outgoing: &SendRequest) -> Option<u64> {
    let millis = message_field(outgoing, RUN_TIMEOUT_KEY)?.as_u64()?;
    Some(millis.div_ceil(1000).max(1))
}

/// Records the delegation depth of the agent's session before the run starts. The agent's own tool reads it.
async fn record_delegation(
    call: &CallContext,
    outgoing: &SendRequest,
    key: &str,
    log: &Arc<dyn Log>,
) -> Result<(), PeerError> {
    let work = message_field(outgoing, delegation::METADATA_KEY).and_then(Delegation::read);
    let (Some(state_dir), Some(work)) = (&call.state_dir, work) else {
        return Ok(());
    };
    let (state_dir, key, log) = (PathBuf::from(state_dir), key.to_owned(), Arc::clone(log));
    let written = tokio::task::spawn_blocking(move || {
        DelegationFile::of_host(&state_dir).record(&key, &work, &*log)
    });
    let error = match written.await {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(error)) => error.to_string(),
        Err(error) => error.to_string(),
    };
    // Without the record, agents could delegate to each other endlessly.
    Err(PeerError::new(
        PeerErrorKind::Gateway(ErrorCode::PermissionDenied),
        format!(
            "cannot record the delegation depth for the agent `{}`, so nothing was sent: {error}",
            call.agent
        ),
    )
    .undelivered())
}
