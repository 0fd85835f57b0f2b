#![allow(clippy::unwrap_used)]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::*;
use crate::backend::Utterance;

const KEY: &str = "sk-0123456789abcdef";

/// Starts an endpoint that sends literal responses in order. Returns a backend for it, and the bodies of its requests.
async fn endpoint_of(responses: Vec<Vec<u8>>) -> (ModelBackend, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let (received, requests) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        for response in responses {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !is_complete(&request) {
                assert!(stream.read_buf(&mut request).await.unwrap() > 0);
            }
            let _ = received.send(String::from_utf8(request).unwrap());
            // The client may close before it has read the whole response.
            let _ = stream.write_all(&response).await;
        }
    });
    let settings = ModelSettings {
        url: url.parse().unwrap(),
        model: "small".into(),
        system: Some("Be brief.".into()),
        key: Some(KEY.into()),
        allow_private: false,
    };
    (ModelBackend::new(settings).unwrap(), requests)
}

fn is_complete(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse::<usize>().ok())?
    });
    body.len() >= length.unwrap_or_default()
}

fn response(status: &str, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    )
    .into_bytes()
}

fn completion(message: &Value) -> Vec<u8> {
    let body = json!({"choices": [{"message": message, "finish_reason": "stop"}]});
    response(
        "200 OK",
        "content-type: application/json\r\n",
        &body.to_string(),
    )
}

fn turn() -> Turn {
    let said = |from: &str, text: &str| Utterance {
        from: from.into(),
        text: text.into(),
    };
    Turn {
        agent: "alpha".into(),
        from: "steward".into(),
        thread: "t".into(),
        text: "And now?".into(),
        history: vec![said("steward", "Hello"), said("alpha", "Hi")],
        proposal: None,
        delegation: None,
    }
}

async fn answer(responses: Vec<Vec<u8>>) -> Result<String, BackendError> {
    let (backend, _requests) = endpoint_of(responses).await;
    let answered = backend
        .answer(&turn(), &|_| {}, &CancellationToken::new())
        .await;
    if let Err(error) = &answered {
        assert!(!format!("{error:?}").contains(KEY), "{error:?}");
    }
    answered
}

#[tokio::test]
async fn model_reads_instructions_and_conversation() {
    let (backend, mut requests) = endpoint_of(vec![completion(
        &json!({"role": "assistant", "content": "Now."}),
    )])
    .await;
    let text = backend
        .answer(&turn(), &|_| {}, &CancellationToken::new())
        .await;
    assert_eq!(text.unwrap(), "Now.");
    let request = requests.recv().await.unwrap();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert!(
        head.starts_with("POST /v1/chat/completions HTTP/1.1"),
        "{head}"
    );
    assert!(head.contains(&format!("Bearer {KEY}")));
    let body: Value = serde_json::from_str(body).unwrap();
    let expected = json!([
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi"}, {"role": "user", "content": "And now?"},
    ]);
    assert_eq!(
        (&body["model"], &body["messages"]),
        (&json!("small"), &expected)
    );
}

#[tokio::test]
async fn key_is_not_in_debug_output() {
    let (backend, _requests) = endpoint_of(Vec::new()).await;
    assert!(!format!("{backend:?}").contains(KEY));
}

#[tokio::test]
async fn overloaded_endpoint_is_retried() {
    let busy = || response("429 Too Many Requests", "retry-after: 0\r\n", "slow down");
    let good = completion(&json!({"content": "Now."}));
    assert_eq!(answer(vec![busy(), busy(), good]).await.unwrap(), "Now.");
    let error = answer(vec![busy(), busy(), busy()]).await.unwrap_err();
    assert!(error.is_busy, "{error:?}");
    let long = response("429 Too Many Requests", "retry-after: 3600\r\n", "");
    assert!(answer(vec![long]).await.unwrap_err().is_busy);
}

#[tokio::test]
async fn error_of_the_endpoint_is_for_the_operator() {
    let body = format!(r#"{{"error": {{"message": "Incorrect API key provided: {KEY}"}}}}"#);
    let error = answer(vec![response("401 Unauthorized", "", &body)])
        .await
        .unwrap_err();
    assert_eq!(error.message, "the agent's model answered with HTTP 401");
    assert!(error.detail.unwrap().starts_with("Incorrect API key"));
}

#[tokio::test]
async fn page_and_half_a_json_are_no_answers() {
    let page = response(
        "200 OK",
        "content-type: text/html\r\n",
        "<html>Sign in</html>",
    );
    let half = response("200 OK", "", r#"{"choices": [{"message": {"content": "No"#);
    for body in [page, half] {
        let error = answer(vec![body]).await.unwrap_err();
        assert!(error.message.contains("not JSON"), "{error}");
    }
}

#[tokio::test]
async fn cut_response_is_no_answer() {
    let mut cut = completion(&json!({"content": "Now."}));
    cut.truncate(cut.len() - 10);
    let error = answer(vec![cut]).await.unwrap_err();
    assert!(error.message.contains("broke off"), "{error}");
}

#[tokio::test]
async fn refusal_is_an_error() {
    let refusal = completion(&json!({"content": null, "refusal": "I cannot help."}));
    let error = answer(vec![refusal]).await.unwrap_err();
    assert_eq!(error.message, "the model refused: I cannot help.");
}

#[tokio::test]
async fn response_of_ten_megabytes_is_refused() {
    let huge = "x".repeat(10 << 20);
    let error = answer(vec![completion(&json!({"content": huge}))])
        .await
        .unwrap_err();
    assert!(error.message.contains("more than 4194304 bytes"), "{error}");
}

#[tokio::test]
async fn answer_without_text_is_an_error() {
    for message in [json!({"content": ""}), json!({}), json!({"content": 7})] {
        assert!(
            answer(vec![completion(&message)]).await.is_err(),
            "{message}"
        );
    }
}

#[tokio::test]
async fn answer_never_repeats_the_key() {
    let escaped: String = KEY.bytes().map(|byte| format!("%{byte:02x}")).collect();
    for form in [KEY, &escaped, &STANDARD.encode(KEY)] {
        let content = json!({"content": format!("It is {form}.")});
        let text = answer(vec![completion(&content)]).await;
        assert_eq!(text.unwrap(), "It is [redacted].");
        let error = answer(vec![response("500 Error", "", form)]).await;
        assert_eq!(error.unwrap_err().detail.unwrap(), "[redacted]");
    }
}

#[tokio::test]
async fn control_characters_do_not_hide_the_key() {
    let split: String = KEY.chars().flat_map(|c| [c, '\u{1}']).collect();
    let content = json!({"content": format!("It is {split}.")});
    let text = answer(vec![completion(&content)]).await.unwrap();
    assert_eq!(text, "It is [redacted].");
    let body = format!("It is {split}.");
    let error = answer(vec![response("500 Error", "", &body)]).await;
    let detail = error.unwrap_err().detail.unwrap_or_default();
    assert!(
        !detail.contains("0\u{1}1") && !detail.contains(KEY),
        "{detail}"
    );
}

#[tokio::test]
async fn answer_may_begin_with_a_byte_order_mark() {
    let body = format!(
        "\u{feff}{}",
        json!({"choices": [{"message": {"content": "a\\ud83d"}}]})
    );
    let body = body.replace("a\\\\ud83d", "a\\ud83d");
    let text = answer(vec![response("200 OK", "", &body)]).await;
    assert_eq!(text.unwrap(), "a\u{fffd}");
}

#[tokio::test]
async fn answer_of_small_values_is_refused() {
    let list = vec![json!({"a": 0}); 100_000];
    let body = json!({"choices": list}).to_string();
    let error = answer(vec![response("200 OK", "", &body)]).await;
    assert!(error.is_err());
}

#[test]
fn url_of_the_endpoint_is_completed() {
    let base = "http://127.0.0.1:4000";
    for (url, expected) in [
        ("", "/v1/chat/completions"),
        ("/v1/", "/v1/chat/completions"),
        ("/agent/beta", "/agent/beta/v1/chat/completions"),
        ("/x/chat/completions?v=1", "/x/chat/completions?v=1"),
    ] {
        let found = endpoint(&format!("{base}{url}").parse().unwrap()).unwrap();
        assert_eq!(found.as_str(), format!("{base}{expected}"));
    }
    assert!(endpoint(&"ftp://a.example".parse().unwrap()).is_err());
}
