#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use super::*;
use a2a::{Event, Reply};

fn limits(artifacts: usize, response_bytes: usize) -> Limits {
    Limits {
        artifacts,
        response_bytes,
        ..Limits::default()
    }
}

fn artifact(id: &str, texts: &[&str]) -> Value {
    let parts: Vec<_> = texts
        .iter()
        .map(|text| json!({"kind": "text", "text": text}))
        .collect();
    json!({"artifactId": id, "parts": parts})
}

fn task(artifacts: &[Value]) -> Task {
    let task = json!({"id": "t", "status": {"state": "working"}, "artifacts": artifacts});
    match Reply::read(task).unwrap() {
        Reply::Task(task) => task,
        Reply::Message(_) => unreachable!("it has a state"),
    }
}

fn add(all: &mut Artifacts, id: &str, text: &str, append: bool) {
    let update =
        json!({"kind": "artifact-update", "taskId": "t", "artifact": artifact(id, &[text])});
    let Event::Artifact(update) = Event::read(update).unwrap() else {
        unreachable!("it has an artifact")
    };
    all.piece(update.artifact(), append, text.len()).unwrap();
}

fn texts(all: &Artifacts) -> Vec<String> {
    all.iter()
        .map(|artifact| format!("{}={}", artifact.id(), artifact.text().unwrap_or_default()))
        .collect()
}

fn one_two() -> Artifacts {
    let mut all = Artifacts::new(&limits(10, 1000));
    add(&mut all, "a", "one ", false);
    add(&mut all, "a", "two ", true);
    all
}

#[test]
fn a_snapshot_that_a_stream_says_replaces_what_it_shows() {
    let mut all = one_two();
    let news = all.show(&task(&[artifact("a", &["other"])]), Source::Said);
    assert!(news.unwrap());
    assert_eq!(texts(&all), ["a=other"]);
}

#[test]
fn a_snapshot_that_shows_what_is_known_is_no_news() {
    let mut all = one_two();
    let known = task(&[artifact("a", &["one ", "two "])]);
    assert!(!all.show(&known, Source::Said).unwrap());
    all.open_gap(Gap::Open);
    assert!(!all.show(&known, Source::Asked).unwrap());
}

#[test]
fn what_a_snapshot_does_not_show_stays_behind_what_it_shows() {
    let mut all = one_two();
    add(&mut all, "b", "b", false);
    all.show(
        &task(&[artifact("c", &["c"]), artifact("b", &["bb"])]),
        Source::Said,
    )
    .unwrap();
    assert_eq!(texts(&all), ["c=c", "b=bb", "a=one two "]);
    add(&mut all, "a", "three", true);
    assert_eq!(texts(&all), ["c=c", "b=bb", "a=one two three"]);
}

#[test]
fn a_snapshot_that_was_asked_for_does_not_touch_what_has_no_gap() {
    let mut all = one_two();
    let shown = task(&[
        artifact("a", &["one ", "two ", "three"]),
        artifact("b", &["b"]),
    ]);
    assert!(all.show(&shown, Source::Asked).unwrap());
    assert_eq!(texts(&all), ["a=one two ", "b=b"]);
}

#[test]
fn a_snapshot_that_was_asked_for_fills_a_gap() {
    let mut all = one_two();
    all.open_gap(Gap::Open);
    add(&mut all, "a", "four", true);
    all.show(
        &task(&[artifact("a", &["one ", "two ", "three ", "four"])]),
        Source::Asked,
    )
    .unwrap();
    assert_eq!(texts(&all), ["a=one two three four"]);
    assert_ne!(all.gap(), Gap::Open);
}

#[test]
fn pieces_that_the_peer_joined_still_bear_out_what_was_heard() {
    let mut all = one_two();
    all.open_gap(Gap::Open);
    add(&mut all, "a", "four ", true);
    add(&mut all, "a", "five", true);
    all.show(
        &task(&[artifact("a", &["one two three four five"])]),
        Source::Asked,
    )
    .unwrap();
    assert_eq!(texts(&all), ["a=one two three four five"]);
}

#[test]
fn a_snapshot_that_contradicts_what_was_heard_since_the_gap_is_not_believed() {
    let mut all = one_two();
    all.open_gap(Gap::Open);
    add(&mut all, "a", "four ", true);
    add(&mut all, "a", "five", true);
    let doubled = artifact("a", &["one ", "two ", "four ", "four ", "five", "five"]);
    assert!(!all.show(&task(&[doubled]), Source::Asked).unwrap());
    assert_eq!(texts(&all), ["a=one two four five"]);
}

#[test]
fn an_artifact_that_was_replaced_since_the_gap_has_none() {
    let mut all = one_two();
    all.open_gap(Gap::Open);
    add(&mut all, "a", "anew", false);
    all.show(&task(&[artifact("a", &["anew", "anew"])]), Source::Asked)
        .unwrap();
    assert_eq!(texts(&all), ["a=anew"]);
}

#[test]
fn a_gap_right_after_a_snapshot_is_one_when_a_piece_continues_what_was_not_heard() {
    let mut all = Artifacts::new(&limits(10, 1000));
    all.open_gap(Gap::Hardly);
    add(&mut all, "a", "one", false);
    add(&mut all, "a", "two", true);
    assert_ne!(all.gap(), Gap::Open);
    add(&mut all, "b", "three", true);
    assert_eq!(all.gap(), Gap::Open);
}

#[test]
fn snapshots_that_show_ever_other_artifacts_come_to_the_limits() {
    let many = |all: &mut Artifacts| {
        (0..10).try_for_each(|i| {
            let shown = task(&[artifact(&i.to_string(), &["0123456789"])]);
            all.show(&shown, Source::Said).map(|_| ())
        })
    };
    for (limits, reason) in [
        (limits(4, 10_000), Reason::TooManyArtifacts),
        (limits(100, 400), Reason::ArtifactsTooLarge),
    ] {
        let mut all = Artifacts::new(&limits);
        assert_eq!(many(&mut all).unwrap_err().reason, reason);
        assert!(all.iter().count() >= 4, "what came before stays");
    }
}

#[test]
fn what_a_snapshot_replaced_does_not_count_against_the_limit() {
    let mut all = Artifacts::new(&limits(4, 200));
    for text in ["0123456789", "abcdefghij"].iter().cycle().take(50) {
        all.show(&task(&[artifact("a", &[text])]), Source::Said)
            .unwrap();
    }
    assert_eq!(texts(&all), ["a=abcdefghij"]);
}

#[test]
fn pieces_that_were_stored_once_for_each_listener_are_held_once() {
    let mut all = one_two();
    all.open_gap(Gap::Open);
    add(&mut all, "a", "four ", true);
    add(&mut all, "a", "five ", true);
    let stored = ["one ", "two ", "three ", "four ", "four ", "five ", "five "];
    let news = all.show(&task(&[artifact("a", &stored)]), Source::Asked);
    assert!(news.unwrap());
    assert_eq!(texts(&all), ["a=one two three four five "]);
}

#[test]
fn artifacts_that_share_an_id_are_known_again_one_by_one() {
    let mut all = Artifacts::new(&limits(10, 1000));
    let shown = task(&[
        artifact("a", &["one"]),
        artifact("b", &["b"]),
        artifact("a", &["two"]),
    ]);
    assert!(all.show(&shown, Source::Said).unwrap());
    for source in [Source::Asked, Source::Said] {
        all.open_gap(Gap::Open);
        assert!(!all.show(&shown, source).unwrap(), "{source:?}");
        assert_eq!(texts(&all), ["a=one", "b=b", "a=two"], "{source:?}");
    }
    let other = task(&[artifact("a", &["two"]), artifact("c", &["c"])]);
    assert!(all.show(&other, Source::Said).unwrap());
    assert_eq!(texts(&all), ["a=two", "c=c", "b=b", "a=two"]);
    assert!(all.show(&shown, Source::Said).unwrap());
    assert_eq!(texts(&all), ["a=one", "b=b", "a=two", "c=c"]);
}
