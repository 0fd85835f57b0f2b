#![allow(clippy::unwrap_used)]

use parking_lot::Mutex;
use peer::BoxFuture;
use serde_json::{Value, json};

use super::super::rules::group::violations;
use super::plan::Group;
use super::vote::{counts, decide, read};
use super::{Person, PersonAnswer, Question, Turns};

/// Returns a group of members with these states and votes.
fn group(mode: &str, more: Value, members: &[(&str, Option<&str>)]) -> Group {
    let members: Vec<Value> = members
        .iter()
        .enumerate()
        .map(|(i, (state, vote))| {
            let mut member = json!({"target": {"target_alias": format!("a{i}")}, "message_id": "m", "state": state});
            if let Some(vote) = vote {
                member["vote"] = json!(vote);
            }
            member
        })
        .collect();
    let mut group = json!({"id": "rah_x", "mode": mode, "members": members});
    let fields = group.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    serde_json::from_value(group).unwrap()
}

fn winner(mode: &str, more: Value, members: &[(&str, Option<&str>)]) -> Option<String> {
    let mut group = group(mode, more, members);
    let decided = decide(&mut group, |_| true);
    assert_eq!(decided, group.winner.is_some());
    group.winner
}

#[test]
fn vote_is_decided_once_no_missing_vote_can_change_it() {
    let choices = || json!({"choices": ["yes", "no"]});
    let quorum = |n: usize| json!({"choices": ["yes", "no"], "quorum": n});
    let (yes, no) = (("completed", Some("yes")), ("completed", Some("no")));
    let (open, failed, else_) = (("working", None), ("failed", None), ("completed", None));
    for (more, members, expected) in [
        (choices(), &[yes, yes, open][..], Some("yes")),
        (choices(), &[yes, no, open], None),
        (choices(), &[yes, open, open], None),
        (choices(), &[yes, failed, else_], None),
        (choices(), &[yes, no, yes, no], None),
        (quorum(1), &[yes, failed, else_], Some("yes")),
        (quorum(1), &[yes, open, failed], None),
        (quorum(2), &[yes, yes, open, failed], Some("yes")),
        (quorum(2), &[yes, yes, open, open], None),
        (quorum(3), &[yes, yes, else_], None),
        (json!({}), &[yes, yes, yes], None),
    ] {
        assert_eq!(
            winner("vote", more.clone(), members).as_deref(),
            expected,
            "{more} {members:?}"
        );
    }
}

#[test]
fn only_a_completed_task_whose_call_has_ended_is_first() {
    let members = [
        ("failed", None),
        ("input-required", None),
        ("answered", None),
    ];
    assert_eq!(winner("first", json!({}), &members).as_deref(), Some("a2"));
    assert_eq!(winner("first", json!({}), &members[..2]), None);
    assert_eq!(winner("all", json!({}), &members), None);
    let mut early = group(
        "first",
        json!({}),
        &[("completed", None), ("completed", None)],
    );
    decide(&mut early, |place| place == 1);
    assert_eq!(early.winner.as_deref(), Some("a1"));
}

#[test]
fn an_answer_is_a_vote_only_as_a_whole() {
    let closed = group(
        "vote",
        json!({"choices": ["Yes", "no"]}),
        &[("completed", None)],
    );
    for (text, expected) in [
        (" yes\n", Some("Yes")),
        ("NO", Some("no")),
        ("yes!", None),
        ("yes and no", None),
        ("", None),
    ] {
        assert_eq!(
            read(&closed, Some(text), "{}", "null").as_deref(),
            expected,
            "{text}"
        );
    }
    let data = json!({"artifacts": [{"parts": [{"kind": "data", "data": {"v": 3}}]}]}).to_string();
    let message =
        json!({"finalEvent": {"parts": [{"kind": "data", "data": {"v": 4}}]}}).to_string();
    let open = group(
        "vote",
        json!({"choice_pointer": "/v"}),
        &[("completed", None)],
    );
    assert_eq!(read(&open, Some("no"), &data, "null").as_deref(), Some("3"));
    assert_eq!(read(&open, None, "{}", &message).as_deref(), Some("4"));
    assert_eq!(read(&open, None, &data, &message), None);
    let closed = group(
        "vote",
        json!({"choice_pointer": "/v", "choices": ["1", "2"]}),
        &[("completed", None)],
    );
    assert_eq!(read(&closed, Some("1"), &data, "null"), None);
}

#[test]
fn votes_are_listed_the_most_first() {
    let votes = [
        ("completed", Some("no")),
        ("completed", Some("yes")),
        ("failed", None),
        ("completed", Some("yes")),
    ];
    let group = group("vote", json!({}), &votes);
    let counted: Vec<_> = counts(&group)
        .iter()
        .map(|count| (count.choice, count.target_aliases.clone()))
        .collect();
    assert_eq!(counted, [("yes", vec!["a1", "a3"]), ("no", vec!["a0"])]);
}

#[test]
fn long_state_of_an_agent_is_not_kept() {
    let mut group = group("all", json!({}), &[("pending", None)]);
    let task = json!({"task_id": "t", "status": "s".repeat(1 << 20)});
    group.members[0].learn(json!({ "task": task }));
    assert_eq!(group.members[0].state, "unknown");
    assert!(json!(group).to_string().len() < 1000);
}

#[test]
fn rules_name_each_wrong_field() {
    for (request, expected) in [
        (
            json!({"target_aliases": ["a", "b"], "mode": "vote", "choices": ["x", "y"], "quorum": 2}),
            &[][..],
        ),
        (
            json!({"target_alias": "a", "mode": "all", "quorum": 1}),
            &["", ""],
        ),
        (
            json!({"target_aliases": ["a", "a"], "task_id": "t"}),
            &["/task_id", "/target_aliases"],
        ),
        (
            json!({"target_aliases": ["a"], "choices": ["x", " X"]}),
            &["/choices", "/choices"],
        ),
        (
            json!({"target_aliases": ["a"], "mode": "vote", "quorum": 2.0}),
            &["/quorum"],
        ),
        (
            json!({"target_aliases": vec!["a"; 100_000]}),
            &["/target_aliases"],
        ),
    ] {
        let mut found = Vec::new();
        violations(request.as_object().unwrap(), &mut found);
        let places: Vec<&str> = found
            .iter()
            .map(|one| one["instancePath"].as_str().unwrap())
            .collect();
        assert_eq!(places, expected, "{request}");
    }
}

/// The questions that were withdrawn.
#[derive(Default)]
struct Withdrawn(Mutex<Vec<String>>);

impl Person for Withdrawn {
    fn ask<'a>(&'a self, _: &'a Question) -> BoxFuture<'a, PersonAnswer> {
        Box::pin(std::future::pending())
    }

    fn withdraw(&self, id: &str) {
        self.0.lock().push(id.to_owned());
    }
}

#[test]
fn question_of_a_member_is_withdrawn_from_the_person() {
    let person = Withdrawn::default();
    let turns = Turns {
        person: &person,
        turn: tokio::sync::Mutex::default(),
    };
    turns.withdraw("sign-in");
    assert_eq!(*person.0.lock(), ["sign-in"]);
}
