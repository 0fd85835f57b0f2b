//! Converts an answer's payloads to parts: text, and files by URL.

use serde_json::{Value, json};
use url::Url;

/// Returns a text part.
pub(super) fn text_part(text: &str) -> Value {
    json!({ "kind": "text", "text": text })
}

/// Returns the parts of a payload `{text, mediaUrl, mediaUrls}`.
pub(super) fn parts_of(payload: &Value) -> Vec<Value> {
    let text = payload["text"].as_str().filter(|text| !text.is_empty());
    let several = payload["mediaUrls"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let mut media: Vec<&str> = several.iter().filter_map(Value::as_str).collect();
    if let Some(one) = payload["mediaUrl"].as_str()
        && !media.contains(&one)
    {
        media.insert(0, one);
    }
    text.map(text_part)
        .into_iter()
        .chain(media.into_iter().map(file_part))
        .collect()
}

/// Returns the part of a file. Paths on the gateway's machine are private, so such a file is shown by name only.
fn file_part(media: &str) -> Value {
    let guess = |name: &str| mime_guess::from_path(name).first_raw();
    match Url::parse(media) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => {
            let name = last_of(url.path());
            let mut file = json!({ "uri": media });
            if let Some(mime_type) = guess(name) {
                file["mimeType"] = mime_type.into();
            }
            if !name.is_empty() {
                file["name"] = name.into();
            }
            json!({ "kind": "file", "file": file })
        }
        Ok(url) if url.scheme() == "data" => data_url(url.path()),
        _ => text_part(&format!(
            "[The agent made the file {}. It stays on the gateway's machine; the gateway does not transfer it.]",
            last_of(media)
        )),
    }
}

/// Parses `TYPE;base64,BYTES`, the part of a data URL after `data:`.
fn data_url(rest: &str) -> Value {
    let (head, bytes) = rest.split_once(',').unwrap_or((rest, ""));
    match head.strip_suffix(";base64") {
        Some(mime_type) if !mime_type.is_empty() => {
            json!({ "kind": "file", "file": { "bytes": bytes, "mimeType": mime_type } })
        }
        Some(_) => json!({ "kind": "file", "file": { "bytes": bytes } }),
        None => text_part("[The agent made a file in an unreadable encoding.]"),
    }
}

/// Returns the text after the last `/` or `\`.
fn last_of(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_urls_become_files_with_their_types() {
        let payload = json!({"text": "See.", "mediaUrl": "https://example.com/a/pic.png?size=2", "mediaUrls": null});
        assert_eq!(
            parts_of(&payload),
            [
                json!({"kind": "text", "text": "See."}),
                json!({"kind": "file", "file": {"uri": "https://example.com/a/pic.png?size=2", "name": "pic.png", "mimeType": "image/png"}})
            ]
        );
    }

    #[test]
    fn repeated_media_url_is_one_file() {
        let payload = json!({"mediaUrl": "https://e.com/a.mp3", "mediaUrls": ["https://e.com/a.mp3", "https://e.com/b"]});
        let parts = parts_of(&payload);
        assert_eq!(parts.len(), 2);
        assert_eq!(parts[0]["file"]["mimeType"], "audio/mpeg");
        assert_eq!(parts[1]["file"].get("mimeType"), None);
    }

    #[test]
    fn data_url_stays_bytes() {
        let payload = json!({"mediaUrl": "data:image/png;base64,iVBORw0="});
        assert_eq!(
            parts_of(&payload),
            [json!({"kind": "file", "file": {"bytes": "iVBORw0=", "mimeType": "image/png"}})]
        );
    }

    #[test]
    fn hides_path_of_gateway_machine() {
        for path in [
            "/home/user1/.openclaw/media/x.png",
            "file:///home/user1/x.png",
            "C:\\Users\\user1\\x.png",
            "./media/x.png",
        ] {
            let part = parts_of(&json!({"mediaUrl": path}))[0].to_string();
            assert!(
                part.contains("x.png") && !part.contains("user1") && !part.contains("media/"),
                "{part}"
            );
        }
    }
}
