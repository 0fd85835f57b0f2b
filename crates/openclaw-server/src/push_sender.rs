//! Sends notifications to webhooks under the egress policy.

use std::sync::Arc;

use a2a_server::push::{PushError, PushSender};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Response};
use url::Url;

use base::config::contains_url;
use egress::address::{special_host, with_article};
use egress::body::read_error;
use egress::{AddressPolicy, HttpClient, NetError, NetFault, Request};

/// The address policy for webhooks that clients register.
#[derive(Debug, Clone, Default)]
pub struct WebhookPolicy {
    /// The URLs that the operator allows, including all URLs below them. They may use plain HTTP and private addresses.
    /// If the list is empty, all public addresses over HTTPS are allowed.
    pub listed: Vec<Url>,
    /// Whether all addresses are allowed, including this machine and its network.
    pub anywhere: bool,
}

impl WebhookPolicy {
    /// Returns the policy for the addresses of `url`. The HTTP client applies it again after it has resolved the host
    /// name.
    ///
    /// # Errors
    /// The policy forbids the webhook. The error is the end of a sentence.
    fn access(&self, url: &Url) -> Result<AddressPolicy, String> {
        let listed = self.listed.iter().any(|listed| contains_url(listed, url));
        if !listed && !self.anywhere {
            self.unlisted(url)?;
        }
        AddressPolicy::for_url(url, self.anywhere, listed).map_err(|error| error.to_string())
    }

    fn unlisted(&self, url: &Url) -> Result<(), String> {
        if !self.listed.is_empty() {
            return Err("is not among the webhooks that the operator allows".to_owned());
        }
        if let Some(class) = special_host(url) {
            return Err(format!(
                "leads to {} address; a webhook must be public, or be allowed by the operator",
                with_article(class)
            ));
        }
        if url.scheme() != "https" {
            return Err("is not https, and the operator has not allowed it".to_owned());
        }
        Ok(())
    }
}

/// Posts notifications with an HTTP client.
#[derive(Clone)]
pub struct HttpPushSender {
    net: Arc<dyn HttpClient>,
    webhooks: Arc<WebhookPolicy>,
}

impl HttpPushSender {
    /// Creates a sender for the webhooks that the operator allows.
    pub fn new(net: Arc<dyn HttpClient>, webhooks: WebhookPolicy) -> Self {
        Self {
            net,
            webhooks: Arc::new(webhooks),
        }
    }
}

impl PushSender for HttpPushSender {
    fn accepts(&self, url: &Url) -> Result<(), String> {
        self.webhooks.access(url).map(drop)
    }

    fn post(
        &self,
        url: Url,
        headers: HeaderMap,
        body: Bytes,
    ) -> BoxFuture<'_, Result<Response<()>, PushError>> {
        Box::pin(async move {
            // Check again, because the operator may have restricted the policy since the registration.
            let access = self.webhooks.access(&url).map_err(|error| PushError {
                text: format!("the webhook {error}"),
                retryable: false,
            })?;
            let request = Request {
                headers,
                ..Request::post(url, access, body)
            };
            let answer = self.net.exchange(request).await.map_err(undelivered)?;
            let mut response = Response::new(());
            *response.status_mut() = answer.status;
            *response.headers_mut() = answer.headers;
            // Read the body, so that the next notification can reuse the connection.
            read_error(answer.body).await;
            Ok(response)
        })
    }
}

fn undelivered(error: NetError) -> PushError {
    let retryable = match error.fault() {
        NetFault::Dns | NetFault::Unreachable | NetFault::Tls | NetFault::Cut => true,
        NetFault::AddressRefused
        | NetFault::TokenUnavailable
        | NetFault::ProxyAuth
        | NetFault::TooLarge
        | NetFault::EventTooLarge
        | NetFault::Protocol => false,
    };
    PushError {
        text: error.to_string(),
        retryable,
    }
}

#[cfg(test)]
mod tests;
