//! The endpoints of an authorization server: those of the settings, then those of its metadata (RFC 8414, and OpenID Connect
//! Discovery 1.0).

use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue};
use serde::Deserialize;
use url::Url;

use base::json::{self, Limits};

use super::{TokenEndpoint, fetch, unavailable};
use crate::address::{special_host, with_article};
use crate::credential::{ClientAuth, Grant, Metadata, OAuth2, SignInFlow};
use crate::error::place;
use crate::{AddressPolicy, HttpClient, NetError, Request, status_text};

/// An endpoint of an authorization server that a request needs.
#[derive(Clone, Copy)]
pub(super) enum Needed {
    Token,
    Authorization,
    Device,
}

/// Checks the endpoints that the grant of the client needs, and reads the metadata of its issuer for those that the settings do not
/// name.
///
/// # Errors
/// The metadata cannot be read, or an endpoint is missing or may not be used.
pub async fn check_endpoints(
    net: &dyn HttpClient,
    client: &OAuth2,
    endpoint: &TokenEndpoint,
) -> Result<(), NetError> {
    find(net, client, endpoint, Needed::Token).await?;
    let Grant::Person { flow, .. } = &client.grant else {
        return Ok(());
    };
    let needed = match flow {
        SignInFlow::DeviceCode => Needed::Device,
        SignInFlow::AuthorizationCode(_) => Needed::Authorization,
    };
    find(net, client, endpoint, needed).await.map(drop)
}

/// Returns the endpoint of the settings, else that of the metadata. Only the endpoint that a request needs has to be right.
pub(super) async fn find(
    net: &dyn HttpClient,
    client: &OAuth2,
    endpoint: &TokenEndpoint,
    needed: Needed,
) -> Result<Url, NetError> {
    let own = &client.endpoints;
    let (url, [name, setting]) = match needed {
        Needed::Token => (&own.token, ["token_endpoint", "tokenUrl"]),
        Needed::Authorization => {
            let names = ["authorization_endpoint", "authorizationUrl"];
            (&own.authorization, names)
        }
        Needed::Device => {
            let names = ["device_authorization_endpoint", "deviceAuthorizationUrl"];
            (&own.device, names)
        }
    };
    if let Some(url) = url {
        return Ok(url.clone());
    }
    let Some(issuer) = &own.issuer else {
        let message = format_args!("its `{name}` is not known; set `auth.{setting}`");
        return Err(unavailable(client, message));
    };
    let metadata = metadata(net, client, endpoint, issuer).await?;
    let found = match needed {
        Needed::Token => &metadata.token,
        Needed::Authorization => &metadata.authorization,
        Needed::Device => &metadata.device,
    };
    match found {
        Ok(Some(url)) => Ok(url.clone()),
        Ok(None) => {
            let message = format_args!("its metadata has no `{name}`; set `auth.{setting}`");
            Err(unavailable(client, message))
        }
        Err(reason) => {
            let message = format_args!(
                "its metadata names a `{name}` {reason}; if that is right, set `auth.{setting}`"
            );
            Err(unavailable(client, message))
        }
    }
}

/// Returns the revocation endpoint, if the metadata name one that may be used.
pub(super) async fn revocation(
    net: &dyn HttpClient,
    client: &OAuth2,
    endpoint: &TokenEndpoint,
) -> Result<Option<Url>, NetError> {
    let Some(issuer) = &client.endpoints.issuer else {
        return Ok(None);
    };
    let metadata = metadata(net, client, endpoint, issuer).await?;
    Ok(metadata.revocation.clone().unwrap_or_default())
}

/// Returns the server's origin, for messages.
pub fn server(client: &OAuth2) -> String {
    let endpoints = &client.endpoints;
    let url = endpoints.token.as_ref().or(endpoints.issuer.as_ref());
    url.map_or_else(String::new, place)
}

/// Returns the addresses that a request to `url` may use. Only an origin of the settings may be other than public: metadata of
/// a server elsewhere cannot name an address of this machine or of its network.
pub(super) fn access(
    client: &OAuth2,
    endpoint: &TokenEndpoint,
    url: &Url,
) -> Result<AddressPolicy, NetError> {
    let endpoints = &client.endpoints;
    let configured = [
        &endpoints.issuer,
        &endpoints.token,
        &endpoints.authorization,
        &endpoints.device,
    ];
    let is_same = |own: &Url| own.origin() == url.origin();
    let is_configured = configured.into_iter().flatten().any(is_same);
    AddressPolicy::for_url(url, endpoint.allow_private && is_configured, is_configured)
}

/// Returns the metadata of the issuer, which the client keeps.
async fn metadata<'a>(
    net: &dyn HttpClient,
    client: &'a OAuth2,
    endpoint: &TokenEndpoint,
    issuer: &Url,
) -> Result<&'a Metadata, NetError> {
    let known = &client.endpoints.metadata;
    known
        .get_or_try_init(|| discover(net, client, endpoint, issuer))
        .await
}

/// Reads the metadata at the places of both specifications.
async fn discover(
    net: &dyn HttpClient,
    client: &OAuth2,
    endpoint: &TokenEndpoint,
    issuer: &Url,
) -> Result<Metadata, NetError> {
    let mut answers = Vec::new();
    for url in metadata_places(issuer) {
        let path = url.path().to_owned();
        let access = access(client, endpoint, &url)?;
        let request = Request {
            headers: HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]),
            trust: endpoint.trust.clone(),
            ..Request::get(url, access)
        };
        let (response, body) = fetch(net, client, request).await?;
        if response.status.is_success() {
            return read(client, issuer, &body);
        }
        answers.push(format!("{} at `{path}`", status_text(response.status)));
    }
    let message = format!(
        "it has no metadata ({}); correct `auth.issuer`, or set the endpoints in its place",
        answers.join(", ")
    );
    Err(unavailable(client, message))
}

/// Returns the places of the metadata of an issuer: RFC 8414 §3.1 inserts its path before that of the issuer, OpenID Connect appends it.
pub fn metadata_places(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    let mut paths = vec![
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("{path}/.well-known/openid-configuration"),
        format!("/.well-known/openid-configuration{path}"),
    ];
    paths.dedup();
    let at = |path: &String| {
        let mut url = issuer.clone();
        url.set_path(path);
        url
    };
    paths.iter().map(at).collect()
}

fn read(client: &OAuth2, issuer: &Url, body: &[u8]) -> Result<Metadata, NetError> {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Aliases {
        token_endpoint: Option<String>,
        device_authorization_endpoint: Option<String>,
        revocation_endpoint: Option<String>,
    }
    #[derive(Deserialize)]
    struct Document {
        issuer: String,
        authorization_endpoint: Option<String>,
        #[serde(default)]
        authorization_response_iss_parameter_supported: bool,
        #[serde(flatten)]
        endpoints: Aliases,
        #[serde(default)]
        mtls_endpoint_aliases: Aliases,
    }
    let document: Document = json::from_slice(body, Limits::NONE)
        .map_err(|_| unavailable(client, "its metadata cannot be read"))?;
    let named = document.issuer.trim_end_matches('/');
    if named != issuer.as_str().trim_end_matches('/') {
        let message = format!(
            "its metadata is that of another issuer, `{}`, and not of `{}`; correct `auth.issuer`",
            base::text::excerpt(named),
            base::text::excerpt(issuer.as_str().trim_end_matches('/'))
        );
        return Err(unavailable(client, message));
    }
    let url = |text: Option<String>| {
        let Some(text) = text else {
            return Ok(None);
        };
        let url = Url::parse(&text).ok();
        // The settings allow what the issuer's own origin is.
        if let Some(own) = url.as_ref().filter(|url| url.origin() == issuer.origin()) {
            return Ok(Some(own.clone()));
        }
        let Some(url) = url.filter(|url| url.scheme() == "https") else {
            return Err("that is not https".to_owned());
        };
        let Some(class) = special_host(&url) else {
            return Ok(Some(url));
        };
        let (place, class) = (place(&url), with_article(class));
        Err(format!("at `{place}`, which is {class} address"))
    };
    let mut aliases = match client.client_auth {
        ClientAuth::Tls(_) => document.mtls_endpoint_aliases,
        _ => Aliases::default(),
    };
    let own = document.endpoints;
    let device = aliases.device_authorization_endpoint.take();
    let revocation = aliases.revocation_endpoint.take();
    Ok(Metadata {
        token: url(aliases.token_endpoint.take().or(own.token_endpoint)),
        authorization: url(document.authorization_endpoint),
        device: url(device.or(own.device_authorization_endpoint)),
        revocation: url(revocation.or(own.revocation_endpoint)),
        names_issuer: document.authorization_response_iss_parameter_supported,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::credential::{Endpoints, Grant};
    use crate::testing::{Next, Scripted};
    use serde_json::{Value, json};

    async fn token_at(issuer: &str, next: impl IntoIterator<Item = Next>) -> (String, Vec<String>) {
        let (client, endpoint) = (client(issuer), endpoint(false));
        let net = Scripted::new(next);
        let found = find(&net, &client, &endpoint, Needed::Token).await;
        let text = match &found {
            Ok(url) => url.to_string(),
            Err(error) => error.to_string(),
        };
        if found.is_ok() {
            find(&net, &client, &endpoint, Needed::Token).await.unwrap();
        }
        let requests = net.requests().into_iter();
        (text, requests.map(|(_, one)| one.url.to_string()).collect())
    }

    fn client(issuer: &str) -> OAuth2 {
        let endpoints = Endpoints {
            issuer: Some(issuer.parse().unwrap()),
            ..Endpoints::default()
        };
        OAuth2::at(endpoints, "desk".into(), Grant::ClientCredentials)
    }

    fn endpoint(allow_private: bool) -> TokenEndpoint {
        let trust = None;
        TokenEndpoint {
            allow_private,
            trust,
        }
    }

    fn document(issuer: &str, more: Value) -> Next {
        let mut all = json!({"issuer": issuer, "token_endpoint": "https://as.example/token"});
        all.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        Next::json(200, &all)
    }

    #[tokio::test]
    async fn metadata_is_found_at_each_place_and_kept() {
        let found = document("https://as.example/one", json!({}));
        let next = [Next::status(404), Next::status(404), found];
        let (url, requests) = token_at("https://as.example/one/", next).await;
        assert_eq!(url, "https://as.example/token");
        assert_eq!(
            requests,
            [
                "https://as.example/.well-known/oauth-authorization-server/one",
                "https://as.example/one/.well-known/openid-configuration",
                "https://as.example/.well-known/openid-configuration/one",
            ]
        );
    }

    #[tokio::test]
    async fn lying_or_missing_metadata_gives_no_endpoint() {
        let issuer = "https://as.example";
        let at = |url: &str| document(issuer, json!({"token_endpoint": url}));
        for (next, expected) in [
            (
                vec![document("https://evil.example", json!({}))],
                "another issuer, `https://evil.example`, and not of `https://as.example`",
            ),
            (vec![at("http://as.example/token")], "not https"),
            (vec![at("file:///etc/passwd")], "not https"),
            (vec![at("http://127.0.0.1/token")], "not https"),
            (
                vec![at("https://127.0.0.1/token")],
                "`https://127.0.0.1`, which is a loopback address",
            ),
            (
                vec![at("https://169.254.169.254/token")],
                "set `auth.tokenUrl`",
            ),
            (vec![at("https://localhost/token")], "loopback"),
            (
                vec![Next::json(200, &json!({"issuer": issuer}))],
                "no `token_endpoint`",
            ),
            (
                vec![Next::status(404), Next::status(404)],
                "no metadata (404",
            ),
            (
                vec![Next::Answer(200, None, "s3cret".into())],
                "cannot be read",
            ),
        ] {
            let (error, _) = token_at(issuer, next).await;
            assert!(
                error.contains(expected) && !error.contains("s3cret"),
                "{error}"
            );
        }
    }

    #[tokio::test]
    async fn refused_endpoint_matters_to_the_requests_that_need_it_only() {
        let (client, endpoint) = (client("https://as.example"), endpoint(false));
        let more = json!({"authorization_endpoint": "http://as.example/authorize", "device_authorization_endpoint": "https://10.0.0.1/device",
            "revocation_endpoint": "https://[::1]/revoke"});
        let net = Scripted::new([document("https://as.example", more)]);
        let url = find(&net, &client, &endpoint, Needed::Token).await.unwrap();
        assert_eq!(url.as_str(), "https://as.example/token");
        for (needed, refusal) in [
            (Needed::Authorization, "set `auth.authorizationUrl`"),
            (
                Needed::Device,
                "`https://10.0.0.1`, which is a private address",
            ),
        ] {
            let error = find(&net, &client, &endpoint, needed).await.unwrap_err();
            assert!(error.to_string().contains(refusal), "{error}");
        }
        let revoked = revocation(&net, &client, &endpoint).await.unwrap();
        assert_eq!(revoked, None);
    }

    #[test]
    fn metadata_cannot_lead_to_this_machine() {
        let client = client("https://as.example");
        let at = |text: &str| access(&client, &endpoint(true), &Url::parse(text).unwrap());
        assert!(at("https://127.0.0.1/token").is_err());
        let other = at("https://other.example/token").unwrap();
        assert_eq!(other, AddressPolicy::Public);
        let own = at("https://as.example/token").unwrap();
        assert_eq!(own, AddressPolicy::AnyAddress);
    }

    #[tokio::test]
    async fn issuer_on_this_machine_may_name_its_own_origin_only() {
        let issuer = "http://127.0.0.1:8080";
        let at = |url: &str| [document(issuer, json!({"token_endpoint": url}))];
        let own = "http://127.0.0.1:8080/token";
        assert_eq!(token_at(issuer, at(own)).await.0, own);
        let (error, _) = token_at(issuer, at("http://127.0.0.1:9090/token")).await;
        assert!(error.contains("not https"), "{error}");
    }
}
