//! Encrypted sessions: what their files show, and which changes of a file are found.

use serde_json::Value;

use super::super::encryption::LineCodec;
use super::super::line::NewLine;
use super::*;

/// The ids of the entries before an error, and the error.
fn read(sessions: &Sessions, agent: &str, session: &str) -> (Vec<String>, Option<SessionError>) {
    let mut ids = Vec::new();
    let entries = match sessions.get(agent, session) {
        Ok(entries) => entries,
        Err(error) => return (ids, Some(error)),
    };
    for entry in entries {
        match entry {
            Ok(entry) => ids.push(entry.id.into_owned()),
            Err(error) => return (ids, Some(error)),
        }
    }
    (ids, None)
}

/// Writes a session with the entries `m1` to `m4`, and returns its lines.
async fn fill(place: &Place, agent: &str, session: &str) -> Vec<String> {
    let sessions = place.open_with(&[KEY]);
    for id in ["m1", "m2", "m3", "m4"] {
        let append = sessions.append(agent, &entry(session, id, "confidential"));
        append.await.unwrap();
    }
    drop(sessions);
    let text = place.text(agent, session);
    text.split_inclusive('\n').map(str::to_owned).collect()
}

/// Returns a line with another value at a JSON Pointer.
fn with(line: &str, pointer: &str, value: Value) -> String {
    let mut json: Value = serde_json::from_str(line).unwrap();
    *json.pointer_mut(pointer).unwrap() = value;
    format!("{json}\n")
}

#[tokio::test]
async fn lines_show_times_and_ids_only() {
    let place = Place::new();
    let sessions = place.open_with(&[KEY]);
    sessions.create("alpha", Some("s")).await.unwrap();
    let first = entry("s", "m1", "confidential");
    sessions.append("alpha", &first).await.unwrap();
    sessions.commit("alpha", "s").await.unwrap();
    let text = place.text("alpha", "s");
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let events = [json!("created"), Value::Null, json!("committed")];
    for (line, event) in lines.iter().zip(&events) {
        let mut members: Vec<_> = line.as_object().unwrap().keys().collect();
        members.sort();
        members.retain(|name| *name != "event");
        assert_eq!(members, ["enc", "id", "sessionId", "timestamp"]);
        assert_eq!(line["event"], *event);
        assert_eq!(
            (&line["timestamp"], &line["sessionId"]),
            (&json!(START), &json!("s"))
        );
    }
    assert_eq!(lines[1]["id"], "m1");
    for hidden in ["confidential", "system", "content"] {
        assert!(!text.contains(hidden), "{text}");
    }
    let nonces: std::collections::BTreeSet<_> = lines
        .iter()
        .map(|line| line["enc"]["nonce"].to_string())
        .collect();
    assert_eq!(nonces.len(), 3);
    let read: Vec<_> = sessions
        .get("alpha", "s")
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(read, [first]);
    let plain = sessions.list("alpha", true, 9).unwrap();
    // The next process finds the same metadata.
    drop(sessions);
    assert_eq!(
        place.open_with(&[KEY]).list("alpha", true, 9).unwrap(),
        plain
    );
    assert_eq!((plain[0].entries, plain[0].state), (1, State::Active));
    assert!(plain[0].committed.is_some());
}

/// The documentation has these lines, and a script that reads them.
#[test]
fn lines_are_those_of_the_documentation() {
    let documentation = include_str!("../../../../../docs/reference/gateway.md");
    let config = Place::new().encrypted(&[KEY]);
    let keys = EncryptionKeys::load(&config.sessions.encryption.unwrap(), |_| None).unwrap();
    let session = SessionKey::new("alpha", "sess-1").unwrap();
    let mut codec = LineCodec::new(Some(Arc::new(keys)), session, Form::Encrypted, 0);
    let hello = entry("sess-1", "msg-001", "Hello!");
    let lines = [
        NewLine::from(&hello),
        Event::Committed.line("sess-1", START + 1),
    ];
    for (line, nonce) in lines.iter().zip(1..) {
        let encrypted = codec.encrypt(line, [nonce; 12]).unwrap();
        for bytes in [&line.bytes, &encrypted] {
            let text = std::str::from_utf8(bytes).unwrap();
            assert!(documentation.contains(text), "missing: {text}");
        }
    }
}

#[tokio::test]
async fn a_flipped_bit_is_found_in_its_line() {
    let place = Place::new();
    let lines = fill(&place, "alpha", "s").await;
    for position in 0..lines[1].len() {
        // The second one changes the case of a letter.
        for bit in [position % 5, 5] {
            let mut line = lines[1].clone().into_bytes();
            line[position] ^= 1 << bit;
            let bytes = [
                lines[0].as_bytes(),
                &line,
                lines[2].as_bytes(),
                lines[3].as_bytes(),
            ];
            place.write("alpha", "s", &bytes.concat());
            let (ids, error) = read(&place.open_with(&[KEY]), "alpha", "s");
            assert!(ids.is_empty() || ids == ["m1"], "{position} {bit}: {ids:?}");
            match error {
                Some(SessionError::Corrupt(_, _, 2) | SessionError::MissingKey(..)) => {}
                // A new line end makes two damaged lines of one.
                other => panic!("{position} {bit}: {other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn a_changed_line_is_found_with_its_number() {
    let place = Place::new();
    let other_session = fill(&place, "alpha", "t").await;
    let other_workspace = fill(&place, "beta", "s").await;
    let [one, two, three, four] = fill(&place, "alpha", "s").await.try_into().unwrap();
    let plain = String::from_utf8(line::serialize(&entry("s", "m2", "forged"))).unwrap();
    let both = two.replacen(
        '{',
        &format!("{},", plain.trim_end().trim_end_matches('}')),
        1,
    );
    let cases = [
        ("swapped", vec![&one, &three, &two, &four], 2),
        ("repeated", vec![&one, &two, &two, &three], 3),
        ("removed between others", vec![&one, &three, &four], 2),
        ("removed first", vec![&two, &three, &four], 1),
        ("of another session", vec![&one, &other_session[1]], 2),
        ("of another workspace", vec![&one, &other_workspace[1]], 2),
        ("plain", vec![&one, &plain, &three], 2),
        ("plain at the end", vec![&one, &two, &plain], 3),
        ("plain at the start", vec![&plain, &two, &three], 2),
        ("with plain members", vec![&one, &both], 2),
    ];
    for (what, lines, number) in cases {
        let lines: String = lines.into_iter().map(String::as_str).collect();
        check_damage(&place, what, &lines, number);
    }
    let nonce = serde_json::from_str::<Value>(&one).unwrap()["enc"]["nonce"].clone();
    let data = serde_json::from_str::<Value>(&one).unwrap()["enc"]["data"].clone();
    for (pointer, value) in [
        ("/timestamp", json!(START + 1)),
        ("/id", json!("m9")),
        ("/enc/nonce", nonce),
        ("/enc/data", data),
        ("/enc/data", json!("")),
        ("/enc/nonce", json!("AAAA")),
        ("/enc/kid", json!("x")),
        ("/sessionId", json!("t")),
    ] {
        let lines = format!("{one}{}{three}", with(&two, pointer, value));
        check_damage(&place, pointer, &lines, 2);
    }
    let event = two.replacen('{', r#"{"event":"committed","#, 1);
    check_damage(&place, "event", &format!("{one}{event}"), 2);
}

fn check_damage(place: &Place, what: &str, lines: &str, number: u64) {
    place.write("alpha", "s", lines.as_bytes());
    let sessions = place.open_with(&[KEY]);
    let (ids, error) = read(&sessions, "alpha", "s");
    let error = error.unwrap_or_else(|| panic!("{what}: read {ids:?}"));
    assert!(
        matches!(error, SessionError::Corrupt(_, _, line) if line == number),
        "{what}: {error}"
    );
    let number = usize::try_from(number).unwrap();
    assert!(ids.len() < number, "{what}: {ids:?}");
    let mut exported = Vec::new();
    assert_eq!(
        code(sessions.export("alpha", "s", &mut exported)),
        ErrorCode::SessionCorrupt
    );
    for text in [
        error.to_string(),
        error.public_message(),
        place.logged().join("\n"),
    ] {
        assert!(
            !text.contains("confidential") && !text.contains("forged"),
            "{text}"
        );
    }
    // The file is left for the operator.
    assert_eq!(place.text("alpha", "s"), lines, "{what}");
}

#[tokio::test]
async fn a_cut_file_keeps_its_complete_lines() {
    let place = Place::new();
    let lines = &fill(&place, "alpha", "s").await[..2];
    let whole = lines.concat();
    let names = ["m1", "m2"];
    for at in 0..=whole.len() {
        place.write("alpha", "s", &whole.as_bytes()[..at]);
        let mut end = 0;
        let complete = lines.iter().take_while(|line| {
            end += line.len();
            // A line may lack its line end.
            end <= at + 1
        });
        let expected = &names[..complete.count()];
        let sessions = place.open_with(&[KEY]);
        match read(&sessions, "alpha", "s") {
            (ids, None) => assert_eq!(ids, expected, "cut at {at}"),
            (_, Some(error)) => {
                assert_eq!(
                    (error.code(), expected.len()),
                    (ErrorCode::SessionNotFound, 0)
                );
            }
        }
        // The numbers of the lines continue.
        append_entry(&sessions, "alpha", "s", "next").await;
        drop(sessions);
        let (ids, error) = read(&place.open_with(&[KEY]), "alpha", "s");
        assert!(error.is_none(), "cut at {at}: {error:?}");
        assert_eq!(ids, [expected, &["next"]].concat(), "cut at {at}");
        assert!(!place.text("alpha", "s").contains("content"));
    }
}

#[tokio::test]
async fn a_session_without_its_key_is_named_and_left() {
    let place = Place::new();
    let lines = fill(&place, "alpha", "s").await.concat();
    let kid = serde_json::from_str::<Value>(lines.lines().next().unwrap()).unwrap()["enc"]["kid"]
        .as_str()
        .unwrap()
        .to_owned();
    for config in [place.config(), place.encrypted(&[OTHER_KEY])] {
        let sessions = place.try_open(&config).unwrap();
        let refused = sessions.append("alpha", &entry("s", "m5", "")).await;
        let mut out = Vec::new();
        for error in [
            refused.unwrap_err(),
            sessions.get("alpha", "s").map(drop).unwrap_err(),
            sessions.commit("alpha", "s").await.unwrap_err(),
            sessions.export("alpha", "s", &mut out).unwrap_err(),
            sessions.archive("alpha", Duration::ZERO).unwrap_err(),
        ] {
            let message = error.to_string();
            assert!(
                message.contains(&kid) && message.contains("sessions.encryption"),
                "{message}"
            );
            assert_eq!(error.code(), ErrorCode::AgentError);
            assert!(!error.public_message().contains(&kid));
        }
        assert_eq!(
            code(sessions.create("alpha", Some("s")).await),
            ErrorCode::InvalidContent
        );
        let listed = sessions.list("alpha", true, 9).unwrap();
        assert_eq!((listed.len(), listed[0].state), (1, State::NoKey));
        assert_eq!(listed[0].missing_key.unwrap().to_string(), kid);
        assert_eq!(place.text("alpha", "s"), lines);
        assert!(place.logged().iter().any(|line| line.contains(&kid)));
    }
    // The key is lost.
    let sessions = place.open();
    sessions.delete("alpha", "s").unwrap();
    append_entry(&sessions, "alpha", "s", "new").await;
    assert_eq!(ids(&sessions, "alpha", "s"), ["new"]);
}

#[tokio::test]
async fn new_lines_use_the_first_key_and_old_ones_are_read() {
    let place = Place::new();
    fill(&place, "alpha", "s").await;
    append_entry(&place.open_with(&[OTHER_KEY, KEY]), "alpha", "s", "m5").await;
    let text = place.text("alpha", "s");
    let kids: Vec<_> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["enc"]["kid"].clone())
        .collect();
    assert!(kids[..4].iter().all(|kid| *kid == kids[0]) && kids[4] != kids[0]);
    for keys in [[KEY, OTHER_KEY], [OTHER_KEY, KEY]] {
        let sessions = place.open_with(&keys);
        assert_eq!(ids(&sessions, "alpha", "s"), ["m1", "m2", "m3", "m4", "m5"]);
    }
    let (_, error) = read(&place.open_with(&[KEY]), "alpha", "s");
    assert!(
        matches!(error, Some(SessionError::MissingKey(..))),
        "{error:?}"
    );
}

#[tokio::test]
async fn plain_sessions_are_read_until_they_are_refused() {
    let place = Place::new();
    append_entry(&place.open(), "alpha", "old", "m1").await;
    let sessions = place.open_with(&[KEY]);
    for session in ["old", "new", "old"] {
        append_entry(&sessions, "alpha", session, "m2").await;
    }
    assert_eq!(ids(&sessions, "alpha", "old"), ["m1", "m2", "m2"]);
    assert!(place.text("alpha", "old").contains("content"));
    assert!(!place.text("alpha", "new").contains("content"));
    let logged = place.logged();
    assert_eq!(logged.len(), 1, "{logged:?}");
    assert!(
        logged[0].starts_with("warn: ") && logged[0].contains("rekey"),
        "{logged:?}"
    );
    drop(sessions);
    let mut config = place.encrypted(&[KEY]);
    config.sessions.encryption.as_mut().unwrap().refuse_plain = true;
    let sessions = place.try_open(&config).unwrap();
    let refused = sessions.append("alpha", &entry("old", "m3", "")).await;
    assert!(
        matches!(refused, Err(SessionError::Plain(_))),
        "{refused:?}"
    );
    let mut out = Vec::new();
    for error in [
        sessions.get("alpha", "old").map(drop).unwrap_err(),
        sessions.export("alpha", "old", &mut out).unwrap_err(),
    ] {
        assert!(error.to_string().contains("refusePlain"), "{error}");
    }
    // The archive is no way around.
    sessions.archive("alpha", Duration::ZERO).unwrap();
    let error = sessions.export("alpha", "old", &mut out).unwrap_err();
    assert!(matches!(error, SessionError::Plain(_)), "{error}");
    assert_eq!(sessions.export("alpha", "new", &mut out).unwrap(), 1);
}

/// Checks at the end of its text that no file of a directory contains the text.
struct Watched<'a> {
    text: io::Cursor<Vec<u8>>,
    folder: PathBuf,
    drafts: &'a mut usize,
}

impl io::Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.text.read(buffer)
    }
}

impl io::BufRead for Watched<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.text.position() == self.text.get_ref().len() as u64 {
            for file in fs::read_dir(&self.folder)?.flatten() {
                let text = fs::read_to_string(file.path())?;
                assert!(!text.contains("confidential"), "{:?}", file.path());
                *self.drafts += usize::from(!text.is_empty());
            }
        }
        self.text.fill_buf()
    }

    fn consume(&mut self, bytes: usize) {
        self.text.consume(bytes);
    }
}

#[tokio::test]
async fn export_is_plain_and_drafts_of_an_import_are_encrypted() {
    let place = Place::new();
    fill(&place, "alpha", "s").await;
    let sessions = place.open_with(&[KEY]);
    let mut text = Vec::new();
    assert_eq!(sessions.export("alpha", "s", &mut text).unwrap(), 4);
    assert_eq!(
        text,
        [1, 2, 3, 4]
            .map(|i| line::serialize(&entry("s", &format!("m{i}"), "confidential")))
            .concat()
    );
    // More than the buffer of the file.
    let folder = place.file("beta", "s").parent().unwrap().to_owned();
    let mut drafts = 0;
    let mut from = Watched {
        text: io::Cursor::new(text.repeat(50)),
        folder,
        drafts: &mut drafts,
    };
    sessions.import("beta", &mut from, Some("copy")).unwrap();
    assert!(drafts > 0);
    assert_eq!(ids(&sessions, "beta", "copy").len(), 200);
    append_entry(&sessions, "beta", "copy", "next").await;
    drop(sessions);
    assert_eq!(ids(&place.open_with(&[KEY]), "beta", "copy").len(), 201);
    assert!(!place.text("beta", "copy").contains("content"));
}

#[tokio::test]
async fn session_of_a_hashed_file_name_is_listed_by_its_id() {
    let place = Place::new();
    append_entry(&place.open_with(&[KEY]), "alpha", "Ähnlich/1", "m1").await;
    for config in [place.encrypted(&[KEY]), place.config()] {
        let sessions = place.try_open(&config).unwrap();
        let listed = sessions.list("alpha", true, 9).unwrap();
        assert_eq!(listed[0].session_id, "Ähnlich/1");
    }
}

/// Returns the configuration of one key.
fn source(key: Value) -> Vec<KeySource> {
    vec![serde_json::from_value(key).unwrap()]
}

fn load(keys: Vec<KeySource>, variables: &[(&str, &str)]) -> Result<EncryptionKeys, ConfigError> {
    let config = EncryptionConfig {
        keys,
        refuse_plain: false,
    };
    EncryptionKeys::load(&config, |name| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    })
}

#[test]
fn a_key_comes_from_file_environment_or_credential() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("session-key");
    files::replace_private(&file, &format!("{KEY}\n")).unwrap();
    let directory = folder.path().to_str().unwrap();
    let all = [
        load(source(json!({"keyFile": file})), &[]),
        load(source(json!({"key": KEY})), &[]),
        load(
            source(json!({"key": {"source": "env", "id": "K"}})),
            &[("K", KEY)],
        ),
        load(
            source(json!({"credential": "session-key"})),
            &[("CREDENTIALS_DIRECTORY", directory)],
        ),
    ];
    let printed = all.map(|keys| format!("{:?}", keys.unwrap()));
    assert!(printed.iter().all(|one| *one == printed[0]), "{printed:?}");
    assert!(
        !printed[0].contains(KEY) && !printed[0].contains("31"),
        "{printed:?}"
    );
}

#[test]
fn an_unusable_key_is_refused_at_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let short = &KEY[..40];
    let zeros = "A".repeat(43);
    let repeated = "c2VjcmV0IXNlY3JldCFzZWNyZXQhc2VjcmV0IXNlY3I";
    let cases = [
        (json!({"key": short}), "key", "30 bytes instead of 32"),
        (
            json!({"key": format!("{KEY}AAAA")}),
            "key",
            "35 bytes instead of 32",
        ),
        (json!({"key": format!("{KEY}=")}), "key", "base64url"),
        (
            json!({"key": "correct horse battery staple"}),
            "key",
            "base64url",
        ),
        (json!({"key": zeros}), "key", "not random"),
        (json!({"key": repeated}), "key", "not random"),
        (
            json!({"key": {"source": "env", "id": "K"}}),
            "key",
            "`K` is not set",
        ),
        (
            json!({"keyFile": folder.path().join("none")}),
            "keyFile",
            "cannot read the key",
        ),
        (
            json!({"keyFile": folder.path()}),
            "keyFile",
            "no regular file",
        ),
        (
            json!({"credential": "k"}),
            "credential",
            "LoadCredential=k:FILE",
        ),
    ];
    for (key, member, problem) in cases {
        let keys = [source(json!({"key": OTHER_KEY})), source(key.clone())].concat();
        let error = load(keys, &[]).unwrap_err();
        assert_eq!(error.path, format!("/sessions/encryption/keys/1/{member}"));
        assert!(error.message.contains(problem), "{error}");
        let value = key["key"].as_str().unwrap_or("-none-");
        assert!(!error.to_string().contains(value), "{error}");
    }
    let twice = [source(json!({"key": KEY})), source(json!({"key": KEY}))].concat();
    let error = load(twice, &[]).unwrap_err();
    assert_eq!(error.path, "/sessions/encryption/keys/1/key");
    assert!(error.message.contains("twice"), "{error}");
}

#[cfg(unix)]
#[test]
fn a_key_file_that_others_may_read_is_refused() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    fs::write(&file, KEY).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    let error = load(source(json!({"keyFile": file})), &[]).unwrap_err();
    assert!(error.message.contains("600"), "{error}");
    // systemd itself decides who may read a credential.
    let directory = folder.path().to_str().unwrap();
    load(
        source(json!({"credential": "key"})),
        &[("CREDENTIALS_DIRECTORY", directory)],
    )
    .unwrap();
}
