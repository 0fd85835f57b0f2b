//! The terminal states of a task.

use super::failing_store::FailingStore;
use super::*;

async fn ends_as(outcome: Outcome) -> Task {
    let mut theatre = theatre().await;
    let id = theatre.begin(says("hello")).await.id;
    theatre.run().await.end(outcome);
    theatre.ended(&id).await
}

fn reason(task: &Task) -> Option<&str> {
    let message = task.status.message.as_ref()?;
    message.metadata.as_ref()?.get(REASON)?.as_str()
}

#[tokio::test]
async fn new_task_is_submitted() {
    let theatre = theatre().await;
    let task = theatre.begin(says("hello")).await;
    assert_eq!(task.status.state, TaskState::Submitted);
    assert!(task.status.timestamp.is_some());
}

#[tokio::test]
async fn history_begins_with_the_message() {
    let theatre = theatre().await;
    let task = theatre.begin(says("hello")).await;
    let history = task.history.unwrap();
    assert_eq!(history.len(), 1);
    assert_eq!(text(&history[0]), "hello");
    assert_eq!(history[0].task_id.as_ref(), Some(&task.id));
    assert_eq!(history[0].context_id.as_ref(), Some(&task.context_id));
}

#[tokio::test]
async fn completed_task_has_last_message() {
    let task = ends_as(Outcome::Completed(Some(vec![Part::text("42")]))).await;
    assert_eq!(task.status.state, TaskState::Completed);
    assert_eq!(said(&task), "42");
    assert_eq!(task.status.message.as_ref().unwrap().role, Role::Agent);
}

#[tokio::test]
async fn answer_in_artifact_has_no_status_message() {
    let task = ends_as(Outcome::Completed(None)).await;
    assert_eq!(task.status.state, TaskState::Completed);
    assert_eq!(task.status.message, None);
}

#[tokio::test]
async fn failed_task_has_reason_and_text() {
    let task = ends_as(Outcome::Failed {
        reason: "binary_not_found",
        text: "there is no `openclaw`".to_owned(),
    })
    .await;
    assert_eq!(task.status.state, TaskState::Failed);
    assert_eq!(said(&task), "there is no `openclaw`");
    assert_eq!(reason(&task), Some("binary_not_found"));
}

#[tokio::test]
async fn rejected_task_has_text() {
    let task = ends_as(Outcome::Rejected("not my work".to_owned())).await;
    assert_eq!(task.status.state, TaskState::Rejected);
    assert_eq!(said(&task), "not my work");
}

#[tokio::test]
async fn task_waits_for_input() {
    let task = ends_as(Outcome::InputRequired(vec![Part::text("which one?")])).await;
    assert_eq!(task.status.state, TaskState::InputRequired);
    assert_eq!(said(&task), "which one?");
}

#[tokio::test]
async fn task_waits_for_credentials() {
    let task = ends_as(Outcome::AuthRequired(vec![Part::text("log in")])).await;
    assert_eq!(task.status.state, TaskState::AuthRequired);
    assert_eq!(said(&task), "log in");
}

#[tokio::test(start_paused = true)]
async fn run_beyond_timeout_fails_its_task() {
    let settings = Settings {
        timeout: 5 * SECOND,
        ..Settings::default()
    };
    let mut theatre = TestService::with(settings).await;
    let id = theatre.begin(says("hello")).await.id;
    let run = theatre.run().await;
    let task = theatre.ended(&id).await;
    assert_eq!(task.status.state, TaskState::Failed);
    assert_eq!(reason(&task), Some(TIMEOUT));
    assert!(said(&task).contains("after 5 s"), "{}", said(&task));
    run.cancel.cancelled().await;
}

#[tokio::test]
async fn report_after_timeout_is_ignored() {
    let settings = Settings {
        timeout: Duration::from_millis(1),
        ..Settings::default()
    };
    let mut theatre = TestService::with(settings).await;
    let id = theatre.begin(says("hello")).await.id;
    let run = theatre.run().await;
    theatre.ended(&id).await;
    run.done();
    theatre.service.close(SECOND).await;
    let kept = theatre.store.load(&id).await.unwrap().unwrap();
    assert_eq!(kept.task.status.state, TaskState::Failed);
}

#[tokio::test]
async fn panic_fails_its_task_only() {
    struct Panics;
    impl Executor for Panics {
        fn agents(&self) -> BoxFuture<'_, Result<Vec<Agent>, ExecutorError>> {
            Box::pin(std::future::ready(Ok(Vec::new())))
        }
        fn run(
            &self,
            _: RunInput,
            _: ExecutionEvents,
            _: CancellationToken,
        ) -> BoxFuture<'static, Outcome> {
            Box::pin(async { unreachable!("a fault of the executor") })
        }
        fn reattach(
            &self,
            _: RunInput,
            _: String,
            _: ExecutionEvents,
            _: CancellationToken,
        ) -> Option<BoxFuture<'static, Outcome>> {
            None
        }
        fn ready(&self) -> BoxFuture<'_, Result<(), ExecutorError>> {
            Box::pin(std::future::ready(Ok(())))
        }
    }
    let service = Service::start(Parts {
        settings: Settings::default(),
        executor: Arc::new(Panics),
        store: Arc::new(MemoryStore::new()),
        sender: Arc::new(Post),
        sessions: Arc::new(NamedAgents),
        env: Arc::new(SystemEnvironment),
        clients: None,
    })
    .await
    .unwrap();
    for _ in 0..2 {
        let task = task(service.send(&alice(), says("hello")).await.unwrap());
        assert_eq!(task.status.state, TaskState::Failed);
        assert_eq!(reason(&task), Some("internal"));
    }
}

#[tokio::test]
async fn reports_become_the_task() {
    let mut theatre = theatre().await;
    let id = theatre.begin(says("hello")).await.id;
    let run = theatre.run().await;
    run.report(ExecutionEvent::Run("run-1".to_owned())).await;
    run.report(artifact("a", "one")).await;
    run.report(ExecutionEvent::Artifact {
        artifact: Artifact {
            artifact_id: "a".to_owned(),
            name: None,
            description: None,
            parts: vec![Part::text("two")],
            metadata: None,
            extensions: None,
        },
        append: true,
        last_chunk: true,
    })
    .await;
    run.report(ExecutionEvent::Metadata(metadata("usage", "3").unwrap()))
        .await;
    run.end(Outcome::Completed(None));
    let task = theatre.ended(&id).await;
    let artifacts = task.artifacts.unwrap();
    assert_eq!(artifacts.len(), 1);
    assert_eq!(artifacts[0].parts, [Part::text("one"), Part::text("two")]);
    assert_eq!(task.metadata, metadata("usage", "3"));
    let kept = theatre.store.load(&id).await.unwrap().unwrap();
    assert_eq!(kept.run.as_deref(), Some("run-1"));
}

#[tokio::test(start_paused = true)]
async fn silent_run_is_working_after_a_while() {
    let mut theatre = theatre().await;
    let id = theatre.begin(says("hello")).await.id;
    let _run = theatre.run().await;
    tokio::time::sleep(super::super::task_runner::QUIET_PERIOD * 2).await;
    assert_eq!(theatre.state(&id).await, TaskState::Working);
}

#[tokio::test]
async fn job_has_client_agent_and_session() {
    let mut theatre = theatre().await;
    let mut send = says("hello").in_context("c");
    send.request.message.metadata = metadata(DELEGATION, "hop");
    let task = theatre.begin(send).await;
    let input = theatre.run().await.input;
    assert_eq!(input.task_id, task.id);
    assert_eq!(input.context_id, "c");
    assert_eq!(input.session, "a2a-c");
    assert_eq!(input.client, "alice");
    assert_eq!(text(&input.message), "hello");
    assert_eq!(input.delegation, Some("hop".into()));
}

/// Stores `count` tasks that wait for their client.
async fn asking(store: &MemoryStore, count: usize) {
    for n in 0..count {
        let mut left = record(&format!("t{n:03}"));
        left.task.status.state = TaskState::InputRequired;
        store.create(&left).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn undeletable_expired_tasks_starve_no_other() {
    let store = FailingStore::new();
    asking(&store.memory, 101).await;
    store.fail(100);
    let theatre = store.open().await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(theatre.state("t100").await, TaskState::Failed);
    assert_eq!(theatre.state("t000").await, TaskState::InputRequired);
}

#[tokio::test]
async fn task_that_asked_again_does_not_expire() {
    let theatre = theatre().await;
    asking(&theatre.store, 1).await;
    let asked_ms = record("t").changed_ms;
    let core = &theatre.service.core;
    assert_eq!(core.expire_task("t000", asked_ms).await, Ok(false));
    assert_eq!(core.expire_task("t000", asked_ms + 1).await, Ok(true));
}

#[tokio::test(start_paused = true)]
async fn unanswered_question_fails_its_task() {
    let settings = Settings {
        unanswered: 3600 * SECOND,
        ..Settings::default()
    };
    let mut theatre = TestService::with(settings).await;
    let id = theatre.begin(says("hello")).await.id;
    let question = vec![Part::text("which?")];
    theatre.run().await.end(Outcome::InputRequired(question));
    theatre.ended(&id).await;
    theatre.clock.resume(3_500 * SECOND);
    tokio::time::sleep(61 * SECOND).await;
    assert_eq!(
        theatre.get(&id).await.status.state,
        TaskState::InputRequired
    );
    theatre.clock.resume(200 * SECOND);
    tokio::time::sleep(61 * SECOND).await;
    let task = theatre.get(&id).await;
    assert_eq!(task.status.state, TaskState::Failed);
    let metadata = task.status.message.unwrap().metadata.unwrap();
    assert_eq!(metadata[REASON], UNANSWERED);
    // The question stays in the history.
    assert_eq!(task.history.unwrap().len(), 2);
}
