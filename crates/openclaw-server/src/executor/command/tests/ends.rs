//! A turn ends together with all processes that it has started.

use super::*;

/// A script that starts a child process and waits for it. Both write their process ids to files.
const FAMILY: &str = "sh -c 'echo $$ > \"$OPENCLAW_STATE_DIR/child\"; exec sleep 600' & \
    echo $$ > \"$OPENCLAW_STATE_DIR/parent\"; wait";

/// Returns the ids of both processes once they run.
async fn family(fake: &FakeCommand) -> [String; 2] {
    let parent = wait_for_line(&fake.file("parent")).await;
    [parent, wait_for_line(&fake.file("child")).await]
}

#[tokio::test]
async fn timeout_ends_the_process_group() {
    let fake = FakeCommand::new(FAMILY);
    let mut settings = fake.settings();
    settings.timeout = Duration::from_millis(500);
    let (reason, text) = failure(&executor(settings)).await;
    assert_eq!(reason, "timeout");
    assert!(text.contains("0.5 s"), "{text}");
    for process in family(&fake).await {
        wait_until_gone(&process).await;
    }
}

#[tokio::test]
async fn canceled_turn_gets_sigterm_first() {
    let fake = FakeCommand::new(&format!(
        "trap 'echo stopped > \"$OPENCLAW_STATE_DIR/stopped\"; exit 143' TERM; {FAMILY}"
    ));
    let cancel = CancellationToken::new();
    let (events, _received) = mpsc::channel(1);
    let run = tokio::spawn(fake.executor().run(input("hello"), events, cancel.clone()));
    let child = wait_for_line(&fake.file("child")).await;
    cancel.cancel();
    let Outcome::Failed { reason, .. } = run.await.unwrap() else {
        panic!("it went on")
    };
    assert_eq!(reason, "canceled");
    assert_eq!(wait_for_line(&fake.file("stopped")).await, "stopped");
    wait_until_gone(&child).await;
}

#[tokio::test]
async fn process_that_ignores_sigterm_is_killed() {
    let fake = FakeCommand::new(&format!("trap '' TERM; {FAMILY}"));
    let cancel = CancellationToken::new();
    let (events, _received) = mpsc::channel(1);
    let run = tokio::spawn(fake.executor().run(input("hello"), events, cancel.clone()));
    let family = family(&fake).await;
    let started_at = Instant::now();
    cancel.cancel();
    run.await.unwrap();
    let took = started_at.elapsed();
    assert!((2.0..4.0).contains(&took.as_secs_f64()), "{took:?}");
    for process in family {
        wait_until_gone(&process).await;
    }
}

#[tokio::test]
async fn dropped_run_leaves_no_process() {
    let fake = FakeCommand::new(FAMILY);
    let (events, _received) = mpsc::channel(1);
    let run = tokio::spawn(
        fake.executor()
            .run(input("hello"), events, CancellationToken::new()),
    );
    let family = family(&fake).await;
    run.abort();
    for process in family {
        wait_until_gone(&process).await;
    }
}

#[tokio::test]
async fn child_processes_end_with_the_turn() {
    let fake = FakeCommand::new(&format!(
        "sh -c 'echo $$ > \"$OPENCLAW_STATE_DIR/child\"; exec sleep 600' & echo '{LOCAL_ANSWER}'; \
         while [ ! -s \"$OPENCLAW_STATE_DIR/child\" ]; do :; done"
    ));
    let started_at = Instant::now();
    assert_eq!(answer_of(&fake).await, [Part::text("done")]);
    assert!(started_at.elapsed() < Duration::from_secs(10));
    wait_until_gone(&wait_for_line(&fake.file("child")).await).await;
}
