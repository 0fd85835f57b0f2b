#![allow(clippy::unwrap_used)]
use base::jws::SigningKey;
use base::log::Recorder;

use super::*;

const NOW: u64 = 1_711_843_200_000;

fn key() -> SigningKey {
    SigningKey::parse(SigningKey::generate_pem().unwrap().as_bytes()).unwrap()
}

fn keys(key: &SigningKey) -> KeySet {
    KeySet::of_messages(&[key.public_key()]).unwrap()
}

fn signing(signing: Value, agent: Value, state_dir: &Path) -> Signing {
    let mut alpha = json!({"name": "alpha", "role": "r"});
    alpha
        .as_object_mut()
        .unwrap()
        .extend(agent.as_object().unwrap().clone());
    let config = json!({"signing": signing, "agents": [alpha, {"name": "beta", "role": "r"}], "stateDir": state_dir});
    let config = ServerConfig::parse(&config.to_string()).unwrap();
    Signing::load(&config, NOW).unwrap()
}

fn message(id: &str, timestamp: u64, key: Option<&SigningKey>) -> Envelope {
    let content = json!({"role": "agent", "content": "hello"});
    let message = Envelope::new(Kind::Message, content)
        .with("id", id)
        .with("from", "alpha")
        .with("agent", "beta")
        .with("timestamp", timestamp);
    match key {
        Some(key) => signature::sign(message, key).unwrap(),
        None => message,
    }
}

fn mark(signing: &Signing, envelope: Envelope) -> Option<SignatureStatus> {
    signing
        .check(envelope, false, NOW)
        .unwrap()
        .signature_status()
}

#[test]
fn h_54_mode_off_changes_nothing_and_other_modes_own_the_mark() {
    let dir = tempfile::tempdir().unwrap();
    let forged = || message("m", NOW, None).with_metadata(SIGNATURE_STATUS, "verified");
    let off = signing(json!({}), json!({}), dir.path());
    assert_eq!(off.check(forged(), false, NOW).unwrap(), forged());
    let key = key();
    let own = json!({"keys": [key.public_key()]});
    let verify = signing(json!({"mode": "verify"}), own, dir.path());
    assert_eq!(mark(&verify, forged()), Some(SignatureStatus::Unsigned));
    assert_eq!(
        mark(&verify, message("m", NOW, Some(&key))),
        Some(SignatureStatus::Verified)
    );
    // Also the mark of a sender whose signatures are not read.
    let other = signing(json!({"requireVotes": true}), json!({}), dir.path());
    assert_eq!(mark(&other, forged()), None);
    let unmarked = message("m", NOW, None);
    assert_eq!(other.check(unmarked.clone(), false, NOW).unwrap(), unmarked);
}

#[test]
fn h_58_key_of_the_gateway_has_one_of_four_places() {
    let dir = tempfile::tempdir().unwrap();
    let pem = SigningKey::generate_pem().unwrap();
    let file = dir.path().join("signing-key");
    files::replace_private(&file, &pem).unwrap();
    let expected = SigningKey::parse(pem.as_bytes()).unwrap().public_key();
    let directory = dir.path().to_str().unwrap();
    let variables = HashMap::from([("KEY", &*pem), ("CREDENTIALS_DIRECTORY", directory)]);
    for source in [
        json!({"keyFile": file}),
        json!({"key": pem}),
        json!({"key": {"source": "env", "id": "KEY"}}),
        json!({"credential": "signing-key"}),
    ] {
        let source = serde_json::from_value(source).unwrap();
        let key = SigningKey::read_for_messages(&source, |name| {
            variables.get(name).map(|value| (*value).to_owned())
        });
        assert_eq!(key.unwrap().public_key(), expected, "{source:?}");
    }
    let mut content = json!({});
    signing(json!({"key": pem}), json!({}), dir.path()).introduce(&mut content);
    assert_eq!(content["keys"], json!([expected]));
}

#[test]
fn h_58_decision_that_cannot_be_signed_is_logged_once() {
    let dir = tempfile::tempdir().unwrap();
    let pem = SigningKey::generate_pem().unwrap();
    let signing = signing(json!({"key": pem}), json!({}), dir.path());
    let log = Recorder::default();
    let unsignable = Envelope::new(Kind::Decision, json!({"result": "approved"}));
    let is_signed = |envelope| {
        let signed = signing.sign(envelope, &log);
        signed.metadata(signature::SIGNATURE).is_some()
    };
    let signed = [
        is_signed(unsignable.clone()),
        is_signed(unsignable.clone()),
        is_signed(message("m", NOW, None)),
        is_signed(unsignable),
    ];
    assert_eq!(signed, [false, false, true, false]);
    let lines = log.0.lock().unwrap();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("decision"), "{lines:?}");
}

#[test]
fn h_55_require_refuses_with_the_reason_and_the_next_step() {
    let dir = tempfile::tempdir().unwrap();
    let (own, foreign) = (key(), key());
    let agent = json!({"keys": [own.public_key()], "signing": "require"});
    let signing = signing(json!({}), agent, dir.path());
    for (envelope, reason) in [
        (message("m", NOW, None), "no signature"),
        (message("m", NOW, Some(&foreign)), "agents[].keys"),
        (
            message("m", NOW, Some(&own))
                .with("from", "alpha")
                .with("id", "n"),
            "does not belong",
        ),
        (
            message("m", NOW - MAX_AGE_MS - 1, Some(&own)),
            "five minutes",
        ),
        (message("m", NOW + MAX_AHEAD_MS + 1, Some(&own)), "ahead"),
        (message("m", NOW - 1, Some(&own)), "start of the gateway"),
    ] {
        let error = signing.check(envelope, false, NOW).unwrap_err();
        assert_eq!(error.code, ErrorCode::AuthFailed, "{}", error.message);
        assert!(error.message.contains(reason), "{}", error.message);
    }
    // An agent that the gateway itself runs has no key.
    assert!(signing.check(message("m", NOW, None), true, NOW).is_ok());
}

#[test]
fn h_56_replayed_message_is_refused_unless_it_was_not_delivered() {
    let dir = tempfile::tempdir().unwrap();
    let key = key();
    let agent = json!({"keys": [key.public_key()]});
    let signing = signing(json!({"mode": "require"}), agent, dir.path());
    let sent = message("m", NOW, Some(&key));
    let accepted = signing.check(sent.clone(), false, NOW).unwrap();
    let error = signing.check(sent.clone(), false, NOW).unwrap_err();
    assert!(
        error.message.contains("accepted before"),
        "{}",
        error.message
    );
    signing.forget(&accepted);
    assert!(signing.check(sent, false, NOW).is_ok());
    // The same id, signed again, is another act of the sender.
    assert!(
        signing
            .check(message("m", NOW + 1, Some(&key)), false, NOW)
            .is_ok()
    );
}

#[test]
fn h_56_memory_of_replays_is_bounded_and_forgets_no_accepted_message() {
    let mut recent = RecentMessages::since(NOW);
    for i in 0..=(MAX_RECENT as u64) {
        recent.insert(NOW + i, "m", NOW).unwrap();
    }
    assert_eq!(recent.seen.len(), MAX_RECENT);
    assert!(recent.insert(NOW, "m", NOW).unwrap_err().contains("older"));
    assert!(
        recent
            .insert(NOW + 1, "m", NOW)
            .unwrap_err()
            .contains("before")
    );
    recent.insert(NOW + 1, "n", NOW).unwrap();
    let later = NOW + 2 * MAX_AGE_MS;
    recent.insert(later, "m", later).unwrap();
    assert_eq!(recent.seen.len(), 1);
    assert!(recent.insert(NOW + 2, "m", NOW).is_err());
}

#[test]
fn h_57_first_key_of_a_configured_agent_is_pinned_for_good() {
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = (key(), key());
    let open = || {
        signing(
            json!({"mode": "require", "pinFirstUse": true}),
            json!({}),
            dir.path(),
        )
    };
    let gateway = open();
    gateway
        .accept(&["alpha", "unlisted"], &keys(&first), false)
        .unwrap();
    assert!(!dir.path().join(PIN_FILE).exists());
    gateway
        .accept(&["alpha", "unlisted"], &keys(&first), true)
        .unwrap();
    gateway
        .check(message("m", NOW, Some(&first)), false, NOW)
        .unwrap();
    let text = std::fs::read_to_string(dir.path().join(PIN_FILE)).unwrap();
    assert!(
        text.contains("alpha") && !text.contains("unlisted"),
        "{text}"
    );
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(dir.path().join(PIN_FILE))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    for gateway in [gateway, open()] {
        let error = gateway
            .accept(&["alpha"], &keys(&second), true)
            .unwrap_err();
        assert_eq!(error.code, ErrorCode::AuthFailed);
        assert!(error.message.contains(PIN_FILE), "{}", error.message);
        gateway.accept(&["alpha"], &keys(&first), true).unwrap();
    }
    std::fs::write(dir.path().join(PIN_FILE), "{").unwrap();
    let config = json!({"stateDir": dir.path(), "signing": {"mode": "verify"}});
    let config = ServerConfig::parse(&config.to_string()).unwrap();
    let error = Signing::load(&config, NOW).map(drop).unwrap_err();
    assert_eq!(error.path, "/signing/pinFirstUse");
}

#[test]
fn h_57_without_pins_an_advertised_key_stays_unknown() {
    let dir = tempfile::tempdir().unwrap();
    let key = key();
    let signing = signing(json!({"mode": "verify"}), json!({}), dir.path());
    signing.accept(&["alpha"], &keys(&key), true).unwrap();
    assert_eq!(
        mark(&signing, message("m", NOW, Some(&key))),
        Some(SignatureStatus::UnknownKey)
    );
}

#[test]
fn h_57_bad_advertised_keys_are_refused_without_their_text() {
    let dir = tempfile::tempdir().unwrap();
    let signing = signing(json!({"mode": "verify"}), json!({}), dir.path());
    let public = key().public_key();
    let mut private = public.clone();
    private["d"] = "s3cret-value".into();
    let mut renamed = public.clone();
    renamed["kid"] = "mine".into();
    for (keys, reason) in [
        (json!("x"), "list of at most"),
        (json!(vec![public.clone(); 10_000]), "list of at most"),
        (json!([private]), "private members"),
        (
            json!([public, {"kty": "RSA", "n": "AQAB", "e": "AQAB"}]),
            "keys[1]",
        ),
        (json!([renamed]), "thumbprint"),
    ] {
        let error = signing.advertised(&json!({"keys": keys})).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidContent);
        assert!(error.message.contains(reason), "{}", error.message);
        assert!(!error.message.contains("s3cret"), "{}", error.message);
    }
    assert_eq!(signing.advertised(&json!({})).unwrap(), None);
}

#[cfg(unix)]
#[test]
fn key_file_that_others_may_read_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("gateway.pem");
    std::fs::write(&file, SigningKey::generate_pem().unwrap()).unwrap();
    let config = ServerConfig::parse(&json!({"signing": {"keyFile": file}}).to_string()).unwrap();
    for (mode, is_private) in [(0o600, true), (0o640, false), (0o604, false)] {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        let loaded = Signing::load(&config, NOW).map(drop);
        assert_eq!(loaded.is_ok(), is_private, "{mode:o}");
        if let Err(error) = loaded {
            assert_eq!(error.path, "/signing/keyFile");
            assert!(error.message.contains("600"), "{error}");
        }
    }
}
