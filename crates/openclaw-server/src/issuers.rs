//! Tokens of OpenID providers: finds the keys of an issuer (OpenID Connect Discovery 1.0 §4, RFC 8414 §3) and verifies with
//! them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use a2a_server::http::clients::TokenIssuers;
use base::environment::Environment;
use base::json::{self, Limits};
use base::jws::{KeySet, TimeError, Token};
use base::text::excerpt;
use egress::auth::metadata_places;
use egress::{AddressPolicy, HttpClient, Request, body, redirect, status_text};
use futures_util::future::BoxFuture;
use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::time::Instant;
use url::Url;

/// The longest token, in bytes.
const MAX_TOKEN_BYTES: usize = 16 << 10;

/// The largest metadata and key set, in bytes.
const MAX_DOCUMENT_BYTES: usize = 256 << 10;

/// How much the clocks of server and issuer may differ.
const LEEWAY: Duration = Duration::from_secs(60);

/// After this time the server asks for new keys.
const FRESH: Duration = Duration::from_secs(60 * 60);

/// The server uses keys for this long if the issuer does not answer.
const USABLE: Duration = Duration::from_secs(24 * 60 * 60);

/// The time between two requests for the keys of an issuer, whatever ids of keys clients invent.
const PAUSE: Duration = Duration::from_secs(30);

/// How long the server waits for the keys of an issuer.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);

/// The issuers whose tokens the server accepts.
pub struct Issuers {
    net: Arc<dyn HttpClient>,
    env: Arc<dyn Environment>,
    issuers: HashMap<String, Arc<Issuer>>,
}

struct Issuer {
    url: Url,
    known: Mutex<KnownKeys>,
    /// Held while the keys are fetched.
    fetching: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
struct KnownKeys {
    keys: Option<(Arc<KeySet>, Instant)>,
    last_attempt: Option<Instant>,
    last_error: String,
}

impl Issuers {
    /// Creates the verifier for tokens of these issuers.
    pub fn new(
        net: Arc<dyn HttpClient>,
        env: Arc<dyn Environment>,
        issuers: impl IntoIterator<Item = Url>,
    ) -> Self {
        let issuers = issuers.into_iter().map(|url| {
            let issuer = Issuer {
                known: Mutex::default(),
                fetching: Arc::default(),
                url,
            };
            (name(issuer.url.as_str()).to_owned(), Arc::new(issuer))
        });
        Self {
            net,
            env,
            issuers: issuers.collect(),
        }
    }

    async fn claims(&self, text: &str) -> Result<Map<String, Value>, String> {
        if text.len() > MAX_TOKEN_BYTES {
            return Err(format!("the token is longer than {MAX_TOKEN_BYTES} bytes"));
        }
        let of_token = |problem: String| format!("the token {problem}");
        let token = Token::parse(text, Limits::NONE).map_err(of_token)?;
        let issuer = token
            .text("iss")
            .and_then(|iss| self.issuers.get(name(iss)));
        let issuer = issuer.ok_or("the token is of an issuer that this server does not accept")?;
        let now = self.env.system_time();
        token.check_time(now, LEEWAY).map_err(|error| match error {
            TimeError::Expired => "the token has expired; get a new one".to_owned(),
            TimeError::NotYet => {
                "the token is not valid yet (`nbf`); compare the clocks".to_owned()
            }
            TimeError::NoExpiry => "the token has no expiry (`exp`)".to_owned(),
            TimeError::NotATime(claim) => format!("the token has a `{claim}` that is not a time"),
        })?;
        let id = token
            .header("kid")
            .ok_or("the token names no key (`kid`)")?;
        let keys = issuer.keys(&self.net, id).await?;
        token.verify(&keys).map_err(of_token)?;
        Ok(token.claims().clone())
    }
}

impl TokenIssuers for Issuers {
    fn verify<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<Map<String, Value>, String>> {
        Box::pin(self.claims(token))
    }
}

/// Returns an issuer as tokens and settings may both write it.
fn name(issuer: &str) -> &str {
    issuer.trim_end_matches('/')
}

impl Issuer {
    /// Returns the keys of the issuer, new ones if they are old or lack the key `id`.
    async fn keys(
        self: &Arc<Self>,
        net: &Arc<dyn HttpClient>,
        id: &str,
    ) -> Result<Arc<KeySet>, String> {
        if let Some(keys) = self.fitting(id) {
            return Ok(keys);
        }
        let fetching = Arc::clone(&self.fetching).lock_owned().await;
        // Another request may have fetched them meanwhile.
        if let Some(keys) = self.fitting(id) {
            return Ok(keys);
        }
        let now = Instant::now();
        let last = self.known.lock().last_attempt;
        if last.is_none_or(|last| now >= last + PAUSE) {
            self.known.lock().last_attempt = Some(now);
            let (issuer, net) = (Arc::clone(self), Arc::clone(net));
            // A client that closes its connection does not end the request that others wait for.
            let _ = tokio::spawn(async move {
                issuer.refresh(&*net).await;
                drop(fetching);
            })
            .await;
        }
        let known = self.known.lock();
        match &known.keys {
            Some((keys, fetched)) if now < *fetched + USABLE => Ok(Arc::clone(keys)),
            _ => Err(format!(
                "the keys of the token's issuer cannot be read ({}); try again in {} s",
                known.last_error,
                PAUSE.as_secs()
            )),
        }
    }

    async fn refresh(&self, net: &dyn HttpClient) {
        let fetched = tokio::time::timeout(FETCH_TIMEOUT, self.fetch(net)).await;
        let fetched = fetched.unwrap_or_else(|_| Err("it does not answer in time".to_owned()));
        let mut known = self.known.lock();
        match fetched {
            Ok(keys) => known.keys = Some((Arc::new(keys), Instant::now())),
            Err(error) => {
                tracing::warn!(issuer = %self.url, "the keys of the issuer cannot be read: {error}");
                known.last_error = error;
            }
        }
    }

    /// Returns the keys if they need no request.
    fn fitting(&self, id: &str) -> Option<Arc<KeySet>> {
        let known = self.known.lock();
        let (keys, fetched) = known.keys.as_ref()?;
        (fetched.elapsed() < FRESH && keys.has(id)).then(|| Arc::clone(keys))
    }

    async fn fetch(&self, net: &dyn HttpClient) -> Result<KeySet, String> {
        #[derive(Deserialize)]
        struct Metadata {
            issuer: String,
            jwks_uri: String,
        }
        let mut failure = String::new();
        for place in metadata_places(&self.url) {
            let bytes = match self.get(net, &place).await {
                Ok(bytes) => bytes,
                Err(error) => {
                    failure = error;
                    continue;
                }
            };
            let metadata: Metadata = json::from_slice(&bytes, Limits::NONE)
                .map_err(|_| format!("its metadata at `{}` cannot be read", place.path()))?;
            if name(&metadata.issuer) != name(self.url.as_str()) {
                let other = excerpt(&metadata.issuer);
                return Err(format!("its metadata is that of another issuer, `{other}`"));
            }
            let url = Url::parse(&metadata.jwks_uri);
            let url = url.map_err(|_| "its `jwks_uri` is not a URL")?;
            if url.scheme() != "https" && url.origin() != self.url.origin() {
                return Err("its `jwks_uri` is not https".to_owned());
            }
            return KeySet::parse(&self.get(net, &url).await?);
        }
        Err(failure)
    }

    /// Reads a document. The operator vouches for the origin of the issuer only.
    async fn get(&self, net: &dyn HttpClient, url: &Url) -> Result<Vec<u8>, String> {
        let is_own = url.origin() == self.url.origin();
        let access = AddressPolicy::for_url(url, is_own, is_own).map_err(|e| e.to_string())?;
        let request = Request {
            headers: HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]),
            ..Request::get(url.clone(), access)
        };
        let followed = redirect::follow(net, request).await;
        let mut response = followed.map_err(|e| e.to_string())?.response;
        if !response.status.is_success() {
            return Err(format!(
                "{} at `{}`",
                status_text(response.status),
                url.path()
            ));
        }
        let bytes = body::read_response(&mut response, MAX_DOCUMENT_BYTES).await;
        Ok(bytes.map_err(|e| e.to_string())?.to_vec())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::{SystemTime, UNIX_EPOCH};

    use base::environment::SystemEnvironment;
    use base::jws::SigningKey;
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use bytes::Bytes;
    use egress::{NetError, NetFault, Response, Sent};
    use http::StatusCode;
    use serde_json::json;

    use super::*;

    const ISSUER: &str = "https://issuer.example";

    /// Answers with its metadata and keys, and counts the requests for keys.
    struct Provider {
        metadata: Value,
        keys: Mutex<Option<String>>,
        requests: Mutex<usize>,
    }

    impl HttpClient for Provider {
        fn exchange(
            &self,
            request: Request,
        ) -> egress::BoxFuture<'static, Result<Response, NetError>> {
            let body = match request.url.path() {
                "/keys" => {
                    *self.requests.lock() += 1;
                    self.keys.lock().clone()
                }
                _ => Some(self.metadata.to_string()),
            };
            let answer = body.map(|body| Response {
                status: StatusCode::OK,
                headers: HeaderMap::new(),
                body: Box::pin(futures_util::stream::iter([Ok(Bytes::from(body))])),
            });
            let failed = || NetError::new(NetFault::Unreachable, Sent::No, "connection refused");
            Box::pin(std::future::ready(answer.ok_or_else(failed)))
        }
    }

    struct Fixture {
        key: SigningKey,
        provider: Arc<Provider>,
        issuers: Issuers,
    }

    fn fixture(metadata: Value) -> Fixture {
        let pem = rcgen::KeyPair::generate().unwrap().serialize_pem();
        let key = SigningKey::parse(pem.as_bytes()).unwrap();
        let provider = Arc::new(Provider {
            metadata,
            keys: Mutex::new(Some(json!({"keys": [key.public_key()]}).to_string())),
            requests: Mutex::default(),
        });
        let net = Arc::clone(&provider) as Arc<dyn HttpClient>;
        let issuers = Issuers::new(net, Arc::new(SystemEnvironment), [ISSUER.parse().unwrap()]);
        Fixture {
            key,
            provider,
            issuers,
        }
    }

    fn honest() -> Value {
        json!({"issuer": ISSUER, "jwks_uri": format!("{ISSUER}/keys")})
    }

    /// Returns a token that ends after `seconds`, or before now if they are negative.
    fn token(key: &SigningKey, id: &str, seconds: i64) -> String {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs();
        let end = now.saturating_add_signed(seconds);
        let header = json!({"alg": key.algorithm(), "kid": id});
        let claims = json!({"iss": format!("{ISSUER}/"), "aud": "desk", "exp": end});
        let signed = [header, claims]
            .map(|part| URL_SAFE_NO_PAD.encode(part.to_string()))
            .join(".");
        let signature = URL_SAFE_NO_PAD.encode(key.sign(signed.as_bytes()).unwrap());
        format!("{signed}.{signature}")
    }

    impl Fixture {
        fn token(&self, seconds: i64) -> String {
            let id = self.key.public_key()["kid"].as_str().unwrap().to_owned();
            token(&self.key, &id, seconds)
        }

        fn requests(&self) -> usize {
            *self.provider.requests.lock()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn keys_are_fetched_once_an_hour() {
        let fixture = fixture(honest());
        let token = fixture.token(1000);
        for _ in 0..3 {
            let claims = fixture.issuers.verify(&token).await.unwrap();
            assert_eq!(claims["aud"], "desk");
        }
        assert_eq!(fixture.requests(), 1);
        tokio::time::advance(FRESH).await;
        fixture.issuers.verify(&token).await.unwrap();
        assert_eq!(fixture.requests(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn invented_key_ids_cause_a_request_in_each_pause_only() {
        let fixture = fixture(honest());
        fixture.issuers.verify(&fixture.token(1000)).await.unwrap();
        tokio::time::advance(PAUSE).await;
        for i in 0..1000 {
            let forged = token(&fixture.key, &format!("k{i}"), 1000);
            let error = fixture.issuers.verify(&forged).await.unwrap_err();
            assert!(error.contains("its key is not in the key set"), "{error}");
        }
        assert_eq!(fixture.requests(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn issuer_that_is_down_is_asked_again_and_known_keys_stay_usable() {
        let fixture = fixture(honest());
        let token = fixture.token(100_000);
        let keys = fixture.provider.keys.lock().take();
        let error = fixture.issuers.verify(&token).await.unwrap_err();
        assert!(
            error.contains("connection refused") && error.contains("try again in 30 s"),
            "{error}"
        );
        *fixture.provider.keys.lock() = keys;
        assert!(fixture.issuers.verify(&token).await.is_err());
        tokio::time::advance(PAUSE).await;
        fixture.issuers.verify(&token).await.unwrap();

        fixture.provider.keys.lock().take();
        tokio::time::advance(USABLE - PAUSE).await;
        fixture.issuers.verify(&token).await.unwrap();
        tokio::time::advance(PAUSE).await;
        assert!(fixture.issuers.verify(&token).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_goes_away_does_not_end_the_request_for_keys() {
        let fixture = fixture(honest());
        let forged = token(&fixture.key, "none", 1000);
        {
            let mut request = std::pin::pin!(fixture.issuers.verify(&forged));
            let polled = futures_util::poll!(request.as_mut());
            assert!(polled.is_pending());
        }
        fixture.issuers.verify(&fixture.token(1000)).await.unwrap();
        assert_eq!(fixture.requests(), 1);
    }

    #[tokio::test]
    async fn token_that_cannot_be_valid_causes_no_request() {
        let fixture = fixture(honest());
        let long = format!("{}.x.y", "a".repeat(MAX_TOKEN_BYTES));
        for (token, expected) in [
            (fixture.token(-100), "has expired"),
            ("a.b.c".to_owned(), "not base64url"),
            (long, "longer than"),
        ] {
            let error = fixture.issuers.verify(&token).await.unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        assert_eq!(fixture.requests(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn lying_or_large_documents_give_no_keys() {
        let large = "x".repeat(10 << 20);
        for (metadata, keys, expected) in [
            (
                json!({"issuer": "https://evil.example", "jwks_uri": format!("{ISSUER}/keys")}),
                None,
                "another issuer",
            ),
            (
                json!({"issuer": ISSUER, "jwks_uri": "http://issuer.example/keys"}),
                None,
                "not https",
            ),
            (
                json!({"issuer": ISSUER, "jwks_uri": "https://127.0.0.1/keys"}),
                None,
                "loopback",
            ),
            (json!({"issuer": ISSUER}), None, "cannot be read"),
            (honest(), Some(large), "larger than"),
            (honest(), Some("{}".to_owned()), "no list `keys`"),
        ] {
            let fixture = fixture(metadata);
            if let Some(keys) = keys {
                *fixture.provider.keys.lock() = Some(keys);
            }
            let error = fixture
                .issuers
                .verify(&fixture.token(1000))
                .await
                .unwrap_err();
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }
}
