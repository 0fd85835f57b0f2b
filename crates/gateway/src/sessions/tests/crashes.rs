//! A process that is stopped at any byte loses nothing that was acknowledged.

use proptest::prelude::*;

use super::super::line::Head;

use super::*;

/// So many bytes of a file, as a crash in the middle of a write leaves it.
fn cut(place: &Place, whole: &[u8], at: usize) {
    place.write("alpha", &whole[..at]);
}

#[tokio::test]
async fn cut_at_every_byte_of_the_last_entries_every_entry_before_is_there() {
    let place = Place::new();
    let sessions = place.open();
    // The byte behind each entry's line end: with it, the entry may have been acknowledged.
    let mut ends = Vec::new();
    for i in 0..12 {
        let session = ["s", "t"][i % 2];
        let content = format!("{i} \"{}\" é\n", "x".repeat(i * 3));
        let kept = sessions.append("alpha", &entry(session, &format!("m{i}"), &content));
        kept.await.unwrap();
        ends.push(place.bytes("alpha").len());
    }
    drop(sessions);
    let whole = place.bytes("alpha");
    let first = ends[ends.len() - 5];
    for at in first..=whole.len() {
        cut(&place, &whole, at);
        let kept = ends.iter().filter(|end| **end <= at).count();
        let sessions = place.open();
        let found: Vec<_> = ["s", "t"]
            .iter()
            .flat_map(|s| ids(&sessions, "alpha", s))
            .collect();
        for i in 0..kept {
            assert!(
                found.contains(&format!("m{i}")),
                "cut at {at}: m{i} is gone"
            );
        }
        // The one that is whole but for its line end may be there as well.
        assert!(found.len() <= kept + 1, "cut at {at}: {found:?}");
        // It goes on, on a line of its own.
        keep(&sessions, "alpha", "s", "next").await;
        drop(sessions);
        let text = place.text("alpha");
        assert!(
            text.ends_with('\n')
                && text
                    .lines()
                    .all(|line| Head::read(line.as_bytes()).is_some())
        );
        assert_eq!(ids(&place.open(), "alpha", "s").last().unwrap(), "next");
    }
}

#[tokio::test]
async fn an_unfinished_line_is_cut_off_and_told() {
    let place = Place::new();
    keep(&place.open(), "alpha", "s", "one").await;
    let whole = place.bytes("alpha");
    place.write("alpha", &[&whole[..], b"{\"timestamp\": 17"].concat());
    // Who only reads changes nothing.
    assert_eq!(ids(&place.read_only(), "alpha", "s"), ["one"]);
    assert_eq!(place.bytes("alpha").len(), whole.len() + 16);
    assert_eq!(ids(&place.open(), "alpha", "s"), ["one"]);
    assert_eq!(place.bytes("alpha"), whole);
    let told = place.told();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].starts_with("warn: ") && told[0].contains("16 bytes"),
        "{told:?}"
    );
}

#[tokio::test]
async fn zeros_that_a_power_cut_leaves_are_cut_off() {
    let place = Place::new();
    keep(&place.open(), "alpha", "s", "one").await;
    let whole = place.bytes("alpha");
    place.write("alpha", &[&whole[..], &[0; 4096]].concat());
    assert_eq!(ids(&place.open(), "alpha", "s"), ["one"]);
    assert_eq!(place.bytes("alpha"), whole);
}

#[tokio::test]
async fn a_session_is_in_one_place_whatever_stops_the_archive() {
    let place = Place::new();
    let sessions = place.open();
    keep(&sessions, "alpha", "old", "one").await;
    place.pass(Duration::from_secs(10));
    keep(&sessions, "alpha", "new", "two").await;
    let before = place.bytes("alpha");
    sessions.archive("alpha", Duration::from_secs(5)).unwrap();
    drop(sessions);
    // Stopped when the archive was written and the workspace's file was not.
    place.write("alpha", &before);
    for sessions in [place.read_only(), place.open()] {
        assert_eq!(
            code(sessions.get("alpha", "old")),
            ErrorCode::SessionExpired
        );
        assert_eq!(ids(&sessions, "alpha", "new"), ["two"]);
        assert_eq!(sessions.list("alpha").unwrap().len(), 2);
        let mut out = Vec::new();
        assert_eq!(sessions.export("alpha", "old", &mut out).unwrap(), 1);
    }
    assert!(!place.text("alpha").contains("\"old\""));
    // Stopped before: files that were being written are in nobody's way.
    let folder = place.state.join("agents/alpha");
    fs::write(folder.join("session.jsonl.new"), "{\"half").unwrap();
    fs::write(folder.join("archive/half.new"), "{\"half").unwrap();
    let sessions = place.open();
    assert_eq!(ids(&sessions, "alpha", "new"), ["two"]);
    assert_eq!(sessions.archive("alpha", Duration::ZERO).unwrap(), ["new"]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any entries of any sessions, cut anywhere: what is whole is there, in order, and as it was.
    #[test]
    fn whatever_is_said_and_wherever_it_is_cut(
        said in prop::collection::vec((0..3_usize, "\\PC{0,40}|.{0,12}|\\{\"sessionId\":\"s1\"\\}"), 1..20),
        cut_at in 0.0..=1.0_f64,
    ) {
        let place = Place::new();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut ends = Vec::new();
        {
            let sessions = place.open();
            for (i, (session, content)) in said.iter().enumerate() {
                let entry = entry(&format!("s{session}"), &i.to_string(), content);
                runtime.block_on(sessions.append("alpha", &entry)).unwrap();
                ends.push(place.bytes("alpha").len());
            }
        }
        let whole = place.bytes("alpha");
        let at = (whole.len() as f64 * cut_at) as usize;
        cut(&place, &whole, at);
        let sessions = place.open();
        for session in 0..3 {
            let mine = said.iter().zip(&ends).filter(|((of, _), _)| *of == session);
            let kept: Vec<_> = mine.clone().filter(|(_, end)| **end <= at).map(|((_, said), _)| json!(said)).collect();
            let found: Vec<_> = match sessions.get("alpha", &format!("s{session}")) {
                Ok(reader) => reader.map(|entry| entry.unwrap().content.into_owned()).collect(),
                Err(error) => {
                    prop_assert_eq!(error.code(), ErrorCode::SessionNotFound);
                    Vec::new()
                }
            };
            prop_assert!(found.len() <= kept.len() + 1);
            prop_assert_eq!(&found[..kept.len()], &kept[..]);
            let all: Vec<_> = mine.map(|((_, said), _)| json!(said)).collect();
            prop_assert!(all.starts_with(&found));
        }
        prop_assert!(!place.told().iter().any(|line| line.starts_with("error")));
    }
}
