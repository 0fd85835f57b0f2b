#![allow(clippy::unwrap_used)]

use a2a::{Message, Part, Role};

use std::sync::Arc;

use super::super::live::Live;
use super::{MOST, Recent, WINDOW};

fn message(id: &str) -> Message {
    let mut message = Message::new(Role::User, vec![Part::text("hello")]);
    message.message_id = id.to_owned();
    message
}

fn claim(
    recent: &Recent,
    client: &str,
    message: &Message,
    agent: Option<&str>,
    task_id: &str,
) -> Option<String> {
    let live = Arc::new(Live::new());
    let before = recent.claim(client, message, agent, task_id, &live);
    before.map(|before| before.task_id)
}

#[tokio::test(start_paused = true)]
async fn a_message_is_known_again_for_a_while() {
    let recent = Recent::default();
    assert_eq!(claim(&recent, "p", &message("m"), None, "one"), None);
    tokio::time::advance(WINDOW / 2).await;
    assert_eq!(
        claim(&recent, "p", &message("m"), None, "two"),
        Some("one".to_owned())
    );
    tokio::time::advance(WINDOW).await;
    assert_eq!(claim(&recent, "p", &message("m"), None, "two"), None);
}

#[tokio::test]
async fn no_more_than_so_many_are_remembered() {
    let recent = Recent::default();
    for id in 0..MOST + 5 {
        claim(&recent, "p", &message(&id.to_string()), None, "t");
    }
    let known = recent.0.lock().unwrap();
    assert_eq!(known.tasks.len(), MOST);
    assert_eq!(known.order.len(), MOST);
}

#[tokio::test]
async fn what_was_answered_takes_no_more_room_than_the_rest() {
    let recent = Recent::default();
    for id in 0..MOST + 5 {
        claim(&recent, "p", &message(&id.to_string()), None, "t");
        recent.forget("p", &id.to_string(), "t");
    }
    let known = recent.0.lock().unwrap();
    assert_eq!(known.tasks.len(), 0);
    assert!(known.order.len() <= MOST);
}

#[tokio::test]
async fn another_agent_is_another_message() {
    let recent = Recent::default();
    claim(&recent, "p", &message("m"), Some("main"), "one");
    assert_eq!(
        claim(&recent, "p", &message("m"), Some("other"), "two"),
        None
    );
}

#[tokio::test]
async fn what_is_over_does_not_free_the_id_of_another_message() {
    let recent = Recent::default();
    claim(&recent, "p", &message("m"), Some("main"), "one");
    claim(&recent, "p", &message("m"), Some("other"), "two");
    recent.forget("p", "m", "one");
    let again = claim(&recent, "p", &message("m"), Some("other"), "three");
    assert_eq!(again, Some("two".to_owned()));
}
