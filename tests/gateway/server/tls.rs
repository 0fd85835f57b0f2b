//! Authentication: TLS and certificates over real sockets, and expiring credentials.

use super::*;

use std::time::{Duration, SystemTime};

use rcgen::KeyPair;
use rustls::pki_types::{CertificateDer, ServerName};

use crate::gateway::authority::Authority;

/// Returns a gateway with TLS, and with the certificate `own` for beta.
async fn start(authority: &Authority, own: &CertificateDer<'_>) -> Gateway {
    authority.signed("localhost");
    let file = |name: &str| authority.file(name);
    Gateway::start(json!({
        "tls": {"certFile": file("localhost.pem"), "keyFile": file("localhost.key"), "clientCaFile": file("ca.pem")},
        "auth": {"certificates": [{"name": "beta", "sha256": digest(own), "roles": [], "agent": "beta"}]},
    }))
    .await
}

/// Returns the outcome of a client with this certificate that advertises an agent.
async fn shown(
    authority: &Authority,
    gateway: &Gateway,
    own: (CertificateDer<'static>, KeyPair),
    serves: &str,
) -> std::io::Result<Value> {
    let stream = TcpStream::connect(gateway.address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = authority.client(Some(own)).connect(name, stream).await?;
    upgrade(&mut stream, gateway.address).await?;
    let mut socket = WebSocketStream::from_raw_socket(stream, Role::Client, None).await;
    let capabilities = json!({"supportedMessageTypes": ["message"], "supportedAgents": [serves], "version": "1.0.0"});
    let advertised = advertisement(&capabilities);
    let text = Message::Text(advertised.to_string().into());
    socket.send(text).await.map_err(std::io::Error::other)?;
    let frame = timeout(WAIT_TIMEOUT, socket.next()).await.expect("a frame");
    let frame = frame.ok_or(std::io::ErrorKind::UnexpectedEof)?;
    let frame = frame.map_err(std::io::Error::other)?;
    Ok(serde_json::from_str(frame.to_text().unwrap()).unwrap())
}

#[tokio::test]
async fn client_certificate_identifies_the_client() {
    let authority = Authority::new();
    let (beta, key) = authority.signed("beta");
    let gateway = start(&authority, &beta).await;
    let own = || {
        let key = KeyPair::try_from(key.serialize_der()).unwrap();
        (beta.clone(), key)
    };
    let known = shown(&authority, &gateway, own(), "beta").await.unwrap();
    assert_eq!(known["content"]["action"], "acknowledge", "{known}");
    let other = shown(&authority, &gateway, own(), "alpha").await.unwrap();
    assert_eq!(other["content"]["code"], 5004, "{other}");
}

#[tokio::test]
async fn unlisted_certificate_is_refused() {
    let authority = Authority::new();
    let gateway = start(&authority, &authority.signed("beta").0).await;
    let other = authority.signed("gamma");
    let fingerprint = digest(&other.0);
    let reported = shown(&authority, &gateway, other, "beta").await.unwrap();
    assert_eq!(reported["content"]["code"], 5001, "{reported}");
    let message = reported["content"]["message"].as_str().unwrap();
    for part in [&*fingerprint, "auth.certificates", "links[].certificate"] {
        assert!(message.contains(part), "{message}");
    }
}

/// Returns a gateway whose key expires after this time.
fn ending(after: Duration) -> Value {
    let end = humantime::format_rfc3339_millis(SystemTime::now() + after).to_string();
    let key =
        json!({"name": "steward", "sha256": digest("KEY"), "expiresAt": end, "agent": "steward"});
    json!({"auth": {"keys": [key]}})
}

#[tokio::test]
async fn connection_ends_with_its_credential() {
    let gateway = Gateway::start(ending(Duration::from_millis(1500))).await;
    let mut client = gateway.authenticated_client().await;
    assert_eq!(
        client.request(json!({"type": "ping"})).await["type"],
        "pong"
    );
    // The client is silent, so the gateway checks the expiry by itself.
    assert_eq!(client.expect_error().await, 5003);
    assert_eq!(client.wait_for_close().await, 1008);
    let mut late = gateway.client().await;
    let refused = late
        .request(json!({"type": "auth", "content": {"token": "KEY"}}))
        .await;
    assert_eq!(refused["content"]["code"], 5003, "{refused}");
}
