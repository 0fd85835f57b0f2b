//! Tasks that continue after the turn: the gateway follows them and wakes their sessions, even after a kill.

use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use remote_agent_cli::package;
use serde_json::{Value, json};
use testkit::support::free_port;

use crate::{
    approval, files,
    host::{Gateway, Host},
    model::{self, Model},
    node::Installed,
    peer::{Peer, answer_text},
    plugin_fixture,
    sdk::{self, Sdk},
    socket::Socket,
    surfaces,
    telegram::Telegram,
};

/// The start of the message that wakes a session.
const WAKE_MESSAGE: &str = "the task that you handed to peer has news";

/// An OpenClaw whose gateway tests can kill.
pub struct NotifyFixture {
    pub host: Host,
    /// The directory of the plugin's package.
    pub package: PathBuf,
    pub model: Model,
    pub peer: Peer,
    pub telegram: Telegram,
    gateway: Mutex<Option<RunningGateway>>,
}

/// A gateway and a client of it.
struct RunningGateway {
    socket: Socket,
    gateway: Gateway,
}

impl RunningGateway {
    fn boot(host: &Host) -> Self {
        let gateway = host.boot();
        Self {
            socket: gateway.socket(),
            gateway,
        }
    }
}

pub type Test = (&'static str, fn(&NotifyFixture));

pub const TESTS: &[Test] = &[
    (
        "message_without_approver_is_not_sent",
        approval::message_without_approver_is_not_sent,
    ),
    (
        "denied_target_receives_no_message",
        approval::denied_target_receives_no_message,
    ),
    (
        "approved_message_is_sent",
        approval::approved_message_is_sent,
    ),
    (
        "denied_message_is_not_sent",
        approval::denied_message_is_not_sent,
    ),
    (
        "unanswered_message_is_not_sent",
        approval::unanswered_message_is_not_sent,
    ),
    (
        "files_travel_to_and_from_the_official_sdk",
        files::files_travel_to_and_from_the_official_sdk,
    ),
    (
        "openclaw_channel_answers_the_tool",
        surfaces::openclaw_channel_answers_the_tool,
    ),
    (
        "package_passes_validate_and_build",
        surfaces::package_passes_validate_and_build,
    ),
    (
        "skills_list_shows_both_skills",
        surfaces::skills_list_shows_both_skills,
    ),
    (
        "page_shows_a_task_from_start_to_end",
        surfaces::page_shows_a_task_from_start_to_end,
    ),
    (
        "control_ui_tab_shows_the_page",
        surfaces::control_ui_tab_shows_the_page,
    ),
    (
        "control_ui_shows_call_and_approval",
        surfaces::control_ui_shows_call_and_approval,
    ),
    (
        "wakes_the_session_when_the_task_ends",
        wakes_the_session_when_the_task_ends,
    ),
    (
        "second_gateway_on_the_state_wakes_no_session_again",
        second_gateway_on_the_state_wakes_no_session_again,
    ),
    (
        "wakes_each_session_once_after_a_kill_with_five_tasks",
        wakes_each_session_once_after_a_kill_with_five_tasks,
    ),
];

impl NotifyFixture {
    pub fn start(installed: Arc<Installed>) -> Self {
        let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("openclaw-notify");
        let packaged =
            package::assemble(&plugin_fixture::library(), &scratch.join("package")).unwrap();
        let (model, peer) = (Model::start(), Peer::start());
        let official_sdk = sdk::server(Sdk::Py13).origin("1.0");
        let settings = json!({"enabled": true, "limits": {"waitMs": 3000},
        "targets": [
            {"alias": "peer", "baseUrl": peer.url(), "notify": true},
            {"alias": "asker", "baseUrl": peer.url(), "notify": true, "answers": "person"},
            {"alias": "supervised", "baseUrl": peer.url(), "approval": "first"},
            {"alias": "denied", "baseUrl": peer.url(), "approval": "deny"},
            {"alias": "official", "baseUrl": official_sdk},
            {"alias": "helper", "baseUrl": official_sdk, "answers": "person"},
        ]});
        let mut config = plugin_fixture::host_config(&model, &settings);
        config["models"]["providers"]["scripted"]["models"][0]["input"] = json!(["text", "image"]);
        // A run outlives OpenClaw's questions, which take two minutes.
        config["agents"]["defaults"]["timeoutSeconds"] = json!(600);
        let telegram = Telegram::start();
        config["channels"] = surfaces::channel_config();
        config["channels"]["telegram"] = telegram.config();
        let host = Host::new(installed, &scratch.join("host"), &config, &[]);
        host.edit_config(surfaces::add_channel_target);
        host.install(&format!("npm-pack:{}", packaged.tarball.display()));
        let gateway = RunningGateway::boot(&host);
        Self {
            host,
            package: packaged.directory,
            model,
            peer,
            telegram,
            gateway: Mutex::new(Some(gateway)),
        }
    }

    /// Runs a turn that sends a task to the peer which is still working when the turn ends.
    pub fn delegate(&self, session: &str, text: &str) {
        let parts = json!([{"kind": "text", "text": text}]);
        let request = json!({"action": "send", "target_alias": "peer", "parts": parts});
        self.run_turn(session, &format!("CALL {request}"));
        let request = self.model.request_with_result(text);
        let result = model::tool_result(&request).unwrap();
        println!("the result that the model reads:\n{result}\n");
        assert!(result.contains("you will be woken"), "{result}");
    }

    pub fn run_turn(&self, session: &str, text: &str) {
        self.with_socket(|socket| socket.run(session, text));
    }

    /// Returns the address of the gateway.
    pub fn address(&self) -> SocketAddr {
        let gateway = self.gateway.lock().unwrap();
        gateway.as_ref().unwrap().gateway.address()
    }

    /// Runs `action` with the client of the gateway.
    pub fn with_socket<T>(&self, action: impl FnOnce(&Socket) -> T) -> T {
        let gateway = self.gateway.lock().unwrap();
        action(&gateway.as_ref().unwrap().socket)
    }

    /// Ends the gateway with `stop`, and starts another one.
    pub fn restart(&self, stop: impl FnOnce(Gateway)) {
        let mut gateway = self.gateway.lock().unwrap();
        stop(gateway.take().unwrap().gateway);
        *gateway = Some(RunningGateway::boot(&self.host));
    }

    /// Waits until the model receives the message that wakes it for the task with this text, and returns that message.
    pub fn wait_for_wake(&self, text: &str) -> String {
        let answer = answer_text(text);
        let request = self
            .model
            .requests
            .wait("a message that wakes the session", |body| {
                let messages = body["messages"].to_string();
                messages.contains(WAKE_MESSAGE) && messages.contains(&answer)
            });
        let messages = request["messages"].as_array().unwrap();
        let message = messages
            .iter()
            .rfind(|message| message.to_string().contains(WAKE_MESSAGE));
        match &message.unwrap()["content"] {
            Value::String(text) => text.clone(),
            parts => parts.to_string(),
        }
    }

    /// Runs another turn of its session, and returns the number of messages that woke the model for the task with this text.
    fn wake_count(&self, session: &str, text: &str) -> usize {
        self.run_turn(session, &format!("after {text}"));
        let answer = answer_text(text);
        let wake_count = self.model.requests.all(|body| {
            let messages = body["messages"].to_string();
            messages.contains(WAKE_MESSAGE) && messages.contains(&answer)
        });
        wake_count.len()
    }

    /// Returns the files of followed tasks.
    fn followed_files(&self) -> usize {
        let folder = self.host.state().join("remote-agent/followed");
        fs::read_dir(folder).map_or(0, Iterator::count)
    }
}

fn wakes_the_session_when_the_task_ends(fixture: &NotifyFixture) {
    fixture.delegate("agent:main:later", "later the report");
    assert_eq!(fixture.followed_files(), 1);
    fixture.peer.finish("later the report");
    let message = fixture.wait_for_wake("later the report");
    println!("the message that wakes the model:\n{message}\n");
    assert!(message.contains("EXTERNAL_UNTRUSTED_CONTENT"), "{message}");
    assert_eq!(
        fixture.wake_count("agent:main:later", "later the report"),
        1
    );
    assert_eq!(fixture.followed_files(), 0);
}

/// OpenClaw lets one gateway use a state directory, so the second one exits, and follows no task.
fn second_gateway_on_the_state_wakes_no_session_again(fixture: &NotifyFixture) {
    let text = "later the minutes of the meeting";
    fixture.delegate("agent:main:shared", text);
    let mut config = fixture.host.config();
    config["gateway"]["port"] = json!(free_port());
    let file = fixture.host.state().join("second.json");
    fs::write(&file, config.to_string()).unwrap();
    let second = fixture
        .host
        .command(&["gateway", "run"])
        .env("OPENCLAW_CONFIG_PATH", &file)
        .env("OPENCLAW_ALLOW_MULTI_GATEWAY", "1")
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&second.stderr);
    println!("the second gateway: {printed}");
    assert!(!second.status.success(), "{printed}");
    assert_eq!(fixture.followed_files(), 1);
    fixture.peer.finish(text);
    fixture.wait_for_wake(text);
    assert_eq!(fixture.wake_count("agent:main:shared", text), 1);
}

fn wakes_each_session_once_after_a_kill_with_five_tasks(fixture: &NotifyFixture) {
    let tasks: Vec<_> = (1..=5)
        .map(|n| (format!("agent:main:killed-{n}"), format!("later part {n}")))
        .collect();
    for (session, text) in &tasks {
        fixture.delegate(session, text);
    }
    assert_eq!(fixture.followed_files(), 5);
    fixture.restart(|gateway| {
        gateway.kill();
        tasks.iter().for_each(|(_, text)| fixture.peer.finish(text));
    });
    for (_, text) in &tasks {
        fixture.wait_for_wake(text);
    }
    fixture.restart(Gateway::kill);
    for (session, text) in &tasks {
        assert_eq!(fixture.wake_count(session, text), 1, "{session}");
    }
    assert_eq!(fixture.followed_files(), 0);
}
