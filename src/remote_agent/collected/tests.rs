#![allow(clippy::unwrap_used, clippy::panic)]
use serde_json::json;

use super::*;
use crate::remote_agent::error::Reason;

fn chunk(id: &str, text: &str, append: bool) -> Event {
    Event::read(
        json!({"kind": "artifact-update", "taskId": "t", "append": append,
        "artifact": {"artifactId": id, "parts": [{"kind": "text", "text": text}]}}),
    )
    .unwrap()
}

fn task(extra: Value) -> Event {
    let mut task = json!({"kind": "task", "id": "t", "status": {"state": "working"}});
    task.as_object_mut()
        .unwrap()
        .extend(extra.as_object().unwrap().clone());
    Event::read(task).unwrap()
}

fn limited(change: impl FnOnce(&mut Limits)) -> Collected {
    let mut limits = Limits::default();
    change(&mut limits);
    Collected::new(&limits)
}

fn collected(events: Vec<Event>) -> Collected {
    let mut all = Collected::new(&Limits::default());
    for event in events {
        all.apply(event, 1).unwrap();
    }
    all
}

#[test]
fn text_joins_pieces_and_separates_artifacts() {
    let all = collected(vec![
        chunk("a", "one ", false),
        chunk("b", "other", true),
        chunk("a", "two", true),
    ]);
    assert_eq!(all.text().unwrap(), "one two\n\nother");
}

#[test]
fn piece_without_append_replaces() {
    assert_eq!(
        collected(vec![chunk("a", "old", false), chunk("a", "new", false)])
            .text()
            .unwrap(),
        "new"
    );
}

#[test]
fn empty_snapshot_keeps_artifacts() {
    let all = collected(vec![
        chunk("a", "kept", false),
        task(json!({"artifacts": []})),
    ]);
    assert_eq!(all.text().unwrap(), "kept");
}

#[test]
fn stale_poll_does_not_reopen_a_terminal_task() {
    let mut all = collected(vec![task(json!({"status": {"state": "completed"}}))]);
    let question = task(json!({"status": {"state": "input-required"}}));
    let Event::Task(question) = question else {
        panic!("{question:?}")
    };
    let changed = all.apply_snapshot(question, Source::Polled).unwrap();
    assert!(!changed);
    assert_eq!(all.state.as_ref().unwrap().as_str(), "completed");
}

#[test]
fn snapshot_orders_artifacts_and_keeps_others() {
    let snapshot = task(
        json!({"artifacts": [{"artifactId": "z", "parts": [{"kind": "text", "text": "zz"}]}]}),
    );
    let all = collected(vec![
        chunk("a", "1", false),
        snapshot,
        chunk("a", "2", true),
    ]);
    assert_eq!(all.text().unwrap(), "zz\n\n12");
}

#[test]
fn text_falls_back_to_status_never_to_user_message() {
    let history = json!([{"role": "user", "parts": [{"kind": "text", "text": "q"}]}, {"role": "agent", "parts": [{"kind": "text", "text": "a"}]}]);
    assert_eq!(
        collected(vec![task(json!({"history": history}))])
            .text()
            .unwrap(),
        "a"
    );
    let asks = json!({"history": history, "status": {"state": "input-required", "message": {"role": "agent", "parts": [{"kind": "text", "text": "which?"}]}}});
    assert_eq!(collected(vec![task(asks)]).text().unwrap(), "which?");
}

#[test]
fn newest_events_are_kept_and_all_counted() {
    let mut all = limited(|limits| limits.stream_events = 2);
    for i in 0..5 {
        all.apply(chunk("a", &i.to_string(), true), 1).unwrap();
    }
    assert_eq!(all.text().unwrap(), "01234");
    let raw = json!(all.take_raw());
    assert_eq!(raw["dropped_events"], 3);
    assert_eq!(raw["events"].as_array().unwrap().len(), 2);
    assert_eq!(raw["finalEvent"], raw["events"][1]);
}

/// An event whose data are `count` numbers, as a task or as a piece that replaces the artifact.
fn numbers(artifact_id: &str, count: usize, is_task: bool) -> Event {
    let parts = json!([{"kind": "data", "data": vec![0; count]}]);
    let artifact = json!({"artifactId": artifact_id, "parts": parts});
    if is_task {
        return task(json!({"artifacts": [artifact]}));
    }
    Event::read(json!({"kind": "artifact-update", "taskId": "t", "artifact": artifact})).unwrap()
}

#[test]
fn events_count_by_the_memory_of_their_values() {
    let mut all = limited(|limits| limits.response_bytes = 1 << 20);
    for is_task in [false, true] {
        for _ in 0..100 {
            all.apply(numbers("a", 5000, is_task), 30_000).unwrap();
            assert!(all.log_bytes <= 1 << 20, "{}", all.log_bytes);
            let memory: usize = all
                .log
                .iter()
                .map(|(event, _)| base::json::memory(event))
                .sum();
            assert_eq!(memory, all.log_bytes);
        }
    }
    assert!(all.count - all.log.len() > 190);
}

#[test]
fn artifacts_of_snapshots_count_by_the_memory_of_their_values() {
    let mut all = limited(|limits| limits.response_bytes = 1 << 20);
    let too_large = (0..100).find_map(|n| {
        let event = numbers(&n.to_string(), 50_000, true);
        all.apply(event, 300_000).err()
    });
    assert_eq!(too_large.unwrap().reason, Reason::ArtifactsTooLarge);
    assert!(all.artifacts().count() <= 4, "{}", all.artifacts().count());
}

#[test]
fn replaced_piece_frees_the_limit() {
    let mut all = limited(|limits| limits.response_bytes = 100);
    for _ in 0..10 {
        all.apply(chunk("a", "again", false), 60).unwrap();
    }
    all.apply(chunk("a", " more", true), 40).unwrap();
    let one_too_many = all.apply(chunk("a", "!", true), 1);
    assert_eq!(one_too_many.unwrap_err().reason, Reason::ArtifactsTooLarge);
    assert_eq!(all.text().unwrap(), "again more");
}

#[test]
fn artifacts_beyond_limits_are_refused() {
    let mut all = limited(|limits| limits.artifacts = 1);
    all.apply(chunk("a", "kept", false), 1).unwrap();
    assert_eq!(
        all.apply(chunk("b", "no", false), 1).unwrap_err().reason,
        Reason::TooManyArtifacts
    );
    assert_eq!(all.text().unwrap(), "kept");
}
