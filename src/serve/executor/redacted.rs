//! Keeps secrets out of everything that clients read of an executor: answers, pieces of answers, words on the way, facts,
//! failures.

use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use remote_agent_server::a2a::{Artifact, Part, PartContent};
use remote_agent_server::executor::{
    Agent, Executor, ExecutorError, Job, Outcome, Report, Reports,
};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::redact::{Redactor, Secrets};

/// An executor that says none of `secrets`.
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

    /// Runs `work`, whose reports arrive at `said`, and passes on what clients may read of it.
    fn filtered(
        &self,
        work: BoxFuture<'static, Outcome>,
        mut said: mpsc::Receiver<Report>,
        reports: Reports,
    ) -> BoxFuture<'static, Outcome> {
        let mut filter = Filter {
            secrets: Arc::clone(&self.secrets),
            open: BTreeMap::new(),
        };
        Box::pin(async move {
            let forward = async {
                while let Some(report) = said.recv().await {
                    if let Some(report) = filter.report(report)
                        && reports.send(report).await.is_err()
                    {
                        said.close();
                    }
                }
                for report in filter.rest() {
                    let _ = reports.send(report).await;
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
        job: Job,
        reports: Reports,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Outcome> {
        let (say, said) = mpsc::channel(1);
        self.filtered(self.inner.run(job, say, cancel), said, reports)
    }

    fn reattach(
        &self,
        job: Job,
        run: String,
        reports: Reports,
        cancel: CancellationToken,
    ) -> Option<BoxFuture<'static, Outcome>> {
        let (say, said) = mpsc::channel(1);
        let work = self.inner.reattach(job, run, say, cancel)?;
        Some(self.filtered(work, said, reports))
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

/// What one run says, without secrets.
struct Filter {
    secrets: Arc<Secrets>,
    /// The artifacts of which more may come, by their ids.
    open: BTreeMap<String, Open>,
}

/// An artifact that arrives in pieces.
struct Open {
    text: Redactor,
    /// Its last part of text, without the text.
    part: Part,
    /// The artifact, while no piece of it was passed on.
    first: Option<Artifact>,
}

impl Filter {
    /// `None` while nothing of it may be shown.
    fn report(&mut self, report: Report) -> Option<Report> {
        Some(match report {
            // This stays in the server.
            Report::Run(name) => Report::Run(name),
            Report::Working(parts) => Report::Working(parts.map(|parts| self.parts(parts))),
            Report::Artifact {
                artifact,
                append,
                last_chunk,
            } => return self.artifact(artifact, append, last_chunk),
            Report::Metadata(mut all) => {
                redact_metadata(&self.secrets, &mut all);
                Report::Metadata(all)
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

    /// Parts that are whole. A secret may begin in one text and end in the next.
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

    fn artifact(&mut self, mut artifact: Artifact, append: bool, last: bool) -> Option<Report> {
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
        let mut open = known.unwrap_or_else(|| Open {
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

    /// What is left of artifacts whose last piece was not said to be the last one.
    fn rest(&mut self) -> Vec<Report> {
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

impl Open {
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

fn piece(artifact: Artifact, append: bool, last_chunk: bool) -> Report {
    Report::Artifact {
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

/// Everything of a part but its text, which goes together with others.
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
mod tests {
    #![allow(clippy::unwrap_used)]
    use remote_agent_server::a2a::{Message, Role};
    use serde_json::json;

    use super::*;

    const SECRET: &str = "s3cret-one";

    /// Reports these, and ends so.
    struct Says(Vec<Report>, Outcome);

    impl Executor for Says {
        fn agents(&self) -> BoxFuture<'_, Result<Vec<Agent>, ExecutorError>> {
            Box::pin(std::future::ready(Err(ExecutorError(format!(
                "no {SECRET}"
            )))))
        }

        fn run(
            &self,
            _: Job,
            reports: Reports,
            _: CancellationToken,
        ) -> BoxFuture<'static, Outcome> {
            let (all, outcome) = (self.0.clone(), self.1.clone());
            Box::pin(async move {
                for report in all {
                    reports.send(report).await.unwrap();
                }
                outcome
            })
        }

        fn reattach(
            &self,
            job: Job,
            _: String,
            reports: Reports,
            cancel: CancellationToken,
        ) -> Option<BoxFuture<'static, Outcome>> {
            Some(self.run(job, reports, cancel))
        }

        fn ready(&self) -> BoxFuture<'_, Result<(), ExecutorError>> {
            Box::pin(std::future::ready(Err(ExecutorError(format!(
                "no {SECRET}"
            )))))
        }
    }

    fn redacted(reports: Vec<Report>, outcome: Outcome) -> Redacted {
        let secrets = Secrets::new([SECRET.into()]);
        Redacted::new(Arc::new(Says(reports, outcome)), secrets)
    }

    fn job() -> Job {
        Job {
            task_id: "task".into(),
            context_id: "context".into(),
            session: "a2a-context".into(),
            agent: None,
            peer: "peer".into(),
            message: Message::new(Role::User, vec![Part::text("hello")]),
            delegation: None,
        }
    }

    async fn heard(
        run: BoxFuture<'static, Outcome>,
        mut said: mpsc::Receiver<Report>,
    ) -> (Vec<Report>, Outcome) {
        let outcome = run.await;
        let mut all = Vec::new();
        while let Some(report) = said.recv().await {
            all.push(report);
        }
        (all, outcome)
    }

    /// What a client is told.
    async fn told(reports: Vec<Report>, outcome: Outcome) -> (Vec<Report>, Outcome) {
        let (say, said) = mpsc::channel(16);
        let run = redacted(reports, outcome).run(job(), say, CancellationToken::new());
        heard(run, said).await
    }

    fn artifact(parts: Vec<Part>) -> Artifact {
        Artifact {
            artifact_id: "reply".into(),
            parts,
            ..empty()
        }
    }

    fn text_piece(text: &str, append: bool, last: bool) -> Report {
        piece(artifact(vec![Part::text(text)]), append, last)
    }

    fn pieces(reports: &[Report]) -> Vec<(String, bool, bool)> {
        let all = reports.iter().map(|report| match report {
            Report::Artifact {
                artifact,
                append,
                last_chunk,
            } => {
                let text = artifact.parts.iter().filter_map(Part::as_text).collect();
                (text, *append, *last_chunk)
            }
            other => unreachable!("{other:?}"),
        });
        all.collect()
    }

    fn done() -> Outcome {
        Outcome::Completed(None)
    }

    #[tokio::test]
    async fn every_part_of_an_answer_is_redacted() {
        let metadata = HashMap::from([(SECRET.to_owned(), json!([SECRET]))]);
        let part = Part {
            metadata: Some(metadata.clone()),
            ..Part::text(format!("x {SECRET}"))
        };
        let parts = vec![
            part,
            Part::data(json!({SECRET: SECRET}))
                .with_filename(SECRET)
                .with_media_type(SECRET),
            Part::raw(SECRET.as_bytes().to_vec()),
            Part::url(format!("https://e.com/{SECRET}")),
        ];
        let whole = Artifact {
            name: Some(SECRET.into()),
            description: Some(SECRET.into()),
            metadata: Some(metadata.clone()),
            ..artifact(parts.clone())
        };
        let reports = vec![
            Report::Working(Some(parts.clone())),
            Report::Metadata(metadata),
            piece(whole, false, true),
        ];
        let outcomes = [
            Outcome::Completed(Some(parts.clone())),
            Outcome::Message(parts.clone()),
            Outcome::InputRequired(parts.clone()),
            Outcome::AuthRequired(parts),
            Outcome::Rejected(format!("no {SECRET}")),
            Outcome::Failed {
                reason: "agent_failed",
                text: format!("no {SECRET}"),
            },
        ];
        for outcome in outcomes {
            let told = told(reports.clone(), outcome).await;
            assert_eq!(told.0.len(), 3);
            assert!(!format!("{told:?}").contains(SECRET), "{told:?}");
            let bytes = format!("{:?}", SECRET.as_bytes());
            assert!(
                !format!("{told:?}").contains(bytes.trim_matches(['[', ']'])),
                "{told:?}"
            );
        }
    }

    #[tokio::test]
    async fn secret_cut_between_pieces_is_redacted() {
        let reports = vec![
            text_piece("it is s3c", false, false),
            text_piece("ret-", true, false),
            text_piece("one. Bye", true, false),
            text_piece("!", true, true),
        ];
        let (reports, _) = told(reports, done()).await;
        assert_eq!(
            pieces(&reports),
            [
                ("it is ".into(), false, false),
                ("[redacted]. ".into(), true, false),
                ("Bye!".into(), true, true),
            ]
        );
    }

    #[tokio::test]
    async fn secret_that_streams_by_characters_is_redacted() {
        let reports = SECRET.char_indices();
        let reports = reports.map(|(at, c)| text_piece(&c.to_string(), at > 0, false));
        let (reports, _) = told(reports.collect(), done()).await;
        assert_eq!(pieces(&reports), [("[redacted]".into(), false, false)]);
    }

    #[tokio::test]
    async fn secret_in_two_texts_of_a_message_is_redacted() {
        let parts = vec![
            Part::text("a s3cret"),
            Part::data(json!(1)),
            Part::text("-one b"),
        ];
        let (_, outcome) = told(Vec::new(), Outcome::Message(parts)).await;
        let parts = vec![
            Part::text("a [redacted]"),
            Part::data(json!(1)),
            Part::text(" b"),
        ];
        assert_eq!(outcome, Outcome::Message(parts));
    }

    #[tokio::test]
    async fn text_before_a_file_comes_before_it() {
        let file = Part::raw(vec![1]);
        let reports = vec![
            text_piece("see", false, false),
            piece(artifact(vec![file.clone(), Part::text("and")]), true, true),
        ];
        let (reports, _) = told(reports, done()).await;
        let parts = vec![Part::text("see"), file, Part::text("and")];
        assert_eq!(reports, [piece(artifact(parts), false, true)]);
    }

    #[tokio::test]
    async fn run_that_is_found_again_is_redacted() {
        let reports = vec![text_piece(SECRET, false, true)];
        let (say, said) = mpsc::channel(16);
        let executor = redacted(reports, done());
        let run = executor.reattach(job(), "run".into(), say, CancellationToken::new());
        let (reports, _) = heard(run.unwrap(), said).await;
        assert_eq!(pieces(&reports), [("[redacted]".into(), false, true)]);
    }

    #[tokio::test]
    async fn executor_errors_are_redacted() {
        let executor = redacted(Vec::new(), done());
        let redacted = Err(ExecutorError("no [redacted]".into()));
        assert_eq!(executor.ready().await, redacted);
        assert_eq!(executor.agents().await.map(drop), redacted);
    }
}
