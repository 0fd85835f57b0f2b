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

use common::redact::{Redactor, Secrets};

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

    /// Runs `work`, which sends its events to `said`, and forwards them redacted to `events`.
    fn filtered(
        &self,
        work: BoxFuture<'static, Outcome>,
        mut said: mpsc::Receiver<ExecutionEvent>,
        events: ExecutionEvents,
    ) -> BoxFuture<'static, Outcome> {
        let mut filter = Filter {
            secrets: Arc::clone(&self.secrets),
            open: BTreeMap::new(),
        };
        Box::pin(async move {
            let forward = async {
                while let Some(report) = said.recv().await {
                    if let Some(report) = filter.report(report)
                        && events.send(report).await.is_err()
                    {
                        said.close();
                    }
                }
                for report in filter.rest() {
                    let _ = events.send(report).await;
                }
            };
            let (outcome, ()) = tokio::join!(work, forward);
            filter.outcome(outcome)
        })
    }

    fn error(&self, error: ExecutorError) -> ExecutorError {
        ExecutorError(self.secrets.redact(&error.0).into_owned())
    }
}

impl Executor for Redacted {
    fn agents(&self) -> BoxFuture<'_, Result<Vec<Agent>, ExecutorError>> {
        Box::pin(async {
            let agents = self.inner.agents().await;
            let mut agents = agents.map_err(|error| self.error(error))?;
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
        let (say, said) = mpsc::channel(1);
        self.filtered(self.inner.run(input, say, cancel), said, events)
    }

    fn reattach(
        &self,
        input: RunInput,
        run: String,
        events: ExecutionEvents,
        cancel: CancellationToken,
    ) -> Option<BoxFuture<'static, Outcome>> {
        let (say, said) = mpsc::channel(1);
        let work = self.inner.reattach(input, run, say, cancel)?;
        Some(self.filtered(work, said, events))
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), ExecutorError>> {
        Box::pin(async {
            let ready = self.inner.ready().await;
            ready.map_err(|error| self.error(error))
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.inner.close()
    }
}

/// Removes secrets from the events of one run.
struct Filter {
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

impl Filter {
    /// Returns the redacted event. Returns `None` to hold it back while its text may end within a secret.
    fn report(&mut self, report: ExecutionEvent) -> Option<ExecutionEvent> {
        Some(match report {
            // Clients do not receive the name of a run.
            ExecutionEvent::Run(name) => ExecutionEvent::Run(name),
            ExecutionEvent::Working(parts) => {
                ExecutionEvent::Working(parts.map(|parts| self.parts(parts)))
            }
            ExecutionEvent::Artifact {
                artifact,
                append,
                last_chunk,
            } => return self.artifact(artifact, append, last_chunk),
            ExecutionEvent::Metadata(mut all) => {
                redact_metadata(&self.secrets, &mut all);
                ExecutionEvent::Metadata(all)
            }
        })
    }

    fn outcome(&self, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Completed(parts) => Outcome::Completed(parts.map(|parts| self.parts(parts))),
            Outcome::Message(parts) => Outcome::Message(self.parts(parts)),
            Outcome::InputRequired(parts) => Outcome::InputRequired(self.parts(parts)),
            Outcome::AuthRequired(parts) => Outcome::AuthRequired(self.parts(parts)),
            Outcome::Rejected(text) => Outcome::Rejected(self.secrets.redact(&text).into_owned()),
            Outcome::Failed { reason, text } => Outcome::Failed {
                reason,
                text: self.secrets.redact(&text).into_owned(),
            },
        }
    }

    /// Redacts complete parts. A secret may begin in one text part and end in the next.
    fn parts(&self, mut parts: Vec<Part>) -> Vec<Part> {
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

    fn artifact(
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
            artifact.parts = self.parts(parts);
            return Some(piece(artifact, append, last));
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
                    let shown = open.text.push(&mem::take(text));
                    open.part = part;
                    artifact.parts.extend(open.shown(shown));
                }
                _ => {
                    artifact.parts.extend(open.rest());
                    artifact.parts.push(part);
                }
            }
        }
        if last {
            artifact.parts.extend(open.rest());
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
        Some(piece(artifact, append, last))
    }

    /// Returns the rest of the artifacts that have no last chunk.
    fn rest(&mut self) -> Vec<ExecutionEvent> {
        let all = mem::take(&mut self.open).into_iter();
        let rest = all.filter_map(|(id, mut open)| {
            let parts = Vec::from_iter([open.rest()?]);
            let append = open.first.is_none();
            let artifact = match open.first {
                Some(first) => Artifact { parts, ..first },
                None => Artifact {
                    artifact_id: id,
                    parts,
                    ..empty()
                },
            };
            Some(piece(artifact, append, false))
        });
        rest.collect()
    }
}

impl OpenArtifact {
    fn shown(&self, text: String) -> Option<Part> {
        (!text.is_empty()).then(|| Part {
            content: PartContent::Text(text),
            ..self.part.clone()
        })
    }

    fn rest(&mut self) -> Option<Part> {
        let rest = self.text.finish();
        self.shown(rest)
    }
}

fn piece(artifact: Artifact, append: bool, last_chunk: bool) -> ExecutionEvent {
    ExecutionEvent::Artifact {
        artifact,
        append,
        last_chunk,
    }
}

fn empty() -> Artifact {
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
    let taken = mem::take(all).into_iter();
    all.extend(taken.map(|(key, mut value)| {
        secrets.redact_value(&mut value);
        (secrets.redact(&key).into_owned(), value)
    }));
}

#[cfg(test)]
mod tests;
