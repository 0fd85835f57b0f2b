//! A2A over HTTP with JSON bodies (A2A 0.3 §3.2.3, 1.0 §11): a path for each operation.

use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use url::Url;

use a2a::{Dialect, Resource, SendParams, SendRequest, Transport, Version, path_segment};
use peer::{BoxFuture, PeerError, PeerErrorKind};

use super::error_body::{bears_out, explained};
use super::jsonrpc::unwritable;
use super::line::{Answer, Heard, HttpBinding};
use super::memory::Learned;
use super::request::Request;
use super::secrets::Secrets;

/// Where a peer speaks HTTP+JSON.
pub(super) struct HttpJson {
    pub(super) base: Url,
    pub(super) tenant: Option<String>,
    pub(super) version: Version,
    pub(super) learned: Arc<Learned>,
}

/// A request as HTTP sends it.
struct Written {
    method: Method,
    path: String,
    history_length: Option<String>,
    body: Option<Bytes>,
}

impl HttpJson {
    /// An address below the interface's, with the tenant in front of the path where `tenanted`.
    fn url(&self, path: &str, tenanted: bool) -> Url {
        let mut url = self.base.clone();
        let base = self.base.path();
        let base = base.strip_suffix('/').unwrap_or(base);
        match self.tenant.as_deref().filter(|_| tenanted) {
            Some(tenant) => {
                let tenant = path_segment(tenant);
                url.set_path(&format!("{base}/{tenant}{path}"));
            }
            None => url.set_path(&format!("{base}{path}")),
        }
        url
    }

    /// Asks at `path`. Servers differ in whether the tenant is a part of it (1.0 §11.2), so where nothing answers at the
    /// address with the tenant, and nothing has been done therefore, the one without it is tried.
    async fn tenanted<'a, T>(
        &'a self,
        method: &Method,
        path: &str,
        query: Option<&str>,
        ask: impl Fn(Url) -> BoxFuture<'a, Result<T, PeerError>> + Send,
    ) -> Result<T, PeerError> {
        let place = |tenanted| {
            let mut url = self.url(path, tenanted);
            let tenant = self.tenant.iter().filter(|_| !tenanted);
            let tenant = tenant.filter(|_| *method == Method::GET);
            for (name, value) in query
                .into_iter()
                .map(|length| ("historyLength", length))
                .chain(tenant.map(|tenant| ("tenant", tenant.as_str())))
            {
                url.query_pairs_mut().append_pair(name, value);
            }
            url
        };
        let without = &self.learned.takes_no_tenant_path;
        let tenanted = self.tenant.is_some() && !without.is_set();
        let first = match ask(place(tenanted)).await {
            Err(error) if nobody_there(&error) => error,
            done => return done,
        };
        if !tenanted {
            // What was learned may not hold any more; the next call finds out anew.
            without.set(false);
            return Err(first);
        }
        match ask(place(false)).await {
            Err(second) if nobody_there(&second) => Err(first),
            second => {
                if bears_out(&second) {
                    without.set(true);
                }
                second
            }
        }
    }

    pub(super) async fn call(
        &self,
        line: &HttpBinding,
        request: &Request<'_>,
    ) -> Result<Answer, PeerError> {
        let written = self.written(request, false)?;
        let often = request.repeats();
        let (method, body) = (&written.method, &written.body);
        self.tenanted(
            method,
            &written.path,
            written.history_length.as_deref(),
            |url| Box::pin(line.ask(often, method.clone(), url, body.clone(), explain)),
        )
        .await
    }

    /// Of a subscription the protocol's text says POST, its definition GET, and servers follow one or the other. What worked
    /// comes first.
    pub(super) async fn listen(
        &self,
        line: &HttpBinding,
        request: &Request<'_>,
    ) -> Result<Heard, PeerError> {
        let listen = async |by_get: bool| {
            let written = self.written(request, by_get)?;
            let often = request.repeats();
            let (method, body) = (&written.method, &written.body);
            self.tenanted(method, &written.path, None, |url| {
                Box::pin(line.listen(often, method.clone(), url, body.clone(), explain))
            })
            .await
        };
        let Request::Subscribe(_) = request else {
            return listen(false).await;
        };
        let by_get = self.learned.subscribes_by_get.is_set();
        let first = match listen(by_get).await {
            Err(error) if matches!(error.http_status, Some(404 | 405 | 501)) => error,
            done => return done,
        };
        match listen(!by_get).await {
            // The first refusal tells more than the second, where both refuse.
            Err(second) if second.kind == PeerErrorKind::HttpStatus => Err(first),
            done => {
                if done.is_ok() {
                    self.learned.subscribes_by_get.set(!by_get);
                }
                done
            }
        }
    }

    fn written(&self, request: &Request<'_>, by_get: bool) -> Result<Written, PeerError> {
        let resource = match *request {
            Request::Card => Resource::ExtendedCard,
            Request::Send(_) => Resource::Send,
            Request::Stream(_) => Resource::Stream,
            Request::Get(task_id, _) => Resource::Task(task_id.to_owned()),
            Request::Cancel(task_id) => Resource::Cancel(task_id.to_owned()),
            Request::Subscribe(task_id) => Resource::Subscribe(task_id.to_owned()),
        };
        let Some(path) = resource.path(self.version) else {
            let task_id = request.task_id().unwrap_or_default();
            let message = format!(
                "the task id `{task_id}` cannot be part of a path, so HTTP+JSON cannot ask for it"
            );
            return Err(PeerError::new(PeerErrorKind::Unaddressable, message).undelivered());
        };
        let body = match *request {
            Request::Send(message) | Request::Stream(message) => Some(self.message(message)?),
            Request::Cancel(_) => Some(self.nothing()),
            Request::Subscribe(_) if !by_get => Some(self.nothing()),
            Request::Card | Request::Get(..) | Request::Subscribe(_) => None,
        };
        Ok(Written {
            method: match body {
                Some(_) => Method::POST,
                None => Method::GET,
            },
            path,
            history_length: match *request {
                Request::Get(_, history_length) => history_length.map(|length| length.to_string()),
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
        body.map(Bytes::from).map_err(unwritable)
    }

    /// The body of a request that says all there is to say in its path.
    fn nothing(&self) -> Bytes {
        let body = match &self.tenant {
            Some(tenant) => json!({ "tenant": tenant }),
            None => json!({}),
        };
        Bytes::from(body.to_string())
    }
}

/// Nothing answers at the address, by the word of the web server rather than of an agent: nothing has been done.
pub(super) fn nobody_there(error: &PeerError) -> bool {
    error.kind == PeerErrorKind::HttpStatus && matches!(error.http_status, Some(404 | 405))
}

fn explain(body: Value, secrets: &Secrets) -> Option<PeerError> {
    explained(&body, secrets)
}
