//! The terminal states of a task.

use a2a::DELEGATION_KEY;

use super::failing_store::FailingStore;
use super::*;

async fn task_after(outcome: Outcome) -> Task {
    let mut harness = harness().await;
    let id = harness.send_immediate(text_message("hello")).await.id;
    harness.run().await.end(outcome);
    harness.ended(&id).await
}

#[tokio::test]
async fn new_task_is_submitted() {
    let harness = harness().await;
    let task = harness.send_immediate(text_message("hello")).await;
    assert_eq!(task.status.state, TaskState::Submitted);
    assert!(task.status.timestamp.is_some());
}

#[tokio::test]
async fn history_begins_with_the_message() {
    let harness = harness().await;
    let task = harness.send_immediate(text_message("hello")).await;
    let history = task.history.unwrap();
    assert_eq!(history.len(), 1);
    assert_eq!(text(&history[0]), "hello");
    assert_eq!(history[0].task_id.as_ref(), Some(&task.id));
    assert_eq!(history[0].context_id.as_ref(), Some(&task.context_id));
}

#[tokio::test]
async fn outcome_sets_state_and_message() {
    let text = |text: &str| vec![Part::text(text)];
    let failed = Outcome::Failed {
        reason: "binary_not_found",
        text: "there is no `openclaw`".to_owned(),
    };
    let rejected = Outcome::Rejected("not my work".to_owned());
    for (outcome, state, said) in [
        (
            Outcome::Completed(Some(text("42"))),
            TaskState::Completed,
            "42",
        ),
        (failed, TaskState::Failed, "there is no `openclaw`"),
        (rejected, TaskState::Rejected, "not my work"),
        (
            Outcome::InputRequired(text("which?")),
            TaskState::InputRequired,
            "which?",
        ),
        (
            Outcome::AuthRequired(text("log in")),
            TaskState::AuthRequired,
            "log in",
        ),
    ] {
        let task = task_after(outcome).await;
        assert_eq!(task.status.state, state, "{said}");
        assert_eq!(status_text(&task), said);
        let failed = state == TaskState::Failed;
        assert_eq!(
            reason(&task),
            failed.then_some("binary_not_found"),
            "{said}"
        );
        assert_eq!(task.status.message.unwrap().role, Role::Agent, "{said}");
    }
}

#[tokio::test]
async fn answer_in_artifact_has_no_status_message() {
    let task = task_after(Outcome::Completed(None)).await;
    assert_eq!(task.status.state, TaskState::Completed);
    assert_eq!(task.status.message, None);
}

#[tokio::test(start_paused = true)]
async fn run_beyond_timeout_fails_its_task() {
    let settings = Settings {
        timeout: 5 * SECOND,
        ..Settings::default()
    };
    let mut harness = TestService::with(settings).await;
    let (id, run) = harness.start().await;
    let task = harness.ended(&id).await;
    assert_eq!(task.status.state, TaskState::Failed);
    assert_eq!(reason(&task), Some(TIMEOUT));
    assert!(
        status_text(&task).contains("after 5 s"),
        "{}",
        status_text(&task)
    );
    run.cancel.cancelled().await;
}

#[tokio::test]
async fn report_after_timeout_is_ignored() {
    let settings = Settings {
        timeout: Duration::from_millis(1),
        ..Settings::default()
    };
    let mut harness = TestService::with(settings).await;
    let (id, run) = harness.start().await;
    harness.ended(&id).await;
    run.done();
    harness.service.close(SECOND).await;
    let stored = harness.stored(&id).await;
    assert_eq!(stored.task.status.state, TaskState::Failed);
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
    let service = Service::start(ServiceComponents {
        settings: Settings::default(),
        executor: Arc::new(Panics),
        store: Arc::new(MemoryStore::new()),
        sender: Arc::new(NoopPushSender),
        sessions: Arc::new(PrefixedSessions),
        env: Arc::new(SystemEnvironment),
        clients: None,
    })
    .await
    .unwrap();
    for _ in 0..2 {
        let task = task(service.send(&alice(), text_message("hello")).await.unwrap());
        assert_eq!(task.status.state, TaskState::Failed);
        assert_eq!(reason(&task), Some("internal"));
    }
}

#[tokio::test]
async fn reports_become_the_task() {
    let mut harness = harness().await;
    let (id, run) = harness.start().await;
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
    let task = harness.ended(&id).await;
    let artifacts = task.artifacts.unwrap();
    assert_eq!(artifacts.len(), 1);
    assert_eq!(artifacts[0].parts, [Part::text("one"), Part::text("two")]);
    assert_eq!(task.metadata, metadata("usage", "3"));
    let stored = harness.stored(&id).await;
    assert_eq!(stored.run.as_deref(), Some("run-1"));
}

#[tokio::test(start_paused = true)]
async fn silent_run_is_working_after_a_while() {
    let mut harness = harness().await;
    let (id, _run) = harness.start().await;
    tokio::time::sleep(super::super::task_runner::QUIET_PERIOD * 2).await;
    assert_eq!(harness.state(&id).await, TaskState::Working);
}

#[tokio::test]
async fn job_has_client_agent_and_session() {
    let mut harness = harness().await;
    let mut send = text_message("hello").with_context_id("c");
    send.request.message.metadata =
        metadata(DELEGATION_KEY, serde_json::json!({"hop": 2, "chain": "c"}));
    let task = harness.send_immediate(send).await;
    let input = harness.run().await.input;
    assert_eq!(input.task_id, task.id);
    assert_eq!(input.context_id, "c");
    assert_eq!(input.session, "a2a-c");
    assert_eq!(input.client, "alice");
    assert_eq!(text(&input.message), "hello");
    assert_eq!(
        input.delegation,
        Some(serde_json::json!({"hop": 2, "chain": "c"}))
    );
}

/// Stores `count` tasks that wait for their client.
async fn interrupt_tasks(store: &MemoryStore, count: usize) {
    for n in 0..count {
        let mut record = record(&format!("t{n:03}"));
        record.task.status.state = TaskState::InputRequired;
        store.create(&record).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn undeletable_expired_tasks_starve_no_other() {
    let store = FailingStore::new();
    interrupt_tasks(&store.memory, 101).await;
    store.fail(100);
    let harness = store.open().await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(harness.state("t100").await, TaskState::Failed);
    assert_eq!(harness.state("t000").await, TaskState::InputRequired);
}

#[tokio::test]
async fn repeated_question_does_not_expire() {
    let harness = harness().await;
    interrupt_tasks(&harness.store, 1).await;
    let interrupted_ms = record("t").changed_ms;
    let core = &harness.service.core;
    assert_eq!(core.expire_task("t000", interrupted_ms).await, Ok(false));
    assert_eq!(core.expire_task("t000", interrupted_ms + 1).await, Ok(true));
}

#[tokio::test(start_paused = true)]
async fn unanswered_question_fails_its_task() {
    let settings = Settings {
        unanswered: 3600 * SECOND,
        ..Settings::default()
    };
    let mut harness = TestService::with(settings).await;
    let id = harness.ask().await;
    harness.clock.advance(3_500 * SECOND);
    tokio::time::sleep(61 * SECOND).await;
    assert_eq!(
        harness.get(&id).await.status.state,
        TaskState::InputRequired
    );
    harness.clock.advance(200 * SECOND);
    tokio::time::sleep(61 * SECOND).await;
    let task = harness.get(&id).await;
    assert_eq!(task.status.state, TaskState::Failed);
    assert_eq!(reason(&task), Some(UNANSWERED));
    // The question stays in the history.
    assert_eq!(task.history.unwrap().len(), 2);
}
