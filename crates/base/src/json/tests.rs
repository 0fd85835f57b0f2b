#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn read(text: &[u8]) -> Value {
    from_slice(text, Limits::NONE).unwrap()
}

fn fault(text: &[u8]) -> String {
    from_slice::<Value>(text, Limits::NONE)
        .unwrap_err()
        .to_string()
}

#[test]
fn appended_json_is_that_of_serde_json() {
    let value = json!({"a": ["\"", "é\n", 1.5, null, true], "b": {}});
    let mut json = b"x".to_vec();
    append(&mut json, &value).unwrap();
    assert_eq!(json, format!("x{value}").into_bytes());
}

#[test]
fn drops_one_byte_order_mark() {
    assert_eq!(read(b"\xEF\xBB\xBF{\"a\":1}"), json!({"a": 1}));
    assert!(fault(b"\xEF\xBB\xBF\xEF\xBB\xBF1").contains("line 1, column 1"));
}

#[test]
fn replaces_surrogates_without_their_pair() {
    for (text, expected) in [
        (r#""\ud83d""#, "\u{FFFD}"),
        (r#""a\uDC00b""#, "a\u{FFFD}b"),
        (r#""\ud83d\ude00""#, "😀"),
        (r#""\ud83d\ud83d\ude00""#, "\u{FFFD}😀"),
        (r#""\ude00\ud83d""#, "\u{FFFD}\u{FFFD}"),
        (r#""\\ud83d""#, r"\ud83d"),
        (r#""\\\ud83d""#, "\\\u{FFFD}"),
        (r#""\ud83d\n""#, "\u{FFFD}\n"),
    ] {
        assert_eq!(read(text.as_bytes()), expected, "{text}");
    }
    assert_eq!(read(br#"{"\ud800":1}"#), json!({"\u{FFFD}": 1}));
}

#[test]
fn errors_name_the_place_and_quote_nothing() {
    assert_eq!(fault(b""), "it is empty");
    assert_eq!(fault(b" \n"), "it is empty");
    assert_eq!(fault(b"<html>secret"), "expected value at line 1, column 1");
    assert_eq!(
        fault(b"{\"a\":\n\"\xFF\"}"),
        "invalid UTF-8 at line 2, column 2"
    );
    assert_eq!(fault(b"\xFF\xFE{\0}\0"), "it is UTF-16, not UTF-8");
    let error = from_slice::<u8>(b"\"s3cret\"", Limits::NONE).unwrap_err();
    assert_eq!(error.kind, JsonErrorKind::Type);
    assert_eq!(
        error.to_string(),
        "a value of the wrong type at line 1, column 8"
    );
}

#[test]
fn strings_do_not_count() {
    for json in [
        r#""""#,
        r#""[{,:\"[{,:""#,
        r#""\\""#,
        "\"unfinished [{,:",
        "\"\\",
    ] {
        let expected = Structure {
            depth: 0,
            values: 1,
            memory: VALUE_BYTES,
        };
        assert_eq!(Structure::of(json.as_bytes()), expected, "{json}");
    }
}

#[test]
fn structure_weighs_more_than_its_text() {
    let structure = Structure::of(br#"{"a":[ ],"b":{}}"#);
    let memory = 2 * VALUE_BYTES + OBJECT_BYTES + 2 * KEY_BYTES;
    assert_eq!((structure.depth, structure.memory), (2, memory));
    let dense = "{\"a\":0},".repeat(1000);
    assert!(Structure::of(dense.as_bytes()).memory > 80 * dense.len());
}

#[test]
fn parsed_values_weigh_about_as_much_as_their_text_says() {
    for text in ["0", "[]", "{}", "[0,[1]]", r#"{"":{"":[null,{}]}}"#] {
        let of_text = Structure::of(text.as_bytes()).memory;
        let of_value = memory(&read(text.as_bytes()));
        assert!((of_text..2 * of_text).contains(&of_value), "{text}");
    }
    assert_eq!(
        memory(&json!({"key": "text"})),
        memory(&json!({"": ""})) + 7
    );
}

#[test]
fn limits_hold_before_parsing() {
    let limits = Limits {
        depth: 3,
        values: 10,
        memory: 4000,
    };
    let kind = |text: &str| check(text.as_bytes(), limits).err().map(|error| error.kind);
    assert_eq!(kind("[[[1]]]"), None);
    assert_eq!(kind("[[[[1]]]]"), Some(JsonErrorKind::TooDeep));
    assert_eq!(kind("[1,2,3,4,5,6,7,8]"), None);
    assert_eq!(
        kind("[1,2,3,4,5,6,7,8,9,10,11]"),
        Some(JsonErrorKind::TooManyValues)
    );
    let objects = Limits {
        depth: 9,
        values: 1000,
        memory: 4000,
    };
    assert!(check("[{\"a\":0},{\"a\":0},{\"a\":0}]".as_bytes(), objects).is_ok());
    assert!(check("{\"a\":0},".repeat(9).as_bytes(), objects).is_err());
}

#[test]
fn whole_numbers_may_be_doubles() {
    for (value, expected) in [
        (json!(7), Some(7)),
        (json!(u64::MAX), Some(u64::MAX)),
        (json!(7.0), Some(7)),
        (json!(9_007_199_254_740_992.0), Some(1 << 53)),
        (json!(9_007_199_254_740_994.0), None),
        (json!(-1), None),
        (json!(1.5), None),
        (json!(1e99), None),
        (json!("1"), None),
    ] {
        assert_eq!(whole_number(&value), expected, "{value}");
    }
}

proptest! {
    #[test]
    fn limits_need_no_scan_where_they_hold(text in r#"[\[\]{},:"\\a0 ]{0,60}"#, depth in 0_usize..6) {
        let limits = Limits { depth, ..Limits::NONE };
        let expected = Structure::of(text.as_bytes()).depth <= depth;
        prop_assert_eq!(check(text.as_bytes(), limits).is_ok(), expected);
    }

    #[test]
    fn valid_json_is_read_as_the_parser_reads_it(text in r#"\[("(\\\\|\\n|\\u00e9|[a-z])*",)*[0-9]\]"#) {
        let expected: Value = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(read(text.as_bytes()), expected);
    }

    #[test]
    fn every_string_of_escapes_is_readable(codes in proptest::collection::vec(any::<u16>(), 0..12)) {
        let escapes: String = codes.iter().map(|code| format!("\\u{code:04x}")).collect();
        let text: String = from_slice(format!("\"{escapes}\"").as_bytes(), Limits::NONE).unwrap();
        prop_assert_eq!(text, String::from_utf16_lossy(&codes));
    }
}
