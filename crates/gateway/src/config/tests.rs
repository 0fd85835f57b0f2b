#![allow(clippy::unwrap_used)]
use std::ffi::OsString;

use serde_json::{Value, json};

use super::*;
use collective::Quorum;

fn parse(json: &Value) -> Result<ServerConfig, ConfigError> {
    ServerConfig::parse(&json.to_string())
}

/// Returns the JSON Pointer and the message of the error.
fn config_error(json: Value) -> (String, String) {
    let error = parse(&json).map(drop).unwrap_err();
    (error.path, error.message)
}

/// Returns a configuration with every key set.
fn full_config() -> Value {
    json!({
        "$schema": "gateway.schema.json",
        "listen": "[::1]:0",
        "hosts": ["gate.example"],
        "origins": ["https://console.example"],
        "stateDir": "/var/lib/gateway",
        "fsync": "interval",
        "fsyncIntervalMs": 20,
        "sessionTtlMs": 1000,
        "sessions": {"encryption": {"refusePlain": true, "keys": [{"keyFile": "key"}, {"key": {"source": "env", "id": "K"}},
            {"credential": "c"}]}},
        "agents": [{"name": "alpha", "role": "Triad member", "description": "votes",
            "permissions": {"send": ["*"], "vote": true}, "signing": "require", "keys": [{"kty": "OKP", "crv": "Ed25519",
            "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}],
        "signing": {"mode": "verify", "requireVotes": true, "pinFirstUse": true,
            "key": {"source": "env", "id": "SIGNING_KEY"}},
        "services": [{"serviceId": "weather", "endpoint": "http://127.0.0.1:9/x", "capabilities": ["a"],
            "healthEndpoint": "http://127.0.0.1:9/health"}],
        "triad": {"members": ["a", "b", "c"], "deadlineMs": 5, "quorum": "all"},
        "strict": true,
        "voteVisibility": false,
        "auth": {
            "keys": [{"name": "k", "sha256": "0".repeat(64), "roles": ["r"], "agent": "alpha",
                "expiresAt": "2027-01-31T00:00:00Z"}],
            "jwt": {"alg": "HS256", "keyFile": "key", "issuer": "i", "audience": "a", "leewayMs": 1},
            "certificates": [{"name": "c", "sha256": (["AB"; 32].join(":")), "roles": [], "agent": "alpha"}],
        },
        "roles": {"r": {"send": ["alpha"], "propose": true, "vote": true, "subscribe": true, "broadcast": true,
            "request": ["weather"], "workspaces": ["alpha"], "serve": ["beta"]}},
        "limits": {"connections": 1, "messagesPerSecond": 2, "burst": 3, "queueBytes": 4096, "totalQueueBytes": 8192,
            "frameBytes": 2048, "dailySessionBytesPerClient": 1048576, "idleMs": 60000},
        "heartbeatMs": 100,
        "tls": {"certFile": "c", "keyFile": "k", "clientCaFile": "ca"},
        "audit": {"enabled": false, "path": "audit.jsonl", "maxBytes": 4096},
    })
}

/// Returns that configuration with another value at a JSON Pointer.
fn with(place: &str, value: Value) -> Value {
    let mut all = full_config();
    *all.pointer_mut(place).unwrap() = value;
    all
}

fn without(place: &str, key: &str) -> Value {
    let mut all = full_config();
    all.pointer_mut(place)
        .unwrap()
        .as_object_mut()
        .unwrap()
        .remove(key)
        .unwrap();
    all
}

#[test]
fn empty_configuration_listens_on_loopback() {
    let config = parse(&json!({})).unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:18789");
    assert_eq!(config.fsync, Fsync::Always);
    let names: Vec<_> = config
        .agents
        .iter()
        .map(|agent| agent.name.as_str())
        .collect();
    assert_eq!(names.len(), 12);
    assert_eq!(config.triad.members, ["alpha", "beta", "charlie"]);
    assert!(
        config
            .triad
            .members
            .iter()
            .all(|member| names.contains(&member.as_str()))
    );
    assert_eq!(config.triad.quorum, Quorum::Majority);
    assert!(config.auth.is_none() && config.tls.is_none());
    assert!(config.hosts.is_empty() && config.origins.is_empty());
    assert!(config.audit.enabled);
    assert_eq!(config.audit_path(), config.state_dir.join("audit.jsonl"));
}

#[test]
fn every_key_is_read() {
    let config = parse(&full_config()).unwrap();
    assert_eq!(config.listen.to_string(), "[::1]:0");
    assert_eq!(config.fsync, Fsync::Interval);
    assert_eq!(config.fsync_interval_ms, 20);
    assert_eq!(config.session_ttl_ms, Some(1000));
    let variables: Vec<_> = config.key_variables().collect();
    assert_eq!(variables, ["K", "SIGNING_KEY"]);
    let encryption = config.sessions.encryption.unwrap();
    assert!(encryption.refuse_plain && encryption.keys.len() == 3);
    assert_eq!(config.agents.len(), 1);
    assert_eq!(config.agents[0].signing, Some(SigningMode::Require));
    assert_eq!(config.agents[0].keys.len(), 1);
    let signing = &config.signing;
    assert_eq!(signing.mode, SigningMode::Verify);
    assert!(signing.require_votes && signing.pin_first_use && signing.key.is_some());
    assert!(config.agents[0].permissions.as_ref().unwrap().vote);
    assert_eq!(config.services[0].capabilities, ["a"]);
    assert_eq!(
        (config.triad.deadline_ms, config.triad.quorum),
        (5, Quorum::All)
    );
    assert!(config.strict && !config.vote_visibility);
    let auth = config.auth.unwrap();
    assert_eq!(auth.keys[0].agent.as_deref(), Some("alpha"));
    assert_eq!(auth.jwt.unwrap().alg, JwtAlgorithm::Hs256);
    assert_eq!(config.roles["r"].serve, ["beta"]);
    let limits = Limits {
        connections: 1,
        messages_per_second: 2,
        burst: 3,
        queue_bytes: 4096,
        total_queue_bytes: 8192,
        frame_bytes: 2048,
        daily_session_bytes_per_client: 1 << 20,
        idle_ms: 60_000,
    };
    assert_eq!(config.limits, limits);
    assert_eq!(
        (config.audit.enabled, config.audit.max_bytes),
        (false, 4096)
    );
    assert_eq!(config.audit.path.as_deref(), Some(Path::new("audit.jsonl")));
    assert_eq!(config.hosts, ["gate.example"]);
    assert_eq!(config.origins, ["https://console.example"]);
}

#[test]
fn schema_and_type_agree() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let mut defaults = testkit::schema::defaults(&schema).unwrap();
    // By default, the gateway needs no credentials.
    defaults.as_object_mut().unwrap().remove("auth").unwrap();
    let read = ServerConfig::parse(&defaults.to_string()).unwrap();
    let default = ServerConfig::default();
    assert_eq!(format!("{read:?}"), format!("{default:?}"));
    for (place, config) in testkit::schema::with_wrong_types(&schema) {
        let read = serde_json::from_value::<ServerConfig>(config);
        let error = read.err().map(|error| error.to_string());
        let is_read = |error: &String| !error.contains("missing field");
        assert!(error.as_ref().is_some_and(is_read), "{place}: {error:?}");
    }
}

#[test]
fn every_key_has_a_description() {
    fn check(schema: &Value, place: &str) {
        for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
            let place = format!("{place}/{name}");
            assert!(inner["description"].is_string(), "{place}");
            check(inner, &place);
            check(&inner["items"], &place);
            check(&inner["additionalProperties"], &place);
        }
    }
    check(&serde_json::from_str(SCHEMA).unwrap(), "");
}

#[test]
fn error_has_json_pointer_and_cause() {
    // The place of a value in the full configuration, which the error names too.
    for (place, value, expected) in [
        ("/listen", json!("localhost"), "127.0.0.1:18789"),
        ("/fsync", json!("sometimes"), "allowed values"),
        ("/services/0/endpoint", json!("ftp://x"), "http"),
        ("/services/0/healthEndpoint", json!("x y"), "URL"),
        ("/triad/members", json!(["a", "b"]), "fewer"),
        ("/auth", json!({}), "no client could connect"),
        ("/auth/keys/0/sha256", json!("00"), "pattern"),
        ("/auth/keys/0/roles", json!(["x/y"]), "`/roles/x~1y`"),
        ("/auth/certificates/0/roles", json!(["x"]), "`x`"),
        ("/auth/keys/0/expiresAt", json!("soon"), "2027-"),
        ("/auth/jwt", json!({"alg": "EdDSA"}), "`jwksFile`"),
        ("/limits/queueBytes", json!(9000), "totalQueueBytes"),
        ("/limits/queueBytes", json!(2000), "frameBytes"),
        ("/limits/idleMs", json!(100), "heartbeatMs"),
        ("/audit/path", json!(""), "fewer"),
        ("/signing/mode", json!("sign"), "allowed values"),
    ] {
        let (at, message) = config_error(with(place, value));
        assert_eq!(at, place, "{message}");
        assert!(message.contains(expected), "{place}: {message}");
    }
    // A value, and the place in it that the error names.
    let jwt = |alg: &str, key: &str| json!({"alg": alg, key: "file"});
    let same = json!([{"name": "x", "role": "r"}, {"name": "X", "role": "r"}]);
    let outside = json!([{"name": "../a", "role": "r"}]);
    let origins = json!(["https://console.example/"]);
    for (place, value, inner, expected) in [
        (
            "/limits",
            json!({"conections": 1}),
            "/conections",
            "no such key",
        ),
        ("/agents", json!([{"name": "a"}]), "/0", "`role` is missing"),
        ("/agents", outside, "/0/name", "pattern"),
        ("/agents", same, "/1/name", "duplicate"),
        (
            "/agents/0/permissions",
            json!({"serve": ["*"]}),
            "/serve",
            "role",
        ),
        ("/triad/members", json!(["a", "b", "a"]), "/2", "duplicate"),
        (
            "/auth/jwt",
            jwt("HS256", "jwksFile"),
            "/jwksFile",
            "`keyFile`",
        ),
        (
            "/auth/jwt",
            jwt("RS256", "keyFile"),
            "/keyFile",
            "`jwksFile`",
        ),
        (
            "/auth/jwt",
            jwt("none", "keyFile"),
            "/alg",
            "allowed values",
        ),
        ("/origins", origins, "/0", "not an origin"),
        (
            "/agents/0/keys",
            json!([{"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", "d": "s3cret"}]),
            "/0",
            "private members",
        ),
        ("/agents/0/keys", json!([{"kty": "oct"}]), "/0", "not a key"),
    ] {
        let (at, message) = config_error(with(place, value));
        assert_eq!(at, format!("{place}{inner}"), "{message}");
        assert!(message.contains(expected), "{at}: {message}");
    }
    let public = json!({"listen": "0.0.0.0:1"});
    let pins = json!({"signing": {"pinFirstUse": true}});
    let no_authority = without("/tls", "clientCaFile");
    for (config, place, expected) in [
        (json!([]), "", "must be object"),
        (pins, "/signing/pinFirstUse", "no effect"),
        (json!({"lisen": 1}), "/lisen", "no such key is known"),
        (public, "/listen", "`tls` and `auth` are required"),
        (no_authority, "/auth/certificates", "`tls.clientCaFile`"),
    ] {
        let (at, message) = config_error(config);
        assert_eq!(at, place, "{message}");
        assert!(message.contains(expected), "{place}: {message}");
    }
    assert!(
        ServerConfig::parse("{")
            .unwrap_err()
            .message
            .contains("not JSON")
    );
}

#[test]
fn public_gateway_needs_tls_and_authentication() {
    parse(&with("/listen", json!("0.0.0.0:18789"))).unwrap();
    assert_eq!(
        config_error(json!({"listen": "0.0.0.0:1", "tls": {"certFile": "c", "keyFile": "k"}})).0,
        "/listen"
    );
}

#[test]
fn debug_shows_no_digest_and_no_endpoint() {
    let config = parse(&with("/auth/keys/0/sha256", json!("ab".repeat(32)))).unwrap();
    let printed = format!("{config:?}");
    assert!(
        !printed.contains("abab") && !printed.contains("127.0.0.1:9"),
        "{printed}"
    );
}

#[test]
fn paths_are_relative_to_the_file_or_home() {
    let folder = std::env::temp_dir().join(format!("remote-agent-{}", uuid::Uuid::new_v4()));
    fs::create_dir(&folder).unwrap();
    let file = folder.join("gateway.json");
    let mut json = with("/stateDir", json!("~/.openclaw"));
    json["auth"]["jwt"]["keyFile"] = json!("/etc/key");
    fs::write(&file, json.to_string()).unwrap();
    let config = ServerConfig::read(&file).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(
        config.state_dir,
        std::env::home_dir().unwrap().join(".openclaw")
    );
    assert_eq!(config.audit_path(), folder.join("audit.jsonl"));
    assert_eq!(config.tls.unwrap().cert_file, folder.join("c"));
    let key_file = config.auth.unwrap().jwt.unwrap().key_file;
    assert_eq!(key_file, Some("/etc/key".into()));
    let missing = ServerConfig::read(&file).unwrap_err().to_string();
    assert!(missing.contains(file.to_str().unwrap()), "{missing}");
}

#[test]
fn state_directory_follows_the_system() {
    let dir = |all: &[(&str, &str)]| {
        default_state_dir(|name| {
            let found = all.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| OsString::from(value))
        })
    };
    let end = "openclaw-remote-agent/gateway";
    assert_eq!(
        dir(&[("XDG_STATE_HOME", "/x"), ("HOME", "/h")]),
        Path::new("/x").join(end)
    );
    assert_eq!(
        dir(&[("XDG_STATE_HOME", "x"), ("HOME", "/h")]),
        Path::new("/h/.local/state").join(end)
    );
    assert_eq!(dir(&[]), Path::new(end));
}

#[test]
fn key_of_signatures_has_at_most_one_source() {
    let config = parse(&json!({"signing": {}})).unwrap();
    assert!(config.signing.key.is_none());
    for (member, value) in [
        ("keyFile", json!("a")),
        ("key", json!("a")),
        ("credential", json!("a")),
    ] {
        let config = parse(&json!({"signing": {member: value}})).unwrap();
        assert_eq!(config.signing.key.unwrap().member(), member);
    }
    let signing = json!({"keyFile": "a", "credential": "b"});
    let (place, message) = config_error(json!({"signing": signing}));
    assert_eq!(place, "/signing");
    assert!(message.contains("exactly one of"), "{message}");
}

#[test]
fn key_of_sessions_has_one_source() {
    for key in [
        json!({}),
        json!({"keyFile": "a", "credential": "b"}),
        json!({"key": "a", "keyFile": "b"}),
    ] {
        let keys = json!([{"keyFile": "k"}, key]);
        let (place, message) = config_error(with("/sessions/encryption/keys", keys));
        assert_eq!(place, "/sessions/encryption/keys/1");
        assert!(message.contains("exactly one of"), "{message}");
    }
    for (place, value) in [
        ("/sessions/encryption/keys", json!([])),
        ("/sessions/encryption/keys/2/credential", json!("../key")),
        ("/sessions/encryption/keys/2/credential", json!("..")),
        ("/sessions/encryption/keys/0/keyFile", json!("")),
    ] {
        assert_eq!(config_error(with(place, value)).0, place);
    }
}
