//! HTTP requests to one interface, for either binding, with limits and errors.

use std::sync::{Arc, OnceLock};

use a2a::http::{EXTENSIONS_HEADER, OLD_EXTENSIONS_HEADER};
use a2a::{Operation, Security, SendRequest, Version};
use base::field_order::FieldOrder;
use base::{blocking, json};
use bytes::Bytes;
use egress::NetFault;
use egress::auth::Authorization;
use egress::credential::Trust;
use egress::sse::{EventReader, Opened, SseLimits};
use egress::{AddressPolicy, HttpClient, NetError, SendState, body, redirect, sse};
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use peer::{PeerConfig, PeerError, PeerErrorKind, excerpt};
use serde_json::Value;
use url::{Position, Url};

use super::decoder::{Decoder, stating};
use super::error::{content_type, from_net, from_status, may_be_of_gateway, names_protocol_error};
use super::events::Events;
use super::outgoing::{access_to, authorization, configured_headers, set_extensions, set_version};
use super::peer_secrets::PeerSecrets;
use super::signature::{self, VerifiedCard};
use super::{challenge, response_json};

const JSON: HeaderValue = HeaderValue::from_static(a2a::http::JSON);
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream, application/json");

/// The start of data in the format of gzip (RFC 1952 §2.3.1).
const GZIP: &[u8] = b"\x1f\x8b";

/// Sends the requests of one call to one interface.
#[derive(Clone)]
pub(super) struct InterfaceClient {
    net: Arc<dyn HttpClient>,
    authorization: Option<Authorization>,
    headers: HeaderMap,
    access: AddressPolicy,
    trust: Option<Arc<Trust>>,
    limits: SseLimits,
    secrets: Arc<PeerSecrets>,
    field_order: Option<FieldOrder>,
    /// The state of the message that is being sent.
    send_state: Option<SendState>,
    /// The security requirements of the peer's card.
    declared: Arc<Security>,
    /// The trusted keys, if the card must be signed.
    signed_by: Option<Arc<PeerConfig>>,
    /// The origin of the interface, if the card names it and not the operator.
    card_origin: Option<String>,
    /// The extensions that the peer has called active, if any were requested.
    active_extensions: Option<Arc<OnceLock<Vec<String>>>>,
}

/// Whether the HTTP client may repeat a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Idempotency {
    /// No: each request has an effect.
    Once,
    /// Yes: a second request has no further effect.
    Repeatable,
}

/// A response with status 2xx.
pub(super) struct PlainResponse {
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl InterfaceClient {
    /// Creates a client of the interface at `url`, which keeps `secrets` out of responses. Sends credentials only if `url`
    /// is on an origin that they were configured for.
    pub(super) fn new(
        net: Arc<dyn HttpClient>,
        config: &PeerConfig,
        url: &Url,
        parameters: &[(String, String)],
        limits: SseLimits,
        secrets: Arc<PeerSecrets>,
    ) -> Result<Self, PeerError> {
        let access = access_to(config, url).map_err(|error| {
            error.during("the agent card names an address that the policy refuses")
        })?;
        let mut headers = configured_headers(config, url);
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
            authorization: authorization(config, url),
            headers,
            access,
            trust: config.trust_for(url).cloned(),
            limits,
            secrets,
            field_order: None,
            send_state: None,
            declared: Arc::default(),
            signed_by: config.card_keys.is_some().then(|| Arc::new(config.clone())),
            card_origin: (config.endpoint.is_none() && !same_origin(url, &config.base_url))
                .then(|| url.origin().ascii_serialization()),
            active_extensions: None,
        })
    }

    /// Sets the security requirements of the card, for error messages.
    #[must_use]
    pub(super) fn with_security(mut self, security: &Arc<Security>) -> Self {
        self.declared = Arc::clone(security);
        self
    }

    /// Sets what receives the order of the fields of forms.
    #[must_use]
    pub(super) fn with_field_order(mut self, field_order: Option<&FieldOrder>) -> Self {
        self.field_order = field_order.cloned();
        self
    }

    /// Sets what receives the state of messages.
    #[must_use]
    pub(super) fn with_send_state(mut self, send_state: Option<&SendState>) -> Self {
        self.send_state = send_state.cloned();
        self
    }

    /// Sets the version of every request. A request without the header is one of 0.3 (A2A 1.0 §3.6.1).
    #[must_use]
    pub(super) fn with_version(mut self, version: Version) -> Self {
        set_version(&mut self.headers, Some(version));
        self
    }

    /// Sets the extensions that every request activates.
    #[must_use]
    pub(super) fn with_extensions(mut self, version: Version, uris: &[String]) -> Self {
        set_extensions(&mut self.headers, version, uris);
        self.active_extensions = (!uris.is_empty()).then(Arc::default);
        self
    }

    /// Returns whether a response has called the extension active.
    pub(super) fn confirms_extension(&self, uri: &str) -> bool {
        let active = self.active_extensions.as_ref().and_then(|all| all.get());
        active.is_some_and(|active| active.iter().any(|one| one == uri))
    }

    /// Keeps the active extensions of the first response that names any.
    fn note_extensions(&self, headers: &HeaderMap) {
        let Some(active) = &self.active_extensions else {
            return;
        };
        let names = [EXTENSIONS_HEADER, OLD_EXTENSIONS_HEADER];
        let lists = names.iter().flat_map(|name| headers.get_all(name));
        let uris = lists
            .filter_map(|list| list.to_str().ok())
            .flat_map(|list| list.split(','));
        let uris: Vec<_> = uris.map(|uri| uri.trim().to_owned()).collect();
        if !uris.is_empty() {
            let _ = active.set(uris);
        }
    }

    /// Verifies the signature of a card if it must be signed. Returns the part that the signature covers.
    pub(super) async fn verify_card(&self, card: Value) -> Result<VerifiedCard, PeerError> {
        match &self.signed_by {
            Some(config) => signature::verify(&*self.net, config, card).await,
            None => Ok(VerifiedCard::unverified(card)),
        }
    }

    fn request(
        &self,
        method: Method,
        url: Url,
        body: Option<Bytes>,
        accept: HeaderValue,
        idempotency: Idempotency,
    ) -> egress::Request {
        let mut headers = self.headers.clone();
        headers.insert(ACCEPT, accept);
        if body.is_some() {
            headers.insert(CONTENT_TYPE, JSON);
        }
        egress::Request {
            repeatable: idempotency == Idempotency::Repeatable,
            method,
            url,
            headers,
            body,
            access: self.access,
            trust: self.trust.clone(),
            authorization: self.authorization.clone(),
            send_state: match idempotency {
                Idempotency::Once => self.send_state.clone(),
                Idempotency::Repeatable => None,
            },
        }
    }

    /// Sends a request and reads the response, which must have status 2xx. `idempotency` decides about repetitions.
    ///
    /// `parse_error` reads the error in the body of another status.
    pub(super) async fn call(
        &self,
        idempotency: Idempotency,
        method: Method,
        url: Url,
        body: Option<Bytes>,
        parse_error: ParseError,
    ) -> Result<PlainResponse, PeerError> {
        let request = self.request(method, url, body, JSON, idempotency);
        let followed = redirect::follow(&*self.net, request).await;
        let mut response = followed.map_err(|error| self.net_error(error))?.response;
        self.note_extensions(&response.headers);
        if !response.status.is_success() {
            let text = body::read_error(response.body).await;
            return Err(self.status_error(response.status, &response.headers, &text, parse_error));
        }
        let body = body::read_response(&mut response, self.limits.answer_bytes)
            .await
            .map_err(from_net)?;
        Ok(PlainResponse {
            headers: response.headers,
            body,
        })
    }

    /// Sends a request and opens the stream of the response. A response without a stream must have status 2xx.
    pub(super) async fn stream(
        &self,
        idempotency: Idempotency,
        method: Method,
        url: Url,
        body: Option<Bytes>,
        parse_error: ParseError,
    ) -> Result<StreamResponse, PeerError> {
        let request = self.request(method, url, body, EVENTS, idempotency);
        match sse::open(&*self.net, request, self.limits)
            .await
            .map_err(|error| self.net_error(error))?
        {
            Opened::Events { reader, headers } => {
                self.note_extensions(&headers);
                Ok(StreamResponse::Events(reader))
            }
            Opened::Answer {
                status,
                headers,
                body,
                ..
            } if !status.is_success() => {
                Err(self.status_error(status, &headers, &body, parse_error))
            }
            Opened::Answer {
                truncated: true, ..
            } => {
                let message = format!(
                    "the response is larger than {} bytes",
                    self.limits.answer_bytes
                );
                Err(PeerError::new(
                    PeerErrorKind::Net(NetFault::TooLarge),
                    message,
                ))
            }
            Opened::Answer { headers, body, .. } => {
                self.note_extensions(&headers);
                Ok(StreamResponse::Plain(PlainResponse { headers, body }))
            }
        }
    }

    /// Returns the data of each event in the response of `url`, if it is a stream of events; `None` for another one.
    pub(super) async fn documents(
        &self,
        response: &PlainResponse,
        url: &Url,
    ) -> Result<Option<Vec<PlainResponse>>, PeerError> {
        let Some(all) = sse::data_in(&response.body, url).await else {
            return Ok(None);
        };
        let documents = all
            .map_err(from_net)?
            .into_iter()
            .map(|data| PlainResponse {
                headers: response.headers.clone(),
                body: data.into(),
            });
        Ok(Some(documents.collect()))
    }

    /// Parses a response and returns its result by `decoder`.
    pub(super) fn result(
        &self,
        response: &PlainResponse,
        decoder: Decoder,
    ) -> Result<Value, PeerError> {
        let limits = response_json::answer_limits(self.limits.answer_bytes);
        blocking::run_if_large(response.body.len(), || {
            match decoder.enveloped(&response.body, limits, true) {
                Some(result) => Ok(self.received(result, response)),
                None => decoder.result(self.parse(response)?, true, &self.secrets),
            }
        })
    }

    fn parse(&self, response: &PlainResponse) -> Result<Value, PeerError> {
        let limits = response_json::answer_limits(self.limits.answer_bytes);
        let json = json::from_slice(&response.body, limits).map_err(|error| {
            let kind = content_type(&response.headers, &self.secrets);
            let bytes = response.body.len();
            let compressed = match response.body.starts_with(GZIP) {
                true => ", compressed with gzip without a Content-Encoding",
                false => "",
            };
            let subject = format!("the response ({kind}, {bytes} bytes{compressed})");
            let text = str::from_utf8(&response.body).unwrap_or_default().trim();
            let is_text = !text.starts_with(['{', '[', '\u{FEFF}']);
            let text = is_text.then(|| excerpt(&self.secrets.scrub(text)));
            stating(response_json::unreadable(&subject, &error), text)
        })?;
        Ok(self.received(json, response))
    }

    /// Notes the order of the fields of forms in a response, and removes secrets from its values.
    fn received(&self, mut json: Value, response: &PlainResponse) -> Value {
        if let Some(order) = &self.field_order {
            order.note(&response.body);
        }
        self.secrets.scrub_response(&mut json);
        json
    }

    /// Returns the events of a stream, each read by `decoder`.
    pub(super) fn events(&self, reader: EventReader, decoder: Decoder) -> Events {
        let (secrets, order) = (Arc::clone(&self.secrets), self.field_order.clone());
        Events::new(reader, decoder, secrets, order, self.limits.answer_bytes)
    }

    /// Returns the credentials of the peer.
    pub(super) fn secrets(&self) -> &PeerSecrets {
        &self.secrets
    }

    /// Converts an error of the network. Where the card names an address that cannot be reached, the operator needs another
    /// setting than the target's address.
    fn net_error(&self, error: NetError) -> PeerError {
        let mut error = from_net(error);
        if let (Some(origin), PeerErrorKind::Net(NetFault::Dns | NetFault::Unreachable)) =
            (&self.card_origin, error.kind)
        {
            error.message = format!(
                "{}; the agent card names `{origin}`, and the setting `endpoint` of the target replaces it",
                error.message
            );
        }
        error
    }

    fn status_error(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        body: &[u8],
        parse_error: ParseError,
    ) -> PeerError {
        let parsed = response_json::error_body(body)
            .filter(|body| !may_be_of_gateway(status) || names_protocol_error(body))
            .and_then(|body| parse_error(body, status, &self.secrets));
        let mut error =
            parsed.unwrap_or_else(|| from_status("endpoint", status, headers, body, &self.secrets));
        error.http_status = Some(status.as_u16());
        let after = headers
            .get(RETRY_AFTER)
            .and_then(|after| after.to_str().ok());
        if let Some(after) = after.map(str::trim).filter(|after| !after.is_empty()) {
            let unit = if after.bytes().all(|b| b.is_ascii_digit()) {
                " s"
            } else {
                ""
            };
            let after = excerpt(&self.secrets.scrub(after));
            error.message = format!(
                "{} (it asks to wait: Retry-After {after}{unit})",
                error.message
            );
        }
        challenge::add_auth_schemes(&mut error, headers, &self.declared, &self.secrets);
        error
    }
}

/// Returns whether two URLs have the same origin. Most that do have the same text before the path.
fn same_origin(one: &Url, other: &Url) -> bool {
    one[..Position::BeforePath] == other[..Position::BeforePath] || one.origin() == other.origin()
}

/// Reads the error in the body of a response with this status, if there is one.
pub(super) type ParseError = fn(Value, StatusCode, &PeerSecrets) -> Option<PeerError>;

/// The response to a request for a stream.
pub(super) enum StreamResponse {
    /// A stream of events.
    Events(EventReader),
    /// A response without a stream.
    Plain(PlainResponse),
}

/// An operation with its arguments.
pub(super) enum Request<'a> {
    Card,
    Send(&'a SendRequest),
    Stream(&'a SendRequest),
    /// The id of a task, and the maximum number of its newest messages.
    Get(&'a str, Option<u64>),
    /// A page of the tasks that the client may see: the first one, or that of a page token.
    List(Option<&'a str>),
    Cancel(&'a str),
    Subscribe(&'a str),
}

impl Request<'_> {
    pub(super) fn operation(&self) -> Operation {
        match self {
            Self::Card => Operation::GetExtendedCard,
            Self::Send(_) => Operation::SendMessage,
            Self::Stream(_) => Operation::SendStreamingMessage,
            Self::Get(..) => Operation::GetTask,
            Self::List(_) => Operation::ListTasks,
            Self::Cancel(_) => Operation::CancelTask,
            Self::Subscribe(_) => Operation::SubscribeToTask,
        }
    }

    pub(super) fn task_id(&self) -> Option<&str> {
        match self {
            Self::Get(id, _) | Self::Cancel(id) | Self::Subscribe(id) => Some(id),
            Self::Card | Self::List(_) | Self::Send(_) | Self::Stream(_) => None,
        }
    }

    /// Returns whether the request may be repeated. A repeated message would have its effect again.
    pub(super) fn idempotency(&self) -> Idempotency {
        match self {
            Self::Send(_) | Self::Stream(_) => Idempotency::Once,
            _ => Idempotency::Repeatable,
        }
    }
}
