#![allow(clippy::unwrap_used)]
use std::time::Instant;

use http::HeaderName;

use super::*;
use crate::auth::{Authorization, TokenEndpoint};
use crate::credential::Credential;
use crate::testing::{post, request};
use crate::{HttpClient as _, ReqwestClient};
use testkit::raw_server::{RawServer, send};

/// The clock of the test suite that AWS publishes.
struct Fixed;

impl Clock for Fixed {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn system_time(&self) -> SystemTime {
        humantime::parse_rfc3339("2015-08-30T12:36:00Z").unwrap()
    }
}

fn keys(session_token: Option<&str>) -> AwsKeys {
    AwsKeys {
        access_key_id: "AKIDEXAMPLE".into(),
        secret_access_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".into(),
        session_token: session_token.map(SecretString::from),
    }
}

fn signer(service: &str) -> AwsSigV4 {
    AwsSigV4 {
        region: "us-east-1".into(),
        service: service.into(),
        keys: AwsKeySource::Settings(keys(None)),
        clock: Arc::new(Fixed),
    }
}

fn authorization(request: &Request) -> &str {
    request.headers[AUTHORIZATION].to_str().unwrap()
}

/// The cases of AWS's `aws-signing-test-suite` (Apache-2.0) whose requests can be URLs: method, path and query, headers, body
/// and signature.
#[test]
fn published_signatures_are_computed() {
    type Row = (
        &'static str,
        &'static str,
        &'static str,
        &'static [(&'static str, &'static str)],
        &'static str,
        &'static str,
    );
    const VANILLA: &str = "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31";
    const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");
    let rows: [Row; 20] = [
        ("get-vanilla", "GET", "/", &[], "", VANILLA),
        ("get-relative", "GET", "/example/..", &[], "", VANILLA),
        (
            "get-relative-relative",
            "GET",
            "/example1/example2/../..",
            &[],
            "",
            VANILLA,
        ),
        ("get-slash", "GET", "//", &[], "", VANILLA),
        ("get-slash-dot-slash", "GET", "/./", &[], "", VANILLA),
        (
            "get-slash-pointless-dot",
            "GET",
            "/./example",
            &[],
            "",
            "ef75d96142cf21edca26f06005da7988e4f8dc83a165a80865db7089db637ec5",
        ),
        (
            "get-slashes",
            "GET",
            "//example//",
            &[],
            "",
            "9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84",
        ),
        (
            "get-unreserved",
            "GET",
            "/-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
            &[],
            "",
            "07ef7494c76fa4850883e2b006601f940f8a34d404d0cfa977f52a65bbf5f24f",
        ),
        (
            "get-vanilla-query-order-key-case",
            "GET",
            "/?Param2=value2&Param1=value1",
            &[],
            "",
            "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
        ),
        (
            "get-vanilla-empty-query-key",
            "GET",
            "/?Param1=value1",
            &[],
            "",
            "a67d582fa61cc504c4bae71f336f98b97f1ea3c7a6bfe1b6e45aec72011b9aeb",
        ),
        (
            "get-vanilla-utf8-query",
            "GET",
            "/?\u{1234}=bar",
            &[],
            "",
            "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04",
        ),
        (
            "get-header-value-trim",
            "GET",
            "/",
            &[("My-Header1", " value1"), ("My-Header2", " \"a   b   c\"")],
            "",
            "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
        ),
        (
            "get-header-key-duplicate",
            "GET",
            "/",
            &[
                ("My-Header1", "value2"),
                ("My-Header1", "value2"),
                ("My-Header1", "value1"),
            ],
            "",
            "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea",
        ),
        (
            "post-vanilla",
            "POST",
            "/",
            &[],
            "",
            "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
        ),
        (
            "post-vanilla-query",
            "POST",
            "/?Param1=value1",
            &[],
            "",
            "28038455d6de14eafc1f9222cf5aa6f1a96197d7deb8263271d420d138af7f11",
        ),
        (
            "post-header-key-case",
            "POST",
            "/",
            &[],
            "",
            "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b",
        ),
        (
            "post-header-key-sort",
            "POST",
            "/",
            &[("My-Header1", "value1")],
            "",
            "c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c",
        ),
        (
            "post-header-value-case",
            "POST",
            "/",
            &[("My-Header1", "VALUE1")],
            "",
            "cdbc9802e29d2942e5e10b5bccfdd67c5f22c7c4e8ae67b53629efa58b974b7d",
        ),
        (
            "post-x-www-form-urlencoded",
            "POST",
            "/",
            &[FORM],
            "Param1=value1",
            "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
        ),
        (
            "post-x-www-form-urlencoded-parameters",
            "POST",
            "/",
            &[(
                "Content-Type",
                "application/x-www-form-urlencoded; charset=utf8",
            )],
            "Param1=value1",
            "1a72ec8f64bd914b0e42e42607c7fbce7fb2c7465f63e3092b3b0d39fa77a6fe",
        ),
    ];
    for (name, method, target, headers, body, signature) in rows {
        let mut request = request(&format!("https://example.amazonaws.com{target}"));
        request.method = method.parse().unwrap();
        for (name, value) in headers {
            let name = HeaderName::try_from(*name).unwrap();
            request.headers.append(name, value.parse().unwrap());
        }
        request.body = (!body.is_empty()).then(|| body.into());
        signer("service").sign(&keys(None), &mut request).unwrap();
        let header = authorization(&request);
        assert!(
            header.ends_with(&format!("Signature={signature}")),
            "{name}: {header}"
        );
        assert!(header.starts_with("AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders="));
    }
}

/// The cases of that suite whose paths no URL has, and the paths of agents.
#[test]
fn paths_are_normalized_and_encoded_again_but_for_s3() {
    for (path, canonical) in [
        ("/\u{1234}", "/%E1%88%B4"),
        ("/example space/", "/example%20space/"),
        ("/a/b/..", "/a/"),
        ("/..", "/"),
        (
            "/runtimes/arn%3Aaws%2Fx/invocations/",
            "/runtimes/arn%253Aaws%252Fx/invocations/",
        ),
        ("/a:b", "/a%3Ab"),
    ] {
        assert_eq!(canonical_path(path, false), canonical, "{path}");
    }
    assert_eq!(canonical_path("/a//b%20c/", true), "/a//b%20c/");
}

#[test]
fn session_token_and_hash_are_signed_headers() {
    let mut signed = request("https://example.amazonaws.com:8443/key");
    signed
        .headers
        .insert("x-amz-security-token", "of a request".parse().unwrap());
    signed
        .headers
        .insert("user-agent", "later another".parse().unwrap());
    let mut open = signed.clone();
    signer("s3")
        .sign(&keys(Some("session")), &mut signed)
        .unwrap();
    let names = "SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token,";
    assert!(
        authorization(&signed).contains(names),
        "{}",
        authorization(&signed)
    );
    assert_eq!(signed.headers[AMZ_TOKEN], "session");
    assert_eq!(signed.headers[AMZ_CONTENT], sha256(b""));
    let printed = format!("{:?}", signed.headers);
    assert!(!printed.contains("session"), "{printed}");
    signer("service").sign(&keys(None), &mut open).unwrap();
    assert!(!open.headers.contains_key(AMZ_TOKEN), "no request sets it");
    assert!(authorization(&open).contains("SignedHeaders=host;x-amz-date,"));
}

#[test]
fn port_belongs_to_the_signed_host() {
    let lines = |url: &str| canonical_headers(&request(url)).1;
    assert_eq!(lines("https://a.example:8443/"), "host:a.example:8443\n");
    assert_eq!(lines("https://a.example:443/"), "host:a.example\n");
    assert_eq!(lines("http://[::1]:80/"), "host:[::1]\n");
}

/// The test computes the signature from the bytes that arrive, as a server does.
#[tokio::test]
async fn signature_is_that_of_the_request_on_the_wire() {
    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    let server = RawServer::start(vec![vec![send(answer)]]).await;
    let mut request = post(server.url("/runtimes/arn%3Ab/invocations?b=2&a=1%202"));
    let headers = &mut request.headers;
    headers.insert("content-type", "application/json".parse().unwrap());
    headers.insert("traceparent", "00-1".parse().unwrap());
    request.authorization = Some(Authorization {
        credential: Arc::new(Credential::AwsSigV4(Box::new(signer("bedrock-agentcore")))),
        endpoint: TokenEndpoint {
            allow_private: false,
            trust: None,
        },
    });
    let client = ReqwestClient::new().unwrap();
    client.exchange(request).await.unwrap();
    let wire = server.requests().remove(0);
    let (head, body) = wire.split_once("\r\n\r\n").unwrap();
    let header = |name: &str| {
        let mut fields = head.lines().filter_map(|line| line.split_once(": "));
        let found = fields.find(|(found, _)| found.eq_ignore_ascii_case(name));
        found.unwrap().1
    };
    let (start, signature) = header("authorization").split_once(", Signature=").unwrap();
    let (_, names) = start.split_once("SignedHeaders=").unwrap();
    assert_eq!(names, "content-type;host;x-amz-date");
    let mut canonical = "POST\n/runtimes/arn%253Ab/invocations\na=1%202&b=2\n".to_owned();
    for name in names.split(';') {
        canonical += &format!("{name}:{}\n", header(name));
    }
    canonical += &format!("\n{names}\n{}", sha256(body.as_bytes()));
    let scope = "20150830/us-east-1/bedrock-agentcore/aws4_request";
    let canonical = sha256(canonical.as_bytes());
    let text = format!("AWS4-HMAC-SHA256\n20150830T123600Z\n{scope}\n{canonical}");
    let key = hmac(b"AWS4wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "20150830");
    let key = hmac(&hmac(&key, "us-east-1"), "bedrock-agentcore");
    assert_eq!(signature, hex(&hmac(&hmac(&key, "aws4_request"), &text)));
}
