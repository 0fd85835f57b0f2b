//! Redacts secrets in everything that clients receive from an executor: answers, chunks, status texts, metadata and
//! errors.

use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::sync::Arc;

use a2a::v1_0::{Artifact, Part, PartContent};
use a2a_server::executor::{
    Agent, ExecutionEvent, ExecutionEvents, Executor, ExecutorError, Outcome, RunInput,
};
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use base::redact::{Redactor, Secrets};

/// Wraps an executor and removes `secrets` from its output.
pub struct Redacted {
    inner: Arc<dyn Executor>,
    secrets: Arc<Secrets>,
}

impl Redacted {
    /// Wraps `inner`.
    pub fn new(inner: Arc<dyn Executor>, secrets: Secrets) -> Self {
        let secrets = Arc::new(secrets);
        Self { inner, secrets }
    }

    /// Runs `work`, which sends its events to `received`, and forwards them redacted to `events`.
    fn redact_run(
        &self,
        work: BoxFuture<'static, Outcome>,
        mut received: mpsc::Receiver<ExecutionEvent>,
        events: ExecutionEvents,
    ) -> BoxFuture<'static, Outcome> {
        let mut redactor = EventRedactor {
            secrets: Arc::clone(&self.secrets),
            open: BTreeMap::new(),
        };
        Box::pin(async move {
            let forward = async {
                while let Some(event) = received.recv().await {
                    if let Some(event) = redactor.redact_event(event)
                        && events.send(event).await.is_err()
                    {
                        received.close();
                    }
                }
                for event in redactor.flush() {
                    let _ = events.send(event).await;
                }
            };
            let (outcome, ()) = tokio::join!(work, forward);
            redactor.redact_outcome(outcome)
        })
    }

    fn redact_error(&self, error: ExecutorError) -> ExecutorError {
        ExecutorError(self.secrets.redact(&error.0).into_owned())
    }
}

impl Executor for Redacted {
    fn agents(&self) -> BoxFuture<'_, Result<Vec<Agent>, ExecutorError>> {
        Box::pin(async {
            let agents = self.inner.agents().await;
            let mut agents = agents.map_err(|error| self.redact_error(error))?;
            for agent in &mut agents {
                for text in [&mut agent.title, &mut agent.description]
                    .into_iter()
                    .flatten()
                {
                    self.secrets.redact_text(text);
                }
            }
            Ok(agents)
        })
    }

    fn run(
        &self,
        input: RunInput,
        events: ExecutionEvents,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Outcome> {
        let (sender, received) = mpsc::channel(1);
        self.redact_run(self.inner.run(input, sender, cancel), received, events)
    }

    fn reattach(
        &self,
        input: RunInput,
        run: String,
        events: ExecutionEvents,
        cancel: CancellationToken,
    ) -> Option<BoxFuture<'static, Outcome>> {
        let (sender, received) = mpsc::channel(1);
        let work = self.inner.reattach(input, run, sender, cancel)?;
        Some(self.redact_run(work, received, events))
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), ExecutorError>> {
        Box::pin(async {
            let ready = self.inner.ready().await;
            ready.map_err(|error| self.redact_error(error))
        })
    }

    fn detach(&self) {
        self.inner.detach();
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.inner.close()
    }
}

/// Removes secrets from the events of one run.
struct EventRedactor {
    secrets: Arc<Secrets>,
    /// The artifacts that are not complete, by id.
    open: BTreeMap<String, OpenArtifact>,
}

/// An artifact that arrives in chunks.
struct OpenArtifact {
    text: Redactor,
    /// The last text part of the artifact, without its text.
    part: Part,
    /// The artifact until its first chunk is forwarded, then `None`.
    first: Option<Artifact>,
}

impl EventRedactor {
    /// Returns the redacted event. Returns `None` to hold it back while its text may end within a secret.
    fn redact_event(&mut self, event: ExecutionEvent) -> Option<ExecutionEvent> {
        Some(match event {
            // Clients do not receive the name of a run.
            ExecutionEvent::Run(name) => ExecutionEvent::Run(name),
            ExecutionEvent::Working(parts) => {
                ExecutionEvent::Working(parts.map(|parts| self.redact_parts(parts)))
            }
            ExecutionEvent::Artifact {
                artifact,
                append,
                last_chunk,
            } => return self.redact_chunk(artifact, append, last_chunk),
            ExecutionEvent::Metadata(mut all) => {
                redact_metadata(&self.secrets, &mut all);
                ExecutionEvent::Metadata(all)
            }
        })
    }

    fn redact_outcome(&self, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Completed(parts) => {
                Outcome::Completed(parts.map(|parts| self.redact_parts(parts)))
            }
            Outcome::Message(parts) => Outcome::Message(self.redact_parts(parts)),
            Outcome::InputRequired(parts) => Outcome::InputRequired(self.redact_parts(parts)),
            Outcome::AuthRequired(parts) => Outcome::AuthRequired(self.redact_parts(parts)),
            Outcome::Rejected(text) => Outcome::Rejected(self.secrets.redact(&text).into_owned()),
            Outcome::Failed { reason, text } => Outcome::Failed {
                reason,
                text: self.secrets.redact(&text).into_owned(),
            },
        }
    }

    /// Redacts complete parts. A secret may begin in one text part and end in the next.
    fn redact_parts(&self, mut parts: Vec<Part>) -> Vec<Part> {
        let texts = parts.iter_mut().filter_map(|part| match &mut part.content {
            PartContent::Text(text) => Some(text),
            _ => None,
        });
        self.secrets.redact_joined(&mut texts.collect::<Vec<_>>());
        for part in &mut parts {
            redact_part(&self.secrets, part);
        }
        parts
    }

    fn redact_chunk(
        &mut self,
        mut artifact: Artifact,
        append: bool,
        last: bool,
    ) -> Option<ExecutionEvent> {
        let secrets = Arc::clone(&self.secrets);
        secrets.redact_text(&mut artifact.artifact_id);
        for text in [&mut artifact.name, &mut artifact.description]
            .into_iter()
            .flatten()
        {
            secrets.redact_text(text);
        }
        if let Some(all) = &mut artifact.metadata {
            redact_metadata(&secrets, all);
        }
        let id = artifact.artifact_id.clone();
        let known = self.open.remove(&id).filter(|_| append);
        let parts = mem::take(&mut artifact.parts);
        if last && known.is_none() {
            artifact.parts = self.redact_parts(parts);
            return Some(artifact_event(artifact, append, last));
        }
        let mut open = known.unwrap_or_else(|| OpenArtifact {
            text: Redactor::new(Arc::clone(&secrets)),
            part: Part::text(""),
            first: (!append).then(|| artifact.clone()),
        });
        for mut part in parts {
            redact_part(&secrets, &mut part);
            match &mut part.content {
                PartContent::Text(text) => {
                    let text = open.text.push(&mem::take(text));
                    open.part = part;
                    artifact.parts.extend(open.text_part(text));
                }
                _ => {
                    artifact.parts.extend(open.flush());
                    artifact.parts.push(part);
                }
            }
        }
        if last {
            artifact.parts.extend(open.flush());
        }
        if artifact.parts.is_empty() && !last {
            self.open.insert(id, open);
            return None;
        }
        let first = open.first.take();
        let append = append && first.is_none();
        if let Some(first) = first {
            artifact = Artifact {
                parts: artifact.parts,
                ..first
            };
        }
        if !last {
            self.open.insert(id, open);
        }
        Some(artifact_event(artifact, append, last))
    }

    /// Returns the rest of the artifacts that have no last chunk.
    fn flush(&mut self) -> Vec<ExecutionEvent> {
        let all = mem::take(&mut self.open).into_iter();
        let rest = all.filter_map(|(id, mut open)| {
            let parts = Vec::from_iter([open.flush()?]);
            let append = open.first.is_none();
            let artifact = match open.first {
                Some(first) => Artifact { parts, ..first },
                None => Artifact {
                    artifact_id: id,
                    parts,
                    ..empty_artifact()
                },
            };
            Some(artifact_event(artifact, append, false))
        });
        rest.collect()
    }
}

impl OpenArtifact {
    fn text_part(&self, text: String) -> Option<Part> {
        (!text.is_empty()).then(|| Part {
            content: PartContent::Text(text),
            ..self.part.clone()
        })
    }

    fn flush(&mut self) -> Option<Part> {
        let rest = self.text.finish();
        self.text_part(rest)
    }
}

fn artifact_event(artifact: Artifact, append: bool, last_chunk: bool) -> ExecutionEvent {
    ExecutionEvent::Artifact {
        artifact,
        append,
        last_chunk,
    }
}

fn empty_artifact() -> Artifact {
    Artifact {
        artifact_id: String::new(),
        name: None,
        description: None,
        parts: Vec::new(),
        metadata: None,
        extensions: None,
    }
}

/// Redacts all fields of a part except its text.
fn redact_part(secrets: &Secrets, part: &mut Part) {
    match &mut part.content {
        PartContent::Text(_) => {}
        PartContent::Raw(bytes) => secrets.redact_bytes(bytes),
        PartContent::Url(url) => secrets.redact_text(url),
        PartContent::Data(data) => secrets.redact_value(data),
    }
    for text in [&mut part.filename, &mut part.media_type]
        .into_iter()
        .flatten()
    {
        secrets.redact_text(text);
    }
    if let Some(all) = &mut part.metadata {
        redact_metadata(secrets, all);
    }
}

fn redact_metadata(secrets: &Secrets, all: &mut HashMap<String, Value>) {
    let entries = mem::take(all).into_iter();
    all.extend(entries.map(|(key, mut value)| {
        secrets.redact_value(&mut value);
        (secrets.redact(&key).into_owned(), value)
    }));
}

#[cfg(test)]
mod tests;
