//! A2A over HTTP with JSON bodies (A2A 0.3 §3.2.3, 1.0 §11): a path for each operation.

use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use url::Url;

use a2a::{Card, Event, Reply, SendRequest, ShapeError, Task, Transport, Version};
use common::redact;
use peer::{BoxFuture, EventStream, NegotiatedProtocol, Peer, PeerError, PeerErrorKind};

use super::error_body::{bears_out, explained};
use super::events::{Answered, Decode};
use super::jsonrpc::{misshapen, unwritable};
use super::line::{Heard, HttpBinding, Idempotency};
use super::memory::Learned;
use super::proto_json::Reader;
use super::secrets::Secrets;
use super::{card, v0_3, v1};

/// What may stand in a path as it is (RFC 3986 §2.3, unreserved).
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// What a version writes and reads over HTTP+JSON.
struct Dialect {
    version: Version,
    /// What its paths begin with.
    prefix: &'static str,
    /// Where it shows the extended card.
    card: &'static str,
    body: fn(&SendRequest, Option<&str>) -> serde_json::Result<Vec<u8>>,
    reader: &'static Reader,
    event: Decode,
}

/// A2A 0.3 §3.5.6.
static V0_3: Dialect = Dialect {
    version: Version::V0_3,
    prefix: "/v1",
    card: "/v1/card",
    body: |outgoing, _| serde_json::to_vec(&v0_3::proto::send_body(outgoing)),
    reader: &v0_3::proto::READER,
    event: |data, secrets| event(data, secrets, V0_3.reader),
};

/// A2A 1.0 §11.3.
static V1_0: Dialect = Dialect {
    version: Version::V1_0,
    prefix: "",
    card: "/extendedAgentCard",
    body: |outgoing, tenant| serde_json::to_vec(&v1::write::SendParams::of(outgoing, tenant)),
    reader: &v1::read::READER,
    event: |data, secrets| event(data, secrets, V1_0.reader),
};

/// A peer's HTTP+JSON interface.
pub(super) struct HttpJson {
    line: HttpBinding,
    base: Url,
    tenant: Option<String>,
    dialect: &'static Dialect,
    learned: Arc<Learned>,
}

impl HttpJson {
    /// The interface at `base` in `version`. Only 1.0 knows tenants.
    pub(super) fn new(
        line: HttpBinding,
        base: Url,
        version: Version,
        tenant: Option<String>,
        learned: Arc<Learned>,
    ) -> Self {
        let (dialect, tenant) = match version {
            Version::V0_3 => (&V0_3, None),
            Version::V1_0 => (&V1_0, tenant),
        };
        Self {
            line,
            base,
            tenant,
            dialect,
            learned,
        }
    }

    /// An address below the interface's, with the tenant in front of the path where `tenanted`.
    fn url(&self, path: &str, tenanted: bool) -> Url {
        let mut url = self.base.clone();
        let base = self.base.path();
        let base = base.strip_suffix('/').unwrap_or(base);
        match self.tenant.as_deref().filter(|_| tenanted) {
            Some(tenant) => {
                let tenant = utf8_percent_encode(tenant, SEGMENT);
                url.set_path(&format!("{base}/{tenant}{path}"));
            }
            None => url.set_path(&format!("{base}{path}")),
        }
        url
    }

    /// The path of a task, with what is asked of it behind.
    fn task_path(&self, task_id: &str, verb: &str) -> Result<String, PeerError> {
        if verb.is_empty() && matches!(task_id, "." | "..") {
            let message = format!(
                "the task id `{task_id}` cannot be part of a path, so HTTP+JSON cannot ask for it"
            );
            return Err(PeerError::new(PeerErrorKind::Unaddressable, message).undelivered());
        }
        let id = utf8_percent_encode(task_id, SEGMENT);
        Ok(format!("{}/tasks/{id}{verb}", self.dialect.prefix))
    }

    /// Asks at `path`. Servers differ in whether the tenant is a part of it (1.0 §11.2), so where nothing answers at the
    /// address with the tenant, and nothing has been done therefore, the one without it is tried.
    async fn tenanted<'a, T>(
        &'a self,
        method: &Method,
        path: &str,
        query: &[(&str, String)],
        ask: impl Fn(Url) -> BoxFuture<'a, Result<T, PeerError>> + Send,
    ) -> Result<T, PeerError> {
        let place = |tenanted| {
            let mut url = self.url(path, tenanted);
            let tenant = self.tenant.iter().filter(|_| !tenanted);
            let tenant = tenant.filter(|_| *method == Method::GET);
            for (name, value) in query
                .iter()
                .map(|(name, value)| (*name, value))
                .chain(tenant.map(|tenant| ("tenant", tenant)))
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

    async fn ask(
        &self,
        often: Idempotency,
        method: Method,
        path: &str,
        query: &[(&str, String)],
        body: Option<Bytes>,
    ) -> Result<Value, PeerError> {
        let answer = self
            .tenanted(&method, path, query, |url| {
                Box::pin(
                    self.line
                        .ask(often, method.clone(), url, body.clone(), explain),
                )
            })
            .await?;
        self.line.json(&answer)
    }

    fn reply(&self, answer: Value) -> Result<Reply, PeerError> {
        if let Some(error) = explained(&answer, self.line.secrets()) {
            return Err(error);
        }
        match self.dialect.reader.reply(answer) {
            Ok(inner) => Reply::read(inner).map_err(misshapen),
            Err(_) => Err(misshapen(ShapeError {
                pointer: String::new(),
                expected: "an object with `task` or `message`",
                found: "something else",
            })),
        }
    }

    async fn listen(
        &self,
        often: Idempotency,
        method: Method,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<Box<dyn EventStream>, PeerError> {
        let heard = self
            .tenanted(&method, path, &[], |url| {
                Box::pin(
                    self.line
                        .listen(often, method.clone(), url, body.clone(), explain),
                )
            })
            .await?;
        Ok(match heard {
            Heard::Events(reader) => Box::new(self.line.events(reader, self.dialect.event)),
            Heard::Answer(answer) => {
                let reply = self.reply(self.line.json(&answer)?)?;
                Box::new(Answered(Some((reply, answer.body.len()))))
            }
        })
    }

    fn message(&self, outgoing: &SendRequest) -> Result<Bytes, PeerError> {
        if self.dialect.version == Version::V0_3 && !outgoing.reference_task_ids.is_empty() {
            let message = "HTTP+JSON of A2A 0.3 cannot carry reference_task_ids";
            return Err(PeerError::new(PeerErrorKind::Unaddressable, message).undelivered());
        }
        let body = (self.dialect.body)(outgoing, self.tenant.as_deref());
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

impl Peer for HttpJson {
    fn spoken(&self) -> NegotiatedProtocol {
        NegotiatedProtocol {
            version: self.dialect.version.as_str(),
            transport: Transport::HttpJson,
        }
    }

    fn secrets(&self) -> Arc<redact::Secrets> {
        self.line.secrets().current()
    }

    fn card(&self) -> BoxFuture<'_, Result<Card, PeerError>> {
        Box::pin(async {
            let json = self
                .ask(
                    Idempotency::Repeatable,
                    Method::GET,
                    self.dialect.card,
                    &[],
                    None,
                )
                .await?;
            let json = self.line.verified(json).await?;
            card::read(&json).map_err(|why| PeerError::new(PeerErrorKind::CardUnavailable, why))
        })
    }

    fn send<'a>(&'a self, outgoing: &'a SendRequest) -> BoxFuture<'a, Result<Reply, PeerError>> {
        Box::pin(async move {
            let body = self.message(outgoing)?;
            let path = format!("{}/message:send", self.dialect.prefix);
            self.reply(
                self.ask(Idempotency::Once, Method::POST, &path, &[], Some(body))
                    .await?,
            )
        })
    }

    fn stream<'a>(
        &'a self,
        outgoing: &'a SendRequest,
    ) -> BoxFuture<'a, Result<Box<dyn EventStream>, PeerError>> {
        Box::pin(async move {
            let body = self.message(outgoing)?;
            let path = format!("{}/message:stream", self.dialect.prefix);
            self.listen(Idempotency::Once, Method::POST, &path, Some(body))
                .await
        })
    }

    fn get_task<'a>(
        &'a self,
        task_id: &'a str,
        history_length: Option<u64>,
    ) -> BoxFuture<'a, Result<Task, PeerError>> {
        Box::pin(async move {
            let path = self.task_path(task_id, "")?;
            let length = history_length.map(|length| ("historyLength", length.to_string()));
            let answer = self
                .ask(
                    Idempotency::Repeatable,
                    Method::GET,
                    &path,
                    length.as_slice(),
                    None,
                )
                .await?;
            Task::read(self.dialect.reader.task(answer)).map_err(misshapen)
        })
    }

    fn cancel<'a>(&'a self, task_id: &'a str) -> BoxFuture<'a, Result<Task, PeerError>> {
        Box::pin(async move {
            let path = self.task_path(task_id, ":cancel")?;
            let body = self.nothing();
            let answer = self
                .ask(
                    Idempotency::Repeatable,
                    Method::POST,
                    &path,
                    &[],
                    Some(body),
                )
                .await?;
            Task::read(self.dialect.reader.task(answer)).map_err(misshapen)
        })
    }

    /// The protocol's text says POST, its definition GET, and servers follow one or the other. What worked comes first.
    fn resubscribe<'a>(
        &'a self,
        task_id: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn EventStream>, PeerError>> {
        Box::pin(async move {
            let path = self.task_path(task_id, ":subscribe")?;
            let subscribe = async |by_get: bool| {
                let (method, body) = match by_get {
                    true => (Method::GET, None),
                    false => (Method::POST, Some(self.nothing())),
                };
                self.listen(Idempotency::Repeatable, method, &path, body)
                    .await
            };
            let by_get = self.learned.subscribes_by_get.is_set();
            let first = match subscribe(by_get).await {
                Err(error) if matches!(error.http_status, Some(404 | 405 | 501)) => error,
                done => return done,
            };
            match subscribe(!by_get).await {
                // The first refusal tells more than the second, where both refuse.
                Err(second) if second.kind == PeerErrorKind::HttpStatus => Err(first),
                done => {
                    if done.is_ok() {
                        self.learned.subscribes_by_get.set(!by_get);
                    }
                    done
                }
            }
        })
    }
}

fn event(data: &str, secrets: &Secrets, reader: &Reader) -> Result<Event, PeerError> {
    let mut json: Value = serde_json::from_str(data).map_err(|e| {
        PeerError::new(
            PeerErrorKind::InvalidResponse,
            format!("an event of the stream is not JSON: {e}"),
        )
    })?;
    secrets.scrub_answer(&mut json);
    if let Some(error) = explained(&json, secrets) {
        return Err(error);
    }
    Event::read(reader.reply(json).unwrap_or_else(|unknown| unknown)).map_err(misshapen)
}

fn explain(body: Value, secrets: &Secrets) -> Option<PeerError> {
    explained(&body, secrets)
}
