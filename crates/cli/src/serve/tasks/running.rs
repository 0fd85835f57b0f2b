//! Accesses the tasks of a running server through the API that the server's web page uses.

use std::sync::Arc;

use a2a_server::http::app;
use base::json::{self, Limits};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use serde_json::Value;
use url::Url;

use super::Page;
use crate::exit::{Exit, Failure};
use egress::address::is_this_machine;
use egress::credential::Trust;
use egress::{
    AddressPolicy, HttpClient as _, NetFault, Request, ReqwestClient, body::read_response,
};

/// The maximum size of a response. A page of 200 tasks with excerpts is much smaller.
const MAX_RESPONSE_BYTES: usize = 4 << 20;

pub(in crate::serve) struct RunningServer {
    net: ReqwestClient,
    url: Url,
    headers: HeaderMap,
    trust: Option<Arc<Trust>>,
}

impl RunningServer {
    pub(in crate::serve) fn new(url: Url, token: Option<String>) -> Result<Self, Failure> {
        if !matches!(url.scheme(), "http" | "https") || url.cannot_be_a_base() {
            return Err(Failure::usage("write the URL of --url as http://HOST:PORT"));
        }
        let mut headers = HeaderMap::new();
        let (own, page) = app::PAGE_HEADER;
        headers.insert(HeaderName::from_static(own), HeaderValue::from_static(page));
        if let Some(token) = token {
            let value = HeaderValue::try_from(format!("Bearer {token}"));
            let mut value = value.map_err(|_| {
                Failure::usage(
                    "cannot send the token of `--bearer-env`: it is not a valid header value",
                )
            })?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let net = ReqwestClient::new().map_err(|error| Failure::new(error.to_string()))?;
        Ok(Self {
            net,
            url,
            headers,
            trust: None,
        })
    }

    /// Trusts these authorities in place of the public ones.
    pub(super) fn trusting(self, trust: Arc<Trust>) -> Self {
        let trust = Some(trust);
        Self { trust, ..self }
    }

    pub(super) async fn page(&self, after: Option<&str>) -> Result<Page, Failure> {
        let mut url = self.path(&["api", "tasks"])?;
        if let Some(after) = after {
            url.query_pairs_mut().append_pair("after", after);
        }
        let (status, mut answer) = self.request(Method::GET, url).await?;
        if !status.is_success() {
            return Err(response_failure(status, &answer));
        }
        let tasks = match answer["tasks"].take() {
            Value::Array(tasks) => tasks,
            _ => {
                return Err(Failure::new(format!(
                    "cannot list tasks: the server at {} has no task list",
                    self.url
                )));
            }
        };
        let next = answer["next"].as_str().map(str::to_owned);
        Ok(Page { tasks, next })
    }

    /// Returns whether the server answers requests without a token.
    pub(in crate::serve) async fn is_open(&self) -> bool {
        self.page(None).await.is_ok()
    }

    pub(super) async fn delete(&self, id: &str) -> Result<bool, Failure> {
        let url = self.path(&["api", "tasks", id])?;
        match self.request(Method::DELETE, url).await? {
            (status, _) if status.is_success() => Ok(true),
            (StatusCode::NOT_FOUND, _) => Ok(false),
            (status, answer) => Err(response_failure(status, &answer)),
        }
    }

    fn path(&self, segments: &[&str]) -> Result<Url, Failure> {
        let mut url = self.url.clone();
        url.set_query(None);
        url.path_segments_mut()
            .map_err(|()| Failure::usage("write the URL of --url as http://HOST:PORT"))?
            .pop_if_empty()
            .extend(segments);
        Ok(url)
    }

    async fn request(&self, method: Method, url: Url) -> Result<(StatusCode, Value), Failure> {
        let request = Request {
            repeatable: method == Method::GET,
            authorization: None,
            method,
            access: access(&url),
            url,
            headers: self.headers.clone(),
            body: None,
            trust: self.trust.clone(),
        };
        let failed = |error: egress::NetError| {
            let tls_hint = match error.fault() {
                NetFault::Tls => {
                    "; `--ca-file FILE` trusts the certificates in a file; if its certificate has another name, use that name: `--url https://NAME:PORT`"
                }
                _ => "",
            };
            Failure {
                exit: Exit::Unreachable,
                message: format!("cannot query the server at {}: {error}{tls_hint}", self.url),
            }
        };
        let mut response = self.net.exchange(request).await.map_err(failed)?;
        let body = read_response(&mut response, MAX_RESPONSE_BYTES)
            .await
            .map_err(failed)?;
        let answer = json::from_slice(&body, Limits::NONE).unwrap_or_default();
        Ok((response.status, answer))
    }
}

/// Returns the address policy for a configured URL. A loopback URL may only reach this machine, without a proxy.
fn access(url: &Url) -> AddressPolicy {
    if is_this_machine(url) {
        AddressPolicy::Loopback
    } else {
        AddressPolicy::AnyAddress
    }
}

fn response_failure(status: StatusCode, answer: &Value) -> Failure {
    let reason = answer["error"]["message"]
        .as_str()
        .unwrap_or("no reason given");
    let (exit, next) = match status {
        StatusCode::UNAUTHORIZED => (
            Exit::Auth,
            "; `--bearer-env VAR` sends an operator's token, which `remote-agent serve clients add NAME --operator` creates",
        ),
        StatusCode::FORBIDDEN => (Exit::Auth, ""),
        _ => (Exit::Failed, ""),
    };
    Failure {
        exit,
        message: format!(
            "the server refused the request ({}): {reason}{next}",
            status.as_u16()
        ),
    }
}
