#![allow(clippy::unwrap_used, clippy::panic)]
use std::thread;

use a2a::Card;
use testkit::folder::Folder;

use super::drift::MAX_CHANGES;
use super::drift::tests::{card, fields, lines, with};
use super::*;

fn seen(json: &Value) -> SeenCards {
    SeenCards {
        public: fields(json),
        extended: None,
    }
}

fn file(folder: &Folder, mode: Pins) -> PinFile {
    PinFile::new(
        folder.file("pins"),
        "desk".into(),
        &["https://desk.example/"],
        mode,
    )
}

fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_700_000_000)
}

async fn check(file: &PinFile, json: &Value) -> Result<PinState, PinError> {
    file.check(seen(json), now()).await
}

fn stopped(error: &PinError) -> Vec<String> {
    match error {
        PinError::Changed(state) => lines(&state.changes),
        PinError::Unusable(message) => panic!("{message}"),
    }
}

#[cfg(unix)]
#[tokio::test]
async fn first_card_is_stored_for_the_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new();
    let file = file(&folder, Pins::Report);
    let state = check(&file, &card()).await.unwrap();
    assert_eq!(state.accepted_by, FIRST_USE);
    assert!(state.changes.is_empty() && state.take_report().await.is_none());
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(
        (mode(file.path()), mode(folder.file("pins"))),
        (0o600, 0o700)
    );
    let shown = state.to_json();
    assert_eq!(
        shown,
        json!({"mode": "report", "accepted_at": "2023-11-14T22:13:20.000Z", "accepted_by": "first use"})
    );
}

#[tokio::test]
async fn stop_is_never_accepted_by_itself_and_ends_with_the_pinned_card() {
    let folder = Folder::new();
    let file = file(&folder, Pins::Enforce);
    let other = with(card(), "/provider/organization", json!("Evil Ltd"));
    check(&file, &card()).await.unwrap();
    let before = fs::read_to_string(file.path()).unwrap();
    for _ in 0..2 {
        let error = check(&file, &other).await.unwrap_err();
        assert_eq!(
            stopped(&error),
            ["stop | /provider/organization | Desk Ltd | Evil Ltd"]
        );
        let message = error.to_string();
        assert!(
            message.contains("`remote-agent pin desk --accept`"),
            "{message}"
        );
        assert!(!message.contains("Evil"), "{message}");
        check(&file, &card()).await.unwrap();
    }
    assert_eq!(fs::read_to_string(file.path()).unwrap(), before);
    file.accept(&seen(&other), "operator anna", now()).unwrap();
    assert_eq!(
        check(&file, &other).await.unwrap().accepted_by,
        "operator anna"
    );
    check(&file, &card()).await.unwrap_err();
}

#[tokio::test]
async fn each_new_value_is_reported_once() {
    let folder = Folder::new();
    let file = file(&folder, Pins::Enforce);
    check(&file, &card()).await.unwrap();
    let named = |name: &str| with(card(), "/name", json!(name));
    let report = async |json: Value| {
        let state = check(&file, &json).await.unwrap();
        let report = state
            .take_report()
            .await
            .map(|(_, changes)| lines(&changes));
        assert!(
            state.take_report().await.is_none(),
            "a second call with the same card"
        );
        report.unwrap_or_default()
    };
    // A card that flips, and one with another value each time.
    assert_eq!(report(named("B")).await, ["report | /name | Desk | B"]);
    for _ in 0..3 {
        assert!(report(card()).await.is_empty());
        assert!(report(named("B")).await.is_empty());
    }
    assert_eq!(report(named("C")).await, ["report | /name | Desk | C"]);
    assert!(
        report(with(card(), "/version", json!("2")))
            .await
            .is_empty()
    );
    for number in 0..MAX_REPORTED + 5 {
        assert_eq!(report(named(&number.to_string())).await.len(), 1);
    }
    let record = file.read().unwrap().unwrap();
    assert_eq!(record.reported.len(), MAX_REPORTED);
    assert_eq!(
        record.public.fields["/name"], "Desk",
        "what was accepted stays"
    );
}

#[tokio::test]
async fn stop_is_reported_where_pins_are_not_enforced() {
    let folder = Folder::new();
    let file = file(&folder, Pins::Report);
    check(&file, &card()).await.unwrap();
    let other = with(
        card(),
        "/supportedInterfaces/0/url",
        json!("https://evil.example/"),
    );
    let (message, changes) = check(&file, &other)
        .await
        .unwrap()
        .take_report()
        .await
        .unwrap();
    assert!(
        message.contains("interface, origins, interfaces changed"),
        "{message}"
    );
    assert!(
        changes
            .iter()
            .any(|change| change.class == FieldClass::Stop)
    );
    assert!(
        check(&file, &other)
            .await
            .unwrap()
            .take_report()
            .await
            .is_none()
    );
}

#[test]
fn of_processes_that_pin_at_once_one_is_first() {
    let folder = Folder::new();
    let file = file(&folder, Pins::Report);
    let threads = (0..8).map(|number| {
        let file = file.clone();
        let cards = seen(&with(card(), "/name", json!(number.to_string())));
        thread::spawn(move || file.check_now(&cards, number).unwrap())
    });
    let states: Vec<_> = threads
        .collect::<Vec<_>>()
        .into_iter()
        .map(|one| one.join().unwrap())
        .collect();
    let first = file.read().unwrap().unwrap().public.accepted_at;
    assert!(states.iter().all(|state| state.accepted_at == Some(first)));
    assert_eq!(
        states
            .iter()
            .filter(|state| state.changes.is_empty())
            .count(),
        1
    );
}

#[tokio::test]
async fn damaged_file_is_neither_trusted_nor_replaced() {
    let folder = Folder::new();
    let enforced = file(&folder, Pins::Enforce);
    check(&enforced, &card()).await.unwrap();
    let whole = fs::read_to_string(enforced.path()).unwrap();
    let newer = whole.replacen(r#""version":1"#, r#""version":2"#, 1);
    for (text, cause) in [
        ("", "damaged from line 1"),
        ("{}", "damaged from line 1"),
        (&whole[..whole.len() / 2], "damaged from line 1"),
        (&newer, "a newer version of the plugin wrote it"),
        (&"x".repeat(2 << 20), "more than 1048576 bytes"),
    ] {
        fs::write(enforced.path(), text).unwrap();
        let Err(PinError::Unusable(message)) = check(&enforced, &card()).await else {
            panic!("{cause}");
        };
        let path = enforced.path().display().to_string();
        let parts = [cause, path.as_str(), "`remote-agent pin desk --accept`"];
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
        let lenient = file(&folder, Pins::Report);
        let (reported, _) = check(&lenient, &card())
            .await
            .unwrap()
            .take_report()
            .await
            .unwrap();
        assert_eq!(reported, message);
        assert_eq!(fs::read_to_string(enforced.path()).unwrap(), text);
    }
    let aside = enforced
        .accept(&seen(&card()), "operator", now())
        .unwrap()
        .unwrap();
    assert_eq!(fs::metadata(aside).unwrap().len(), 2 << 20);
    check(&enforced, &card()).await.unwrap();
}

#[cfg(unix)]
#[tokio::test]
async fn directory_that_others_may_change_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = Folder::new();
    let file = file(&folder, Pins::Enforce);
    check(&file, &card()).await.unwrap();
    let open = fs::Permissions::from_mode(0o777);
    fs::set_permissions(folder.file("pins"), open).unwrap();
    let error = check(&file, &card()).await.unwrap_err().to_string();
    assert!(
        error.contains("its directory is one that every user can write to"),
        "{error}"
    );
}

#[tokio::test]
async fn directory_that_cannot_be_written_disturbs_no_call_unless_pins_are_enforced() {
    let folder = Folder::new();
    fs::write(folder.file("pins"), "a file").unwrap();
    let state = check(&file(&folder, Pins::Report), &card()).await.unwrap();
    assert!(state.problem.is_some() && state.take_report().await.is_none());
    check(&file(&folder, Pins::Enforce), &card())
        .await
        .unwrap_err();
}

fn signer(key: &str) -> CardSigner {
    CardSigner {
        alg: "ES256".into(),
        kid: format!("id of {key}"),
        thumbprint: Some(key.into()),
        configured: false,
    }
}

fn signed(signers: &[CardSigner]) -> SeenCards {
    let mut seen = seen(&card());
    seen.public.signers = signers.to_vec();
    seen
}

#[tokio::test]
async fn key_changes_only_with_the_signature_of_the_pinned_one() {
    let folder = Folder::new();
    let file = file(&folder, Pins::Enforce);
    let check = async |keys: &[&str]| {
        let signers: Vec<_> = keys.iter().map(|key| signer(key)).collect();
        file.check(signed(&signers), now())
            .await
            .map(|state| lines(&state.changes))
    };
    assert!(check(&["old"]).await.unwrap().is_empty());
    let shown = |keys: &str| format!("stop | /signatures | ES256 id of old (old) | {keys}");
    for (keys, now) in [(&["new"][..], "ES256 id of new (new)"), (&[], "-")] {
        assert_eq!(stopped(&check(keys).await.unwrap_err()), [shown(now)]);
    }
    // A rotation: both keys sign, then the new one alone. The old one is worth nothing after that.
    assert!(check(&["old", "new"]).await.unwrap().is_empty());
    assert!(check(&["new"]).await.unwrap().is_empty());
    check(&["old"]).await.unwrap_err();
    // No key is learned from a card that is stopped for another reason.
    let mut elsewhere = signed(&[signer("new"), signer("evil")]);
    elsewhere
        .public
        .values
        .insert("/provider/organization".into(), "Evil Ltd".into());
    file.check(elsewhere, now()).await.unwrap_err();
    check(&["evil"]).await.unwrap_err();
}

#[tokio::test]
async fn signers_of_other_kinds_are_compared_by_what_is_known() {
    let claim = |kid: &str| CardSigner {
        thumbprint: None,
        ..signer(kid)
    };
    let listed = |key: &str| CardSigner {
        configured: true,
        ..signer(key)
    };
    for (pinned, next, is_stop) in [
        // The operator's own file decides which keys are good.
        (vec![listed("a")], vec![listed("b")], false),
        (vec![signer("a")], vec![listed("b")], false),
        (vec![listed("a")], vec![], true),
        // Signatures that nothing verifies.
        (vec![claim("a")], vec![claim("a")], false),
        (vec![claim("a")], vec![claim("b")], true),
        (vec![claim("a")], vec![], true),
        (vec![], vec![claim("a")], false),
        // The operator begins, or ceases, to require them.
        (vec![claim("a")], vec![signer("b")], false),
        (vec![signer("a")], vec![claim("a")], false),
        (vec![signer("a")], vec![claim("b")], true),
        // An algorithm is part of the key.
        (
            vec![signer("a")],
            vec![CardSigner {
                alg: "RS256".into(),
                ..signer("a")
            }],
            true,
        ),
    ] {
        let folder = Folder::new();
        let file = file(&folder, Pins::Enforce);
        file.check(signed(&pinned), now()).await.unwrap();
        let checked = file.check(signed(&next), now()).await;
        assert_eq!(checked.is_err(), is_stop, "{pinned:?} {next:?}");
    }
}

#[tokio::test]
async fn extended_card_has_pins_of_its_own() {
    let folder = Folder::new();
    let file = file(&folder, Pins::Enforce);
    let both = |extended: &Value| SeenCards {
        extended: Some(take_extended_fields(&mut Card::read(extended).unwrap())),
        ..seen(&card())
    };
    check(&file, &card()).await.unwrap();
    // It is pinned when it first comes, and not compared when it does not come.
    let extended = with(card(), "/name", json!("Desk for you"));
    assert!(
        file.check(both(&extended), now())
            .await
            .unwrap()
            .changes
            .is_empty()
    );
    check(&file, &card()).await.unwrap();
    let other = with(extended, "/skills/0/name", json!("Buy"));
    let state = file.check(both(&other), now()).await.unwrap();
    assert_eq!(
        lines(&state.changes),
        ["report | /extendedCard/skills/book/name | Book | Buy"]
    );
    assert_eq!(state.changes[0].part(), "skills");
    let other = with(other, "/provider/organization", json!("Evil Ltd"));
    file.check(both(&other), now()).await.unwrap_err();
}

#[tokio::test]
async fn extended_card_of_a_stopped_agent_is_not_pinned() {
    let folder = Folder::new();
    let file = file(&folder, Pins::Report);
    check(&file, &card()).await.unwrap();
    let stopped = SeenCards {
        extended: Some(fields(&card())),
        ..seen(&with(card(), "/provider/organization", json!("Evil Ltd")))
    };
    file.check(stopped, now()).await.unwrap();
    assert!(file.read().unwrap().unwrap().extended.is_none());
}

#[tokio::test]
async fn first_card_of_a_person_is_compared_with_that_of_the_target() {
    let folder = Folder::new();
    let evil = with(card(), "/provider/organization", json!("Evil Ltd"));
    let own = with(card(), "/skills/0/name", json!("Book for anna"));
    let shared = file(&folder, Pins::Enforce);
    let anna = shared.for_user(Some("anna"));
    shared.accept(&seen(&card()), "operator op", now()).unwrap();
    let expected = ["stop | /provider/organization | Desk Ltd | Evil Ltd"];
    let error = check(&anna, &evil).await.unwrap_err();
    assert_eq!(stopped(&error), expected);
    assert_eq!(lines(&anna.review(&seen(&evil)).changes), expected);
    assert!(
        error.to_string().contains("--person anna --accept"),
        "{error}"
    );
    assert!(!anna.path().exists());
    // The extended card too, which comes after the public one.
    let extended = |json: &Value| SeenCards {
        extended: Some(fields(json)),
        ..seen(&own)
    };
    shared
        .accept(&extended(&card()), "operator op", now())
        .unwrap();
    let state = check(&anna, &own).await.unwrap();
    assert_eq!((state.changes.len(), &*state.accepted_by), (0, FIRST_USE));
    let stopped = anna.check(extended(&evil), now()).await;
    assert!(matches!(stopped, Err(PinError::Changed(_))), "{stopped:?}");
    let accepted = anna.check(extended(&own), now()).await.unwrap();
    assert!(accepted.changes.is_empty(), "a card of their own");
    // What a person has accepted does not change with the target.
    shared.accept(&seen(&evil), "operator op", now()).unwrap();
    anna.check(extended(&own), now()).await.unwrap();
}

#[tokio::test]
async fn other_card_of_a_new_person_is_reported_once() {
    let folder = Folder::new();
    let evil = with(card(), "/provider/organization", json!("Evil Ltd"));
    let shared = file(&folder, Pins::Report);
    shared.accept(&seen(&card()), "operator op", now()).unwrap();
    let anna = shared.for_user(Some("anna"));
    let reports = async || {
        let state = check(&anna, &evil).await.unwrap();
        state.take_report().await.map(|(_, changes)| changes.len())
    };
    assert_eq!((reports().await, reports().await), (Some(1), None));
}

#[test]
fn persons_and_other_addresses_have_other_files() {
    let folder = Folder::new();
    let of = |alias: &str, url: &str| {
        PinFile::new(folder.file("pins"), alias.into(), &[url], Pins::Report)
    };
    let all = [
        of("a", "https://x.example"),
        of("b", "https://x.example"),
        of("a", "https://y.example"),
        of("a", "https://x.example").for_user(Some("anna")),
    ];
    let mut paths: Vec<_> = all.iter().map(PinFile::path).collect();
    paths.sort();
    paths.dedup();
    assert_eq!(paths.len(), all.len());
}

#[tokio::test]
async fn file_stays_small_whatever_the_card() {
    let folder = Folder::new();
    let file = file(&folder, Pins::Enforce);
    let text = "é".repeat(50_000);
    let skill = |number: usize| json!({"id": format!("{number}{}", &text[..80]), "name": "n", "description": "d", "tags": ["t"]});
    let mut json = card();
    json["skills"] = (0..10_000).map(skill).collect();
    json["description"] = text.clone().into();
    json["securitySchemes"][&text] = json!({"mtlsSecurityScheme": {}});
    check(&file, &json).await.unwrap();
    assert!(fs::metadata(file.path()).unwrap().len() < 200_000);
    // As many are slow to compare here.
    json["skills"].as_array_mut().unwrap().truncate(300);
    let folder = Folder::new();
    let file = PinFile::new(folder.file("pins"), "desk".into(), &[], Pins::Enforce);
    check(&file, &json).await.unwrap();
    assert!(check(&file, &json).await.unwrap().changes.is_empty());
    // Nothing beyond the bounds changes unseen.
    for (place, value, class) in [
        ("/description", json!(format!("{text}!")), "report"),
        ("/skills/299/name", json!("evil"), "report"),
        ("/skills/299/tags", json!(["evil"]), "note"),
        (
            "/securitySchemes/extra",
            json!({"mtlsSecurityScheme": {}}),
            "stop",
        ),
    ] {
        let changed = seen(&with(json.clone(), place, value));
        let changes = lines(&file.review(&changed).changes);
        assert!(
            changes.len() == 1 && changes[0].starts_with(class),
            "{place}: {changes:?}"
        );
        assert!(changes[0].len() < 1000);
    }
    for number in 0..150 {
        json["securitySchemes"][format!("s{number}")] = json!({"mtlsSecurityScheme": {}});
    }
    let folder = Folder::new();
    let file = PinFile::new(folder.file("pins"), "desk".into(), &[], Pins::Enforce);
    check(&file, &json).await.unwrap();
    let changed = with(
        json,
        "/securitySchemes/s99",
        json!({"httpAuthSecurityScheme": {"scheme": "basic"}}),
    );
    check(&file, &changed).await.unwrap_err();
}

#[test]
fn listed_changes_are_bounded() {
    let change = CardChange {
        path: "/name".into(),
        old: None,
        new: None,
        class: FieldClass::Report,
    };
    let mut shown = json!({});
    add_changes(&mut shown, &vec![change; MAX_CHANGES + 3]);
    assert_eq!(
        (
            shown["changes"].as_array().unwrap().len(),
            &shown["more_changes"]
        ),
        (MAX_CHANGES, &json!(3))
    );
}
