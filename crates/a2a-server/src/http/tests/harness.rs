//! A running server and its client for tests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Method, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::rustls;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::executor::scripted::ScriptedExecutor;
use crate::http::access_control::{Principal, RequestContext};
use crate::http::{App, CardFacts, DEFAULT_BODY_BYTES, DEFAULT_KEEP_ALIVE, router};
use crate::push::{PushError, PushSender};
use crate::service::{self, Service, SessionMapper, Settings};
use crate::store::TaskStore;
use crate::store::memory::MemoryStore;
use a2a::{A2aError, ErrorReason};
use base::environment::SystemEnvironment;

/// The token that the server accepts.
pub(super) const TOKEN: &str = "Bearer good";

pub(super) const V1: (&str, &str) = ("a2a-version", "1.0");

pub(super) struct Options {
    pub(super) settings: Settings,
    pub(super) store: Arc<dyn TaskStore>,
    pub(super) clients: Clients,
    pub(super) card: CardFacts,
    pub(super) agents: &'static [&'static str],
    pub(super) body_limit: usize,
    pub(super) keep_alive: Duration,
    pub(super) scheme: &'static str,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            settings: Settings::default(),
            store: Arc::new(MemoryStore::new()),
            clients: Clients::Anonymous,
            card: CardFacts::new("Local OpenClaw", "Agents of one OpenClaw.", "7.8.9"),
            agents: &["main"],
            body_limit: DEFAULT_BODY_BYTES,
            keep_alive: DEFAULT_KEEP_ALIVE,
            scheme: "http",
        }
    }
}

impl Options {
    pub(super) fn bearer() -> Self {
        Self {
            clients: Clients::Bearer,
            ..Self::default()
        }
    }
}

/// Returns a client for plain HTTP on loopback. Its TLS provider is explicit, because the crate selects none.
pub(crate) fn client() -> reqwest::Client {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    let client = reqwest::Client::builder().tls_backend_preconfigured(tls);
    let no_redirects = reqwest::redirect::Policy::none();
    client.no_proxy().redirect(no_redirects).build().unwrap()
}

/// Starts a service in front of scripted agents. It posts no notifications.
pub(in crate::http) async fn scripted_service(
    settings: Settings,
    store: Arc<dyn TaskStore>,
    agents: &[&str],
) -> Service {
    let components = service::ServiceComponents {
        settings,
        executor: Arc::new(ScriptedExecutor::with_agents(agents.iter().copied())),
        store,
        sender: Arc::new(NoPushSender),
        sessions: Arc::new(ContextIdSessions),
        env: Arc::new(SystemEnvironment),
        clients: None,
    };
    Service::start(components).await.unwrap()
}

/// A server on its own port. It ends with the test.
pub(super) struct Server {
    pub(super) address: SocketAddr,
    pub(super) service: Service,
    client: reqwest::Client,
    serving: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Server {
    pub(super) async fn start() -> Self {
        Self::with(Options::default()).await
    }

    /// Starts a server with changed options.
    pub(super) async fn changed(change: impl FnOnce(&mut Options)) -> Self {
        let mut options = Options::default();
        change(&mut options);
        Self::with(options).await
    }

    pub(super) async fn with(options: Options) -> Self {
        let service = scripted_service(options.settings, options.store, options.agents).await;
        let mut router = router(App {
            service: service.clone(),
            requires_token: !matches!(options.clients, Clients::Anonymous),
            card: options.card,
            card_signer: None,
            body_limit: options.body_limit,
            keep_alive: options.keep_alive,
        });
        let state = (options.clients, options.scheme);
        router = router.layer(from_fn_with_state(state, add_context));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let make = router.into_make_service();
        let serving = tokio::spawn(async move { axum::serve(listener, make).await.unwrap() });
        Self {
            address,
            service,
            client: client(),
            serving,
        }
    }

    /// Starts a request, with an optional JSON body.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<String>,
    ) -> reqwest::Response {
        let url = format!("http://{}{path}", self.address);
        let mut request = self.client.request(method, url);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            if !headers.iter().any(|(name, _)| *name == "content-type") {
                request = request.header("content-type", "application/json");
            }
            request = request.body(body);
        }
        request.send().await.unwrap()
    }

    pub(super) async fn request(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<String>,
    ) -> Reply {
        let response = self.send(method, path, headers, body).await;
        Reply {
            status: response.status(),
            headers: response.headers().clone(),
            text: response.text().await.unwrap(),
        }
    }

    pub(super) async fn get(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        self.request(Method::GET, path, headers, None).await
    }

    pub(super) async fn post(&self, path: &str, headers: &[(&str, &str)], body: Value) -> Reply {
        self.post_text(path, headers, body.to_string()).await
    }

    /// Posts a body that need not be JSON.
    pub(super) async fn post_text(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<String>,
    ) -> Reply {
        self.request(Method::POST, path, headers, Some(body.into()))
            .await
    }

    /// Calls a method of 1.0 over JSON-RPC.
    pub(super) async fn rpc(&self, method: &str, params: Value) -> Reply {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.post("/a2a", &[V1], body).await
    }

    /// Calls a method of 0.3 over JSON-RPC.
    pub(super) async fn rpc_0_3(&self, method: &str, params: Value) -> Reply {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        self.post("/a2a", &[], body).await
    }

    /// Starts a task that works until it is canceled, and returns its id.
    pub(super) async fn start_slow_task(&self) -> String {
        let params = json!({
            "message": message("slow"),
            "configuration": {"returnImmediately": true},
        });
        self.start_task(params).await
    }

    /// Completes a task and returns its id.
    pub(super) async fn complete_task(&self) -> String {
        self.start_task(json!({"message": message("echo done")}))
            .await
    }

    async fn start_task(&self, params: Value) -> String {
        let sent = self.rpc("SendMessage", params).await.result();
        sent["task"]["id"].as_str().unwrap().to_owned()
    }
}

pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) text: String,
}

impl Reply {
    #[track_caller]
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    #[track_caller]
    pub(super) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value
            .unwrap_or_else(|| panic!("no {name}"))
            .to_str()
            .unwrap()
    }

    /// Returns the field `result`.
    #[track_caller]
    pub(super) fn result(&self) -> Value {
        let body = self.json();
        assert_eq!(body.get("error"), None, "{}", self.text);
        body["result"].clone()
    }

    /// Returns the code of a JSON-RPC error.
    #[track_caller]
    pub(super) fn code(&self) -> i64 {
        self.json()["error"]["code"]
            .as_i64()
            .unwrap_or_else(|| panic!("{}", self.text))
    }

    /// Returns whether the message of an error of 1.0 or JSON-RPC contains `text`.
    #[track_caller]
    pub(super) fn error_contains(&self, text: &str) -> bool {
        let message = &self.json()["error"]["message"];
        message.as_str().unwrap().contains(text)
    }

    /// Returns the reason of an error of 1.0 over HTTP+JSON.
    #[track_caller]
    pub(super) fn reason(&self) -> Value {
        self.json()["error"]["details"][0]["reason"].clone()
    }

    /// Returns the events of a stream that has ended.
    #[track_caller]
    pub(super) fn events(&self) -> Vec<(Option<String>, Value)> {
        assert_eq!(self.header("content-type"), "text/event-stream");
        let mut events = Vec::new();
        for event in self.text.split("\n\n").filter(|event| !event.is_empty()) {
            let mut name = None;
            let mut data = None;
            for line in event.lines() {
                match line.split_once(": ") {
                    Some(("event", value)) => name = Some(value.to_owned()),
                    Some(("data", value)) => {
                        assert!(data.is_none(), "data on two lines: {event}");
                        data = Some(serde_json::from_str(value).unwrap());
                    }
                    Some(("", _)) => {}
                    _ => panic!("not known: {line}"),
                }
            }
            if let Some(data) = data {
                events.push((name, data));
            }
        }
        events
    }
}

/// Creates a message of 1.0.
pub(super) fn message(text: &str) -> Value {
    json!({"messageId": uuid::Uuid::new_v4().to_string(), "role": "ROLE_USER", "parts": [{"text": text}]})
}

/// Creates a message of 0.3's JSON-RPC.
pub(super) fn message_0_3(text: &str) -> Value {
    json!({
        "kind": "message",
        "messageId": uuid::Uuid::new_v4().to_string(),
        "role": "user",
        "parts": [{"kind": "text", "text": text}],
    })
}

/// Creates a message of 0.3's HTTP+JSON.
pub(super) fn proto_0_3(text: &str) -> Value {
    json!({
        "messageId": uuid::Uuid::new_v4().to_string(),
        "role": "ROLE_USER",
        "content": [{"text": text}],
    })
}

/// How the server authenticates the client of a request.
#[derive(Clone)]
pub(super) enum Clients {
    /// The server requires no token.
    Anonymous,
    /// The server requires [`TOKEN`].
    Bearer,
    /// The server rejects every request with this error.
    Refused(A2aError),
}

impl Clients {
    fn identify(&self, headers: &HeaderMap) -> Result<Arc<Principal>, A2aError> {
        let principal = |name: &str, authenticated| {
            Arc::new(Principal {
                name: name.into(),
                authenticated,
                operator: false,
                revoked: CancellationToken::new(),
            })
        };
        match self {
            Self::Anonymous => Ok(principal(crate::service::ANONYMOUS_CLIENT, false)),
            Self::Bearer
                if headers
                    .get("authorization")
                    .is_some_and(|token| token == TOKEN) =>
            {
                Ok(principal("client", true))
            }
            Self::Bearer => Err(A2aError::new(
                ErrorReason::Unauthenticated,
                "send a bearer token",
            )),
            Self::Refused(error) => Err(error.clone()),
        }
    }
}

/// Adds a request context, as the access control does.
async fn add_context(
    State((clients, scheme)): State<(Clients, &'static str)>,
    mut request: Request,
    next: Next,
) -> Response {
    let host = request.headers()["host"].to_str().unwrap();
    let context = RequestContext {
        client: [127, 0, 0, 1].into(),
        origin: format!("{scheme}://{host}"),
        direct: true,
        principal: clients.identify(request.headers()),
    };
    request.extensions_mut().insert(context);
    next.run(request).await
}

struct NoPushSender;

impl PushSender for NoPushSender {
    fn accepts(&self, url: &Url) -> Result<(), String> {
        if url.scheme() == "https" {
            Ok(())
        } else {
            Err("only https is allowed".to_owned())
        }
    }

    fn post(
        &self,
        _: Url,
        _: HeaderMap,
        _: Bytes,
    ) -> BoxFuture<'_, Result<http::Response<()>, PushError>> {
        Box::pin(async { Ok(http::Response::new(())) })
    }
}

struct ContextIdSessions;

impl SessionMapper for ContextIdSessions {
    fn session_id(&self, client: Option<&str>, context_id: &str) -> String {
        format!("{}-{context_id}", client.unwrap_or_default())
    }

    fn context_id(&self, session_id: &str) -> Option<String> {
        Some(session_id.to_owned())
    }
}
