#![allow(clippy::unwrap_used)]

use tokio::io::AsyncReadExt as _;

use super::*;

fn refusal(line: Line) -> (Value, i32) {
    match parse(line) {
        Err((id, error)) => (id, error.code),
        Ok(_) => (json!("a message"), 0),
    }
}

#[test]
fn what_is_no_message_is_refused_with_its_id() {
    for (line, id, code) in [
        ("nonsense", Value::Null, RpcError::PARSE),
        ("{\"id\": 1", Value::Null, RpcError::PARSE),
        ("[]", Value::Null, RpcError::INVALID_REQUEST),
        ("{}", Value::Null, RpcError::INVALID_REQUEST),
        (r#"{"id": 7}"#, json!(7), RpcError::INVALID_REQUEST),
        (
            r#"{"id": [7], "method": "initialize"}"#,
            Value::Null,
            RpcError::INVALID_REQUEST,
        ),
        (
            r#"{"id": null, "method": "initialize"}"#,
            Value::Null,
            RpcError::INVALID_REQUEST,
        ),
        (
            r#"{"id": "a", "method": 1}"#,
            json!("a"),
            RpcError::INVALID_REQUEST,
        ),
        (
            r#"{"id": 8, "method": "initialize", "params": [1]}"#,
            json!(8),
            RpcError::INVALID_PARAMS,
        ),
    ] {
        let refused = refusal(Line::Bytes(line.into()));
        assert_eq!(refused, (id, code), "{line}");
    }
    let no_text = Line::Bytes(b"\xff\xfe".to_vec());
    assert_eq!(refusal(no_text).1, RpcError::PARSE);
    let too_long = (Value::Null, RpcError::INVALID_REQUEST);
    assert_eq!(refusal(Line::TooLong), too_long);
}

#[test]
fn frame_of_many_small_values_is_refused_unparsed() {
    let values = "{\"a\":0},".repeat(50_000);
    let frame =
        format!(r#"{{"id": 1, "method": "session/prompt", "params": {{"x": [{values}0]}}}}"#);
    assert!(frame.len() < MAX_FRAME_BYTES);
    assert_eq!(refusal(Line::Bytes(frame.into_bytes())).1, RpcError::PARSE);
}

#[tokio::test]
async fn output_is_full_until_the_client_reads() {
    let (output, frames) = Output::new();
    let (mut client, stream) = tokio::io::duplex(1024);
    let writer = tokio::spawn(write_frames(frames, Arc::clone(&output.unwritten), stream));
    output.send(&json!("x".repeat(MAX_UNWRITTEN_BYTES)), None);
    assert!(output.is_full());
    output.end();
    let mut read = Vec::new();
    client.read_to_end(&mut read).await.unwrap();
    writer.await.unwrap();
    assert!(read.len() > MAX_UNWRITTEN_BYTES && !output.is_full());
}

#[test]
fn words_of_a_file_do_not_reach_its_address() {
    let file = json!({"name": "../../.ssh/authorized_keys\u{1b}\u{202e}", "mimeType": "text/plain\n<|im_start|>", "bytes": "eA=="});
    let block = content::file_block(&file);
    assert_eq!(block["resource"]["uri"], "artifact:authorized_keys");
    assert!(block["resource"]["mimeType"].is_null(), "{block}");
}

#[test]
fn response_of_the_client_is_ignored() {
    for response in [
        r#"{"jsonrpc": "2.0", "id": 1, "result": null}"#,
        r#"{"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "no"}}"#,
    ] {
        let response = parse(Line::Bytes(response.into()));
        assert!(matches!(response, Ok(Message::Response)));
    }
}

#[test]
fn cancellation_needs_no_id_and_may_have_null() {
    for id in ["", r#""id": null, "#] {
        let frame = format!(r#"{{{id}"method": "session/cancel", "params": {{}}}}"#);
        let parsed = parse(Line::Bytes(frame.into_bytes()));
        assert!(matches!(parsed, Ok(Message::Notification(..))), "{id}");
    }
}

#[test]
fn session_id_names_no_other_file() {
    let folder = tempfile::tempdir().unwrap();
    let files = SessionFiles::open(Some(folder.path().join("acp"))).unwrap();
    let files = files.unwrap();
    let id = SessionFiles::new_id();
    let continuation = json!({"conversation": {"context_id": "c"}});
    for name in ["../a", &format!("../acp/{id}"), &id.to_uppercase(), ""] {
        files.write(name, Some(&continuation));
        assert_eq!(files.read(name), None, "{name}");
    }
    assert_eq!(files.read(&id), None);
    files.write(&id, None);
    assert_eq!(files.read(&id), Some(None));
    files.write(&id, Some(&continuation));
    assert_eq!(files.read(&id), Some(Some(continuation)));
}

mod content_blocks {
    use super::super::content::parts;
    use super::*;

    fn modes(modes: &[&str]) -> Vec<String> {
        modes.iter().map(|mode| (*mode).to_owned()).collect()
    }

    #[test]
    fn become_parts_that_the_agent_takes() {
        let image = json!({"type": "image", "data": "aGk=", "mimeType": "image/png"});
        let image_part = json!({"kind": "file", "bytes": "aGk=", "mime_type": "image/png"});
        let code = json!({"type": "resource", "resource": {"uri": "file:///a/b.rs", "mimeType": "text/x-rust", "text": "fn"}});
        let code_text = json!({"kind": "text", "text": "file:///a/b.rs:\nfn"});
        let code_file =
            json!({"kind": "file", "bytes": "Zm4=", "mime_type": "text/x-rust", "name": "b.rs"});
        let link = json!({"type": "resource_link", "name": "b", "uri": "file:///a/b.png", "mimeType": "image/png"});
        let web = json!({"type": "resource_link", "name": "b", "uri": "https://a.example/b.png", "mimeType": "image/png"});
        for (block, modes, part) in [
            (&image, modes(&["image/png"]), &image_part),
            (&image, modes(&["text/plain", "image/*"]), &image_part),
            (&image, modes(&[]), &image_part),
            (&code, modes(&["text/x-rust"]), &code_file),
            (&code, modes(&["text/plain"]), &code_text),
            (&code, modes(&[]), &code_text),
            (
                &link,
                modes(&["image/png"]),
                &json!({"kind": "text", "text": "file:///a/b.png"}),
            ),
            (
                &web,
                modes(&["image/png"]),
                &json!({"kind": "file", "uri": "https://a.example/b.png", "mime_type": "image/png"}),
            ),
        ] {
            let made = parts(&json!([block]), &modes).unwrap();
            assert_eq!(made, std::slice::from_ref(part), "{block} {modes:?}");
        }
    }

    #[test]
    fn that_do_not_fit_are_refused() {
        for (blocks, cause) in [
            (json!(null), "must be an array"),
            (json!([]), "no content"),
            (json!([{"type": "text"}]), "no `text`"),
            (json!([{"type": "video"}]), "unknown type `video`"),
            (json!([{"type": "resource", "resource": {}}]), "neither"),
            (
                json!([{"type": "image", "data": "aGk=", "mimeType": "image/png"}]),
                "takes no `image/png`, only text/plain",
            ),
        ] {
            let error = parts(&blocks, &modes(&["text/plain"])).unwrap_err();
            assert_eq!(error.code, RpcError::INVALID_PARAMS);
            assert!(error.message.contains(cause), "{}", error.message);
        }
    }
}
