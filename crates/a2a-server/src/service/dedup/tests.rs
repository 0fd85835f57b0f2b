#![allow(clippy::unwrap_used)]

use a2a::v1_0::{Message, Part, Role};

use std::sync::Arc;

use super::super::active_task::ActiveTask;
use super::{DEDUP_WINDOW, MAX_MESSAGES, MessageDedup};

fn message(id: &str) -> Message {
    let mut message = Message::new(Role::User, vec![Part::text("hello")]);
    message.message_id = id.to_owned();
    message
}

fn get_or_insert(
    dedup: &MessageDedup,
    client: &str,
    message: &Message,
    agent: Option<&str>,
    task_id: &str,
) -> Option<String> {
    let active_task = Arc::new(ActiveTask::new());
    let before = dedup.get_or_insert(client, message, agent, task_id, &active_task);
    before.map(|before| before.task_id)
}

#[tokio::test(start_paused = true)]
async fn message_is_remembered_for_a_while() {
    let dedup = MessageDedup::default();
    assert_eq!(get_or_insert(&dedup, "p", &message("m"), None, "one"), None);
    tokio::time::advance(DEDUP_WINDOW / 2).await;
    assert_eq!(
        get_or_insert(&dedup, "p", &message("m"), None, "two"),
        Some("one".to_owned())
    );
    tokio::time::advance(DEDUP_WINDOW).await;
    assert_eq!(get_or_insert(&dedup, "p", &message("m"), None, "two"), None);
}

#[tokio::test]
async fn remembered_messages_are_bounded() {
    let dedup = MessageDedup::default();
    for id in 0..MAX_MESSAGES + 5 {
        get_or_insert(&dedup, "p", &message(&id.to_string()), None, "t");
    }
    let clients = dedup.0.lock();
    assert_eq!(clients["p"].tasks.len(), MAX_MESSAGES);
    assert_eq!(clients["p"].order.len(), MAX_MESSAGES);
}

#[tokio::test]
async fn answered_messages_free_their_room() {
    let dedup = MessageDedup::default();
    for id in 0..MAX_MESSAGES + 5 {
        get_or_insert(&dedup, "p", &message(&id.to_string()), None, "t");
        dedup.remove("p", &id.to_string(), "t");
    }
    assert!(dedup.0.lock().is_empty());
}

#[tokio::test]
async fn other_agent_makes_another_message() {
    let dedup = MessageDedup::default();
    get_or_insert(&dedup, "p", &message("m"), Some("main"), "one");
    assert_eq!(
        get_or_insert(&dedup, "p", &message("m"), Some("other"), "two"),
        None
    );
}

#[tokio::test]
async fn remove_keeps_id_of_another_message() {
    let dedup = MessageDedup::default();
    get_or_insert(&dedup, "p", &message("m"), Some("main"), "one");
    get_or_insert(&dedup, "p", &message("m"), Some("other"), "two");
    dedup.remove("p", "m", "one");
    let again = get_or_insert(&dedup, "p", &message("m"), Some("other"), "three");
    assert_eq!(again, Some("two".to_owned()));
}

#[tokio::test]
async fn flood_of_a_client_evicts_no_message_of_another() {
    let dedup = MessageDedup::default();
    get_or_insert(&dedup, "quiet", &message("m"), None, "one");
    for id in 0..MAX_MESSAGES + 5 {
        get_or_insert(&dedup, "loud", &message(&id.to_string()), None, "t");
    }
    let again = get_or_insert(&dedup, "quiet", &message("m"), None, "two");
    assert_eq!(again, Some("one".to_owned()));
}

#[tokio::test]
async fn answered_messages_evict_no_open_message() {
    let dedup = MessageDedup::default();
    get_or_insert(&dedup, "p", &message("open"), None, "one");
    for id in 0..MAX_MESSAGES + 5 {
        get_or_insert(&dedup, "p", &message(&id.to_string()), None, "t");
        dedup.remove("p", &id.to_string(), "t");
    }
    let again = get_or_insert(&dedup, "p", &message("open"), None, "two");
    assert_eq!(again, Some("one".to_owned()));
}
