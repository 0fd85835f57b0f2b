//! Invalid requests.

use std::time::{Duration, Instant};

use openclaw_remote_agent::plugin::CallInput;
use serde_json::{Value, json};

use crate::faults::tool_fixture::{ToolFixture, parse, reason, within_timeout};

fn fixture() -> ToolFixture {
    ToolFixture::with_target(json!({"baseUrl": "https://desk.example"}))
}

async fn call(request: String) -> Value {
    let input = CallInput {
        request,
        ..CallInput::default()
    };
    parse(&within_timeout(fixture().plugin.start(input)).await)
}

#[tokio::test]
async fn ten_thousand_invalid_parts_are_refused_and_counted() {
    let request = json!({"action": "send", "parts": vec![json!({"kind": "text"}); 10_000]});
    let envelope = fixture().call(&request).await;
    let details = &envelope["error"]["details"];
    let listed = details["errors"].as_array().unwrap().len();
    let omitted = usize::try_from(details["more_errors"].as_u64().unwrap()).unwrap();
    assert!(listed <= 20, "{listed} listed");
    assert!(
        listed + omitted >= 10_000,
        "{listed} listed, {omitted} more"
    );
    assert!(
        envelope.to_string().len() < 20_000,
        "{} bytes",
        envelope.to_string().len()
    );
}

#[tokio::test]
async fn ten_thousand_unknown_fields_are_refused_quickly() {
    let fields: serde_json::Map<_, _> = (0..10_000)
        .map(|number| (format!("field{number}"), json!(1)))
        .collect();
    let mut request = Value::Object(fields);
    request["action"] = json!("send");
    let started = Instant::now();
    let envelope = fixture().call(&request).await;
    assert!(
        started.elapsed() < Duration::from_secs(60),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(envelope["error"]["code"], "VALIDATION_ERROR");
    assert!(envelope.to_string().len() < 20_000);
}

#[tokio::test]
async fn non_object_is_validation_error() {
    let deep = "[".repeat(100_000);
    let texts = [
        "",
        " ",
        "{",
        "nul",
        "null",
        "[]",
        "7",
        "\"send\"",
        "{\"action\":\"send\"} {}",
        "\u{feff}{}",
        "{\"action\":\"send\",\"action\":7}",
        "1e999",
        deep.as_str(),
    ];
    for text in texts {
        let envelope = call(text.to_owned()).await;
        assert_eq!(envelope["ok"], false, "{text:.40}");
        assert_eq!(envelope["error"]["code"], "VALIDATION_ERROR", "{text:.40}");
    }
}

#[tokio::test]
async fn megabyte_in_a_field_is_repeated_once_at_most() {
    let long = "x".repeat(1 << 20);
    let requests = [
        json!({"action": long}),
        json!({"action": "send", "target_alias": long, "parts": [{"kind": "text", "text": "hello"}]}),
        json!({"action": "send", "target_url": format!("{long}://x"), "parts": [{"kind": "text", "text": "hello"}]}),
        json!({"action": "send", long: 1}),
    ];
    for request in requests {
        let envelope = fixture().call(&request).await;
        let bytes = envelope.to_string().len();
        assert!(
            bytes < (1 << 20) + (1 << 17),
            "{bytes} bytes: {:.300}",
            envelope.to_string()
        );
    }
}

#[tokio::test]
async fn malformed_caller_gives_an_envelope() {
    for caller in ["", "{", "null", "7", "{\"chain\":7}"] {
        let input = CallInput {
            request: json!({"action": "status", "task_handle": "rah_0a3ff8c2-4a6d-48cb-a57d-4ae6f3c589d0"}).to_string(),
            caller: Some(caller.to_owned()),
            ..CallInput::default()
        };
        let envelope = parse(&within_timeout(fixture().plugin.start(input)).await);
        assert_ne!(reason(&envelope), "internal", "{caller}");
    }
}
