#![allow(clippy::unwrap_used, clippy::panic)]

use http_server::request_limit::HttpLimits;
use http_server::serve::ConnectionConfig;
use serde_json::json;

use super::*;

fn place(config: Value) -> String {
    let checked = ServeConfig::parse(&config.to_string()).and_then(|config| {
        config.check(&config.clients)?;
        Ok(config)
    });
    checked.unwrap_err().path
}

fn client(name: &str, digit: &str) -> Value {
    json!({"name": name, "sha256": digit.repeat(64)})
}

#[test]
fn schema_and_type_agree() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let mut defaults = testkit::schema::defaults(&schema).unwrap();
    // Without a URL, the server reads that of OpenClaw's configuration.
    let url = defaults["gateway"].as_object_mut().unwrap().remove("url");
    assert_eq!(url, Some(json!(GatewayConfig::default().url())));
    let read = ServeConfig::parse(&defaults.to_string()).unwrap();
    read.check(&[]).unwrap();
    assert_eq!(format!("{read:?}"), format!("{:?}", ServeConfig::default()));
    assert_eq!(read.limits.http(), HttpLimits::default());
    assert_eq!(read.limits.connections(), ConnectionConfig::default());
    for (place, config) in testkit::schema::with_wrong_types(&schema) {
        let read = serde_json::from_value::<ServeConfig>(config);
        let error = read.err().map(|error| error.to_string());
        let is_read = |error: &String| !error.contains("missing field");
        assert!(error.as_ref().is_some_and(is_read), "{place}: {error:?}");
    }
}

#[test]
fn all_settings_are_read() {
    let config = json!({
        "listen": "[::1]:1", "publicUrl": "https://agents.example/a", "hosts": ["desk"], "name": "Desk",
        "description": "One", "documentationUrl": "https://docs.example", "tls": {"certFile": "a", "keyFile": "b"},
        "behindProxy": true, "trustedProxies": ["10.0.0.0/8", "192.0.2.1"], "clients": [client("ada", "a")],
        "stateDir": "s", "executor": "command",
        "gateway": {"url": "wss://gate.example", "token": {"source": "env", "id": "T"}, "allowRemote": true, "caFile": "c", "timeoutMs": 5},
        "agents": ["main"], "sessionId": "mine", "agentId": "main", "thinking": "high", "timeout": 7,
        "openclawPath": "bin/openclaw", "workingDirectory": "w", "envVars": {"KEY": "s3cret"}, "asyncMode": false,
        "taskStore": "memory", "fsync": "always", "retention": {"age": 1, "count": 2},
        "push": {"allowedUrls": ["http://127.0.0.1:1/hook"], "allowAnyAddress": true}, "limits": {"runs": 1, "burst": 3}
    });
    let config = ServeConfig::parse(&config.to_string()).unwrap();
    config.check(&config.clients).unwrap();
    assert_eq!(config.timeout, 7);
    assert_eq!(config.thinking, Some(Thinking::High));
    assert_eq!(config.env_vars["KEY"], "s3cret");
    assert_eq!(config.limits.http().burst.get(), 3);
    assert!(matches!(config.store(|_| None), Ok(TaskStoreKind::Memory)));
    assert!(!format!("{config:?}").contains("s3cret"));
    assert!(!format!("{config:?}").contains("aaaa"));
}

#[test]
fn refuses_unknown_setting_with_its_place() {
    let token = json!({"source": "file", "id": "x"});
    let short = json!({"name": "a", "sha256": "0"});
    for (config, at) in [
        (json!({"port": 1}), "/port"),
        (json!({"limits": {"run": 1}}), "/limits/run"),
        (json!({"limits": {"runs": 0}}), "/limits/runs"),
        (json!({"timeout": "5"}), "/timeout"),
        (json!({"thinking": "hard"}), "/thinking"),
        (json!({"executor": "local"}), "/executor"),
        (json!({"listen": "9000"}), "/listen"),
        (json!({"publicUrl": "agents.example"}), "/publicUrl"),
        (json!({"tls": {"certFile": "a"}}), "/tls"),
        (json!({"sessionId": "Two Words"}), "/sessionId"),
        (json!({"envVars": {"A": 1}}), "/envVars/A"),
        (json!({"gateway": {"token": token}}), "/gateway/token"),
        (json!({"clients": [client("a b", "0")]}), "/clients/0/name"),
        (json!({"clients": [short]}), "/clients/0/sha256"),
        (
            json!({"push": {"allowedUrls": ["ftp://x"]}}),
            "/push/allowedUrls/0",
        ),
    ] {
        assert_eq!(place(config.clone()), at, "{config}");
    }
}

#[test]
fn public_address_requires_clients_and_tls() {
    let tls = json!({"certFile": "a", "keyFile": "b"});
    let ada = json!([client("ada", "a")]);
    for (config, at) in [
        (json!({"listen": "0.0.0.0:1", "tls": tls}), "/listen"),
        (json!({"listen": "0.0.0.0:1", "clients": ada}), "/listen"),
        (json!({"listen": "[::]:1"}), "/listen"),
        (
            json!({"listen": "192.0.2.1:1", "behindProxy": true}),
            "/listen",
        ),
        (json!({"behindProxy": true}), "/behindProxy"),
        (json!({"publicUrl": "https://agents.example"}), "/publicUrl"),
    ] {
        assert_eq!(place(config.clone()), at, "{config}");
    }
    for config in [
        json!({"listen": "0.0.0.0:1", "tls": tls, "clients": ada}),
        json!({"listen": "0.0.0.0:1", "behindProxy": true, "clients": ada}),
        json!({"publicUrl": "http://localhost:1"}),
    ] {
        let config = ServeConfig::parse(&config.to_string()).unwrap();
        config.check(&config.clients).unwrap();
    }
}

#[test]
fn refuses_conflicting_settings_with_their_place() {
    let with_ada = |other: Value| json!({"clients": [client("ada", "a"), other]});
    let limit = |name: &str| json!({"limits": {name: 2048}});
    let remote = "ws://192.0.2.1:1";
    let mut named_proxy = json!({"behindProxy": true, "clients": [client("ada", "a")]});
    named_proxy["trustedProxies"] = json!(["proxy"]);
    let mut restricted = client("bob", "b");
    restricted["claims"] = json!({"groups": "a"});
    for (config, at) in [
        (with_ada(client("ada", "b")), "/clients/1/name"),
        (with_ada(client("bob", "A")), "/clients/1/sha256"),
        (with_ada(json!({"name": "bob"})), "/clients/1"),
        (
            with_ada(json!({"name": "bob", "issuer": "https://a.example"})),
            "/clients/1",
        ),
        (
            with_ada(json!({"name": "bob", "issuer": "http://a.example", "audience": "a"})),
            "/clients/1/issuer",
        ),
        (with_ada(restricted), "/clients/1/claims"),
        (
            with_ada(json!({"name": "bob", "certificateSha256": "b".repeat(64)})),
            "/clients/1/certificateSha256",
        ),
        (
            json!({"clients": [client("loopback", "a")]}),
            "/clients/0/name",
        ),
        (json!({"trustedProxies": ["10.0.0.1"]}), "/trustedProxies"),
        (named_proxy, "/trustedProxies/0"),
        (
            json!({"gateway": {"url": "http://127.0.0.1:1"}}),
            "/gateway/url",
        ),
        (json!({"gateway": {"url": remote}}), "/gateway/url"),
        (
            json!({"gateway": {"url": remote, "allowRemote": true}}),
            "/gateway/url",
        ),
        (json!({"gateway": {"caFile": "c"}}), "/gateway/caFile"),
        (json!({"taskStore": "postgres://x"}), "/taskStore"),
        (limit("totalBodyBytes"), "/limits/totalBodyBytes"),
        (limit("bodyBytesPerClient"), "/limits/bodyBytesPerClient"),
    ] {
        assert_eq!(place(config.clone()), at, "{config}");
    }
}

#[test]
fn default_shares_are_a_quarter() {
    let limits = |limits: Value| {
        let config = ServeConfig::parse(&json!({"limits": limits}).to_string()).unwrap();
        (
            config.limits.connections().per_address,
            config.limits.http().body_bytes_per_client,
        )
    };
    let quarter = json!({"connections": 10, "totalBodyBytes": 1 << 30});
    assert_eq!(limits(quarter), (3, 1 << 28));
    let small = json!({"totalBodyBytes": 10 << 20});
    assert_eq!(limits(small), (512, 10 << 20));
    let set = json!({"connectionsPerAddress": 7, "bodyBytesPerClient": 64 << 20});
    assert_eq!(limits(set), (7, 64 << 20));
}

#[test]
fn task_store_accepts_memory_directory_url_or_variable() {
    let store = |word: Value| {
        let config = ServeConfig::parse(&json!({"taskStore": word}).to_string()).unwrap();
        config.store(|name| (name == "REDIS").then(|| "redis://:s3cret@h/0".to_owned()))
    };
    assert!(matches!(store(json!("memory")), Ok(TaskStoreKind::Memory)));
    assert!(
        matches!(store(json!("./dir")), Ok(TaskStoreKind::Directory(path)) if path == Path::new("./dir"))
    );
    let redis = store(json!({"source": "env", "id": "REDIS"})).unwrap();
    assert!(matches!(redis, TaskStoreKind::Redis(_)));
    assert!(!format!("{redis:?}").contains("s3cret"));
    let unset = store(json!({"source": "env", "id": "NONE"})).unwrap_err();
    assert_eq!(unset.path, "/taskStore");
    assert!(unset.message.contains("`NONE`"));
}

#[test]
fn byte_order_mark_before_the_configuration_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("serve.json");
    fs::write(&file, "\u{feff}{\"timeout\": 5}").unwrap();
    let config = ServeConfig::read(Some(&file), json!({})).unwrap();
    assert_eq!(config.timeout, 5);
}

#[test]
fn task_store_of_no_form_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("existing")).unwrap();
    let store = |text: &str| {
        ServeConfig::from_value(json!({"taskStore": text}), folder.path())?.store(|_| None)
    };
    for text in [
        "Memory",
        "MEMORY",
        " memory",
        "memory ",
        "memroy",
        "redis",
        "redis:",
        "redis//host",
        "redis:/host",
        "redis/host",
        "Redis/0",
        "REDIS://host",
        "Rediss://host",
        "redis:host:6379",
        "sqlite:tasks.db",
        "sqlite:///tasks.db",
        "sqlite/tasks",
        "postgres://h",
        "file:///tmp/x",
        "C:/tasks",
        "tasks",
    ] {
        let error = store(text).unwrap_err();
        assert_eq!(error.path, "/taskStore", "{text:?}");
        for form in ["`memory`", "`./tasks`", "`redis://HOST`", "`rediss://HOST`"] {
            assert!(error.message.contains(form), "{text:?}: {}", error.message);
        }
    }
    for text in [
        "/a//b", "./memory", "a/b", "../redis", "~/tasks", "existing",
    ] {
        let Ok(TaskStoreKind::Directory(path)) = store(text) else {
            panic!("{text:?}");
        };
        assert!(!path.starts_with("~"), "{text:?}");
    }
}

#[test]
fn paths_begin_at_the_folder_of_the_configuration() {
    let written = json!({"stateDir": "s", "tls": {"certFile": "c", "keyFile": "/k"}, "taskStore": "./t", "openclawPath": "openclaw"});
    let config = ServeConfig::from_value(written, Path::new("/etc/serve")).unwrap();
    assert_eq!(config.state_dir, Path::new("/etc/serve/s"));
    let tls = config.tls.as_ref().unwrap();
    assert_eq!(tls.cert_file, Path::new("/etc/serve/c"));
    assert_eq!(tls.key_file, Path::new("/k"));
    assert_eq!(config.openclaw_path, Path::new("openclaw"));
    let store = config.store(|_| None);
    assert!(
        matches!(store, Ok(TaskStoreKind::Directory(path)) if path == Path::new("/etc/serve/./t"))
    );
}

#[test]
fn overrides_replace_only_their_settings() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("serve.json");
    let written = json!({"timeout": 5, "limits": {"runs": 2, "parts": 3}});
    fs::write(&file, written.to_string()).unwrap();
    let over = json!({"timeout": 6, "limits": {"runs": 4}});
    let config = ServeConfig::read(Some(&file), over).unwrap();
    assert_eq!(config.timeout, 6);
    assert_eq!(
        (config.limits.tasks.runs, config.limits.tasks.parts),
        (4, 3)
    );
}

#[test]
fn thinking_levels_are_those_of_the_schema() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    for level in schema["properties"]["thinking"]["enum"].as_array().unwrap() {
        let read: Thinking = serde_json::from_value(level.clone()).unwrap();
        assert_eq!(level, read.as_str());
    }
}

#[test]
fn url_that_its_type_would_quote_is_refused_at_its_place() {
    let config =
        json!({"push": {"allowedUrls": ["\u{a0}https://hooks.example/secret"]}}).to_string();
    let error = ServeConfig::parse(&config).unwrap_err();
    assert_eq!(error.path, "/push/allowedUrls/0");
    assert!(!error.message.contains("secret"), "{error}");
}
