#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use a2a::v1_0::{Artifact, Message, Part, Role, Task, TaskState, TaskStatus};
use proptest::collection::{hash_map, vec};
use proptest::option;
use proptest::prelude::*;

use super::{TaskChange, TaskRecord, copied_bytes};
use crate::store::memory::MemoryStore;
use crate::store::{StoreError, TaskStore};
use a2a::Version;

/// Creates a submitted task of Alice.
pub(crate) fn record(id: &str) -> TaskRecord {
    TaskRecord {
        task: Task {
            id: id.to_owned(),
            context_id: format!("context-of-{id}"),
            status: TaskStatus {
                state: TaskState::Submitted,
                message: None,
                timestamp: None,
            },
            artifacts: None,
            history: Some(vec![Message::new(Role::User, vec![Part::text("hello")])]),
            metadata: None,
        },
        owner: "alice".to_owned(),
        agent: None,
        session: format!("session-of-{id}"),
        version: Version::V1_0,
        run: None,
        created_ms: 0,
        changed_ms: 0,
        revision: 0,
    }
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let part = prop_oneof![
        ".{0,8}".prop_map(Part::text),
        vec(any::<u8>(), 0..8).prop_map(Part::raw),
        "https://[a-z]{1,8}".prop_map(Part::url),
        any::<i32>().prop_map(|number| Part::data(serde_json::json!({ "number": number }))),
    ];
    vec(part, 1..3)
}

fn message() -> impl Strategy<Value = Message> {
    (".{1,8}", parts(), any::<bool>()).prop_map(|(id, parts, agent)| Message {
        message_id: id,
        context_id: None,
        task_id: None,
        role: if agent { Role::Agent } else { Role::User },
        parts,
        metadata: None,
        extensions: None,
        reference_task_ids: None,
    })
}

fn status(states: &'static [TaskState]) -> impl Strategy<Value = TaskChange> {
    let state = prop::sample::select(states);
    let at = option::of(0i64..4_000_000_000_000);
    (state, option::of(message()), at).prop_map(|(state, message, at)| {
        TaskChange::Status(TaskStatus {
            state,
            message,
            timestamp: at.and_then(chrono::DateTime::from_timestamp_millis),
        })
    })
}

fn artifact() -> impl Strategy<Value = TaskChange> {
    // Few ids, so that artifacts collide.
    let metadata = option::of(hash_map("[ab]", any::<bool>().prop_map(Into::into), 1..3));
    ("[abc]", parts(), metadata, any::<bool>(), any::<bool>()).prop_map(
        |(id, parts, metadata, append, last_chunk)| TaskChange::Artifact {
            artifact: Artifact {
                artifact_id: id,
                name: None,
                description: None,
                parts,
                metadata,
                extensions: None,
            },
            append,
            last_chunk,
        },
    )
}

fn change(states: &'static [TaskState]) -> impl Strategy<Value = TaskChange> {
    let metadata = hash_map("[ab]", any::<i32>().prop_map(Into::into), 1..3);
    prop_oneof![
        status(states),
        artifact(),
        message().prop_map(TaskChange::Message),
        metadata.prop_map(TaskChange::Metadata),
        "[a-z]{1,8}".prop_map(TaskChange::Run),
    ]
}

const OPEN: &[TaskState] = &[
    TaskState::Submitted,
    TaskState::Working,
    TaskState::InputRequired,
    TaskState::AuthRequired,
];

const ALL: &[TaskState] = &[
    TaskState::Submitted,
    TaskState::Working,
    TaskState::InputRequired,
    TaskState::AuthRequired,
    TaskState::Completed,
    TaskState::Failed,
    TaskState::Canceled,
    TaskState::Rejected,
];

fn fold(mut record: TaskRecord, changes: &[TaskChange], from_ms: i64) -> TaskRecord {
    for (change, at_ms) in changes.iter().zip(from_ms..) {
        record.apply(change.clone(), at_ms);
    }
    record
}

fn reencode<T: serde::Serialize + serde::de::DeserializeOwned>(value: &T) -> T {
    serde_json::from_slice(&serde_json::to_vec(value).unwrap()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(96) })]

    #[test]
    fn encoded_changes_make_the_same_record(
        changes in vec(change(ALL), 0..24),
    ) {
        let initial = record("t");
        let whole = fold(initial.clone(), &changes, 1);
        let read: Vec<TaskChange> = changes.iter().map(reencode).collect();
        prop_assert_eq!(&fold(reencode(&initial), &read, 1), &whole);
        prop_assert_eq!(reencode(&whole), whole);
    }

    #[test]
    fn snapshot_and_later_changes_make_the_same_record(
        changes in vec(change(ALL), 0..24),
        half in 0usize..24,
    ) {
        let initial = record("t");
        let (before, since) = changes.split_at(half.min(changes.len()));
        let at_half = fold(initial.clone(), before, 1);
        let from_ms = 1 + i64::try_from(before.len()).unwrap();
        let read = fold(reencode(&at_half), since, from_ms);
        prop_assert_eq!(read, fold(initial, &changes, 1));
    }

    #[test]
    fn stored_record_is_the_fold_of_its_changes(
        changes in vec(change(OPEN), 0..24),
    ) {
        let store: Arc<dyn TaskStore> = Arc::new(MemoryStore::new());
        let initial = record("t");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let stored = runtime.block_on(async {
            store.create(&initial).await?;
            for ((revision, change), at_ms) in (0..).zip(&changes).zip(1..) {
                store.append("t", revision, at_ms, std::slice::from_ref(change)).await?;
            }
            store.load("t").await
        });
        prop_assert_eq!(stored, Ok::<_, StoreError>(Some(fold(initial, &changes, 1))));
    }

    #[test]
    fn every_change_counts_once(changes in vec(change(ALL), 0..24)) {
        let whole = fold(record("t"), &changes, 1);
        prop_assert_eq!(whole.revision, u64::try_from(changes.len()).unwrap());
    }
}

fn chunk(text: &str, append: bool) -> TaskChange {
    TaskChange::Artifact {
        artifact: Artifact {
            artifact_id: "a".to_owned(),
            name: None,
            description: None,
            parts: vec![Part::text(text)],
            metadata: None,
            extensions: None,
        },
        append,
        last_chunk: false,
    }
}

fn texts(record: &TaskRecord) -> Vec<&str> {
    let artifacts = record.task.artifacts.iter().flatten();
    artifacts
        .flat_map(|artifact| &artifact.parts)
        .filter_map(Part::as_text)
        .collect()
}

#[test]
fn chunk_extends_its_artifact() {
    let whole = fold(record("t"), &[chunk("one", false), chunk("two", true)], 1);
    assert_eq!(texts(&whole), ["one", "two"]);
}

#[test]
fn repeated_artifact_replaces_itself() {
    let whole = fold(record("t"), &[chunk("one", false), chunk("two", false)], 1);
    assert_eq!(texts(&whole), ["two"]);
}

#[test]
fn chunk_without_artifact_creates_it() {
    let whole = fold(record("t"), &[chunk("one", true)], 1);
    assert_eq!(texts(&whole), ["one"]);
}

fn status_with_text(state: TaskState, text: &str) -> TaskChange {
    let mut message = Message::new(Role::Agent, vec![Part::text(text)]);
    message.message_id = text.to_owned();
    TaskChange::Status(TaskStatus {
        state,
        message: Some(message),
        timestamp: None,
    })
}

fn history(record: &TaskRecord) -> Vec<&str> {
    let messages = record.task.history.iter().flatten();
    messages
        .map(|message| message.parts[0].as_text().unwrap())
        .collect()
}

#[test]
fn question_stays_in_history() {
    let changes = [
        status_with_text(TaskState::InputRequired, "which?"),
        status_with_text(TaskState::Working, "reading"),
        status_with_text(TaskState::Completed, "done"),
    ];
    assert_eq!(
        history(&fold(record("t"), &changes, 1)),
        ["hello", "which?"]
    );
}

#[test]
fn parts_and_names_without_text_count_as_copied() {
    let mut task = record("t").task;
    let before = copied_bytes(&task, &[]);
    let name = "n".repeat(100);
    let named = Part {
        filename: Some(name.clone()),
        ..Part::text("")
    };
    task.artifacts = Some(vec![Artifact {
        artifact_id: name.clone(),
        name: Some(name.clone()),
        description: None,
        parts: vec![named; 1000],
        metadata: None,
        extensions: Some(vec![name]),
    }]);
    let copied = copied_bytes(&task, &[]) - before;
    assert!(copied > 1000 * (size_of::<Part>() + 100), "{copied}");
    let change = TaskChange::Artifact {
        artifact: task.artifacts.unwrap_or_default().remove(0),
        append: true,
        last_chunk: true,
    };
    let task = record("t").task;
    assert_eq!(copied_bytes(&task, &[change]) - before, copied);
}
