//! Cuts a large envelope into pieces, so that the event loop of a host takes turns while it parses them.

use std::{collections::BTreeMap, mem};

use serde_json::{Value, value::RawValue};

/// The size of a piece in bytes. Node.js parses it in one to three milliseconds. Only one long text makes a piece larger.
const PIECE_BYTES: usize = 256 * 1024;

/// The length of the longest path of an array that is cut, in bytes. The paths of the envelope's own arrays are shorter. A peer
/// chooses the keys in its data; every piece repeats its path, and every level of a value is read once more.
const PATH_BYTES: usize = 96;

/// Returns the envelope, and the pieces that complete it in their order. A piece is JSON, `[path, items]`: the items to add to
/// the array at the path. A small envelope has no pieces.
pub(super) fn split_envelope(envelope: String) -> Vec<String> {
    if envelope.len() <= PIECE_BYTES {
        return vec![envelope];
    }
    let mut first = String::new();
    let mut pieces = Vec::new();
    shorten(&envelope, "", &mut first, &mut pieces);
    pieces.insert(0, first);
    pieces
}

/// Appends the value at `path` to `short`, without the items of its long arrays, which become pieces.
fn shorten(json: &str, path: &str, short: &mut String, pieces: &mut Vec<String>) {
    if json.len() <= PIECE_BYTES || path.len() > PATH_BYTES {
        short.push_str(json);
    } else if let Ok(members) = serde_json::from_str::<BTreeMap<String, &RawValue>>(json) {
        let mut before = '{';
        for (key, value) in members {
            let key = Value::from(key).to_string();
            short.push(mem::replace(&mut before, ','));
            short.push_str(&key);
            short.push(':');
            shorten(value.get(), &join_path(path, &key), short, pieces);
        }
        short.push('}');
    } else if let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(json) {
        short.push_str("[]");
        let mut piece = String::new();
        // The items of a long item come after the piece that it is in.
        let mut rest = Vec::new();
        for (place, item) in items.into_iter().map(RawValue::get).enumerate() {
            if !piece.is_empty() && piece.len() + item.len() > PIECE_BYTES {
                pieces.push(piece_of(path, &mem::take(&mut piece)));
                pieces.append(&mut rest);
            }
            if !piece.is_empty() {
                piece.push(',');
            }
            if item.len() <= PIECE_BYTES {
                piece.push_str(item);
            } else {
                let path = join_path(path, &place.to_string());
                shorten(item, &path, &mut piece, &mut rest);
            }
        }
        pieces.push(piece_of(path, &piece));
        pieces.append(&mut rest);
    } else {
        short.push_str(json);
    }
}

fn piece_of(path: &str, items: &str) -> String {
    format!("[[{path}],[{items}]]")
}

fn join_path(path: &str, key: &str) -> String {
    match path {
        "" => key.to_owned(),
        _ => format!("{path},{key}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    /// Puts pieces together, as `openclaw/tool.js` does.
    fn assembled(pieces: &[String]) -> Value {
        let mut all: Value = serde_json::from_str(&pieces[0]).unwrap();
        for piece in &pieces[1..] {
            let (path, items): (Vec<Value>, Vec<Value>) = serde_json::from_str(piece).unwrap();
            let place = path.iter().fold(&mut all, |value, key| match key {
                Value::String(key) => &mut value[key],
                key => &mut value[usize::try_from(key.as_u64().unwrap()).unwrap()],
            });
            place.as_array_mut().unwrap().extend(items);
        }
        all
    }

    fn artifact(id: usize, parts: usize) -> Value {
        let parts = (0..parts).map(|n| json!({"kind": "text", "text": format!("\"{n}\\ [{{,")}));
        json!({"artifactId": id, "parts": parts.collect::<Vec<_>>()})
    }

    #[test]
    fn pieces_of_a_large_envelope_make_the_same_value() {
        let artifacts = [3, 30_000, 0, 20_000, 5].map(|parts| artifact(parts, parts));
        let events: Vec<_> = (0..100_000).collect();
        let whole = json!({
            "ok": true, "summary": {"artifacts": artifacts, "a\":,\\": []}, "raw": {"events": events, "none": {}},
        });
        let pieces = split_envelope(whole.to_string());
        assert_eq!(assembled(&pieces), whole);
        let longest = pieces.iter().map(String::len).max();
        assert!(longest.unwrap() < PIECE_BYTES + 100, "{longest:?}");
    }

    #[test]
    fn small_envelope_is_one_piece() {
        let whole = json!({"artifacts": [artifact(1, 100)]}).to_string();
        assert_eq!(split_envelope(whole.clone()), [whole]);
    }

    #[test]
    fn array_below_a_long_key_stays_whole() {
        let key = "k".repeat(PIECE_BYTES);
        let whole = json!({"parts": [{"data": {key: vec![1; PIECE_BYTES]}}]});
        let pieces = split_envelope(whole.to_string());
        assert_eq!(assembled(&pieces), whole);
        assert_eq!(pieces.len(), 2);
    }

    #[test]
    fn one_long_text_stays_whole() {
        let whole = json!({"parts": [{"text": "x".repeat(2 * PIECE_BYTES)}], "ok": true});
        let pieces = split_envelope(whole.to_string());
        assert_eq!((assembled(&pieces), pieces.len()), (whole, 2));
    }
}
