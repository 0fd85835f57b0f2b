//! Targets whose agent cards are pinned.

use std::path::{Path, PathBuf};

use openclaw_remote_agent::pin::{PinReview, PinReviewError};
use serde_json::{Value, json};
use testkit::conformance::Peers;
use testkit::folder::Folder;

use crate::faults::tool_fixture::{
    ToolFixture, card, message, peers, reason, result, send_request,
};

const CARD: &str = "GET /.well-known/agent-card.json";

/// A peer that serves these cards in order, and its last one again, with pins in a folder of the test.
struct PinnedPeer {
    peers: Peers,
    fixture: ToolFixture,
    config: String,
    folder: Folder,
}

impl PinnedPeer {
    async fn start(pins: &str, cards: &[Value]) -> Self {
        let no_store = json!({"cache-control": "no-store"});
        let cards: Vec<_> = cards
            .iter()
            .map(|card| json!({"json": card, "headers": no_store}))
            .collect();
        let script = json!({"main": {
            "routes": {CARD: cards},
            "rpc": {"message/send": result(message("pong"))},
        }});
        let peers = peers(script).await;
        let folder = Folder::new();
        let config = json!({
            "stateDir": folder.path(),
            "defaults": {"pins": pins},
            "targets": [{"alias": "main", "default": true, "baseUrl": peers.origin("main")}],
        });
        Self {
            peers,
            fixture: ToolFixture::new(&config),
            config: config.to_string(),
            folder,
        }
    }

    async fn send(&self) -> Value {
        self.fixture.call(&send_request()).await
    }

    fn sent(&self) -> usize {
        let log = self.peers.log("main").into_iter();
        log.filter(|request| request.method == "POST").count()
    }

    fn file(&self) -> PathBuf {
        let pins: &Path = &self.folder.file("pins");
        let files = std::fs::read_dir(pins)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let mut files = files.filter(|path| path.extension().is_some_and(|end| end == "json"));
        files.next().unwrap()
    }
}

fn with(place: &str, value: Value) -> Value {
    let mut card = card();
    *card.pointer_mut(place).unwrap() = value;
    card
}

#[tokio::test]
async fn changed_card_stops_calls_until_it_is_the_accepted_one_again() {
    let other = with("/url", json!("{{origin}}/elsewhere"));
    let peer = PinnedPeer::start("enforce", &[card(), other, card()]).await;
    assert_eq!(peer.send().await["summary"]["message_text"], "pong");
    let envelope = peer.send().await;
    assert_eq!(reason(&envelope), "card_changed", "{envelope}");
    let details = &envelope["error"]["details"];
    assert_eq!(details["delivered"], "no");
    let first = &details["changes"][0];
    let origin = peer.peers.origin("main");
    assert_eq!(
        *first,
        json!({
            "path": "/interface/url", "class": "stop",
            "old": format!("{origin}/a2a/jsonrpc"), "new": format!("{origin}/elsewhere"),
        })
    );
    assert_eq!(envelope["error"]["quotes_peer"], false);
    assert_eq!(peer.sent(), 1);
    assert_eq!(peer.send().await["summary"]["message_text"], "pong");
}

#[tokio::test]
async fn acceptance_is_of_the_card_that_was_shown() {
    let other = |name: &str| {
        let mut card = with("/url", json!("{{origin}}/elsewhere"));
        card["skills"] = (0..30)
            .map(|number| json!({"id": format!("{name}{number}"), "name": "Skill", "description": "", "tags": []}))
            .collect();
        card
    };
    let cards = [card(), other("a"), other("b"), other("b")];
    let peer = PinnedPeer::start("enforce", &cards).await;
    peer.send().await;
    let review = async || PinReview::open(&peer.config, None, None).await.unwrap();
    let shown = review().await;
    // A model reads the first 20, an operator all.
    let is_skill = |change: &&Value| change["path"].as_str().unwrap().starts_with("/skills/a");
    let json = shown.to_json();
    let skills = json["changes"].as_array().unwrap().iter().filter(is_skill);
    assert_eq!(skills.count(), 30, "{json}");
    assert_eq!(json.get("more_changes"), None);
    assert_eq!(json["path"], json!(peer.file()));
    let fingerprint = shown.fingerprint();
    let mut next = review().await;
    let refused = next.accept("operator op", Some(&fingerprint));
    assert!(
        matches!(refused, Err(PinReviewError::Refused(message)) if message.contains(&next.fingerprint()))
    );
    assert_eq!(reason(&peer.send().await), "card_changed");
    next.accept("operator op", Some(&next.fingerprint()))
        .unwrap();
    let accepted = next.to_json();
    assert_eq!(accepted["accepted_by"], "operator op", "{accepted}");
    assert_eq!(
        (&accepted["stops"], accepted.get("changes")),
        (&json!(false), None)
    );
    assert_eq!(accepted["accepted_changes"][0]["path"], "/interface/url");
}

#[tokio::test]
async fn changed_agent_gets_no_request_for_its_extended_card() {
    let extended = json!({"supportsAuthenticatedExtendedCard": true});
    let with_extended = |mut card: Value| {
        card.as_object_mut()
            .unwrap()
            .extend(extended.as_object().unwrap().clone());
        card
    };
    let other = with_extended(with("/url", json!("{{origin}}/elsewhere")));
    let peer = PinnedPeer::start("enforce", &[with_extended(card()), other]).await;
    peer.send().await;
    assert_eq!(peer.sent(), 2, "the extended card and the message");
    assert_eq!(reason(&peer.send().await), "card_changed");
    assert_eq!(peer.sent(), 2);
}

#[tokio::test]
async fn change_is_reported_once() {
    let other = with("/description", json!("Answers more.\u{200b}"));
    let peer = PinnedPeer::start("report", &[card(), other]).await;
    assert!(peer.send().await["summary"]["card_warning"].is_null());
    let listed = peer.fixture.call(&json!({"action": "list_targets"})).await;
    let pin = &listed["summary"]["targets"][0]["card_pin"];
    assert_eq!(pin["accepted_by"], "first use", "{listed}");
    let changes = json!([{"path": "/description", "class": "report", "old": "Answers.", "new": "Answers more."}]);
    assert_eq!(pin["changes"], changes);
    let envelope = peer.send().await;
    let warning = &envelope["summary"]["card_warning"];
    assert_eq!(warning["changes"], changes, "{envelope}");
    let text = peer.fixture.plugin.render(&envelope.to_string());
    assert!(
        text.contains("warning: the agent card of `main` is not the one"),
        "{text}"
    );
    assert!(!text.contains("Answers more"), "{text}");
    assert!(
        peer.fixture
            .log
            .lines()
            .iter()
            .any(|(_, line)| line.contains("description changed"))
    );
    assert!(peer.send().await["summary"]["card_warning"].is_null());
}

#[tokio::test]
async fn unreadable_pins_stop_calls_only_where_they_are_enforced() {
    for (pins, expected) in [("enforce", "pin_unusable"), ("report", "none")] {
        let peer = PinnedPeer::start(pins, &[card()]).await;
        peer.send().await;
        std::fs::write(peer.file(), "{").unwrap();
        let envelope = peer.send().await;
        assert_eq!(reason(&envelope), expected, "{envelope}");
        let text = envelope.to_string();
        assert!(
            text.contains("damaged") && text.contains(peer.file().to_str().unwrap()),
            "{text}"
        );
        assert_eq!(std::fs::read_to_string(peer.file()).unwrap(), "{");
    }
}

#[tokio::test]
async fn target_on_this_machine_has_no_pins_by_default() {
    let peers =
        peers(json!({"main": {"card": card(), "rpc": {"message/send": result(message("pong"))}}}))
            .await;
    let folder = Folder::new();
    let fixture = ToolFixture::new(&json!({
        "stateDir": folder.path(),
        "targets": [{"alias": "main", "default": true, "baseUrl": peers.origin("main")}],
    }));
    assert_eq!(fixture.call(&send_request()).await["ok"], true);
    assert!(!folder.file("pins").exists());
}
