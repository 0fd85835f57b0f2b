//! One message to a group of real parts: the official Python and JavaScript servers, an OpenClaw behind `remote-agent serve`, and
//! two more agents of that OpenClaw, through its gateway.

use serde_json::{Value, json};
use testkit::support::driver::{Driver, Reply};

use crate::{
    GatewayFixture,
    gateway_fixture::send_request,
    host::TOKEN,
    sdk::{self, Sdk},
    serve_runs::wait_for_cancelled_run,
    server::Server,
};

type Test = (&'static str, fn(&GatewayFixture));

/// The tests, in order.
pub const TESTS: &[Test] = &[
    ("real_group_has_all_answers", real_group_has_all_answers),
    (
        "real_group_cancels_the_others_at_their_servers",
        real_group_cancels_the_others_at_their_servers,
    ),
    ("real_group_counts_votes", real_group_counts_votes),
    (
        "real_group_goes_on_after_a_kill",
        real_group_goes_on_after_a_kill,
    ),
];

const ALIASES: [&str; 5] = [
    "python",
    "javascript",
    "served",
    "gateway:alpha",
    "gateway:beta",
];

/// The agents of OpenClaw in the group, the served one first.
const OPENCLAW_AGENTS: [&str; 3] = ["main", "alpha", "beta"];

/// The servers of the group.
struct Group<'a> {
    fixture: &'a GatewayFixture,
    config: Value,
    /// Differs in each test, and so do the messages.
    id: String,
    _served: Server,
}

impl<'a> Group<'a> {
    fn start(fixture: &'a GatewayFixture) -> Self {
        // The first turn of an agent takes minutes on a busy machine.
        fixture.tool.call_ok(send_request("main", "wake up"));
        let served = fixture.serve();
        let config = json!({
            "enabled": true,
            "targets": [
                {"alias": "python", "baseUrl": sdk::server(Sdk::Py13).origin("1.0")},
                {"alias": "javascript", "baseUrl": sdk::server(Sdk::Js13).origin("1.0")},
                {"alias": "served", "baseUrl": served.url()},
            ],
            "gateway": {"enabled": true, "url": fixture.url(), "token": TOKEN},
            "limits": {"waitMs": 85_000}, "defaults": {"timeoutMs": 85_000},
        });
        let (_, port) = served.url().rsplit_once(':').unwrap();
        Self {
            fixture,
            config,
            id: format!("n{port}"),
            _served: served,
        }
    }

    /// Returns a message to all, with further fields.
    fn request(text: &str, more: &Value) -> Value {
        let mut request = json!({"action": "send", "target_aliases": ALIASES, "parts": [{"kind": "text", "text": text}]});
        let fields = request.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        request
    }

    /// Sends a message to all with a process of its own.
    fn send(&self, text: &str, more: &Value) -> Value {
        let envelope = Driver::start(&self.config)
            .call(&Self::request(text, more))
            .0;
        assert_eq!(envelope["ok"], true, "{envelope:#}");
        envelope
    }

    /// Returns the sessions of an agent of OpenClaw in which its model got a message.
    fn sessions(&self, agent: &str, text: &str) -> Vec<String> {
        let start = format!("session=agent:{agent}:");
        let key = |body: Value| {
            let messages = body["messages"].to_string();
            let rest = messages.split(&start).nth(1).unwrap();
            let is_in_key = |c: char| c.is_ascii_alphanumeric() || "-_.:".contains(c);
            let end = rest.find(|c| !is_in_key(c)).unwrap_or(rest.len());
            format!("agent:{agent}:{}", &rest[..end])
        };
        let requests = self
            .fixture
            .model
            .requests
            .all(|body| has(body, agent, text));
        requests.into_iter().map(key).collect()
    }

    /// Waits until OpenClaw has cancelled the run of a message.
    fn wait_for_cancelled_run(&self, agent: &str, text: &str) {
        let sessions = self.sessions(agent, text);
        let session = sessions.first().expect("a session with the message");
        wait_for_cancelled_run(&self.fixture.socket(), agent, session);
    }

    /// Checks at each server that it got a message once.
    fn check_sent_once(&self, tool: &mut Driver, text: &str) {
        for alias in ["python", "javascript"] {
            let question = format!("count: {text}");
            let request = json!({"action": "send", "target_alias": alias, "parts": [{"kind": "text", "text": question}]});
            let counted = tool.call(&request).0;
            assert_eq!(counted["summary"]["message_text"], "1", "{counted:#}");
        }
        for agent in OPENCLAW_AGENTS {
            let sessions = self.sessions(agent, text);
            assert_eq!(sessions.len(), 1, "{agent}: {sessions:?}");
        }
    }
}

/// Returns whether a request to the model is of an agent and has a message.
fn has(body: &Value, agent: &str, text: &str) -> bool {
    let messages = body["messages"].to_string();
    messages.contains(text) && messages.contains(&format!("session=agent:{agent}:"))
}

/// Returns the result of one target.
fn result<'a>(envelope: &'a Value, alias: &str) -> &'a Value {
    let mut results = envelope["summary"]["group"]["results"]
        .as_array()
        .unwrap()
        .iter();
    let result = results.find(|result| result["target_alias"] == alias);
    result.unwrap_or_else(|| panic!("no {alias} in {envelope:#}"))
}

fn check_all_answers(envelope: &Value, text: &str) {
    for alias in ALIASES {
        let result = result(envelope, alias);
        assert_eq!(result["state"], "completed", "{envelope:#}");
        let said = result["summary"]["message_text"].as_str();
        assert!(said.is_some_and(|said| said.contains(text)), "{result:#}");
    }
    let group = &envelope["summary"]["group"];
    assert_eq!(group["decided_by"], "all", "{group:#}");
    assert_eq!(group["missing"], json!([]), "{group:#}");
}

fn real_group_has_all_answers(fixture: &GatewayFixture) {
    let group = Group::start(fixture);
    let text = format!("task: {}", group.id);
    let envelope = group.send(&text, &json!({}));
    check_all_answers(&envelope, &group.id);
    group.check_sent_once(&mut Driver::start(&group.config), &text);
}

fn real_group_cancels_the_others_at_their_servers(fixture: &GatewayFixture) {
    let group = Group::start(fixture);
    let text = format!("slow: RACE alpha beta main {}", group.id);
    let envelope = group.send(&text, &json!({"mode": "first"}));
    let summary = &envelope["summary"];
    assert_eq!(summary["group"]["decided_by"], "first", "{envelope:#}");
    assert_eq!(summary["group"]["winner"], "gateway:alpha", "{envelope:#}");
    // Another process asks each server what became of its task.
    let mut other = Driver::start(&group.config);
    let members = summary["continuation"]["group"]["members"].as_array();
    for (alias, member) in ALIASES.into_iter().zip(members.unwrap()) {
        if alias == "gateway:alpha" {
            continue;
        }
        println!("{alias}: {}", result(&envelope, alias)["canceled"]);
        let mut continuation = member.clone();
        let fields = continuation.as_object_mut().unwrap();
        fields.retain(|name, _| ["target", "task", "conversation"].contains(&name.as_str()));
        let watched = other
            .call(&json!({"action": "watch", "continuation": continuation}))
            .0;
        let state = &watched["summary"]["continuation"]["task"]["status"];
        assert_eq!(state, "canceled", "{alias}: {watched:#}");
    }
    for agent in ["main", "beta"] {
        group.wait_for_cancelled_run(agent, &text);
    }
    group.check_sent_once(&mut other, &text);
}

/// The official servers answer with the path of the request, and OpenClaw's agents with a word.
fn real_group_counts_votes(fixture: &GatewayFixture) {
    let group = Group::start(fixture);
    let text = format!("where: ANSWER no {}", group.id);
    let vote = json!({"mode": "vote", "choices": ["/rpc", "no"]});
    let envelope = group.send(&text, &vote);
    let decided = &envelope["summary"]["group"];
    assert_eq!(decided["decided_by"], "quorum", "{envelope:#}");
    assert_eq!(decided["winner"], "no", "{envelope:#}");
    assert_eq!(
        decided["votes"],
        json!([
            {"choice": "no", "votes": 3, "target_aliases": &ALIASES[2..]},
            {"choice": "/rpc", "votes": 2, "target_aliases": &ALIASES[..2]},
        ])
    );
}

/// The process that waits for a group is killed. The official servers answer once another process subscribes.
fn real_group_goes_on_after_a_kill(fixture: &GatewayFixture) {
    let group = Group::start(fixture);
    for (mode, words) in [("all", 60), ("first", 600), ("vote", 60)] {
        let spoken = format!("SLOW {words} {mode}-{}", group.id);
        let (text, answer) = (format!("watched: {spoken}"), format!("alpha beta {spoken}"));
        let mut more = json!({ "mode": mode });
        if mode == "vote" {
            more["choices"] = json!([answer, "no"]);
            more["quorum"] = json!(2);
        }
        let mut first = Driver::start(&group.config);
        let call = first.begin(&Group::request(&text, &more));
        let continuation = loop {
            let Reply::Update(mut update) = first.next(call) else {
                panic!("the group ended before it was killed");
            };
            let continuation = update["summary"]["continuation"].take();
            let mut members = continuation["group"]["members"].as_array().unwrap().iter();
            if members.all(|member| member["task"].is_object()) {
                break continuation;
            }
        };
        for agent in OPENCLAW_AGENTS {
            let requests = &fixture.model.requests;
            requests.wait("the turn of an agent", |body| has(body, agent, &text));
        }
        first.kill();
        let mut second = Driver::start(&group.config);
        let resumed = second
            .call(&json!({"action": "watch", "continuation": continuation}))
            .0;
        assert_eq!(resumed["ok"], true, "{resumed:#}");
        let decided = &resumed["summary"]["group"];
        match mode {
            "all" => {
                for alias in &ALIASES[..2] {
                    let said = &result(&resumed, alias)["summary"]["message_text"];
                    assert_eq!(*said, answer, "{resumed:#}");
                }
                for alias in &ALIASES[2..] {
                    let said = &result(&resumed, alias)["summary"]["message_text"];
                    let said = said.as_str().unwrap_or_default();
                    assert!(said.contains("word59"), "{resumed:#}");
                }
                check_all_answers(&resumed, "");
            }
            "first" => {
                assert_eq!(decided["decided_by"], "first", "{resumed:#}");
                assert!(ALIASES[..2].iter().any(|alias| decided["winner"] == *alias));
            }
            // What OpenClaw's agents answer is no choice.
            _ => {
                let votes =
                    json!([{"choice": answer, "votes": 2, "target_aliases": &ALIASES[..2]}]);
                assert_eq!(decided["votes"], votes, "{resumed:#}");
                assert_eq!(decided["winner"], answer, "{resumed:#}");
            }
        }
        if mode == "first" {
            for agent in OPENCLAW_AGENTS {
                group.wait_for_cancelled_run(agent, &text);
            }
        }
        group.check_sent_once(&mut second, &text);
    }
}
