#![allow(clippy::unwrap_used, clippy::panic)]
use std::fs;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::{Value, json};

use super::super::Catalog;
use super::*;
use crate::config::Config;
use testkit::folder::Folder;

fn write(folder: &Folder, name: &str, text: &str) -> PathBuf {
    let file = folder.file(name);
    fs::write(&file, text).unwrap();
    file
}

fn made() -> (String, String) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(["a.example".into()]).unwrap();
    (cert.pem(), signing_key.serialize_pem())
}

/// Returns the files of a certificate and its key.
fn written(folder: &Folder) -> (PathBuf, PathBuf) {
    let (cert, key) = made();
    (write(folder, "a.pem", &cert), write(folder, "a.key", &key))
}

fn catalog(targets: &Value) -> Result<Catalog, ConfigError> {
    let config = json!({ "targets": targets }).to_string();
    Catalog::new(&Config::parse(&config).unwrap())
}

fn target(alias: &str, more: &Value) -> Value {
    let mut target = json!({"alias": alias, "baseUrl": format!("https://{alias}.example")});
    let fields = target.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    target
}

fn mtls(cert: &Path, key: &Path) -> Value {
    json!({"type": "mtls", "certFile": cert, "keyFile": key})
}

#[test]
fn invalid_file_error_names_setting_not_content() {
    let folder = Folder::new();
    let (cert, key) = written(&folder);
    let other = write(&folder, "other.key", &made().1);
    let none = folder.file("none.pem");
    let lines = [&key, &other].map(|file| {
        let text = fs::read_to_string(file).unwrap();
        text.lines().nth(1).unwrap().to_owned()
    });
    let ca = |file: &Path| json!({"tls": {"caFile": file}});
    let own = |cert: &Path, key: &Path| json!({"auth": mtls(cert, key)});
    for (settings, place, reason) in [
        (ca(&none), "tls/caFile", "cannot be read"),
        (ca(&key), "tls/caFile", "no certificate"),
        (own(&none, &key), "auth/certFile", "cannot be read"),
        (own(&key, &key), "auth/certFile", "no certificate"),
        (own(&cert, &none), "auth/keyFile", "cannot be read"),
        (own(&cert, &cert), "auth/keyFile", "no private key"),
        (own(&cert, &other), "auth/keyFile", "not the certificate's"),
    ] {
        let error = catalog(&json!([target("a", &settings)])).unwrap_err();
        assert_eq!(error.path, format!("/targets/0/{place}"), "{error}");
        let message = error.to_json();
        assert!(message.contains(reason), "{message}");
        for line in &lines {
            assert!(!message.contains(line), "{message}");
        }
    }
}

#[test]
fn targets_with_same_files_share_trust() {
    let folder = Folder::new();
    let (cert, key) = written(&folder);
    let settings = json!({"tls": {"caFile": cert}, "auth": mtls(&cert, &key)});
    let only_ca = json!({"tls": {"caFile": cert}});
    let catalog = catalog(&json!([
        target("a", &settings),
        target("b", &settings),
        target("c", &only_ca),
    ]))
    .unwrap();
    let trust = |i: usize| catalog.targets()[i].peer_config.trust.as_ref().unwrap();
    assert!(Arc::ptr_eq(trust(0), trust(1)));
    assert!(!Arc::ptr_eq(trust(0), trust(2)));
}

#[test]
fn client_certificate_is_for_own_origins_only() {
    let folder = Folder::new();
    let (cert, key) = written(&folder);
    let certified = json!({"auth": mtls(&cert, &key)});
    let both = json!({"auth": mtls(&cert, &key), "tls": {"caFile": cert}});
    let catalog = catalog(&json!([target("a", &certified), target("b", &both)])).unwrap();
    let elsewhere = |i: usize| catalog.targets()[i].peer_config.trust_elsewhere.as_ref();
    assert!(elsewhere(0).is_none());
    let trust = elsewhere(1).unwrap();
    assert!(trust.certificate().is_none() && trust.roots().is_some());
}

#[test]
fn credentials_distinguish_target_keys() {
    let folder = Folder::new();
    let ca = write(&folder, "a.pem", &made().0);
    let basic = |name: &str, password: &str| json!({"auth": {"type": "basic", "username": name, "password": password}});
    let key = |place: &str, name: &str, value: &str| json!({"auth": {"type": "apiKey", "in": place, "name": name, "value": value}});
    let client = |id: &str, scopes: &Value| {
        json!({"auth": {"type": "oauth2", "tokenUrl": "https://as.example/", "clientId": id,
            "clientSecret": "s", "scopes": scopes}})
    };
    let aws = |id: &str, region: &str| json!({"auth": {"type": "awsSigV4", "region": region, "accessKeyId": id, "secretAccessKey": "s"}});
    let all = [
        json!({}),
        json!({"auth": {"type": "bearer", "token": "s"}}),
        json!({"auth": {"type": "bearer", "token": "t"}}),
        basic("a", "s"),
        basic("b", "s"),
        key("header", "x", "s"),
        key("query", "x", "s"),
        key("cookie", "x", "s"),
        key("cookie", "y", "s"),
        client("a", &json!([])),
        client("b", &json!([])),
        client("a", &json!(["work"])),
        json!({"auth": {"type": "command", "command": ["a"]}}),
        json!({"auth": {"type": "command", "command": ["a", "b"]}}),
        json!({"auth": {"type": "command", "command": ["a"], "env": ["A"]}}),
        aws("id", "r"),
        aws("other", "r"),
        aws("id", "s"),
        json!({"auth": {"type": "awsSigV4", "region": "r", "command": ["a"]}}),
        json!({"headers": {"x": "s"}}),
        json!({"tls": {"caFile": ca}}),
    ];
    let mut keys = std::collections::HashSet::new();
    for settings in &all {
        let catalog = catalog(&json!([target("a", settings)])).unwrap();
        let key = Arc::clone(&catalog.targets()[0].key);
        assert!(keys.insert(key), "{settings}");
    }
}

fn gateway_trust(tls: Value) -> Result<Option<Arc<Trust>>, ConfigError> {
    let gateway = json!({"url": "wss://127.0.0.1:1", "tls": tls});
    let config = json!({ "gateway": gateway }).to_string();
    local_trust(&Config::parse(&config).unwrap().gateway)
}

#[test]
fn gateway_files_build_its_trust() {
    let folder = Folder::new();
    let (cert, key) = written(&folder);
    let all = json!({"caFile": cert, "certFile": cert, "keyFile": key});
    let trust = gateway_trust(all).unwrap().unwrap();
    assert!(trust.roots().is_some() && trust.certificate().is_some());
    let trust = gateway_trust(json!({ "caFile": cert })).unwrap().unwrap();
    assert!(trust.roots().is_some() && trust.certificate().is_none());
    assert!(gateway_trust(json!({})).unwrap().is_none());
}

#[test]
fn invalid_gateway_file_names_its_setting() {
    let folder = Folder::new();
    let (cert, key) = written(&folder);
    for (tls, place) in [
        (json!({"caFile": folder.file("none")}), "caFile"),
        (json!({ "caFile": key }), "caFile"),
        (json!({"certFile": key, "keyFile": key}), "certFile"),
        (json!({"certFile": cert, "keyFile": cert}), "keyFile"),
    ] {
        let error = gateway_trust(tls).map(drop).unwrap_err();
        assert_eq!(error.path, format!("/gateway/tls/{place}"), "{error}");
    }
}

#[test]
fn certificate_for_the_authorization_server_reaches_no_agent() {
    let folder = Folder::new();
    let (cert, key) = written(&folder);
    let auth = json!({"type": "oauth2", "issuer": "https://as.example", "clientId": "a", "clientAuth": "tls", "certFile": cert, "keyFile": key});
    let catalog = catalog(&json!([
        target("a", &json!({"auth": auth})),
        target("b", &json!({"auth": mtls(&cert, &key)}))
    ]))
    .unwrap();
    let config = &catalog.targets()[0].peer_config;
    assert!(config.trust.is_none() && config.trust_elsewhere.is_none());
    let Some(Credential::OAuth2(client)) = config.credential.as_deref() else {
        panic!("a client");
    };
    let ClientAuth::Tls(trust) = &client.client_auth else {
        panic!("a certificate");
    };
    assert!(trust.certificate().is_some());
    let other = catalog.targets()[1].peer_config.trust.as_ref();
    assert!(other.unwrap().certificate().is_some());
}

#[test]
fn unusable_client_key_is_named_without_its_content() {
    let folder = Folder::new();
    let file = write(&folder, "key.pem", "s3cret");
    let auth = json!({"type": "oauth2", "issuer": "https://as.example", "clientId": "a", "clientAuth": "private_key_jwt", "clientKeyFile": file});
    let error = catalog(&json!([target("a", &json!({"auth": auth}))])).unwrap_err();
    let message = error.to_json();
    assert!(
        message.contains("clientKeyFile holds no private key") && !message.contains("s3cret"),
        "{message}"
    );
}

#[test]
fn stored_token_belongs_to_the_addresses_of_its_target() {
    let folder = Folder::new();
    let file = |base: &str, more: Value| {
        let mut auth = json!({"type": "oauth2", "grant": "device_code", "issuer": "https://as.example", "clientId": "a"});
        auth.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        let target = json!({"alias": "a", "baseUrl": base, "auth": auth});
        let config = json!({"stateDir": folder.path(), "targets": [target]}).to_string();
        let catalog = Catalog::new(&Config::parse(&config).unwrap()).unwrap();
        match catalog.targets()[0].peer_config.credential.as_deref() {
            Some(Credential::OAuth2(client)) => match &client.grant {
                Grant::Person { file, .. } => file.clone(),
                _ => panic!("a person"),
            },
            _ => panic!("a client"),
        }
    };
    let hash = |file: &TokenFile| {
        use std::hash::{DefaultHasher, Hash as _, Hasher as _};
        let mut hasher = DefaultHasher::new();
        file.hash(&mut hasher);
        hasher.finish()
    };
    let own = hash(&file("https://a.example", json!({})));
    assert_eq!(
        own,
        hash(&file(
            "https://a.example",
            json!({"tokenParams": {"prompt": "consent"}})
        ))
    );
    for other in [
        file("https://evil.example", json!({})),
        file(
            "https://a.example",
            json!({"issuer": "https://other.example"}),
        ),
        file("https://a.example", json!({"clientId": "b"})),
        file("https://a.example", json!({"scopes": ["more"]})),
    ] {
        assert_ne!(own, hash(&other));
    }
}
