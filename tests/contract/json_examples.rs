//! The JSON examples of the documents: each is a valid request, result, configuration or line of the audit log.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use base::validation;
use gateway_server::config::ServerConfig;
use openclaw_remote_agent::audit::{AskedQuestion, Record};
use openclaw_remote_agent::config;
use openclaw_remote_agent::plugin::{CallInput, Plugin};
use openclaw_remote_agent::remote_agent::REQUEST_SCHEMA;
use serde_json::{Value, json};

use crate::contract::{
    documents::{blocks, documents},
    in_process::check_result,
    text,
};

#[test]
fn every_json_example_is_valid() {
    let files = Files::new();
    let mut checked = 0;
    for document in documents() {
        for (line, block) in blocks(&text(&document), "json") {
            checked += 1;
            let place = format!("{document}:{line}");
            let value: Value =
                serde_json::from_str(&block).unwrap_or_else(|error| panic!("{place}: {error}"));
            if value.get("ok").is_some() {
                check_result(&value);
            } else if value.get("op").is_some() {
                check_request(&value["request"], &place);
            } else if value.get("outcome").is_some() {
                check_audit_line(&value, &place);
            } else if value.get("action").is_some() {
                check_request(&value, &place);
            } else if let Some(entry) = value.pointer("/plugins/entries/remote-agent") {
                check_config(&entry["config"], &place, &files);
                assert_eq!(entry["enabled"], true, "{place}");
                assert_eq!(entry["config"]["enabled"], true, "{place}");
            } else if value.get("listen").is_some() {
                let read = ServerConfig::parse(&block);
                assert!(read.is_ok(), "{place}: {read:?}");
            } else if value.get("executor").is_some() {
                check_serve_config(&value, &place);
            } else if value.get("jsonrpc").is_some() {
                // An answer of the A2A server; `cli::pages` receives the same one.
                assert_eq!(
                    value["result"]["task"]["status"]["state"], "TASK_STATE_COMPLETED",
                    "{place}"
                );
            } else {
                check_config(&value, &place, &files);
            }
        }
    }
    assert!(checked > 30, "{checked} examples");
}

fn check_serve_config(config: &Value, place: &str) {
    let schema = validation::compile(&text("schema/serve.schema.json")).unwrap();
    let (violations, _) = validation::violations(&schema, config);
    assert!(violations.is_empty(), "{place}: {violations:?}");
}

fn check_request(request: &Value, place: &str) {
    let schema = validation::compile(REQUEST_SCHEMA).unwrap();
    let (violations, _) = validation::violations(&schema, request);
    assert!(violations.is_empty(), "{place}: {violations:?}");
}

fn check_config(config: &Value, place: &str, files: &Files) {
    let schema = validation::compile(config::SCHEMA).unwrap();
    let (violations, _) = validation::violations(&schema, config);
    assert!(violations.is_empty(), "{place}: {violations:?}");
    let mut config = config.clone();
    files.put_into(&mut config);
    let log = Arc::new(base::log::Silent);
    Plugin::new(&config.to_string(), log).unwrap_or_else(|error| panic!("{place}: {error}"));
}

/// The line has exactly the possible fields.
fn check_audit_line(line: &Value, place: &str) {
    let questions = [AskedQuestion {
        id: "6b86b273ff34fce19d6b804eff5a3f57".to_owned(),
        action: "answer",
        by: Some("web:ada".to_owned()),
    }];
    let record = Record {
        time: SystemTime::UNIX_EPOCH,
        trace_id: "0".repeat(32),
        agent: Some("a"),
        operator: Some("o"),
        session: Some("s"),
        chain: Some("c"),
        action: "send",
        group: Some("g"),
        target: Some("t"),
        origin: Some("o"),
        transport: Some("t"),
        task_id: Some("t"),
        context_id: Some("c"),
        sent_bytes: 0,
        received_bytes: 0,
        state: Some("working"),
        usage: Some(&a2a::Usage::default()),
        questions: &questions,
        duration: Duration::ZERO,
        outcome: "ok",
    };
    let written: Value = serde_json::from_str(&record.line()).unwrap();
    let fields = |line: &Value| {
        let types = line.as_object().unwrap().iter();
        let types = types.map(|(name, value)| (name.clone(), std::mem::discriminant(value)));
        types.collect::<BTreeMap<_, _>>()
    };
    let (reported, written) = (fields(line), fields(&written));
    assert!(
        reported == written,
        "{place}: {reported:?} instead of {written:?}"
    );
}

/// The files of examples: certificates, their key, and the keys of cards.
struct Files(PathBuf);

impl Files {
    fn new() -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("documents");
        fs::create_dir_all(&folder).unwrap();
        let made = rcgen::generate_simple_self_signed(["a.example".to_owned()]).unwrap();
        // The example of RFC 7517 appendix A.1.
        let keys = r#"{"keys": [{"kty": "EC", "crv": "P-256", "kid": "1", "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4", "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]}"#;
        let key = made.signing_key.serialize_pem();
        for (name, held) in [
            ("caFile", made.cert.pem()),
            ("certFile", made.cert.pem()),
            ("keyFile", key),
            ("jwksFile", keys.to_owned()),
        ] {
            fs::write(folder.join(name), held).unwrap();
        }
        Self(folder)
    }

    /// Replaces the files of the example by existing ones.
    fn put_into(&self, config: &mut Value) {
        match config {
            Value::Object(fields) => {
                for (name, value) in fields {
                    let file = self.0.join(name);
                    match value {
                        Value::String(path) if file.exists() => {
                            *path = file.to_str().unwrap().to_owned();
                        }
                        other => self.put_into(other),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.put_into(item)),
            _ => {}
        }
    }
}

#[tokio::test]
async fn example_of_too_deep_delegation_is_refused() {
    let config = json!({"targets": [{"alias": "support", "baseUrl": "https://support.example"}]});
    let log = Arc::new(base::log::Silent);
    let plugin = Arc::new(Plugin::new(&config.to_string(), log).unwrap());
    let examples = blocks(&text("docs/how-to/policy.md"), "json");
    let operation = examples
        .iter()
        .filter_map(|(_, block)| serde_json::from_str::<Value>(block).ok())
        .find(|value| value["op"] == "execute")
        .unwrap();
    let job = CallInput {
        request: operation["request"].to_string(),
        caller: Some(operation["caller"].to_string()),
        ..CallInput::default()
    };
    let envelope: Value = serde_json::from_str(&plugin.start(job).await).unwrap();
    assert_eq!(
        envelope["error"]["reason"], "delegation_too_deep",
        "{envelope}"
    );
}
