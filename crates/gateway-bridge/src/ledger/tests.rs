//! What is kept, and what goes.
#![allow(clippy::unwrap_used)]

use serde_json::json;

use super::*;
use a2a::{Message, TaskState};

fn entry(number: usize, frame: &str) -> Entry {
    let sending = Sending {
        frame: frame.to_owned(),
        expires: None,
        while_awaited: true,
    };
    Entry::new(
        format!("corr-{number}"),
        format!("msg-{number}"),
        "alpha".into(),
        "sess-1".into(),
        What::Message,
        sending,
    )
}

fn answer(bytes: usize) -> Outcome {
    let message = json!({"kind": "message", "messageId": "m", "role": "agent",
        "parts": [{"kind": "text", "text": "x".repeat(bytes)}]});
    Outcome::Answered(Message::read(message).unwrap())
}

/// Which of so many are still there.
fn kept(ledger: &Ledger, of: usize) -> Vec<usize> {
    let book = ledger.book();
    let is_there = |number: &usize| book.entries.contains(&format!("corr-{number}"));
    (0..of).filter(is_there).collect()
}

#[test]
fn late_answers_are_kept_up_to_eight_mebibytes_and_the_oldest_go() {
    let ledger = Ledger::new();
    for number in 0..20 {
        ledger.begin(entry(number, "")).settle(answer(1 << 20));
        ledger.trim();
        assert!(ledger.bytes.load(Ordering::SeqCst) <= HELD);
    }
    assert_eq!(kept(&ledger, 20), [13, 14, 15, 16, 17, 18, 19]);
    assert!(ledger.by_message("msg-12").is_none());
    let newest = ledger.task("alpha", "corr-19").unwrap();
    assert_eq!(newest.state(), TaskState::Completed);
}

#[test]
fn messages_that_may_be_sent_again_and_steps_count_as_well() {
    let ledger = Ledger::new();
    ledger.begin(entry(0, &"x".repeat(3 << 20)));
    let told = ledger.begin(entry(1, ""));
    told.step(&"x".repeat(3 << 20), None);
    drop(told);
    ledger.trim();
    assert_eq!(kept(&ledger, 2), [0, 1]);
    ledger.begin(entry(2, &"x".repeat(3 << 20)));
    assert_eq!(kept(&ledger, 3), [1, 2]);
}

#[test]
fn one_that_somebody_waits_for_stays_and_others_go_in_its_place() {
    let ledger = Ledger::new();
    let awaited = ledger.begin(entry(0, "")).awaited();
    for number in 1..12 {
        ledger.begin(entry(number, "")).settle(answer(1 << 20));
        ledger.trim();
    }
    assert_eq!(kept(&ledger, 12), [0, 5, 6, 7, 8, 9, 10, 11]);
    drop(awaited);
}

#[test]
fn the_steps_of_one_task_take_no_more_than_half_of_it() {
    let ledger = Ledger::new();
    let told = ledger.begin(entry(0, ""));
    for _ in 0..50 {
        told.step(&"x".repeat(1 << 20), None);
    }
    assert!(ledger.bytes.load(Ordering::SeqCst) <= HELD / 2);
    let shown = told.task().unwrap().json().to_string();
    assert!(shown.len() > 1 << 20, "the last step that had room is told");
}

#[test]
fn what_is_forgotten_takes_nothing() {
    let ledger = Ledger::new();
    let sent = ledger.begin(entry(0, &"x".repeat(100)));
    sent.step("at work", None);
    sent.settle(answer(1000));
    ledger.forget(&sent);
    drop(sent);
    assert_eq!(ledger.bytes.load(Ordering::SeqCst), 0);
}
