#![allow(clippy::unwrap_used)]

use std::time::Instant;

use super::*;
use crate::outbox::{Load, Outbox};
use crate::watchers::Channel;

fn client(id: &str) -> Arc<Client> {
    let outbox = Outbox::new(1 << 20, Load::new(1 << 20));
    Client::new(id.to_owned(), outbox, Instant::now())
}

fn registry() -> Registry {
    let agent = |name: &str| AgentConfig {
        name: name.to_owned(),
        role: "Triad member".to_owned(),
        description: None,
        permissions: None,
    };
    Registry::new(&[agent("beta"), agent("alpha")])
}

fn names(names: &[&str]) -> Vec<Arc<str>> {
    names.iter().map(|name| Arc::from(*name)).collect()
}

fn code(reached: Result<Arc<Client>, Refusal>) -> u16 {
    reached.unwrap_err().code.number()
}

#[test]
fn h_27_who_is_unknown_is_told_from_who_is_away_failed_or_busy() {
    let (mut registry, one) = (registry(), client("client-1"));
    assert_eq!(code(registry.reach("nobody")), 3001);
    assert_eq!(code(registry.reach("alpha")), 3002);
    registry.serve(&one, names(&["alpha"])).unwrap();
    assert!(Arc::ptr_eq(&registry.reach("alpha").unwrap(), &one));
    registry.change("alpha", Status::Idle);
    registry.reach("alpha").unwrap();
    registry.change("alpha", Status::Busy);
    assert_eq!(code(registry.reach("alpha")), 3003);
    registry.change("alpha", Status::Error);
    assert_eq!(code(registry.reach("alpha")), 3002);
}

#[test]
fn the_first_who_serves_a_name_has_it_until_it_leaves() {
    let mut registry = registry();
    let (one, two) = (client("client-1"), client("client-2"));
    registry.serve(&one, names(&["alpha"])).unwrap();
    let refused = registry.serve(&two, names(&["beta", "alpha"])).unwrap_err();
    assert_eq!(refused.code.number(), 5004);
    assert_eq!(
        registry.status("beta"),
        Some(Status::Offline),
        "all or nothing"
    );
    registry.leave(&one);
    registry.serve(&two, names(&["beta", "alpha"])).unwrap();
    assert_eq!(registry.status("alpha"), Some(Status::Online));
}

#[test]
fn a_name_that_is_advertised_no_longer_is_given_up() {
    let (mut registry, one) = (registry(), client("client-1"));
    registry.serve(&one, names(&["alpha", "beta"])).unwrap();
    registry.serve(&one, names(&["beta"])).unwrap();
    assert_eq!(registry.status("alpha"), Some(Status::Offline));
    assert_eq!(registry.status("beta"), Some(Status::Online));
}

#[test]
fn agents_are_listed_as_configured_and_then_as_they_came() {
    let (mut registry, one) = (registry(), client("client-1"));
    registry.serve(&one, names(&["zoe", "adam"])).unwrap();
    let listed = registry.list();
    let listed: Vec<&str> = listed.iter().map(|agent| &*agent.name).collect();
    assert_eq!(listed, ["beta", "alpha", "zoe", "adam"]);
}

#[test]
fn strangers_are_remembered_when_they_left_and_not_without_end() {
    let (mut registry, one) = (registry(), client("client-1"));
    for n in 0..=REMEMBERED {
        registry
            .serve(&one, names(&[&format!("stranger-{n}")]))
            .unwrap();
    }
    registry.serve(&one, Vec::new()).unwrap();
    assert_eq!(registry.status("stranger-0"), None);
    assert_eq!(registry.status("stranger-1"), Some(Status::Offline));
    assert_eq!(registry.list().len(), 2 + REMEMBERED);
}

#[test]
fn watchers_hear_of_the_agents_they_named() {
    let mut registry = registry();
    let (agent, all, one) = (client("client-1"), client("client-2"), client("client-3"));
    registry.watchers.add(Channel::Status, &all, None);
    registry
        .watchers
        .add(Channel::Status, &one, Some(["beta".to_owned()].into()));
    registry.serve(&agent, names(&["alpha"])).unwrap();
    registry.serve(&agent, names(&["alpha", "beta"])).unwrap();
    registry.leave(&agent);
    let heard = |client: &Client| {
        let frames = client.outbox.drain();
        let said = frames.iter().map(|frame| {
            let frame: serde_json::Value = serde_json::from_str(frame).unwrap();
            let content = &frame["content"];
            format!(
                "{} {} {}",
                content["agent"], content["previous"], content["status"]
            )
            .replace('"', "")
        });
        said.collect::<Vec<_>>()
    };
    let of_beta = ["beta offline online", "beta online offline"];
    assert_eq!(heard(&one), of_beta);
    assert_eq!(
        heard(&all),
        [
            "alpha offline online",
            of_beta[0],
            "alpha online offline",
            of_beta[1]
        ]
    );
}
