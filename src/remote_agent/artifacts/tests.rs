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
    let piece = piece(artifact(id, &[text]));
    all.add_piece(piece, append, text.len()).unwrap();
}

fn piece(artifact: Value) -> Artifact {
    let update = json!({"kind": "artifact-update", "taskId": "t", "artifact": artifact});
    let Event::Artifact(update) = Event::read(update).unwrap() else {
        unreachable!("it has an artifact")
    };
    update.artifact()
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
fn streamed_snapshot_replaces_its_artifacts() {
    let mut all = one_two();
    let changed = all.apply_snapshot(&task(&[artifact("a", &["other"])]), Source::Streamed);
    assert!(changed.unwrap());
    assert_eq!(texts(&all), ["a=other"]);
}

#[test]
fn unchanged_snapshot_is_no_update() {
    let mut all = one_two();
    let known = task(&[artifact("a", &["one ", "two "])]);
    assert!(!all.apply_snapshot(&known, Source::Streamed).unwrap());
    all.open_gap(Gap::Open);
    assert!(!all.apply_snapshot(&known, Source::Polled).unwrap());
}

#[test]
fn artifacts_missing_from_a_snapshot_stay_behind() {
    let mut all = one_two();
    add(&mut all, "b", "b", false);
    all.apply_snapshot(
        &task(&[artifact("c", &["c"]), artifact("b", &["bb"])]),
        Source::Streamed,
    )
    .unwrap();
    assert_eq!(texts(&all), ["c=c", "b=bb", "a=one two "]);
    add(&mut all, "a", "three", true);
    assert_eq!(texts(&all), ["c=c", "b=bb", "a=one two three"]);
}

#[test]
fn polled_snapshot_keeps_artifacts_without_gap() {
    let mut all = one_two();
    let shown = task(&[
        artifact("a", &["one ", "two ", "three"]),
        artifact("b", &["b"]),
    ]);
    assert!(all.apply_snapshot(&shown, Source::Polled).unwrap());
    assert_eq!(texts(&all), ["a=one two ", "b=b"]);
}

#[test]
fn polled_snapshot_fills_a_gap_that_it_does_not_contradict() {
    let (four, five) = (("four ", true), ("five", true));
    for (name, pieces, stored, expected) in [
        (
            "missed piece",
            &[four][..],
            &["one ", "two ", "three ", "four "][..],
            "one two three four ",
        ),
        (
            "joined pieces",
            &[four, five],
            &["one two three four five"],
            "one two three four five",
        ),
        (
            "contradiction",
            &[four, five],
            &["one ", "two ", "four ", "four ", "five", "five"],
            "one two four five",
        ),
        (
            "doubled pieces",
            &[four, five],
            &["one ", "two ", "three ", "four ", "four ", "five", "five"],
            "one two three four five",
        ),
        (
            "replaced artifact",
            &[("anew", false)],
            &["anew", "anew"],
            "anew",
        ),
    ] {
        let mut all = one_two();
        all.open_gap(Gap::Open);
        for (text, append) in pieces {
            add(&mut all, "a", text, *append);
        }
        let before = texts(&all);
        let changed = all.apply_snapshot(&task(&[artifact("a", stored)]), Source::Polled);
        assert_eq!(texts(&all), [format!("a={expected}")], "{name}");
        assert_eq!(changed.unwrap(), texts(&all) != before, "{name}");
    }
}

#[test]
fn filled_gap_is_not_open() {
    let mut all = one_two();
    all.open_gap(Gap::Open);
    add(&mut all, "a", "four", true);
    let stored = artifact("a", &["one ", "two ", "three ", "four"]);
    all.apply_snapshot(&task(&[stored]), Source::Polled)
        .unwrap();
    assert_ne!(all.gap(), Gap::Open);
}

#[test]
fn piece_after_a_closed_gap_opens_none() {
    let mut all = one_two();
    all.open_gap(Gap::Open);
    all.close_gap();
    add(&mut all, "a", "three", true);
    assert_eq!(all.gap(), Gap::None);
}

#[test]
fn piece_after_snapshot_reveals_a_gap() {
    let mut all = Artifacts::new(&limits(10, 1000));
    all.open_gap(Gap::Unlikely);
    add(&mut all, "a", "one", false);
    add(&mut all, "a", "two", true);
    assert_ne!(all.gap(), Gap::Open);
    add(&mut all, "b", "three", true);
    assert_eq!(all.gap(), Gap::Open);
}

#[test]
fn changing_snapshots_reach_the_limits() {
    let many = |all: &mut Artifacts| {
        (0..10).try_for_each(|i| {
            let shown = task(&[artifact(&i.to_string(), &["0123456789"])]);
            all.apply_snapshot(&shown, Source::Streamed).map(|_| ())
        })
    };
    for (limits, reason) in [
        (limits(4, 10_000), Reason::TooManyArtifacts),
        (limits(100, 500), Reason::ArtifactsTooLarge),
    ] {
        let mut all = Artifacts::new(&limits);
        assert_eq!(many(&mut all).unwrap_err().reason, reason);
        assert!(all.iter().count() >= 4, "what came before stays");
    }
}

#[test]
fn replaced_artifacts_free_the_limit() {
    let mut all = Artifacts::new(&limits(4, 200));
    for text in ["0123456789", "abcdefghij"].iter().cycle().take(50) {
        all.apply_snapshot(&task(&[artifact("a", &[text])]), Source::Streamed)
            .unwrap();
    }
    assert_eq!(texts(&all), ["a=abcdefghij"]);
}

#[test]
fn appended_piece_counts_the_values_that_stay() {
    for (member, reaches_limit) in [("metadata", false), ("extensions", false), ("parts", true)] {
        let mut all = Artifacts::new(&limits(1, 20_000));
        let values: Vec<Value> = (0..20).map(|n| json!({"n": n})).collect();
        let mut added = artifact("a", &["word"]);
        added[member] = json!(values);
        let outcome = (0..100).try_for_each(|_| all.add_piece(piece(added.clone()), true, 100));
        assert_eq!(outcome.is_err(), reaches_limit, "{member}");
    }
}

#[test]
fn values_of_different_members_count_together() {
    let mut all = Artifacts::new(&limits(1, 20_000));
    let values: Vec<Value> = (0..40).map(|n| json!({"n": n})).collect();
    let outcome = ["metadata", "name", "description", "extensions"]
        .into_iter()
        .try_for_each(|member| {
            let mut added = artifact("a", &["word"]);
            added[member] = json!(values);
            all.add_piece(piece(added), true, 100)
        });
    assert_eq!(outcome.unwrap_err().reason, Reason::ArtifactsTooLarge);
}

#[test]
fn artifacts_with_one_id_are_matched_in_order() {
    let mut all = Artifacts::new(&limits(10, 1000));
    let shown = task(&[
        artifact("a", &["one"]),
        artifact("b", &["b"]),
        artifact("a", &["two"]),
    ]);
    assert!(all.apply_snapshot(&shown, Source::Streamed).unwrap());
    for source in [Source::Polled, Source::Streamed] {
        all.open_gap(Gap::Open);
        assert!(!all.apply_snapshot(&shown, source).unwrap(), "{source:?}");
        assert_eq!(texts(&all), ["a=one", "b=b", "a=two"], "{source:?}");
    }
    let other = task(&[artifact("a", &["two"]), artifact("c", &["c"])]);
    assert!(all.apply_snapshot(&other, Source::Streamed).unwrap());
    assert_eq!(texts(&all), ["a=two", "c=c", "b=b", "a=two"]);
    assert!(all.apply_snapshot(&shown, Source::Streamed).unwrap());
    assert_eq!(texts(&all), ["a=one", "b=b", "a=two", "c=c"]);
}
