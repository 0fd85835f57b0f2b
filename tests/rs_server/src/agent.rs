//! The agent's behaviour, by the first word of a message.

use std::future::pending;

use a2a::{A2AError, Message, Part, PartContent, Role, StreamResponse, TaskState};
use a2a_server::{AgentExecutor, ExecutorContext};
use futures::{StreamExt, channel::mpsc::unbounded, stream::BoxStream};
use serde_json::json;

use crate::{
    watchers::{PATH, Watchers},
    work::Work,
};

type Events = BoxStream<'static, Result<StreamResponse, A2AError>>;

pub struct Agent {
    watchers: Watchers,
}

impl Agent {
    pub fn new(watchers: Watchers) -> Self {
        Self { watchers }
    }
}

impl AgentExecutor for Agent {
    fn execute(&self, context: ExecutorContext) -> Events {
        let message = context.message.clone().expect("a message to execute");
        let said: String = message.parts.iter().filter_map(Part::as_text).collect();
        let (word, rest) = said.split_once(':').unwrap_or((&said, ""));
        let (word, rest) = (word.to_owned(), rest.trim().to_owned());
        let (sender, events) = unbounded();
        let work = Work::new(sender, &context);
        let answers = context.stored_task.as_ref().is_some_and(|task| {
            matches!(
                task.status.state,
                TaskState::InputRequired | TaskState::AuthRequired
            )
        });
        if answers {
            work.artifact("answer", "", vec![Part::text(format!("you said {said}"))]);
            work.status(TaskState::Completed, None);
        } else if let Some(text) = reply(&word, &rest, &context) {
            let mut reply = Message::new(Role::Agent, vec![Part::text(text)]);
            reply.context_id = Some(context.context_id);
            work.publish(StreamResponse::Message(reply));
        } else if word == "crash" {
            work.crash(&rest);
        } else {
            // A task that waits for others is `working` from its first event on: a client that does not wait receives this state.
            if ["watched", "held", "begun", "slow"].contains(&word.as_str()) {
                work.start(TaskState::Working, &message);
            } else {
                work.start(TaskState::Submitted, &message);
                work.status(TaskState::Working, None);
            }
            tokio::spawn(act(work, word, rest, message, self.watchers.clone()));
        }
        events.boxed()
    }

    fn cancel(&self, context: ExecutorContext) -> Events {
        let (sender, events) = unbounded();
        Work::new(sender, &context).status(TaskState::Canceled, None);
        events.boxed()
    }
}

/// Returns the text of an answer without a task.
fn reply(word: &str, rest: &str, context: &ExecutorContext) -> Option<String> {
    match word {
        "message" => Some(rest.to_owned()),
        "where" => context
            .service_params
            .get(PATH.as_str())
            .map(|path| path.concat()),
        "tenant" => Some(context.tenant.clone().unwrap_or_default()),
        _ => None,
    }
}

async fn act(work: Work, word: String, rest: String, message: Message, watchers: Watchers) {
    match word.as_str() {
        // An artifact in three chunks.
        "task" => task(&work, &rest),
        // An artifact in three chunks once another client has subscribed.
        "watched" => {
            watchers.of(work.id()).notified().await;
            task(&work, &rest);
        }
        // One chunk once another client has subscribed, then until cancelled.
        "held" => {
            watchers.of(work.id()).notified().await;
            begun(&work, &rest).await;
        }
        // One chunk at once, then until cancelled.
        "begun" => begun(&work, &rest).await,
        "slow" => pending().await,
        "ask" => work.status(TaskState::InputRequired, Some(&rest)),
        "auth" => work.status(TaskState::AuthRequired, Some(&rest)),
        "fail" => work.status(TaskState::Failed, Some(&rest)),
        "reject" => work.status(TaskState::Rejected, Some(&rest)),
        // Reports its parts.
        "parts" => {
            let files = |part: &&Part| part.as_text().is_none();
            let seen: Vec<&Part> = message.parts.iter().filter(files).collect();
            let seen = serde_json::to_string(&seen).expect("JSON");
            work.artifact("seen", "", vec![Part::text(seen)]);
            work.status(TaskState::Completed, None);
        }
        // Answers with parts.
        "gift" => {
            work.artifact("gift", "gift", gift());
            work.status(TaskState::Completed, None);
        }
        // An artifact of 5 MiB.
        "big" => {
            let text = "0123456789abcdef".repeat(5 * 1024 * 1024 / 16);
            work.artifact("big", "", vec![Part::text(text)]);
            work.status(TaskState::Completed, None);
        }
        other => work.crash(&format!("there is no `{other}`")),
    }
}

fn task(work: &Work, rest: &str) {
    let chunks = ["alpha ", "beta ", rest];
    for (index, chunk) in chunks.into_iter().enumerate() {
        work.chunk(
            "answer",
            "answer.txt",
            chunk,
            index > 0,
            index + 1 == chunks.len(),
        );
    }
    work.status(TaskState::Completed, None);
}

async fn begun(work: &Work, rest: &str) {
    work.artifact("answer", "", vec![Part::text(rest)]);
    pending().await
}

fn gift() -> Vec<Part> {
    let part = |content, name: &str, kind: &str| Part {
        content,
        filename: Some(name.to_owned()),
        media_type: Some(kind.to_owned()),
        metadata: None,
    };
    let bytes = PartContent::Raw(vec![0x00, 0xff, b'h', b'e', b'l', b'l', b'o']);
    let elsewhere = PartContent::Url("https://files.test/b.png".to_owned());
    vec![
        part(bytes, "a.bin", "application/octet-stream"),
        part(elsewhere, "b.png", "image/png"),
        Part::data(json!({"count": 2, "nested": {"list": ["x", null, true]}})),
    ]
}
