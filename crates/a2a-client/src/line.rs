//! What requests to one interface have in common: headers, credentials, limits, and how failures are told.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde_json::Value;
use url::Url;

use a2a::{Security, Version};
use egress::auth::{Authorization, TokenEndpoint};
use egress::credential::Trust;
use egress::sse::{self, EventReader, Opened, SseLimits};
use egress::{Access, Net, NetError, NetFault, Request, Sent, access, body};
use peer::{PeerConfig, PeerError, PeerErrorKind, excerpt};

use super::challenge;
use super::decoder::Decoder;
use super::events::Events;
use super::secrets::Secrets;
use super::{signature, weight};

const JSON: HeaderValue = HeaderValue::from_static(a2a::http::JSON);
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream, application/json");

/// A line to one interface for one call.
#[derive(Clone)]
pub(super) struct HttpBinding {
    net: Arc<dyn Net>,
    authorization: Option<Authorization>,
    headers: HeaderMap,
    access: Access,
    trust: Option<Arc<Trust>>,
    limits: SseLimits,
    secrets: Arc<Secrets>,
    /// What the peer's card asks of callers.
    declared: Arc<Security>,
    /// What a card is checked against, where it must be signed.
    signed_by: Option<Arc<PeerConfig>>,
}

/// Whether a request may be sent again by itself.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Idempotency {
    /// It may not: it has an effect each time.
    Once,
    /// Asking twice does no more than asking once.
    Repeatable,
}

/// A successful answer.
pub(super) struct Answer {
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl HttpBinding {
    /// A line to `url`. Credentials go along only if it is on an origin they were configured for.
    pub(super) fn new(
        net: Arc<dyn Net>,
        reach: &PeerConfig,
        url: &Url,
        parameters: &[(String, String)],
        limits: SseLimits,
    ) -> Result<Self, PeerError> {
        let access = access_to(reach, url).map_err(|error| {
            error.during("the agent's card names an address that may not be called")
        })?;
        let mut headers = own_headers(reach, url);
        for (name, value) in parameters {
            let pair = HeaderName::try_from(name.as_str())
                .ok()
                .zip(HeaderValue::try_from(value.as_str()).ok());
            let Some((name, value)) = pair else {
                let message = format!(
                    "the service parameter `{}` cannot be an HTTP header",
                    name.escape_debug()
                );
                return Err(PeerError::new(PeerErrorKind::Unaddressable, message).undelivered());
            };
            headers.insert(name, value);
        }
        Ok(Self {
            net,
            authorization: authorization(reach, url),
            headers,
            access,
            trust: reach.trust_for(url).cloned(),
            limits,
            secrets: Arc::new(Secrets::of(reach)),
            declared: Arc::default(),
            signed_by: reach.card_keys.is_some().then(|| Arc::new(reach.clone())),
        })
    }

    /// The same line to a peer whose card asks for this.
    #[must_use]
    pub(super) fn declaring(mut self, security: &Security) -> Self {
        self.declared = Arc::new(security.clone());
        self
    }

    /// The same line, every request of which says that it speaks `version`. The header came with 1.0; without it a request
    /// is one of 0.3 (A2A 1.0 §3.6.1).
    #[must_use]
    pub(super) fn speaking(mut self, version: Version) -> Self {
        name_version(&mut self.headers, Some(version));
        self
    }

    /// The part of a card from this peer that may be used.
    pub(super) async fn verified(&self, card: Value) -> Result<Value, PeerError> {
        match &self.signed_by {
            Some(reach) => signature::verified(&*self.net, reach, card).await,
            None => Ok(card),
        }
    }

    fn request(
        &self,
        method: Method,
        url: Url,
        body: Option<Bytes>,
        accept: HeaderValue,
        often: Idempotency,
    ) -> Request {
        let mut headers = self.headers.clone();
        headers.insert(ACCEPT, accept);
        if body.is_some() {
            headers.insert(CONTENT_TYPE, JSON);
        }
        Request {
            repeatable: often == Idempotency::Repeatable,
            method,
            url,
            headers,
            body,
            access: self.access,
            trust: self.trust.clone(),
            authorization: self.authorization.clone(),
        }
    }

    /// Sends one request, again where `often` allows it, and reads its answer, which must have a status of 2xx.
    ///
    /// `explain` may read an error out of a body that came with another status.
    pub(super) async fn ask(
        &self,
        often: Idempotency,
        method: Method,
        url: Url,
        body: Option<Bytes>,
        explain: Explain,
    ) -> Result<Answer, PeerError> {
        let request = self.request(method, url, body, JSON, often);
        let mut response = self.net.exchange(request).await.map_err(from_net)?;
        if !response.status.is_success() {
            let text = body::read_error(response.body).await;
            return Err(self.refused(response.status, &response.headers, &text, explain));
        }
        let body = body::read_response(&mut response, self.limits.answer_bytes)
            .await
            .map_err(from_net)?;
        Ok(Answer {
            headers: response.headers,
            body,
        })
    }

    /// Sends one request, again where `often` allows it, and opens the stream it is answered with. An answer that is no
    /// stream must have a status of 2xx.
    pub(super) async fn listen(
        &self,
        often: Idempotency,
        method: Method,
        url: Url,
        body: Option<Bytes>,
        explain: Explain,
    ) -> Result<Heard, PeerError> {
        let request = self.request(method, url, body, EVENTS, often);
        match sse::open(&*self.net, request, self.limits)
            .await
            .map_err(from_net)?
        {
            Opened::Events(reader) => Ok(Heard::Events(reader)),
            Opened::Answer {
                status,
                headers,
                body,
                ..
            } if !status.is_success() => Err(self.refused(status, &headers, &body, explain)),
            Opened::Answer {
                truncated: true, ..
            } => {
                let message = format!(
                    "the answer is larger than {} bytes",
                    self.limits.answer_bytes
                );
                Err(PeerError::new(PeerErrorKind::TooLarge, message))
            }
            Opened::Answer { headers, body, .. } => Ok(Heard::Answer(Answer { headers, body })),
        }
    }

    /// The JSON of an answer.
    pub(super) fn json(&self, answer: &Answer) -> Result<Value, PeerError> {
        weight::check(&answer.body, self.limits.answer_bytes)?;
        let mut json = serde_json::from_slice(&answer.body).map_err(|e| {
            let kind = content_type(&answer.headers, &self.secrets);
            let message = format!(
                "the answer is not JSON ({kind}, {} bytes): {e}",
                answer.body.len()
            );
            PeerError::new(PeerErrorKind::InvalidResponse, message)
        })?;
        self.secrets.scrub_answer(&mut json);
        Ok(json)
    }

    /// The stream's events, each read by `decoder`.
    pub(super) fn events(&self, reader: EventReader, decoder: Decoder) -> Events {
        let secrets = Arc::clone(&self.secrets);
        Events::new(reader, decoder, secrets, self.limits.answer_bytes)
    }

    /// The peer's credentials.
    pub(super) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    fn refused(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        body: &[u8],
        explain: Explain,
    ) -> PeerError {
        let explained = serde_json::from_slice(body)
            .ok()
            .and_then(|body| explain(body, &self.secrets));
        let mut error =
            explained.unwrap_or_else(|| by_status(status, headers, body, &self.secrets));
        error.http_status = Some(status.as_u16());
        challenge::note(&mut error, headers, &self.declared, &self.secrets);
        error
    }
}

/// Reads an error out of a body, if there is one in it.
pub(super) type Explain = fn(Value, &Secrets) -> Option<PeerError>;

/// What listening led to.
pub(super) enum Heard {
    /// A stream.
    Events(EventReader),
    /// A plain answer.
    Answer(Answer),
}

/// Names the version of a request in its headers: `pinned`, or the newest that is spoken. 0.3 has no header for it. What an
/// operator's headers say of the version gives way, since two of them would name none.
pub(super) fn name_version(headers: &mut HeaderMap, pinned: Option<Version>) {
    let version = pinned.unwrap_or(Version::V1_0);
    if version != Version::V0_3 {
        headers.insert(
            a2a::http::VERSION_HEADER,
            HeaderValue::from_static(version.as_str()),
        );
    }
}

/// What may be connected for `url`.
pub(super) fn access_to(reach: &PeerConfig, url: &Url) -> Result<Access, PeerError> {
    access::allowed(url, reach.allow_private, reach.is_written_host(url)).map_err(from_net)
}

/// Returns the peer's credential where `url` is on an origin it was configured for. A redirect that leaves that origin is
/// never followed.
pub(super) fn authorization(reach: &PeerConfig, url: &Url) -> Option<Authorization> {
    let credential = reach.credential.as_ref();
    let credential = credential.filter(|_| reach.is_own_origin(url))?;
    Some(Authorization {
        credential: Arc::clone(credential),
        endpoint: TokenEndpoint {
            allow_private: reach.allow_private,
            trust: reach.trust_elsewhere.clone(),
        },
    })
}

/// The operator's headers, where `url` is on an origin they were configured for.
pub(super) fn own_headers(reach: &PeerConfig, url: &Url) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if !reach.is_own_origin(url) {
        return headers;
    }
    for (name, value) in &reach.headers {
        headers.insert(name.clone(), value.clone());
    }
    headers
}

/// The error for a status that is no success, told by the status and the beginning of the body.
pub(super) fn by_status(
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    secrets: &Secrets,
) -> PeerError {
    if status.is_redirection() {
        let to = headers
            .get(LOCATION)
            .and_then(|v| v.to_str().ok())
            .map_or("nowhere", |to| {
                to.split(['?', '#']).next().unwrap_or_default()
            });
        let to = secrets.scrub(to);
        let message = format!(
            "the peer answered {status} and points to `{}`; that is not followed",
            excerpt(&to)
        );
        return PeerError::new(PeerErrorKind::RedirectRefused, message);
    }
    let said = excerpt(&secrets.scrub(String::from_utf8_lossy(body)));
    let message = if said.is_empty() {
        format!("the peer answered {status}")
    } else {
        format!("the peer answered {status}: {said}")
    };
    PeerError::new(PeerErrorKind::HttpStatus, message)
}

/// What kind of answer it is by its own word, for a message.
pub(super) fn content_type(headers: &HeaderMap, secrets: &Secrets) -> String {
    let kind = headers
        .get(CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    excerpt(&kind.map_or("no content type".into(), |kind| secrets.scrub(kind)))
}

/// A failure of the network as a failure of the peer.
pub(super) fn from_net(error: NetError) -> PeerError {
    let fault = match error.fault() {
        NetFault::Dns => PeerErrorKind::Dns,
        NetFault::Unreachable => PeerErrorKind::Unreachable,
        NetFault::Tls => PeerErrorKind::Tls,
        NetFault::AddressRefused => PeerErrorKind::AddressRefused,
        NetFault::TokenUnavailable => PeerErrorKind::TokenUnavailable,
        NetFault::Cut => PeerErrorKind::Cut,
        NetFault::TooLarge => PeerErrorKind::TooLarge,
        NetFault::EventTooLarge => PeerErrorKind::EventTooLarge,
        NetFault::Protocol => PeerErrorKind::InvalidResponse,
    };
    let told = PeerError::new(fault, error.to_string());
    if error.sent() == Sent::No {
        told.undelivered()
    } else {
        told
    }
}
