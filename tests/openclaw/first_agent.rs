//! The way of a new user: from an empty OpenClaw with the package of ClawHub to the first answer of an agent that only a domain
//! names, and what becomes of an agent whose card changes after that.

use std::{
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use serde_json::{Value, json};
use testkit::support::free_port;

use crate::{
    commands::decode_output,
    host::{Gateway, Host},
    http::{self, Request},
    model::{self, Model},
    node::Installed,
    plugin_fixture,
    registry::{four_libraries, release_file, scratch, step},
    server::Server,
};

type Test = (&'static str, fn(&FirstAgent));

/// The tests, in their order.
pub const TESTS: &[Test] = &[
    (
        "domain_leads_to_a_first_answer",
        domain_leads_to_a_first_answer,
    ),
    (
        "changed_card_stops_calls_until_it_is_accepted",
        changed_card_stops_calls_until_it_is_accepted,
    ),
];

/// An OpenClaw whose only plugin is this one, from the archive for ClawHub, without settings of it.
pub struct FirstAgent {
    model: Model,
    host: Host,
    gateway: Gateway,
}

impl FirstAgent {
    pub fn start(installed: Arc<Installed>) -> Self {
        let scratch = scratch("first-agent");
        let clawpack = release_file(&scratch, &four_libraries(&scratch), "-clawpack");
        let model = Model::start();
        let state = scratch.join("state");
        let environment = [("XDG_STATE_HOME", state.to_str().unwrap())];
        let config = plugin_fixture::model_config(&model);
        let host = Host::new(installed, &scratch.join("host"), &config, &environment);
        step("openclaw plugins install", || {
            host.install(clawpack.to_str().unwrap());
        });
        let gateway = step("openclaw gateway run, until it is ready", || host.boot());
        Self {
            model,
            host,
            gateway,
        }
    }

    /// Runs `openclaw remote-agent`, and returns its exit code and all that it printed.
    fn run(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let command = format!("openclaw remote-agent {}", arguments.join(" "));
        let mut process = self.host.command(&[&["remote-agent"], arguments].concat());
        let output = step(&command, || process.output().unwrap());
        let (code, stdout, stderr) = decode_output(&output);
        eprintln!("{stdout}{stderr}");
        (code, stdout + &stderr)
    }

    fn targets(&self) -> Value {
        self.host.config()["plugins"]["entries"]["remote-agent"]["config"]["targets"].clone()
    }
}

fn send(alias: &str, text: &str) -> Value {
    json!({"action": "send", "target_alias": alias, "parts": [{"kind": "text", "text": text}]})
}

fn domain_leads_to_a_first_answer(fixture: &FirstAgent) {
    let port = free_port().to_string();
    let domain = format!("127.0.0.1:{port}");
    let origin = format!("http://{domain}");
    let flags = [
        "--port",
        &port,
        "--executor",
        "scripted",
        "--public-url",
        &origin,
    ];
    let _server = Server::start(&flags, &[]);
    let (code, listed) = fixture.run(&["add", &domain]);
    assert_eq!(code, Some(2), "{listed}");
    assert!(listed.contains("nothing was added; pick one"), "{listed}");
    let (code, added) = fixture.run(&["add", &domain, "--pick", "1", "--alias", "harbour"]);
    assert_eq!(code, Some(0), "{added}");
    assert!(
        added.contains("the running gateway has the agent"),
        "{added}"
    );
    let card = format!("{origin}/.well-known/agent-card.json");
    let target = json!({"alias": "harbour", "baseUrl": origin, "cardUrl": card, "default": true});
    assert_eq!(fixture.targets(), json!([target]));
    step("first answer", || {
        let call = send("harbour", "echo the first words");
        let turn = format!("CALL {call}");
        fixture.gateway.socket().run("agent:main:first", &turn);
        let request = fixture.model.request_with_result("the first words");
        let result = model::tool_result(&request).unwrap();
        assert!(result.starts_with("send: "), "{result}");
        assert!(
            crate::fence_content(&result).contains("the first words"),
            "{result}"
        );
    });
}

/// An agent that shows another card once `has_changed`, and answers every message.
fn changing_agent(has_changed: &'static AtomicBool) -> String {
    let address = http::serve(move |request, stream| {
        respond(request, stream, has_changed.load(Ordering::SeqCst));
    });
    format!("http://{address}")
}

fn respond(request: &Request, stream: &mut TcpStream, has_changed: bool) {
    let origin = format!("http://{}", request.header("host").unwrap());
    if request.method == "GET" {
        let organization = if has_changed { "Another" } else { "Harbour" };
        let card = json!({
            "protocolVersion": "0.3.0", "name": "Pilot", "description": "Pilots.", "version": "1.0.0",
            "provider": {"organization": organization, "url": "https://harbour.example"},
            "url": format!("{origin}/a2a"), "preferredTransport": "JSONRPC", "capabilities": {},
            "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
            "skills": [{"id": "pilot", "name": "Pilot", "description": "Pilots.", "tags": []}]
        });
        // Each call reads it.
        let headers = "cache-control: no-store\r\n";
        let card = card.to_string();
        return http::answer_with(stream, "200 OK", "application/json", headers, &card);
    }
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    let parts = json!([{"kind": "text", "text": "pong"}]);
    let mut answer = json!({"jsonrpc": "2.0", "id": body["id"]});
    match body["method"].as_str() {
        Some("message/send") => {
            answer["result"] =
                json!({"kind": "message", "role": "agent", "messageId": "1", "parts": parts});
        }
        _ => answer["error"] = json!({"code": -32001, "message": "no such task"}),
    }
    http::answer(stream, "200 OK", "application/json", &answer.to_string());
}

fn changed_card_stops_calls_until_it_is_accepted(fixture: &FirstAgent) {
    static HAS_CHANGED: AtomicBool = AtomicBool::new(false);
    // An agent on this machine has pins only where a setting says so.
    let from = fixture.gateway.output.len();
    fixture.host.edit_config(|config| {
        config["plugins"]["entries"]["remote-agent"]["config"]["defaults"] =
            json!({"pins": "enforce"});
    });
    let is_applied = |line: &String| line.contains("config hot reload applied");
    fixture
        .gateway
        .output
        .wait_from(from, "the settings to be applied", is_applied);
    let (code, added) = fixture.run(&["add", &changing_agent(&HAS_CHANGED), "--alias", "pilot"]);
    assert_eq!(code, Some(0), "{added}");
    let (code, shown) = fixture.run(&["pin", "pilot"]);
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("(operator "), "accepted with `add`: {shown}");
    let call = || fixture.gateway.envelope(send("pilot", "ping"));
    assert_eq!(call()["summary"]["message_text"], "pong");

    HAS_CHANGED.store(true, Ordering::SeqCst);
    let stopped = call();
    assert_eq!(stopped["error"]["reason"], "card_changed", "{stopped}");
    assert_eq!(
        stopped["error"]["details"]["changes"][0]["path"],
        "/provider/organization"
    );
    let (code, shown) = fixture.run(&["pin", "pilot", "--diff"]);
    assert_eq!(code, Some(1), "{shown}");
    assert!(
        shown.contains("Harbour") && shown.contains("Another"),
        "{shown}"
    );
    let fingerprint = shown.split_once("fingerprint ").unwrap().1;
    let fingerprint = fingerprint.lines().next().unwrap();

    let accept = ["pin", "pilot", "--accept", "--fingerprint"];
    let (code, refused) = fixture.run(&[&accept[..], &["0"]].concat());
    assert_eq!(code, Some(1), "{refused}");
    assert_eq!(call()["error"]["reason"], "card_changed");
    let (code, accepted) = fixture.run(&[&accept[..], &[fingerprint]].concat());
    assert_eq!(code, Some(0), "{accepted}");
    assert_eq!(call()["summary"]["message_text"], "pong");
}
