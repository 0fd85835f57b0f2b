//! A2A over HTTP with JSON bodies (A2A 0.3 §3.2.3, 1.0 §11): a path for each operation.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use url::Url;

use a2a::{
    Dialect, ErrorReason, Resource, SendParams, SendRequest, Transport, Version, path_segment,
};
use peer::{BoxFuture, PeerError, PeerErrorKind};

use super::error::{confirms_version, parse};
use super::interface_client::Request;
use super::interface_client::{InterfaceClient, PlainResponse, StreamResponse};
use super::jsonrpc::unserializable;
use super::negotiate::InterfaceState;
use super::peer_secrets::PeerSecrets;

/// The HTTP+JSON binding of an interface.
pub(super) struct HttpJson {
    pub(super) base: Url,
    pub(super) tenant: Option<String>,
    pub(super) version: Version,
    pub(super) state: Arc<InterfaceState>,
}

/// The parts of an HTTP request.
struct HttpRequest {
    method: Method,
    path: String,
    /// A parameter of the query.
    query: Option<(&'static str, String)>,
    body: Option<Bytes>,
}

impl HttpJson {
    /// Returns the URL of a path, below the tenant if `below_tenant`.
    fn url(&self, path: &str, below_tenant: bool) -> Url {
        let mut url = self.base.clone();
        let base = self.base.path();
        let base = base.strip_suffix('/').unwrap_or(base);
        match self.tenant.as_deref().filter(|_| below_tenant) {
            Some(tenant) => {
                let tenant = path_segment(tenant);
                url.set_path(&format!("{base}/{tenant}{path}"));
            }
            None => url.set_path(&format!("{base}{path}")),
        }
        url
    }

    /// Calls `path` with the tenant in it, and without it if the server has no such path (404 or 405): servers differ
    /// (A2A 1.0 §11.2). Nothing was executed at an unknown path, so no message is sent twice.
    async fn call_with_tenant<'a, T>(
        &'a self,
        method: &Method,
        path: &str,
        query: Option<(&str, &str)>,
        call: impl Fn(Url) -> BoxFuture<'a, Result<T, PeerError>> + Send,
    ) -> Result<T, PeerError> {
        let url_of = |below_tenant| {
            let mut url = self.url(path, below_tenant);
            let tenant = self.tenant.iter().filter(|_| !below_tenant);
            let tenant = tenant.filter(|_| *method == Method::GET);
            for (name, value) in query
                .into_iter()
                .chain(tenant.map(|tenant| ("tenant", tenant.as_str())))
            {
                url.query_pairs_mut().append_pair(name, value);
            }
            url
        };
        let no_tenant_path = &self.state.no_tenant_path;
        let below_tenant = self.tenant.is_some() && !no_tenant_path.is_set();
        let first = match call(url_of(below_tenant)).await {
            Err(error) if is_unknown_path(&error) => error,
            result => return result,
        };
        if !below_tenant {
            // The cached fact may be outdated; the next call tries both again.
            no_tenant_path.set(false);
            return Err(first);
        }
        match call(url_of(false)).await {
            Err(second) if is_unknown_path(&second) => Err(first),
            second => {
                if confirms_version(&second) {
                    no_tenant_path.set(true);
                }
                second
            }
        }
    }

    pub(super) async fn call(
        &self,
        http: &InterfaceClient,
        request: &Request<'_>,
    ) -> Result<PlainResponse, PeerError> {
        let parts = self.http_request(request, false)?;
        let idempotency = request.idempotency();
        let (method, body) = (&parts.method, &parts.body);
        let answer = self.call_with_tenant(
            method,
            &parts.path,
            parts.query.as_ref().map(|(name, value)| (*name, &**value)),
            |url| Box::pin(http.call(idempotency, method.clone(), url, body.clone(), parse_error)),
        );
        answer.await.map_err(|error| with_code(error, request))
    }

    /// Opens a stream. For a subscription the text of the specification requires POST and its proto file GET, and servers
    /// follow one or the other. The client first tries the method that worked last.
    pub(super) async fn stream(
        &self,
        http: &InterfaceClient,
        request: &Request<'_>,
    ) -> Result<StreamResponse, PeerError> {
        let open = async |by_get: bool| {
            let parts = self.http_request(request, by_get)?;
            let idempotency = request.idempotency();
            let (method, body) = (&parts.method, &parts.body);
            self.call_with_tenant(method, &parts.path, None, |url| {
                Box::pin(http.stream(idempotency, method.clone(), url, body.clone(), parse_error))
            })
            .await
        };
        let Request::Subscribe(_) = request else {
            return open(false).await;
        };
        let by_get = self.state.subscribes_by_get.is_set();
        let first = match open(by_get).await {
            Err(error) if matches!(error.http_status, Some(404 | 405 | 501)) => {
                with_code(error, request)
            }
            result => return result,
        };
        match open(!by_get).await {
            // If both fail, the first error says more.
            Err(second) if second.kind == PeerErrorKind::HttpStatus => Err(first),
            result => {
                if result.is_ok() {
                    self.state.subscribes_by_get.set(!by_get);
                }
                result
            }
        }
    }

    fn http_request(&self, request: &Request<'_>, by_get: bool) -> Result<HttpRequest, PeerError> {
        let resource = match *request {
            Request::Card => Resource::ExtendedCard,
            Request::Send(_) => Resource::Send,
            Request::Stream(_) => Resource::Stream,
            Request::Get(task_id, _) => Resource::Task(task_id.to_owned()),
            Request::List(_) => Resource::Tasks,
            Request::Cancel(task_id) => Resource::Cancel(task_id.to_owned()),
            Request::Subscribe(task_id) => Resource::Subscribe(task_id.to_owned()),
        };
        let Some(path) = resource.path(self.version) else {
            let task_id = request.task_id().unwrap_or_default();
            let message = format!(
                "the task id `{task_id}` cannot be part of a path, so HTTP+JSON cannot address the task"
            );
            return Err(PeerError::new(PeerErrorKind::Unaddressable, message).undelivered());
        };
        let body = match *request {
            Request::Send(message) | Request::Stream(message) => Some(self.message(message)?),
            Request::Cancel(_) => Some(self.empty_body()),
            Request::Subscribe(_) if !by_get => Some(self.empty_body()),
            Request::Card | Request::Get(..) | Request::List(_) | Request::Subscribe(_) => None,
        };
        Ok(HttpRequest {
            method: match body {
                Some(_) => Method::POST,
                None => Method::GET,
            },
            path,
            query: match *request {
                Request::Get(_, history_length) => {
                    history_length.map(|length| ("historyLength", length.to_string()))
                }
                Request::List(token) => token.map(|token| ("pageToken", token.to_owned())),
                _ => None,
            },
            body,
        })
    }

    fn message(&self, message: &SendRequest) -> Result<Bytes, PeerError> {
        if self.version == Version::V0_3 && !message.reference_task_ids.is_empty() {
            let message = "HTTP+JSON of A2A 0.3 cannot carry reference_task_ids";
            return Err(PeerError::new(PeerErrorKind::Unaddressable, message).undelivered());
        }
        let dialect = Dialect::new(self.version, Transport::HttpJson);
        let params = SendParams::new(message, dialect, self.tenant.as_deref());
        let body = serde_json::to_vec(&params);
        body.map(Bytes::from).map_err(unserializable)
    }

    /// Returns the body of a request without parameters beside its path.
    fn empty_body(&self) -> Bytes {
        let body = match &self.tenant {
            Some(tenant) => json!({ "tenant": tenant }),
            None => json!({}),
        };
        Bytes::from(body.to_string())
    }
}

/// Returns the error of a request about a task with the code that its HTTP status has in HTTP+JSON (A2A 1.0 §5.4, 0.3
/// §8), if the agent names none.
fn with_code(mut error: PeerError, request: &Request<'_>) -> PeerError {
    if error.kind == PeerErrorKind::Rpc && error.rpc_code.is_none() && request.task_id().is_some() {
        let reason = match (error.http_status, request) {
            (Some(404), _) => Some(ErrorReason::TaskNotFound),
            (Some(409), Request::Cancel(_)) => Some(ErrorReason::TaskNotCancelable),
            _ => None,
        };
        error.rpc_code = reason.map(|reason| reason.code().into());
    }
    error
}

/// Returns whether the web server, not the agent, rejected the path (404 or 405). Nothing was executed.
pub(super) fn is_unknown_path(error: &PeerError) -> bool {
    error.kind == PeerErrorKind::HttpStatus && matches!(error.http_status, Some(404 | 405))
}

fn parse_error(body: Value, status: StatusCode, secrets: &PeerSecrets) -> Option<PeerError> {
    parse(&body, Some(status), secrets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_of_an_error_about_a_task_has_its_code() {
        for (status, request, code) in [
            (404, Request::Get("t", None), Some(-32001)),
            (404, Request::Cancel("t"), Some(-32001)),
            (409, Request::Cancel("t"), Some(-32002)),
            (409, Request::Get("t", None), None),
            (404, Request::List(None), None),
        ] {
            let mut error = PeerError::new(PeerErrorKind::Rpc, "no");
            error.http_status = Some(status);
            assert_eq!(with_code(error, &request).rpc_code, code, "{status}");
        }
        let page = PeerError::new(PeerErrorKind::HttpStatus, "no");
        assert_eq!(with_code(page, &Request::Cancel("t")).rpc_code, None);
    }
}
