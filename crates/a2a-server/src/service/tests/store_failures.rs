//! A store that fails, and one that other servers share.

use super::failing_store::FailingStore;
use super::*;
use crate::store::StoreError;
use crate::task_record::TaskChange;

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_for_a_moment_loses_nothing() {
    let store = FailingStore::new();
    let mut theatre = store.open().await;
    let id = theatre.begin(says("hello")).await.id;
    let run = theatre.run().await;
    store.fail(3);
    run.report(artifact("a", "one")).await;
    run.done();
    let task = theatre.ended(&id).await;
    assert_eq!(task.status.state, TaskState::Completed);
    assert_eq!(task.artifacts.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_was_kept_although_it_seemed_to_fail_is_kept_once() {
    let store = FailingStore {
        keeps: true,
        ..FailingStore::new()
    };
    let mut theatre = store.open().await;
    let id = theatre.begin(says("hello")).await.id;
    let run = theatre.run().await;
    run.report(Report::Working(None)).await;
    while theatre.state(&id).await != TaskState::Working {
        tokio::task::yield_now().await;
    }
    store.fail(1);
    run.report(artifact("a", "one")).await;
    while theatre.get(&id).await.artifacts.is_none() {
        tokio::task::yield_now().await;
    }
    store.fail(1);
    run.done();
    let task = theatre.ended(&id).await;
    assert_eq!(task.status.state, TaskState::Completed);
    assert_eq!(task.artifacts.unwrap()[0].parts.len(), 1);
    // Submitted, working, the artifact, completed.
    let kept = store.load(&id).await.unwrap().unwrap();
    assert_eq!(kept.revision, 3);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_goes_on_failing_stops_the_run_and_says_so_without_its_secrets() {
    let store = FailingStore::new();
    let mut theatre = store.open().await;
    let asked = theatre.ask(alice(), says("hello"));
    let run = theatre.run().await;
    store.fail(usize::MAX);
    run.report(artifact("a", "one")).await;
    run.cancel.cancelled().await;
    let refusal = asked.await.unwrap().unwrap_err();
    assert_eq!(refusal.reason, ErrorReason::Unavailable);
    assert!(!refusal.text.contains("secret"), "{refusal}");
}

#[tokio::test]
async fn a_store_that_cannot_keep_anything_is_not_ready() {
    let theatre = FailingStore::new().open().await;
    let why = theatre.service.ready().await.unwrap_err();
    assert_eq!(why, "the task store: no room");
}

#[tokio::test]
async fn a_list_leaves_damaged_tasks_out_and_fails_with_its_store() {
    let store = FailingStore::new();
    let theatre = store.open().await;
    for (n, id) in ["t0", "t1", "t2"].into_iter().enumerate() {
        let mut made = record(id);
        made.owner = alice().client;
        made.changed_ms += i64::try_from(n).unwrap();
        store.create(&made).await.unwrap();
    }
    let fails = |id: &str, error| store.unread.lock().unwrap().insert(id.to_owned(), error);
    let list = async || theatre.service.list(&alice(), lists::all()).await;
    fails("t2", StoreError::Damaged("secret place: torn".to_owned()));
    let listed = whole(list().await.unwrap()).await.unwrap();
    let ids: Vec<&str> = listed.tasks.iter().map(|task| task.id.as_str()).collect();
    assert_eq!(ids, ["t1", "t0"]);
    // One that comes later ends what has begun.
    fails("t0", StoreError::Failed("secret place: away".to_owned()));
    let refusal = whole(list().await.unwrap()).await.unwrap_err();
    assert_eq!(refusal.reason, ErrorReason::Unavailable);
    assert!(!refusal.text.contains("secret"), "{refusal}");
    // The first is refused before anything has begun.
    fails("t1", StoreError::Failed("secret place: away".to_owned()));
    assert_eq!(list().await.unwrap_err().reason, ErrorReason::Unavailable);
}

#[tokio::test]
async fn a_run_whose_task_is_settled_elsewhere_is_stopped() {
    let store = FailingStore::new();
    let mut theatre = store.open().await;
    let asked = theatre.ask(alice(), says("hello"));
    let run = theatre.run().await;
    let id = run.job.task_id.clone();
    let status = TaskChange::Status(TaskStatus {
        state: TaskState::Canceled,
        message: None,
        timestamp: None,
    });
    let revision = store.load(&id).await.unwrap().unwrap().revision;
    store.append(&id, revision, 0, &status).await.unwrap();
    run.report(artifact("a", "late")).await;
    run.cancel.cancelled().await;
    let answer = task(asked.await.unwrap().unwrap());
    assert_eq!(answer.status.state, TaskState::Canceled);
    assert_eq!(answer.artifacts, None);
}

#[tokio::test]
async fn a_task_that_another_server_runs_is_canceled_there() {
    let store = FailingStore::shared();
    let mut one = store.open().await;
    let other = store.open().await;
    let id = one.begin(says("hello")).await.id;
    let run = one.run().await;
    let task = other.service.cancel(&alice(), &id).await.unwrap();
    assert_eq!(task.status.state, TaskState::Canceled);
    run.cancel.cancelled().await;
}

#[tokio::test(start_paused = true)]
async fn a_task_of_a_server_that_does_not_answer_is_canceled_here() {
    let store = FailingStore::shared();
    let theatre = store.open().await;
    let mut left = record("t");
    left.task.status.state = TaskState::Working;
    store.create(&left).await.unwrap();
    let task = theatre.service.cancel(&alice(), "t").await.unwrap();
    assert_eq!(task.status.state, TaskState::Canceled);
}

#[tokio::test]
async fn every_server_shows_and_follows_a_task_that_another_runs() {
    let store = FailingStore::shared();
    let mut one = store.open().await;
    let other = store.open().await;
    let id = one.begin(says("hello")).await.id;
    assert_eq!(other.state(&id).await, TaskState::Submitted);
    let mut updates = other.service.subscribe(&alice(), &id).await.unwrap();
    assert_eq!(next(&mut updates).await, "task Submitted");
    one.run().await.done();
    assert_eq!(next(&mut updates).await, "status Completed");
}

#[tokio::test]
async fn a_question_that_was_asked_at_one_server_is_answered_at_another() {
    let store = FailingStore::shared();
    let mut one = store.open().await;
    let mut other = store.open().await;
    let id = one.begin(says("hello")).await.id;
    let question = vec![Part::text("which?")];
    one.run().await.end(Outcome::InputRequired(question));
    one.ended(&id).await;
    other.begin(says("this one").answering(&id)).await;
    assert_eq!(other.run().await.job.task_id, id);
}

#[tokio::test]
async fn a_message_that_gets_no_place_is_refused_and_leaves_no_task() {
    let store = FailingStore {
        full: true,
        ..FailingStore::new()
    };
    let theatre = store.open().await;
    let refused = theatre.service.send(&alice(), says("hello")).await;
    assert_eq!(refused.unwrap_err().reason, ErrorReason::Unavailable);
    let listed = theatre.service.list(&alice(), lists::all()).await.unwrap();
    assert_eq!(listed.total_size(), 0);
    assert_eq!(theatre.service.under_way(), 0);
}

#[tokio::test]
async fn an_answer_that_gets_no_place_leaves_no_task_that_nobody_works_on() {
    let store = FailingStore {
        full: true,
        ..FailingStore::new()
    };
    let mut left = record("t");
    left.task.status.state = TaskState::InputRequired;
    left.changed_ms = TestClock::new().millis();
    store.create(&left).await.unwrap();
    let theatre = store.open().await;
    let send = says("this one").answering("t");
    let refused = theatre.service.send(&alice(), send).await;
    assert_eq!(refused.unwrap_err().reason, ErrorReason::Unavailable);
    assert_eq!(theatre.state("t").await, TaskState::Failed);
}

#[tokio::test(start_paused = true)]
async fn how_a_task_ended_is_kept_once_the_store_takes_it() {
    let store = FailingStore::new();
    let mut theatre = store.open().await;
    let asked = theatre.ask(alice(), says("hello"));
    let run = theatre.run().await;
    let id = run.job.task_id.clone();
    store.fail(20);
    run.done();
    let refusal = asked.await.unwrap().unwrap_err();
    assert_eq!(refusal.reason, ErrorReason::Unavailable);
    let mut updates = theatre.service.subscribe(&alice(), &id).await.unwrap();
    let mut last = next(&mut updates).await;
    while let Some(update) = updates.next().await {
        last = short(&update.unwrap());
    }
    assert_eq!(last, "status Completed");
}

#[tokio::test(start_paused = true)]
async fn a_task_of_which_something_could_not_be_kept_has_failed() {
    let store = FailingStore::new();
    let mut theatre = store.open().await;
    let asked = theatre.ask(alice(), says("hello"));
    let run = theatre.run().await;
    let id = run.job.task_id.clone();
    store.fail(5);
    run.report(artifact("a", "one")).await;
    asked.await.unwrap().unwrap_err();
    let mut updates = theatre.service.subscribe(&alice(), &id).await.unwrap();
    while updates.next().await.is_some() {}
    let task = theatre.get(&id).await;
    assert_eq!(task.status.state, TaskState::Failed);
    let metadata = task.status.message.unwrap().metadata.unwrap();
    assert_eq!(metadata[REASON], STORE);
}

#[tokio::test]
async fn a_task_that_asked_here_and_ended_elsewhere_is_not_counted_here_any_more() {
    let store = FailingStore::shared();
    let mut settings = Settings::default();
    settings.limits.tasks_per_client = 1;
    let mut one = store.open_with(settings).await;
    let other = store.open().await;
    let id = one.begin(says("hello")).await.id;
    let question = vec![Part::text("which?")];
    one.run().await.end(Outcome::InputRequired(question));
    one.ended(&id).await;
    other.service.cancel(&alice(), &id).await.unwrap();
    one.begin(says("another")).await;
}

#[tokio::test]
async fn a_task_that_another_server_began_takes_no_place_from_the_ones_that_are_counted_here() {
    let store = FailingStore::shared();
    let mut settings = Settings::default();
    settings.limits.tasks_per_client = 1;
    let mut one = store.open().await;
    let mut other = store.open_with(settings).await;
    let id = one.begin(says("hello")).await.id;
    let question = vec![Part::text("which?")];
    one.run().await.end(Outcome::InputRequired(question));
    one.ended(&id).await;
    other.begin(says("mine")).await;
    other.run().await;
    other.service.cancel(&alice(), &id).await.unwrap();
    let refused = other.service.send(&alice(), says("one more")).await;
    assert_eq!(refused.unwrap_err().reason, ErrorReason::ResourceExhausted);
}
