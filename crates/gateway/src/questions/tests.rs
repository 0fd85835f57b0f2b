#![allow(clippy::unwrap_used)]

use std::time::Duration;

use super::*;

fn question(correlation: &str, message: &str, until: Instant) -> Question {
    Question {
        asker: Weak::new(),
        asker_name: "bridge".into(),
        correlation: correlation.into(),
        message: message.into(),
        agent: "alpha".into(),
        session: None,
        owed: true,
        number: None,
        until,
        kept: false,
    }
}

#[test]
fn an_answer_is_found_by_correlation_first_and_by_message_else() {
    let (questions, now) = (Questions::default(), Instant::now());
    questions.ask(question("one", "msg-1", now)).unwrap();
    questions.ask(question("two", "msg-2", now)).unwrap();
    let found = questions.close(Some("two"), Some("msg-1")).unwrap();
    assert_eq!(&*found.message, "msg-2");
    let found = questions.close(Some("no such"), Some("msg-1")).unwrap();
    assert_eq!(&*found.correlation, "one");
    assert!(questions.close(Some("one"), Some("msg-1")).is_none());
}

#[test]
fn two_askers_may_use_the_same_correlation_id() {
    let (questions, now) = (Questions::default(), Instant::now());
    let first = questions.ask(question("same", "msg-1", now)).unwrap();
    let second = questions.ask(question("same", "msg-2", now)).unwrap();
    assert_eq!(&*first, "same");
    assert_ne!(first, second);
    let found = questions.close(Some(&second), None).unwrap();
    assert_eq!((&*found.message, &*found.correlation), ("msg-2", "same"));
    assert_eq!(
        &*questions.close(Some("same"), None).unwrap().message,
        "msg-1"
    );
}

#[test]
fn questions_expire_in_order_and_answered_ones_do_not() {
    let (questions, now) = (Questions::default(), Instant::now());
    let later = now + Duration::from_secs(1);
    questions.ask(question("answered", "msg-1", now)).unwrap();
    questions.ask(question("open", "msg-2", now)).unwrap();
    questions.ask(question("later", "msg-3", later)).unwrap();
    questions.close(Some("answered"), None).unwrap();
    let expired = questions.expired(now);
    assert_eq!(expired.len(), 1);
    assert_eq!(&*expired[0].correlation, "open");
    assert_eq!(questions.expired(later).len(), 1);
}

#[test]
fn an_id_that_is_used_again_expires_when_the_later_question_does() {
    let (questions, now) = (Questions::default(), Instant::now());
    let later = now + Duration::from_secs(1);
    questions.ask(question("again", "msg-1", now)).unwrap();
    questions.close(Some("again"), None).unwrap();
    questions.ask(question("again", "msg-2", later)).unwrap();
    assert!(questions.expired(now).is_empty());
    assert_eq!(&*questions.expired(later)[0].message, "msg-2");
}

#[test]
fn who_is_gone_is_asked_nothing_more() {
    let (questions, now) = (Questions::default(), Instant::now());
    questions.ask(question("open", "msg-1", now)).unwrap();
    assert_eq!(questions.end().len(), 1);
    let late = questions.ask(question("late", "msg-2", now));
    assert_eq!(late.unwrap_err(), AskError::Gone);
}

#[test]
fn open_questions_are_bounded_and_so_is_what_is_left_of_answered_ones() {
    let (questions, now) = (Questions::default(), Instant::now());
    for n in 0..MAX_OPEN {
        questions
            .ask(question(&n.to_string(), &format!("msg-{n}"), now))
            .unwrap();
    }
    let more = questions.ask(question("more", "msg-more", now));
    assert_eq!(more.unwrap_err(), AskError::TooMany);
    for _ in 0..3 * MAX_OPEN {
        questions.close(Some("0"), None).unwrap();
        questions.ask(question("0", "msg-0", now)).unwrap();
    }
    assert!(questions.open().order.len() <= 2 * MAX_OPEN + 1);
}
