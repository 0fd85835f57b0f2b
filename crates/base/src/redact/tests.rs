#![allow(clippy::unwrap_used)]
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn secrets(all: &[&str]) -> Arc<Secrets> {
    let all = all.iter().map(|secret| SecretString::from(*secret));
    Arc::new(Secrets::new(all))
}

fn in_pieces<'a>(secrets: &Arc<Secrets>, pieces: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut redactor = Redactor::new(Arc::clone(secrets));
    let mut shown: Vec<_> = pieces
        .into_iter()
        .map(|piece| redactor.push(piece))
        .collect();
    shown.push(redactor.finish());
    shown
}

#[test]
fn replaces_every_occurrence() {
    let secrets = secrets(&["s3cret-one", "two words"]);
    assert_eq!(
        secrets.redact("s3cret-one, two words, s3cret-one."),
        "[redacted], [redacted], [redacted]."
    );
}

#[test]
fn borrows_text_without_secrets() {
    assert!(matches!(
        secrets(&["s3cret-one"]).redact("plain"),
        Cow::Borrowed(_)
    ));
}

#[test]
fn overlapping_secrets_are_one_mark() {
    let secrets = secrets(&["abcdef", "defghi", "cd"]);
    assert_eq!(secrets.redact("xabcdefghiy"), "x[redacted]y");
}

#[test]
fn redacts_secret_cut_in_two_pieces() {
    let shown = in_pieces(&secrets(&["s3cret-one"]), ["it is s3cr", "et-one ok"]);
    assert_eq!(shown, ["it is ", "[redacted] ", "ok"]);
}

#[test]
fn redacts_secret_that_arrives_by_characters() {
    let text = "a s3cret-one b";
    let pieces = text.char_indices().map(|(at, _)| &text[at..=at]);
    assert_eq!(
        in_pieces(&secrets(&["s3cret-one"]), pieces).concat(),
        "a [redacted] b"
    );
}

#[test]
fn emits_words_when_they_end() {
    let shown = in_pieces(&secrets(&["s3cret-one"]), ["one ", "two ", "three"]);
    assert_eq!(shown, ["one ", "two ", "", "three"]);
}

#[test]
fn cuts_do_not_depend_on_correct_guesses() {
    let lengths = |pieces: [&str; 3]| {
        let shown = in_pieces(&secrets(&["s3cret-one"]), pieces);
        shown.iter().map(String::len).collect::<Vec<_>>()
    };
    assert_eq!(
        lengths(["x s3cret", "-on! ", "end"]),
        lengths(["x q3crat", "-xn! ", "end"])
    );
}

#[test]
fn endless_repetition_needs_little_memory() {
    let mut redactor = Redactor::new(secrets(&["aaaaaa"]));
    let mut shown = String::new();
    for _ in 0..1000 {
        shown += &redactor.push("aaa");
        assert!(redactor.buffer.len() < 6);
    }
    shown += &redactor.finish();
    assert_eq!(shown, MARK);
}

#[test]
fn redacts_secret_across_texts_and_keeps_the_cut() {
    let (mut first, mut second) = ("a s3cr".to_owned(), "et-one b".to_owned());
    secrets(&["s3cret-one"]).redact_joined(&mut [&mut first, &mut second]);
    assert_eq!([first, second], ["a [redacted]", " b"]);
}

#[test]
fn redacts_disguised_secret_at_every_cut() {
    let text = "a s3\u{200b}cr\u{ad}et-o\u{3164}ne b";
    let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    for make in [Redactor::new, Redactor::exact] {
        for &one in &places {
            for &two in places.iter().filter(|two| **two >= one) {
                let mut redactor = make(secrets(&["s3cret-one"]));
                let pieces = [&text[..one], &text[one..two], &text[two..]];
                let mut shown: String = pieces.iter().map(|piece| redactor.push(piece)).collect();
                shown += &redactor.finish();
                assert_eq!(shown, "a [redacted] b", "{one} {two}");
            }
        }
    }
}

#[test]
fn invisible_characters_do_not_accumulate() {
    let mut redactor = Redactor::new(secrets(&["s3cret-one"]));
    let mut shown = redactor.push("s3cret");
    for _ in 0..1000 {
        shown += &redactor.push("\u{200b}\u{200b}\u{200b}\u{200b}");
        assert!(redactor.buffer.len() < 2 * MAX_HIDDEN_BYTES);
    }
    shown += &redactor.push("-one b");
    shown += &redactor.finish();
    assert_eq!(shown, "[redacted] b");
}

#[test]
fn redacts_secret_with_invisible_characters() {
    let secrets = secrets(&["s3cret-one"]);
    let (mut first, mut second) = ("a s3\u{200b}cr".to_owned(), "\u{ad}et-one".to_owned());
    secrets.redact_joined(&mut [&mut first, &mut second]);
    assert_eq!([first, second], ["a [redacted]", ""]);
    let mut other = "a\u{200d}b".to_owned();
    secrets.redact_text(&mut other);
    assert_eq!(other, "a\u{200d}b");
}

#[test]
fn redacts_keys_texts_and_numbers_of_json() {
    let mut value =
        json!({"s3cret-one": ["x s3cret-one", 12_345_678, true], "n": 1, "m": 12_345_678.5});
    secrets(&["s3cret-one", "12345678"]).redact_value(&mut value);
    assert_eq!(
        value,
        json!({"[redacted]": ["x [redacted]", "[redacted]", true], "n": 1, "m": "[redacted]"})
    );
}

#[test]
fn redacts_secret_as_json_writes_it() {
    let secrets = secrets(&["open/\"sesame\""]);
    assert_eq!(
        secrets.redact(r#"open\/\"sesame\" open/\"sesame\""#),
        "[redacted] [redacted]"
    );
}

#[test]
fn redacts_secret_as_a_query_writes_it() {
    let secrets = secrets(&["a b/c"]);
    assert_eq!(
        secrets.redact("?k=a%20b%2Fc&l=a+b%2Fc"),
        "?k=[redacted]&l=[redacted]"
    );
}

#[test]
fn redacts_secret_in_every_form() {
    let secrets = Secrets::in_all_forms(["open+sesame/7f3a (1)".to_owned().into()]);
    for form in [
        "open%2Bsesame%2F7f3a+%281%29",
        "open%2bsesame%2f7f3a%20%281%29",
        "open%2Bsesame/7f3a%20%281%29",
        "open%2Bsesame%2F7f3a%20(1)",
        "open+sesame\\/7f3a (1)",
        "b3BlbitzZXNhbWUvN2YzYSAoMSk=",
        "b3BlbitzZXNhbWUvN2YzYSAoMSk",
    ] {
        assert_eq!(
            secrets.redact(&format!("a {form} b")),
            "a [redacted] b",
            "{form}"
        );
    }
    for around in ["", "x", "xy", "xyz"] {
        let bytes = format!("{around}open+sesame/7f3a (1){around}");
        let shown = secrets.redact(&STANDARD.encode(bytes)).into_owned();
        assert!(
            shown.contains(MARK) && shown.len() < MARK.len() + 12,
            "{shown}"
        );
    }
}

#[test]
fn redacts_secret_that_escapes_disguise_at_every_cut() {
    let secret = "s3cret/&<one>";
    let all = Secrets::in_all_forms([SecretString::from(secret)]);
    let base64 = STANDARD.encode(format!("{}{secret}{}", "x".repeat(90), "y".repeat(60)));
    let wrapped: Vec<_> = base64
        .as_bytes()
        .chunks(76)
        .map(|line| str::from_utf8(line).unwrap())
        .collect();
    let of_json: String = secret
        .chars()
        .map(|c| format!("\\u{:04x}", u32::from(c)))
        .collect();
    let of_url: String = secret.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let all = Arc::new(all);
    for disguised in [
        r"s3cret/\u0026\u003cone\u003E".to_owned(),
        of_json,
        of_url,
        "s3cret%2f%26%3Cone%3e".to_owned(),
        wrapped.join("\n"),
        wrapped.join("\r\n"),
    ] {
        let text = format!("it is {disguised} ok");
        let whole = all.redact(&text).into_owned();
        assert!(whole.contains(MARK), "{text}");
        for cut in (1..text.len()).filter(|cut| text.is_char_boundary(*cut)) {
            let shown = in_pieces(&all, [&text[..cut], &text[cut..]]).concat();
            assert_eq!(shown, whole, "cut at {cut}: {text}");
        }
    }
}

#[test]
fn redacts_secret_that_is_a_number_of_many_digits() {
    let mut value: Value = serde_json::from_str("[123456789012345678901234, 1.5]").unwrap();
    secrets(&["123456789012345678901234"]).redact_value(&mut value);
    assert_eq!(value, json!(["[redacted]", 1.5]));
}

#[test]
fn exact_redactor_keeps_prefixes_of_secrets() {
    let mut redactor = Redactor::exact(secrets(&["s3cret-one", "two words"]));
    let pieces = ["one s", "3cret-two", " two w", "ords two s3cret-o"];
    let mut shown: Vec<_> = pieces.iter().map(|piece| redactor.push(piece)).collect();
    shown.push(redactor.finish());
    assert_eq!(
        shown,
        ["one ", "s3cret-", "two ", "[redacted] two ", "s3cret-o"]
    );
}

#[test]
fn redacts_bytes_that_are_not_utf8() {
    let mut bytes = b"\xff\x00s3cret-one\xff".to_vec();
    secrets(&["s3cret-one"]).redact_bytes(&mut bytes);
    assert_eq!(bytes, b"\xff\x00[redacted]\xff");
}

#[test]
fn debug_shows_no_secret() {
    let redactor = Redactor::new(secrets(&["s3cret-one"]));
    assert!(!format!("{redactor:?}").contains("s3cret"));
}

#[test]
fn endless_white_space_is_not_buffered() {
    let secrets = Arc::new(secrets(&["pass word"]));
    for redactor in [
        Redactor::new(Arc::clone(&secrets)),
        Redactor::exact(Arc::clone(&secrets)),
    ] {
        let mut redactor = redactor;
        let mut shown = redactor.push("pass");
        for _ in 0..2 * MAX_HIDDEN_BYTES {
            shown += &redactor.push(" ");
            assert!(redactor.buffer.len() <= MAX_HIDDEN_BYTES + 4 * secrets.longest());
        }
        shown += &redactor.push("word");
        assert_eq!(shown + &redactor.finish(), MARK);
    }
}

proptest! {
    #[test]
    fn chunked_input_gives_same_result_as_whole(
        all in prop::collection::vec("[abé ]{1,5}", 0..4),
        pieces in prop::collection::vec("[abcé ]{0,4}", 0..12),
    ) {
        let all: Vec<_> = all.iter().map(String::as_str).collect();
        let secrets = secrets(&all);
        let whole = pieces.concat();
        let shown = in_pieces(&secrets, pieces.iter().map(String::as_str));
        prop_assert_eq!(shown.concat(), secrets.redact(&whole));

        let mut exact = Redactor::exact(Arc::clone(&secrets));
        let mut shown: String = pieces.iter().map(|piece| exact.push(piece)).collect();
        prop_assert!(joined_space(&exact.buffer).len() < secrets.longest().max(1));
        shown += &exact.finish();
        prop_assert_eq!(shown, secrets.redact(&whole));

        let mut parts = pieces.clone();
        secrets.redact_joined(&mut parts.iter_mut().collect::<Vec<_>>());
        prop_assert_eq!(parts.concat(), secrets.redact(&whole));

        let mut bytes = whole.clone().into_bytes();
        secrets.redact_bytes(&mut bytes);
        prop_assert_eq!(bytes, secrets.redact(&whole).into_owned().into_bytes());
    }
}

/// What stands between the letters of a secret and disappears when a program shows the text.
const SEPARATORS: [&str; 16] = [
    "\u{0}",
    "\u{7}",
    "\u{8}",
    "\u{1b}",
    "\u{1b}[31m",
    "\u{1b}[0;1;38;5;4m",
    "\u{1b}]0;t\u{7}",
    "\u{1b}]8;;h\u{1b}\\",
    "\u{1b}(B",
    "\u{7f}",
    "\u{9b}1m",
    "\u{9d}t\u{9c}",
    "\u{fffa}",
    "\u{200b}",
    "\u{202e}",
    "\u{ad}",
];

#[test]
fn redacts_secret_with_hidden_sequences_at_every_cut() {
    for separator in SEPARATORS {
        let text = format!("a s3{separator}cr{separator}{separator}et-one b");
        let whole = secrets(&["s3cret-one"]);
        assert_eq!(whole.redact(&text), "a [redacted] b", "{separator:?}");
        for (cut, _) in text.char_indices() {
            for make in [Redactor::new, Redactor::exact] {
                let mut redactor = make(secrets(&["s3cret-one"]));
                let mut shown = redactor.push(&text[..cut]) + &redactor.push(&text[cut..]);
                shown += &redactor.finish();
                assert_eq!(shown, "a [redacted] b", "{separator:?} {cut}");
            }
        }
    }
}

#[test]
fn redacts_secret_whose_spaces_a_line_joins() {
    let secrets = secrets(&["correct horse  battery"]);
    assert_eq!(
        secrets.redact("a correct\n horse\u{200b} \tbattery b"),
        "a [redacted] b"
    );
}

proptest! {
    #[test]
    fn shown_text_has_no_secret(parts in proptest::collection::vec(any::<(u8, u8)>(), 0..30)) {
        let secret = "s3cret-one";
        let all = secrets(&[secret]);
        let text: String = parts
            .iter()
            .flat_map(|(letter, separator)| [
                &secret[usize::from(*letter) % 10..=usize::from(*letter) % 10],
                SEPARATORS[usize::from(*separator) % SEPARATORS.len()],
            ])
            .collect();
        let text = format!("{text}{}", secret.split("").collect::<Vec<_>>().join("\u{1b}[1m"));
        let redacted = all.redact(&text);
        let shown = crate::visible::visible(&redacted);
        prop_assert!(!shown.contains(secret), "{shown:?}");
    }
}
