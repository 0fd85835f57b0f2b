#![allow(clippy::unwrap_used)]

use super::*;

fn peer(name: &str, token: &str) -> Peer {
    Peer {
        name: name.into(),
        digest: Digest::of(token),
        operator: false,
    }
}

fn shows(values: &[&'static str]) -> HeaderMap {
    let values = values
        .iter()
        .map(|value| (AUTHORIZATION, value.parse().unwrap()));
    values.collect()
}

#[test]
fn each_token_is_its_own_peer() {
    let peers = Peers::only(vec![peer("ada", "secret-a"), peer("bob", "secret-b")]);
    let name = |value| {
        peers
            .identify(&shows(&[value]))
            .map(|who| who.name.to_string())
    };
    assert_eq!(name("Bearer secret-a").as_deref(), Ok("ada"));
    assert_eq!(name("bearer secret-b").as_deref(), Ok("bob"));
}

#[test]
fn a_token_that_is_nobodys_is_refused_and_not_repeated() {
    let peers = Peers::only(vec![peer("ada", "secret-a")]);
    for values in [
        &["Bearer secret-b"][..],
        &["Basic secret-a"],
        &["Bearer "],
        &["secret-a"],
        &["Bearer secret-a", "Bearer secret-a"],
        &[],
    ] {
        let refusal = peers.identify(&shows(values)).unwrap_err();
        assert_eq!(refusal.reason, ErrorReason::Unauthenticated, "{values:?}");
        assert!(!format!("{refusal:?}").contains("secret-"));
    }
}

#[test]
fn a_server_that_loses_its_last_peer_does_not_open() {
    let peers = Peers::only(vec![peer("ada", "secret-a")]);
    peers.replace(Vec::new());
    assert!(peers.identify(&shows(&["Bearer secret-a"])).is_err());
    assert!(peers.identify(&HeaderMap::new()).is_err());
}

#[test]
fn replaced_token_is_revoked_and_kept_one_is_not() {
    let peers = Peers::only(vec![peer("ada", "secret-a"), peer("bob", "secret-b")]);
    let who = |value| peers.identify(&shows(&[value])).unwrap();
    let (ada, bob) = (who("Bearer secret-a"), who("Bearer secret-b"));
    peers.replace(vec![peer("ada", "secret-c"), peer("bob", "secret-b")]);
    assert!(ada.revoked.is_cancelled() && !bob.revoked.is_cancelled());
    let new = who("Bearer secret-c").revoked;
    assert!(!new.is_cancelled());
    peers.replace(vec![peer("eve", "secret-c")]);
    assert!(new.is_cancelled() && bob.revoked.is_cancelled());
}

#[test]
fn a_digest_is_read_as_it_is_written() {
    let digest = Digest::of("secret-a");
    assert_eq!(Digest::parse(&digest.hex()), Some(digest));
    assert_eq!(Digest::parse(&digest.hex().to_uppercase()), Some(digest));
    assert_eq!(Digest::parse("00"), None);
    assert_eq!(Digest::parse(&"g".repeat(64)), None);
    assert_eq!(
        Digest::of("abc").hex(),
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    );
}

#[test]
fn debugging_shows_no_digest() {
    let peer = peer("ada", "secret-a");
    assert!(!format!("{peer:?}").contains(&peer.digest.hex()[..8]));
}
