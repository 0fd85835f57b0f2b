#![allow(clippy::unwrap_used)]

use std::time::Instant;

use super::*;
use crate::outbox::{ByteBudget, Outbox};
use collective::Channel;

fn client(id: &str) -> Arc<Client> {
    let outbox = Outbox::new(1 << 20, ByteBudget::new(1 << 20));
    Client::new(id.to_owned(), None, outbox, Instant::now())
}

fn registry() -> Registry {
    let agent = |name: &str| AgentConfig {
        name: name.to_owned(),
        role: "Triad member".to_owned(),
        description: None,
        permissions: None,
        backend: None,
        signing: None,
        keys: Vec::new(),
    };
    Registry::new(&[agent("beta"), agent("alpha")], false)
}

fn names(names: &[&str]) -> Vec<Arc<str>> {
    names.iter().map(|name| Arc::from(*name)).collect()
}

fn code(found: Result<Arc<Client>, RequestError>) -> u16 {
    found.unwrap_err().code.number()
}

#[test]
fn error_code_follows_status_of_recipient() {
    let (mut registry, one) = (registry(), client("client-1"));
    assert_eq!(code(registry.recipient("unknown")), 3001);
    assert_eq!(code(registry.recipient("alpha")), 3002);
    registry.set_agents(&one, names(&["alpha"])).unwrap();
    assert!(Arc::ptr_eq(&registry.recipient("alpha").unwrap(), &one));
    registry.set_status("alpha", AgentStatus::Idle);
    registry.recipient("alpha").unwrap();
    registry.set_status("alpha", AgentStatus::Busy);
    assert_eq!(code(registry.recipient("alpha")), 3003);
    registry.set_status("alpha", AgentStatus::Error);
    assert_eq!(code(registry.recipient("alpha")), 3002);
}

#[test]
fn first_client_keeps_agent_until_it_disconnects() {
    let mut registry = registry();
    let (one, two) = (client("client-1"), client("client-2"));
    registry.set_agents(&one, names(&["alpha"])).unwrap();
    let refused = registry
        .set_agents(&two, names(&["beta", "alpha"]))
        .unwrap_err();
    assert_eq!(refused.code.number(), 5004);
    assert_eq!(
        registry.status("beta"),
        Some(AgentStatus::Offline),
        "all or nothing"
    );
    registry.remove_client(&one);
    registry
        .set_agents(&two, names(&["beta", "alpha"]))
        .unwrap();
    assert_eq!(registry.status("alpha"), Some(AgentStatus::Online));
}

#[test]
fn unadvertised_agent_is_released() {
    let (mut registry, one) = (registry(), client("client-1"));
    registry
        .set_agents(&one, names(&["alpha", "beta"]))
        .unwrap();
    registry.set_agents(&one, names(&["beta"])).unwrap();
    assert_eq!(registry.status("alpha"), Some(AgentStatus::Offline));
    assert_eq!(registry.status("beta"), Some(AgentStatus::Online));
}

#[test]
fn list_has_configured_agents_first() {
    let (mut registry, one) = (registry(), client("client-1"));
    registry.set_agents(&one, names(&["zoe", "adam"])).unwrap();
    let listed = registry.list();
    let listed: Vec<&str> = listed.iter().map(|agent| &*agent.name).collect();
    assert_eq!(listed, ["beta", "alpha", "zoe", "adam"]);
}

#[test]
fn offline_unconfigured_agents_are_bounded() {
    let (mut registry, one) = (registry(), client("client-1"));
    for n in 0..=MAX_OFFLINE_AGENTS {
        registry
            .set_agents(&one, names(&[&format!("guest-{n}")]))
            .unwrap();
    }
    registry.set_agents(&one, Vec::new()).unwrap();
    assert_eq!(registry.status("guest-0"), None);
    assert_eq!(registry.status("guest-1"), Some(AgentStatus::Offline));
    assert_eq!(registry.list().len(), 2 + MAX_OFFLINE_AGENTS);
}

#[test]
fn subscribers_get_status_of_their_agents() {
    let mut registry = registry();
    let (agent, all, one) = (client("client-1"), client("client-2"), client("client-3"));
    registry.subscriptions.insert(Channel::Status, &all, None);
    registry
        .subscriptions
        .insert(Channel::Status, &one, Some(["beta".to_owned()].into()));
    registry.set_agents(&agent, names(&["alpha"])).unwrap();
    registry
        .set_agents(&agent, names(&["alpha", "beta"]))
        .unwrap();
    registry.remove_client(&agent);
    let received = |client: &Client| {
        let frames = client.outbox.drain();
        let changes = frames.iter().map(|frame| {
            let frame: serde_json::Value = serde_json::from_str(frame).unwrap();
            let content = &frame["content"];
            format!(
                "{} {} {}",
                content["agent"], content["previous"], content["status"]
            )
            .replace('"', "")
        });
        changes.collect::<Vec<_>>()
    };
    let of_beta = ["beta offline online", "beta online offline"];
    assert_eq!(received(&one), of_beta);
    assert_eq!(
        received(&all),
        [
            "alpha offline online",
            of_beta[0],
            "alpha online offline",
            of_beta[1]
        ]
    );
}
