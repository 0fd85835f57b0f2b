#![allow(clippy::unwrap_used)]
use proptest::prelude::*;

use super::*;

/// Returns whether OpenClaw accepts a text as a session id.
fn is_session_id(text: &str) -> bool {
    let is_lower_alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    (1..=64).contains(&text.len())
        && text.starts_with(is_lower_alphanumeric)
        && text
            .chars()
            .all(|c| is_lower_alphanumeric(c) || c == '_' || c == '-')
}

#[test]
fn mapping_examples_match() {
    for (context, session) in [
        (
            "550e8400-e29b-41d4-a716-446655440000",
            "a2a-550e8400-e29b-41d4-a716-446655440000",
        ),
        ("user:123/session:456", "a2a-user-123-session-456"),
        ("my_context_123", "a2a-my_context_123"),
    ] {
        assert_eq!(session_id(context), session);
    }
}

#[test]
fn heavily_changed_session_key_ends_with_hash() {
    for odd in [
        "My_context_123",
        "my context",
        "a::b",
        "-a",
        "a/",
        "",
        "…",
        &"x".repeat(61),
    ] {
        let session = session_id(odd);
        let (_, hash) = session.rsplit_once('-').unwrap();
        assert_eq!(hash.len(), HASH_HEX_DIGITS, "{session}");
        assert!(hash.chars().all(|c| c.is_ascii_hexdigit()), "{session}");
    }
}

#[test]
fn ids_with_equal_slugs_stay_distinct() {
    let long = "x".repeat(80);
    for (one, other) in [
        ("ctx 1", "ctx-1"),
        ("CTX", "ctx"),
        ("a::b", "a-b"),
        ("a", "a-"),
        ("é", "è"),
        (&format!("{long}a"), &format!("{long}b")),
    ] {
        assert_ne!(session_id(one), session_id(other), "{one} {other}");
    }
}

#[test]
fn context_id_of_sixty_characters_is_unchanged() {
    let sixty = "x".repeat(60);
    assert_eq!(session_id(&sixty), format!("a2a-{sixty}"));
}

#[test]
fn similar_peer_and_context_names_get_distinct_keys() {
    assert_ne!(
        session_id_of_client("a", "b-c"),
        session_id_of_client("a-b", "c")
    );
    assert_ne!(session_id_of_client("a", "b"), session_id("a-b"));
}

#[test]
fn foreign_session_key_has_no_context() {
    for key in ["agent:main:main", "main", "agent:main", "agent:main:a2a-"] {
        assert_eq!(context_id(key), None, "{key}");
    }
}

proptest! {
    #[test]
    fn every_context_id_gives_a_valid_session_id(context in ".{0,200}", client in ".{0,80}") {
        prop_assert!(is_session_id(&session_id(&context)), "{}", session_id(&context));
        prop_assert!(is_session_id(&session_id_of_client(&client, &context)));
    }

    #[test]
    fn different_ids_give_different_sessions(one in "[A-Za-z0-9_ .-]{0,90}", other in "[A-Za-z0-9_ .-]{0,90}") {
        prop_assume!(one != other);
        prop_assert_ne!(session_id(&one), session_id(&other));
        prop_assert_ne!(session_id_of_client("client", &one), session_id_of_client("client", &other));
        prop_assert_ne!(session_id_of_client(&one, "context"), session_id_of_client(&other, "context"));
    }

    #[test]
    fn context_id_of_session_key_maps_back(context in ".{0,200}") {
        let key = session_key("alpha", &session_id(&context));
        let back = context_id(&key).unwrap();
        prop_assert_eq!(session_key("alpha", &session_id(back)), key);
    }
}
