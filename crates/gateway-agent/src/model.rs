//! A backend that uses a model endpoint with OpenAI's Chat Completions API, such as LiteLLM.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use url::Url;

use base::backoff::Backoff;
use base::json::{self, JsonErrorKind};
use base::redact::Secrets;
use base::text::first_chars;
use base::visible::visible;
use collective::FRAME_LIMITS;
use egress::{
    AddressPolicy, HttpClient, NetFault, Request, ReqwestClient, Response,
    body::{read_error, read_response},
    retry::retry_after,
};

use super::backend::{AgentBackend, BackendError, ProgressSink, Turn};

/// The path of the endpoint below its base URL.
const PATH: &str = "chat/completions";

/// The maximum size of a response, in bytes.
const MAX_RESPONSE_BYTES: usize = 4 << 20;

/// The maximum number of attempts at an overloaded endpoint.
const ATTEMPTS: u32 = 3;

/// The delays between attempts without `Retry-After`.
const RETRY_DELAY: Backoff = Backoff::new(Duration::from_secs(1), MAX_RETRY_DELAY);

/// The maximum `Retry-After` that the backend accepts.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(20);

/// The maximum length of an endpoint's error text, in characters.
const MAX_DETAIL_CHARS: usize = 500;

/// The settings of a model. `Debug` omits the key.
#[derive(Debug, Clone)]
pub struct ModelSettings {
    /// The URL of the endpoint: `…/chat/completions`, or the URL before `/v1/chat/completions`.
    pub url: Url,
    /// The name of the model at the endpoint.
    pub model: String,
    /// The system prompt; `None` means a sentence with the agent's name.
    pub system: Option<String>,
    /// The API key, sent as a bearer token.
    pub key: Option<SecretString>,
    /// Whether a host name may resolve to an address that is not public.
    pub allow_private: bool,
}

/// Sends turns to a model.
pub struct ModelBackend {
    net: Arc<dyn HttpClient>,
    settings: ModelSettings,
    url: Url,
    access: AddressPolicy,
    authorization: Option<HeaderValue>,
    secrets: Secrets,
}

impl ModelBackend {
    /// Creates the backend.
    ///
    /// # Errors
    /// The URL or the key is unusable. The error is the reason.
    pub fn new(settings: ModelSettings) -> Result<Self, String> {
        let net = ReqwestClient::new().map_err(|error| error.to_string())?;
        let url = endpoint(&settings.url)?;
        let access = AddressPolicy::for_url(&url, settings.allow_private, true);
        let access = access.map_err(|error| error.to_string())?;
        let authorization = settings.key.as_ref().map(|key| {
            let mut value = HeaderValue::try_from(format!("Bearer {}", key.expose_secret()))
                .map_err(|_| "the API key of the model has characters that a header cannot have")?;
            value.set_sensitive(true);
            Ok::<_, String>(value)
        });
        Ok(Self {
            net: Arc::new(net),
            secrets: Secrets::in_all_forms(settings.key.clone()),
            authorization: authorization.transpose()?,
            settings,
            url,
            access,
        })
    }

    /// Connects to the endpoint, without the key and a message.
    ///
    /// # Errors
    /// No server answers; a sentence.
    pub async fn probe(&self) -> Result<(), String> {
        let request = Request::get(self.url.clone(), self.access);
        let answer = self.net.exchange(request).await;
        answer.map(drop).map_err(|error| error.to_string())
    }

    fn request(&self, turn: &Turn) -> Request {
        let mut headers = HeaderMap::new();
        let json = HeaderValue::from_static("application/json");
        headers.insert(CONTENT_TYPE, json.clone());
        headers.insert(ACCEPT, json);
        if let Some(authorization) = &self.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        let system = match &self.settings.system {
            Some(system) => system.clone(),
            None => format!(
                "You are `{}`, an agent of a collective. Answer briefly.",
                turn.agent
            ),
        };
        let mut messages = vec![json!({"role": "system", "content": system})];
        for one in &turn.history {
            let role = if one.from == turn.agent {
                "assistant"
            } else {
                "user"
            };
            messages.push(json!({"role": role, "content": one.text}));
        }
        messages.push(json!({"role": "user", "content": turn.text}));
        let body = json!({"model": self.settings.model, "messages": messages, "stream": false});
        Request {
            headers,
            ..Request::post(self.url.clone(), self.access, Bytes::from(body.to_string()))
        }
    }

    async fn complete(&self, turn: &Turn) -> Result<String, BackendError> {
        let mut attempt = 1;
        loop {
            let response = self.net.exchange(self.request(turn)).await;
            let response = response.map_err(|error| {
                BackendError::new("the agent's model cannot be reached")
                    .with_detail(error.to_string())
            })?;
            let is_busy = matches!(
                response.status,
                StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
            );
            if !is_busy || attempt == ATTEMPTS {
                return self.read(response).await;
            }
            let wait = retry_after(&response.headers, SystemTime::now())
                .unwrap_or_else(|| RETRY_DELAY.delay(attempt - 1));
            if wait > MAX_RETRY_DELAY {
                return self.read(response).await;
            }
            drop(response);
            tokio::time::sleep(wait).await;
            attempt += 1;
        }
    }

    async fn read(&self, mut response: Response) -> Result<String, BackendError> {
        let status = response.status;
        if !status.is_success() {
            let body = read_error(response.body).await;
            let error = match status {
                StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                    BackendError::busy("the agent's model is overloaded; try again later")
                }
                _ => BackendError::new(format!(
                    "the agent's model answered with HTTP {}",
                    status.as_u16()
                )),
            };
            return Err(error.with_detail(self.excerpt(&body)));
        }
        let body = read_response(&mut response, MAX_RESPONSE_BYTES).await;
        let body = body.map_err(|error| match error.fault() {
            NetFault::TooLarge => BackendError::new(format!(
                "the agent's model answered with more than {MAX_RESPONSE_BYTES} bytes"
            )),
            _ => BackendError::new("the answer of the agent's model broke off")
                .with_detail(error.to_string()),
        })?;
        let answer: Value = json::from_slice(&body, FRAME_LIMITS).map_err(|error| {
            let reason = match error.kind {
                JsonErrorKind::Syntax => "is not JSON",
                _ => "cannot be read",
            };
            let detail = format!(
                "{error}; is `{}` the endpoint of a model? It answered: {}",
                self.url.origin().ascii_serialization(),
                self.excerpt(&body)
            );
            BackendError::new(format!("the answer of the agent's model {reason}"))
                .with_detail(detail)
        })?;
        self.text(&answer)
    }

    /// Returns the text of a completion response.
    fn text(&self, answer: &Value) -> Result<String, BackendError> {
        let choice = &answer["choices"][0];
        let message = &choice["message"];
        if let Some(refusal) = message["refusal"].as_str().filter(|text| !text.is_empty()) {
            let refusal = self.redact(refusal);
            return Err(BackendError::new(format!("the model refused: {refusal}")));
        }
        if choice["finish_reason"] == "content_filter" {
            let message = "the filter of the model's provider stopped the answer";
            return Err(BackendError::new(message));
        }
        let text = match &message["content"] {
            Value::Array(parts) => {
                let parts = parts.iter().filter_map(|part| part["text"].as_str());
                parts.collect::<Vec<_>>().join("")
            }
            content => content.as_str().unwrap_or_default().to_owned(),
        };
        if text.trim().is_empty() {
            let error = BackendError::new("the agent's model gave no answer");
            return Err(error.with_detail(self.excerpt(answer.to_string().as_bytes())));
        }
        Ok(self.redact_visible(&text))
    }

    /// Returns the beginning of a response, for the operator.
    fn excerpt(&self, body: &[u8]) -> String {
        let answer: Option<Value> = json::from_slice(body, FRAME_LIMITS).ok();
        let message = answer
            .as_ref()
            .and_then(|answer| answer["error"]["message"].as_str());
        match message {
            Some(message) => self.redact(message),
            None => self.redact(&String::from_utf8_lossy(body)),
        }
    }

    fn redact(&self, text: &str) -> String {
        let text = self.redact_visible(text.trim());
        first_chars(&text, MAX_DETAIL_CHARS).to_owned()
    }

    /// Redacts the key. If the text contains it, also removes hidden characters, which may interrupt another copy of
    /// the key.
    fn redact_visible(&self, text: &str) -> String {
        match self.secrets.redact(text) {
            Cow::Owned(_) => self.secrets.redact(&visible(text)).into_owned(),
            Cow::Borrowed(text) => text.to_owned(),
        }
    }
}

impl AgentBackend for ModelBackend {
    fn answer<'a>(
        &'a self,
        turn: &'a Turn,
        _progress: ProgressSink<'a>,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<String, BackendError>> {
        Box::pin(async {
            // Dropping the exchange closes its connection.
            let answer = cancel.run_until_cancelled(self.complete(turn)).await;
            answer
                .unwrap_or_else(|| Err(BackendError::new("the request to the model was cancelled")))
        })
    }
}

base::debug_fields!(self: ModelBackend { settings });

/// Adds the path to the URL of the endpoint.
fn endpoint(url: &Url) -> Result<Url, String> {
    if !matches!(url.scheme(), "http" | "https") || url.cannot_be_a_base() {
        return Err("the URL of the model is not an `http` or `https` URL".into());
    }
    let mut url = url.clone();
    url.set_fragment(None);
    let path = url.path().trim_end_matches('/').to_owned();
    let path = if path.ends_with(PATH) {
        path
    } else if path.ends_with("/v1") {
        format!("{path}/{PATH}")
    } else {
        format!("{path}/v1/{PATH}")
    };
    url.set_path(&path);
    Ok(url)
}

#[cfg(test)]
mod tests;
