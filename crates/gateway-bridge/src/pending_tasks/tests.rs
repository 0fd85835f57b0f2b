//! Retention and eviction of tasks.
#![allow(clippy::unwrap_used)]

use serde_json::json;

use super::*;
use a2a::{Message, TaskState};

fn entry(number: usize, frame: &str) -> PendingTask {
    let resend = Resend {
        frame: frame.to_owned(),
        expires_at: None,
        while_awaited: true,
    };
    PendingTask::new(
        format!("corr-{number}"),
        format!("msg-{number}"),
        "alpha".into(),
        "sess-1".into(),
        TaskKind::Message,
        resend,
    )
}

fn answer(bytes: usize) -> TaskOutcome {
    let message = json!({"kind": "message", "messageId": "m", "role": "agent",
        "parts": [{"kind": "text", "text": "x".repeat(bytes)}]});
    TaskOutcome::Answered(Message::read(message).unwrap())
}

/// Returns the tasks that are still stored.
fn remaining_tasks(tasks: &PendingTasks, of: usize) -> Vec<usize> {
    let index = tasks.index.lock();
    let is_there = |number: &usize| index.entries.contains(&format!("corr-{number}"));
    (0..of).filter(is_there).collect()
}

#[test]
fn late_answers_above_eight_mebibytes_are_evicted() {
    let tasks = PendingTasks::new();
    for number in 0..20 {
        tasks.insert(entry(number, "")).finish(answer(1 << 20));
        tasks.evict();
        assert!(tasks.bytes.load(Ordering::SeqCst) <= MAX_TOTAL_BYTES);
    }
    assert_eq!(remaining_tasks(&tasks, 20), [13, 14, 15, 16, 17, 18, 19]);
    assert!(tasks.by_message_id("msg-12").is_none());
    let newest = tasks.task("alpha", "corr-19").unwrap();
    assert_eq!(newest.state(), TaskState::Completed);
}

#[test]
fn resendable_frames_and_steps_count() {
    let tasks = PendingTasks::new();
    tasks.insert(entry(0, &"x".repeat(3 << 20)));
    let reported = tasks.insert(entry(1, ""));
    reported.step(&"x".repeat(3 << 20), None);
    drop(reported);
    tasks.evict();
    assert_eq!(remaining_tasks(&tasks, 2), [0, 1]);
    tasks.insert(entry(2, &"x".repeat(3 << 20)));
    assert_eq!(remaining_tasks(&tasks, 3), [1, 2]);
}

#[test]
fn awaited_task_is_not_evicted() {
    let tasks = PendingTasks::new();
    let awaited = tasks.insert(entry(0, "")).await_guard();
    for number in 1..12 {
        tasks.insert(entry(number, "")).finish(answer(1 << 20));
        tasks.evict();
    }
    assert_eq!(remaining_tasks(&tasks, 12), [0, 5, 6, 7, 8, 9, 10, 11]);
    drop(awaited);
}

#[test]
fn steps_of_one_task_use_at_most_half() {
    let tasks = PendingTasks::new();
    let reported = tasks.insert(entry(0, ""));
    for _ in 0..50 {
        reported.step(&"x".repeat(1 << 20), None);
    }
    assert!(tasks.bytes.load(Ordering::SeqCst) <= MAX_TOTAL_BYTES / 2);
    let shown = reported.task().unwrap().json().to_string();
    assert!(shown.len() > 1 << 20, "the last step that fits is reported");
}

#[test]
fn forgotten_task_accepts_no_events() {
    let tasks = PendingTasks::new();
    let sent = tasks.insert(entry(0, &"x".repeat(100)));
    sent.step("at work", None);
    sent.finish(answer(1000));
    tasks.remove(&sent);
    drop(sent);
    assert_eq!(tasks.bytes.load(Ordering::SeqCst), 0);
}
