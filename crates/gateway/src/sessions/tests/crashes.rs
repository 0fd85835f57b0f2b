//! A process that crashes at any byte of a write loses no acknowledged entry.

use proptest::prelude::*;

use super::*;

/// Truncates the file to `at` bytes, like a crash during a write.
fn cut(place: &Place, whole: &[u8], at: usize) {
    place.write("alpha", "s", &whole[..at]);
}

#[tokio::test]
async fn truncation_at_any_byte_keeps_earlier_entries() {
    let place = Place::new();
    let sessions = place.open();
    // The offset after each entry's line end. The store may acknowledge the entry once the file reaches it.
    let mut ends = Vec::new();
    for i in 0..12 {
        let content = format!("{i} \"{}\" é\n", "x".repeat(i * 3));
        let append = sessions.append("alpha", &entry("s", &format!("m{i}"), &content));
        append.await.unwrap();
        ends.push(place.bytes("alpha", "s").len());
    }
    drop(sessions);
    let whole = place.bytes("alpha", "s");
    let first = ends[ends.len() - 5];
    for at in first..=whole.len() {
        cut(&place, &whole, at);
        let complete_entries = ends.iter().filter(|end| **end <= at).count();
        let sessions = place.open();
        let found = ids(&sessions, "alpha", "s");
        for i in 0..complete_entries {
            assert!(
                found.contains(&format!("m{i}")),
                "cut at {at}: m{i} is gone"
            );
        }
        // An entry that lacks only its line end may be present, too.
        assert!(
            found.len() <= complete_entries + 1,
            "cut at {at}: {found:?}"
        );
        // The next entry starts on a new line.
        append_entry(&sessions, "alpha", "s", "next").await;
        drop(sessions);
        let text = place.text("alpha", "s");
        assert!(
            text.ends_with('\n')
                && text
                    .lines()
                    .all(|line| serde_json::from_str::<Entry<'static>>(line).is_ok())
        );
        assert_eq!(ids(&place.open(), "alpha", "s").last().unwrap(), "next");
    }
}

/// Returns the content of the file after the entry `two`.
fn expected(before: &[u8]) -> Vec<u8> {
    [before, &line::serialize(&entry("s", "two", "two"))].concat()
}

#[tokio::test]
async fn unfinished_line_is_cut_off_and_logged() {
    let place = Place::new();
    append_entry(&place.open(), "alpha", "s", "one").await;
    let whole = place.bytes("alpha", "s");
    place.write("alpha", "s", &[&whole[..], b"{\"timestamp\": 17"].concat());
    // A reader does not change the file.
    assert_eq!(ids(&place.read_only(), "alpha", "s"), ["one"]);
    assert_eq!(place.bytes("alpha", "s").len(), whole.len() + 16);
    let sessions = place.open();
    assert_eq!(ids(&sessions, "alpha", "s"), ["one"]);
    append_entry(&sessions, "alpha", "s", "two").await;
    assert_eq!(place.bytes("alpha", "s"), expected(&whole));
    let logged = place.logged();
    assert_eq!(logged.len(), 1, "{logged:?}");
    assert!(
        logged[0].starts_with("warn: ") && logged[0].contains("16 bytes"),
        "{logged:?}"
    );
}

#[tokio::test]
async fn trailing_zeros_are_cut_off() {
    let place = Place::new();
    append_entry(&place.open(), "alpha", "s", "one").await;
    let whole = place.bytes("alpha", "s");
    place.write("alpha", "s", &[&whole[..], &[0; 4096]].concat());
    let sessions = place.open();
    assert_eq!(ids(&sessions, "alpha", "s"), ["one"]);
    append_entry(&sessions, "alpha", "s", "two").await;
    assert_eq!(place.bytes("alpha", "s"), expected(&whole));
}

#[tokio::test]
async fn drafts_of_killed_import_are_not_sessions() {
    let place = Place::new();
    append_entry(&place.open(), "alpha", "s", "one").await;
    let draft = place.file("alpha", "s").with_extension("import");
    fs::write(draft, "{\"half").unwrap();
    assert_eq!(place.open().list("alpha", true, 100).unwrap().len(), 1);
    assert_eq!(place.read_only().count("alpha"), 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Truncates random entries at any byte. The complete entries remain, unchanged and in order.
    #[test]
    fn keeps_complete_entries_wherever_the_file_is_cut(
        contents in prop::collection::vec("\\PC{0,40}|.{0,12}|\\{\"sessionId\":\"s1\"\\}", 1..20),
        cut_at in 0.0..=1.0_f64,
    ) {
        let place = Place::new();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut ends = Vec::new();
        {
            let sessions = place.open();
            for (i, content) in contents.iter().enumerate() {
                let entry = entry("s", &i.to_string(), content);
                runtime.block_on(sessions.append("alpha", &entry)).unwrap();
                ends.push(place.bytes("alpha", "s").len());
            }
        }
        let whole = place.bytes("alpha", "s");
        let at = (whole.len() as f64 * cut_at) as usize;
        cut(&place, &whole, at);
        let complete_entries = ends.iter().filter(|end| **end <= at).count();
        let sessions = place.open();
        let found: Vec<_> = match sessions.get("alpha", "s") {
            Ok(reader) => reader.map(|entry| entry.unwrap().content.into_owned()).collect(),
            Err(error) => {
                prop_assert_eq!(error.code(), ErrorCode::SessionNotFound);
                Vec::new()
            }
        };
        prop_assert!((complete_entries..=complete_entries + 1).contains(&found.len()));
        let all: Vec<_> = contents.iter().map(|contents| json!(contents)).collect();
        prop_assert!(all.starts_with(&found));
        prop_assert!(!place.logged().iter().any(|line| line.starts_with("error")));
    }
}
