//! Runs the complete tool with a network that responds with the bytes of the input.

use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use base::environment::SystemEnvironment;
use base::log::Silent;
use bytes::Bytes;
use egress::{BoxFuture, HttpClient, NetError, Request, Response};
use futures_util::stream;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, StatusCode};
use jsonschema::Validator;
use openclaw_remote_agent::config::Config;
use openclaw_remote_agent::plugin::{assemble_with_network, parse_config};
use openclaw_remote_agent::remote_agent::{PollIntervals, RemoteAgent, ToolCall};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// The credential of the configured agent. No result may contain it.
pub(crate) const SECRET: &str = "s3cret-4f1b9c77";

/// The configuration of the targets in this module.
const CONFIG: &str = r#"{
    "toolSchema": "full",
    "targets": [{
        "alias": "desk",
        "baseUrl": "https://agent.example/",
        "pins": "off",
        "auth": {"type": "bearer", "token": "s3cret-4f1b9c77"}
    }],
    "limits": {"waitMs": 1000}
}"#;

static RESULT: LazyLock<Validator> = LazyLock::new(|| {
    let schema = include_str!("../../../schema/result.schema.json");
    jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap()
});

/// An agent that serves a card and one response to all other requests.
struct Agent {
    card: Bytes,
    media_type: &'static str,
    answer: Bytes,
}

impl HttpClient for Agent {
    fn exchange(&self, request: Request) -> BoxFuture<'_, Result<Response, NetError>> {
        let card = request.url.path().contains("/.well-known/");
        let (media_type, body) = match card {
            true => ("application/json", self.card.clone()),
            false => (self.media_type, self.answer.clone()),
        };
        // Two pieces, so that parsers see a chunk boundary.
        let half = body.len() / 2;
        let pieces = [Ok(body.slice(..half)), Ok(body.slice(half..))];
        let response = Response {
            status: StatusCode::OK,
            headers: HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(media_type))]),
            body: Box::pin(stream::iter(pieces)),
        };
        Box::pin(std::future::ready(Ok(response)))
    }
}

/// Validates an envelope or an update against its schema.
///
/// # Errors
/// The first violation of the schema.
pub fn check_schema(text: &str) -> Result<(), String> {
    let envelope: Value = serde_json::from_str(text).map_err(|e| format!("{e}: {text}"))?;
    let error = RESULT.iter_errors(&envelope).next();
    error.map_or(Ok(()), |error| {
        Err(format!("{error} at {}: {text}", error.instance_path()))
    })
}

/// Asserts the properties of every envelope and update.
pub(crate) fn check_envelope(agent: &RemoteAgent, text: &str) {
    check_schema(text).unwrap();
    assert!(!text.contains(SECRET), "a secret in {text}");
    let rendered = agent.render(text, 20_000);
    assert!(!rendered.contains(SECRET), "a secret in {rendered}");
    assert!(rendered.chars().count() <= 20_000, "{}", rendered.len());
}

/// Makes one call while `beside` runs, checks its updates and its envelope, and returns the envelope. The paused clock
/// advances only when all tasks wait.
pub(crate) fn call(
    config: &str,
    net: Arc<dyn HttpClient>,
    request: &str,
    beside: impl Future<Output = ()> + Send + 'static,
) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let config = Config::parse(config).unwrap();
    let (env, log) = (Arc::new(SystemEnvironment), Arc::new(Silent));
    let agent = assemble_with_network(&config, net, env, PollIntervals::default(), log).unwrap();
    let updates = Mutex::new(Vec::new());
    let envelope = runtime.block_on(async {
        tokio::spawn(beside);
        let add = |update: &str| updates.lock().unwrap().push(update.to_owned());
        let call = agent.execute(ToolCall {
            request,
            caller: None,
            updates: Some(&add),
            person: None,
            cancel: CancellationToken::new(),
            closing: CancellationToken::new(),
        });
        tokio::time::timeout(Duration::from_hours(1), call).await
    });
    for update in updates.into_inner().unwrap() {
        check_envelope(&agent, &update);
    }
    let envelope = envelope.expect("a call ends by its deadline");
    check_envelope(&agent, &envelope);
    envelope
}

fn card_of(binding: &str, version: &str) -> Value {
    let url = "https://agent.example/a2a";
    match version {
        "0.3" => json!({
            "name": "Desk", "description": "", "version": "1", "protocolVersion": "0.3.0", "url": url,
            "preferredTransport": binding, "capabilities": {"streaming": true}, "skills": [],
            "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        }),
        _ => json!({
            "name": "Desk", "description": "", "version": "1", "capabilities": {"streaming": true}, "skills": [],
            "supportedInterfaces": [{"url": url, "protocolBinding": binding, "protocolVersion": version}],
            "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        }),
    }
}

/// Sends a message to an agent that responds with `answer`, and returns the envelope.
fn send(card: Bytes, media_type: &'static str, answer: &[u8], follow: bool) -> String {
    let net = Arc::new(Agent {
        card,
        media_type,
        answer: Bytes::copy_from_slice(answer),
    });
    let request = json!({
        "action": "send", "target_alias": "desk", "parts": [{"kind": "text", "text": "Hello"}],
        "follow_updates": follow, "timeout_ms": 5000,
    });
    call(CONFIG, net, &request.to_string(), async {})
}

/// Sends a message over JSON-RPC to an agent of this A2A version that responds with `answer`, and returns the envelope.
///
/// ```
/// let answer = br#"{"jsonrpc": "2.0", "id": 1, "result": {"message": {
///     "messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "Hello"}]}}}"#;
/// let envelope = openclaw_remote_agent_fuzzing::envelope("1.0", answer);
/// assert!(envelope.contains(r#""message_text":"Hello""#));
/// ```
#[must_use]
pub fn envelope(version: &str, answer: &[u8]) -> String {
    let card = card_of("JSONRPC", version).to_string();
    send(card.into(), "application/json", answer, false)
}

/// Uses the input as the response to a message, and to a request for the state of a task.
fn reply(binding: &str, version: &str, answer: &[u8]) {
    let card = Bytes::from(card_of(binding, version).to_string());
    send(card.clone(), "application/json", answer, false);
    let net = Arc::new(Agent {
        card,
        media_type: "application/json",
        answer: Bytes::copy_from_slice(answer),
    });
    let status = r#"{"action": "status", "target_alias": "desk", "task_id": "task-1"}"#;
    call(CONFIG, net, status, async {});
}

fn stream_of(version: &str, answer: &[u8]) {
    let card = card_of("JSONRPC", version).to_string();
    send(card.into(), "text/event-stream", answer, true);
}

/// Parses a configuration. A valid one must also be valid in its serialized form with all defaults.
pub(crate) fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Err(error) = parse_config(text) {
        assert!(!error.to_string().is_empty());
    }
}

/// Runs a request as a model might write it.
pub(crate) fn request(data: &[u8]) {
    let net = Arc::new(Agent {
        card: card_of("JSONRPC", "1.0").to_string().into(),
        media_type: "application/json",
        answer: Bytes::from_static(b"{}"),
    });
    call(CONFIG, net, &String::from_utf8_lossy(data), async {});
}

/// Runs a request with a continuation as a model might repeat it.
pub(crate) fn continuation(data: &[u8]) {
    let Ok(continuation) = serde_json::from_slice::<Value>(data) else {
        return;
    };
    for action in ["status", "send"] {
        let mut call_request = json!({"action": action, "continuation": continuation});
        if action == "send" {
            call_request["parts"] = json!([{"kind": "text", "text": "Go on"}]);
        }
        request(call_request.to_string().as_bytes());
    }
}

/// Uses the input as an agent card.
pub(crate) fn card(data: &[u8]) {
    send(
        Bytes::copy_from_slice(data),
        "application/json",
        b"{}",
        false,
    );
}

/// Uses the input as a response of A2A 0.3 over JSON-RPC.
pub(crate) fn reply_v0_3(data: &[u8]) {
    reply("JSONRPC", "0.3", data);
}

/// Uses the input as a response of A2A 1.0 over JSON-RPC.
pub(crate) fn reply_v1_0(data: &[u8]) {
    reply("JSONRPC", "1.0", data);
}

/// Uses the input as a response of A2A 1.0 over HTTP+JSON.
pub(crate) fn reply_http_json(data: &[u8]) {
    reply("HTTP+JSON", "1.0", data);
}

/// Uses the input as a stream of A2A 0.3.
pub(crate) fn stream_v0_3(data: &[u8]) {
    stream_of("0.3", data);
}

/// Uses the input as a stream of A2A 1.0.
pub(crate) fn stream_v1_0(data: &[u8]) {
    stream_of("1.0", data);
}
