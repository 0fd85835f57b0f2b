//! Redis over TLS.

use std::fs;

use a2a_server::store::TaskStore;
use a2a_server::store::redis::Options;

use crate::redis::rig::{connect, create, record, refused};
use testkit::support::{free_port, redis_server::RedisServer};

/// Returns a Redis that supports TLS, its certificate, and its directory.
fn encrypted() -> (RedisServer, String, tempfile::TempDir) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (certificate, key) = (
        folder.path().join("cert.pem"),
        folder.path().join("key.pem"),
    );
    fs::write(&certificate, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let redis = RedisServer::start_with(&[
        "--save",
        "",
        "--appendonly",
        "no",
        "--tls-port",
        "0",
        "--tls-cert-file",
        certificate.to_str().unwrap(),
        "--tls-key-file",
        key.to_str().unwrap(),
        "--tls-ca-cert-file",
        certificate.to_str().unwrap(),
        "--tls-auth-clients",
        "no",
    ]);
    (redis, made.cert.pem(), folder)
}

fn url(port: u16) -> String {
    format!("rediss://localhost:{port}/")
}

/// Enables TLS on its own port, and returns the port.
async fn tls_port(redis: &RedisServer) -> u16 {
    let port = free_port();
    redis::cmd("CONFIG")
        .arg(&["SET", "tls-port", &port.to_string()])
        .exec_async(&mut crate::redis::rig::client(redis).await)
        .await
        .unwrap();
    port
}

#[tokio::test]
async fn configured_root_certificate_is_trusted() {
    let (redis, certificate, _folder) = encrypted();
    let options = Options {
        roots: Some(certificate.into_bytes()),
        ..Options::new(url(tls_port(&redis).await))
    };
    let store = connect(&options).await;
    create(&store, "t").await;
    let subscription = store.subscribe("t").await.unwrap().unwrap();
    assert_eq!(subscription.record, record("t"));
}

#[tokio::test]
async fn untrusted_certificate_is_rejected() {
    let (redis, _, _folder) = encrypted();
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let options = Options {
        roots: Some(other.cert.pem().into_bytes()),
        ..Options::new(url(tls_port(&redis).await))
    };
    let error = refused(&options).await;
    assert!(error.contains("is not trusted"), "{error}");
}
