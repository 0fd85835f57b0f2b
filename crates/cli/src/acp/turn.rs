//! One prompt: sends it to the remote agent, follows the task, and tells the client what happens.

use std::{sync::Arc, time::Duration};

use a2a::ErrorReason;
use openclaw_remote_agent_interface::{CallOptions, updates_to};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{Output, RpcError, Server, content};
use crate::{
    answer::{self, summary},
    hints::{About, call_error},
    interactive_call::{self, write_rest},
    output::note,
    screen::{self, AnswerWriter},
    text,
};

/// How long the agent may take to cancel a task.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// The pause between calls that follow a task, for an agent that ends each wait at once.
const PAUSE: Duration = Duration::from_millis(200);

/// A running prompt.
pub(super) struct Turn<'a> {
    server: &'a Server,
    session: &'a str,
    cancel: CancellationToken,
}

/// How a prompt ended.
pub(super) struct TurnEnd {
    /// The stop reason.
    pub(super) result: Result<&'static str, RpcError>,
    /// What the next prompt of the session continues.
    pub(super) continuation: Option<Value>,
}

impl<'a> Turn<'a> {
    pub(super) fn new(server: &'a Server, session: &'a str, cancel: CancellationToken) -> Self {
        Self {
            server,
            session,
            cancel,
        }
    }

    /// Runs the prompt. `known` is what the session continues.
    pub(super) async fn run(self, params: Value, mut known: Option<Value>) -> TurnEnd {
        let result = self.send(params, &mut known).await;
        TurnEnd {
            result,
            continuation: known,
        }
    }

    async fn send(
        &self,
        mut params: Value,
        known: &mut Option<Value>,
    ) -> Result<&'static str, RpcError> {
        let blocks = params["prompt"].take();
        let modes = match content::has_files(&blocks) {
            true => self.server.input_modes().await,
            false => &[],
        };
        let parts = content::parts(&blocks, modes)?;
        drop(blocks);
        self.look_up(known).await;
        let request = json!({"parts": parts, "follow_updates": true});
        let mut progress = Progress::new(self);
        let mut envelope = self.call("send", request, known, &progress).await;
        while self.is_unfinished(&envelope) {
            tokio::select! {
                () = self.cancel.cancelled() => break,
                () = sleep(PAUSE) => {}
            }
            if self.server.output.is_full() {
                continue;
            }
            // Another process can resume the session while the agent works.
            self.server.save(self.session, known.as_ref());
            envelope = self.call("watch", json!({}), known, &progress).await;
        }
        if self.cancel.is_cancelled() {
            progress.finish(&envelope);
            self.cancel_task(known, &progress).await;
            return Ok("cancelled");
        }
        self.end(&envelope, known, &mut progress)
    }

    /// Returns whether the agent works on after the call.
    fn is_unfinished(&self, envelope: &Value) -> bool {
        let summary = &envelope["summary"];
        envelope["ok"] == true
            && summary["wait_expired"] == true
            && summary["incomplete"] != true
            && summary["continuation"]["task"]["can_watch"] == true
            && !self.cancel.is_cancelled()
    }

    /// Learns what became of a task that still worked when its prompt ended, for example because the client vanished. Shows its
    /// result, which the client has not seen.
    async fn look_up(&self, known: &mut Option<Value>) {
        let state = known.as_ref().map(|known| &known["task"]["status"]);
        let state = state.and_then(Value::as_str);
        if state.is_none() || state.is_some_and(screen::is_waiting) {
            return;
        }
        let mut progress = Progress::new(self);
        let envelope = self.call("status", json!({}), known, &progress).await;
        let has_task = known
            .as_ref()
            .is_some_and(|known| known["task"].is_object());
        if envelope["ok"] != true {
            // The agent may not know the task any more; the conversation goes on.
            forget_task(known);
        } else if !has_task {
            progress.finish(&envelope);
            send_chunk(
                &self.server.output,
                self.session,
                "agent_message_chunk",
                "\n\n",
            );
        }
    }

    /// Calls the tool in the session, and notes what the next call continues.
    async fn call(
        &self,
        action: &str,
        request: Value,
        known: &mut Option<Value>,
        progress: &Progress,
    ) -> Value {
        let mut fields = Map::new();
        fields.insert("action".to_owned(), action.into());
        if let Value::Object(request) = request {
            fields.extend(request);
        }
        // A continuation names its target.
        if let Some(known) = known {
            fields.insert("continuation".to_owned(), known.clone());
        } else if let Some(alias) = self.server.target.alias(None) {
            fields.insert("target_alias".to_owned(), alias.into());
        }
        let options = CallOptions {
            caller: self.server.target.peers.caller(false),
            updates: Some(progress.updates()),
            ..CallOptions::default()
        };
        let request = Value::Object(fields).to_string();
        let running = self.server.instance.start(&request, options);
        drop(request);
        let cancelled = async {
            // A cancellation ends the call that follows the task, and not the one that cancels it.
            match action {
                "cancel" => std::future::pending().await,
                _ => self.cancel.cancelled().await,
            }
            true
        };
        let text = running.run_until(cancelled).await;
        let unset = self.server.instance.unset_variables();
        unset.warn_if_unresolved(&text);
        let envelope: Value = serde_json::from_str(&text).unwrap_or_default();
        if let Some(continuation) = interactive_call::continuation(&envelope) {
            *known = Some(continuation.clone());
            // A task that has ended takes no further message.
            if continuation["task"]["can_cancel"] != true {
                forget_task(known);
            }
        }
        envelope
    }

    /// Cancels the task of a cancelled prompt.
    async fn cancel_task(&self, known: &mut Option<Value>, progress: &Progress) {
        if known.as_ref().is_none_or(|known| known["task"].is_null()) {
            return;
        }
        let request = json!({"timeout_ms": base::environment::millis(CANCEL_TIMEOUT)});
        let envelope = self.call("cancel", request, known, progress).await;
        if envelope["ok"] != true {
            let error = self.error(&envelope, known);
            progress.show(&format!(
                "The agent may work on; its task could not be canceled: {error}"
            ));
        }
    }

    /// Shows the rest of the result and returns the stop reason.
    fn end(
        &self,
        envelope: &Value,
        known: &Option<Value>,
        progress: &mut Progress,
    ) -> Result<&'static str, RpcError> {
        progress.finish(envelope);
        let details = summary(envelope);
        if let Some(message) = details["card_warning"]["message"].as_str() {
            note(self.server.target.peers.with_source(&text::line(message)));
        }
        if envelope["ok"] != true {
            let message = self.error(envelope, known);
            return Err(RpcError::new(RpcError::INTERNAL, message));
        }
        let status_text = answer::status_text(details, &envelope["raw"]);
        let status_text = status_text.as_deref().map(text::block);
        let status_text = status_text.filter(|text| !text.trim().is_empty());
        let state = details["continuation"]["task"]["status"].as_str();
        let next = match state {
            Some("input-required") => "The agent waits for an answer; the next prompt answers it.",
            Some("auth-required") => {
                "The agent wants a sign-in; prompt again when you have signed in."
            }
            Some("canceled") => "The task of the agent was canceled.",
            _ => "",
        };
        if status_text.is_none() && !next.is_empty() {
            progress.show(next);
        }
        let status_text = status_text.map_or_else(String::new, |text| format!(": {text}"));
        match state {
            Some("failed") => {
                let message = format!("the task of the agent failed{status_text}");
                Err(RpcError::new(RpcError::INTERNAL, message))
            }
            Some("rejected") => Ok("refusal"),
            _ if details["incomplete"] == true => {
                let next = match known
                    .as_ref()
                    .is_some_and(|known| known["task"].is_object())
                {
                    true => "; the next prompt asks for it again",
                    false => "",
                };
                let message = format!(
                    "the agent reports no more, and part of the result may be missing{next}"
                );
                Err(RpcError::new(RpcError::INTERNAL, message))
            }
            _ => Ok("end_turn"),
        }
    }

    /// Returns the error of a call with its cause and the next step.
    fn error(&self, envelope: &Value, known: &Option<Value>) -> String {
        let code = &envelope["error"]["details"]["rpcCode"];
        let state = known.as_ref().map(|known| &known["task"]["status"]);
        if *code == ErrorReason::UnsupportedOperation.code()
            && matches!(state.and_then(Value::as_str), Some("submitted" | "working"))
        {
            return "the agent still works on the previous message; prompt again when it is done"
                .to_owned();
        }
        let peers = &self.server.target.peers;
        let about = About {
            alias: self.server.target.named(),
            ..About::default()
        };
        let unset = self.server.instance.unset_variables();
        let (message, hint) = call_error(envelope, peers, unset, about);
        hint.map_or_else(|| message.clone(), |hint| format!("{message}. {hint}"))
    }
}

impl Server {
    /// Returns the media types in the card of the agent; empty if they are unknown.
    async fn input_modes(&self) -> &[String] {
        let modes = self.input_modes.get_or_try_init(|| async {
            let caller = self.target.peers.caller(false);
            let (_, envelope) = self.instance.list_targets(caller).await;
            let alias = self.target.alias(None);
            let targets = envelope["summary"]["targets"].as_array();
            let mut targets = targets.into_iter().flatten();
            let target = targets.find(|target| match &alias {
                Some(alias) => target["target_alias"] == **alias,
                None => target["default"] == true,
            });
            let modes =
                target.and_then(|target| target["peer_card"]["default_input_modes"].as_array());
            let modes = modes.into_iter().flatten().filter_map(Value::as_str);
            let modes: Vec<_> = modes.map(str::to_ascii_lowercase).collect();
            // A card that could not be read is read again for the next prompt.
            if modes.is_empty() { Err(()) } else { Ok(modes) }
        });
        modes.await.map_or(&[], Vec::as_slice)
    }
}

/// Removes the task, and the whole continuation if it names no conversation.
fn forget_task(known: &mut Option<Value>) {
    let Some(Value::Object(fields)) = known else {
        return;
    };
    fields.remove("task");
    if !fields.get("conversation").is_some_and(Value::is_object) {
        *known = None;
    }
}

/// What the client sees of a call: the agent's text as it arrives, and the texts of its progress as thoughts.
struct Progress {
    output: Output,
    session: Arc<str>,
    shown: Arc<Mutex<Shown>>,
}

struct Shown {
    answer: AnswerWriter,
    /// The last text of the progress.
    status: String,
}

impl Progress {
    fn new(turn: &Turn<'_>) -> Self {
        let session: Arc<str> = turn.session.into();
        let output = turn.server.output.clone();
        let (to, id) = (output.clone(), Arc::clone(&session));
        // The writer ends each block with a line end, and the last one has no use.
        let mut line_ends = String::new();
        let answer = AnswerWriter::to(Box::new(move |text| {
            let body = text.trim_end_matches('\n');
            if !body.is_empty() {
                line_ends.push_str(body);
                send_chunk(&to, &id, "agent_message_chunk", &line_ends);
                line_ends.clear();
            }
            line_ends.push_str(&text[body.len()..]);
        }));
        let shown = Arc::new(Mutex::new(Shown {
            answer,
            status: String::new(),
        }));
        Self {
            output,
            session,
            shown,
        }
    }

    fn updates(&self) -> openclaw_remote_agent_interface::UpdatesBox {
        let (shown, output) = (Arc::clone(&self.shown), self.output.clone());
        let session = Arc::clone(&self.session);
        updates_to(move |update| {
            let Ok(update) = serde_json::from_str::<Value>(update) else {
                return;
            };
            let mut shown = shown.lock();
            shown.answer.event(&update["raw"]);
            let summary = &update["summary"];
            let state = summary["continuation"]["task"]["status"].as_str();
            let status = summary["status_message"].as_str().unwrap_or_default();
            let is_progress = matches!(state, Some("submitted" | "working"));
            let is_new = is_progress && !status.is_empty() && shown.status != status;
            if is_new && !output.is_full() {
                status.clone_into(&mut shown.status);
                let thought = text::block(status) + "\n";
                send_chunk(&output, &session, "agent_thought_chunk", &thought);
            }
        })
    }

    /// Shows text beside the agent's.
    fn show(&self, text: &str) {
        self.shown.lock().answer.message(text);
    }

    /// Shows the rest of a result: text, the question or reason in the state of its task, and files.
    fn finish(&mut self, envelope: &Value) {
        let mut shown = self.shown.lock();
        write_rest(envelope, &mut shown.answer);
        let summary = summary(envelope);
        let state = summary["continuation"]["task"]["status"].as_str();
        let says_why =
            state.is_some_and(screen::is_waiting) || matches!(state, Some("rejected" | "canceled"));
        let status = answer::status_text(summary, &envelope["raw"]).filter(|_| says_why);
        if let Some(status) = status.filter(|status| !shown.answer.has_shown(status)) {
            shown.answer.message(&status);
        }
        drop(shown);
        for block in answer::files(envelope).into_iter().map(content::file_block) {
            let update = json!({"sessionUpdate": "agent_message_chunk", "content": block});
            self.output.update(&self.session, &update);
        }
    }
}

fn send_chunk(output: &Output, session: &str, kind: &str, text: &str) {
    let content = json!({"type": "text", "text": text});
    output.update(session, &json!({"sessionUpdate": kind, "content": content}));
}

#[cfg(test)]
mod tests;
