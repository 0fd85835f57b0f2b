//! Cuts a large envelope into pieces, so that the event loop of a host takes turns while it parses them.

use std::{iter, mem};

/// The size of a piece in bytes. Node.js parses it in one to three milliseconds. Only one long text makes a piece larger.
const PIECE_BYTES: usize = 256 * 1024;

/// Returns the envelope, and the pieces that complete it in their order. A piece is JSON, `[path, items]`: the items to add to
/// the array at the path. A small envelope has no pieces.
pub(super) fn cut(envelope: String) -> Vec<String> {
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
    let inside = json.get(1..json.len().saturating_sub(1));
    match (json.as_bytes().first(), inside) {
        (Some(b'{'), Some(inside)) if json.len() > PIECE_BYTES => {
            let mut before = '{';
            for member in elements(inside) {
                let (key, value) = member.split_at(end_of_first(member, b':'));
                short.push(mem::replace(&mut before, ','));
                short.push_str(key);
                short.push(':');
                let value = value.get(1..).unwrap_or_default();
                shorten(value, &inner(path, key), short, pieces);
            }
            short.push('}');
        }
        (Some(b'['), Some(inside)) if json.len() > PIECE_BYTES => {
            short.push_str("[]");
            let mut piece = String::new();
            // The items of a long item come after the piece that it is in.
            let mut rest = Vec::new();
            for (place, item) in elements(inside).enumerate() {
                if !piece.is_empty() && piece.len() + item.len() > PIECE_BYTES {
                    pieces.push(finished(path, &mem::take(&mut piece)));
                    pieces.append(&mut rest);
                }
                if !piece.is_empty() {
                    piece.push(',');
                }
                shorten(
                    item,
                    &inner(path, &place.to_string()),
                    &mut piece,
                    &mut rest,
                );
            }
            pieces.push(finished(path, &piece));
            pieces.append(&mut rest);
        }
        _ => short.push_str(json),
    }
}

fn finished(path: &str, items: &str) -> String {
    format!("[[{path}],[{items}]]")
}

fn inner(path: &str, key: &str) -> String {
    match path {
        "" => key.to_owned(),
        _ => format!("{path},{key}"),
    }
}

/// Returns what commas separate in the inside of an object or an array.
fn elements(mut inside: &str) -> impl Iterator<Item = &str> {
    iter::from_fn(move || {
        let (element, rest) = inside.split_at(end_of_first(inside, b','));
        inside = rest.get(1..).unwrap_or_default();
        (!element.is_empty()).then_some(element)
    })
}

/// Returns the place of the first `stop` that is in no string, object or array, or the length.
fn end_of_first(json: &str, stop: u8) -> usize {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let end = json.bytes().position(|byte| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => return depth == 0 && byte == stop,
        }
        false
    });
    end.unwrap_or(json.len())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::{Value, json};

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
        let pieces = cut(whole.to_string());
        assert_eq!(assembled(&pieces), whole);
        let longest = pieces.iter().map(String::len).max();
        assert!(longest.unwrap() < PIECE_BYTES + 100, "{longest:?}");
    }

    #[test]
    fn small_envelope_is_one_piece() {
        let whole = json!({"artifacts": [artifact(1, 100)]}).to_string();
        assert_eq!(cut(whole.clone()), [whole]);
    }

    #[test]
    fn one_long_text_stays_whole() {
        let whole = json!({"parts": [{"text": "x".repeat(2 * PIECE_BYTES)}], "ok": true});
        let pieces = cut(whole.to_string());
        assert_eq!((assembled(&pieces), pieces.len()), (whole, 2));
    }
}
