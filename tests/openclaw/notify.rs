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
    peer::{Peer, answer_to},
    sdk::{self, Sdk},
    socket::Socket,
    surfaces, world,
};

/// The first words of the message that wakes a session.
const NEWS: &str = "the task that you handed to peer has news";

/// An OpenClaw that tests can kill.
pub struct Followed {
    pub host: Host,
    /// The directory of the plugin's package.
    pub package: PathBuf,
    pub model: Model,
    pub peer: Peer,
    gateway: Mutex<Option<Running>>,
}

/// A gateway and a client of it, whose runs have numbers.
struct Running {
    socket: Socket,
    gateway: Gateway,
}

impl Running {
    fn boot(host: &Host) -> Self {
        let gateway = host.boot();
        Self {
            socket: gateway.socket(),
            gateway,
        }
    }
}

pub type Test = (&'static str, fn(&Followed));

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
    ("wakes_the_session_when_the_task_ends", wakes_the_session),
    (
        "second_gateway_on_the_state_wakes_no_session_again",
        second_gateway_on_the_state,
    ),
    (
        "wakes_each_session_once_after_a_kill_with_five_tasks",
        wakes_after_a_kill,
    ),
];

impl Followed {
    pub fn start(installed: Arc<Installed>) -> Self {
        let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("openclaw-notify");
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        let packaged =
            package::assemble(root, &world::library(), &scratch.join("package")).unwrap();
        let (model, peer) = (Model::start(), Peer::start());
        let official = sdk::server(Sdk::Py13).origin("1.0");
        let settings = json!({"enabled": true, "limits": {"waitMs": 3000},
        "targets": [
            {"alias": "peer", "baseUrl": peer.url(), "notify": true},
            {"alias": "asked", "baseUrl": peer.url(), "approval": "first"},
            {"alias": "denied", "baseUrl": peer.url(), "approval": "deny"},
            {"alias": "official", "baseUrl": official},
        ]});
        let mut config = world::host_config(&model, &settings);
        config["models"]["providers"]["scripted"]["models"][0]["input"] = json!(["text", "image"]);
        // A run outlives OpenClaw's questions, which take two minutes.
        config["agents"]["defaults"]["timeoutSeconds"] = json!(600);
        config["channels"] = surfaces::channel();
        let host = Host::new(installed, &scratch.join("host"), &config, &[]);
        host.edit_config(surfaces::add_channel);
        host.install(&format!("npm-pack:{}", packaged.tarball.display()));
        let gateway = Running::boot(&host);
        Self {
            host,
            package: packaged.directory,
            model,
            peer,
            gateway: Mutex::new(Some(gateway)),
        }
    }

    /// Runs a turn that delegates work which continues.
    pub fn hand_over(&self, session: &str, text: &str) {
        let parts = json!([{"kind": "text", "text": text}]);
        let request = json!({"action": "send", "target_alias": "peer", "parts": parts});
        self.turn(session, &format!("CALL {request}"));
        let said = self.model.request_with_result(text);
        let result = model::tool_result(&said).unwrap();
        println!("what the model reads of the call:\n{result}\n");
        assert!(result.contains("you will be woken"), "{result}");
    }

    pub fn turn(&self, session: &str, text: &str) {
        self.with_socket(|socket| socket.run(session, text));
    }

    /// Returns the address of the gateway.
    pub fn address(&self) -> SocketAddr {
        let gateway = self.gateway.lock().unwrap();
        gateway.as_ref().unwrap().gateway.address()
    }

    /// Uses the client of the gateway.
    pub fn with_socket<T>(&self, use_it: impl FnOnce(&Socket) -> T) -> T {
        let gateway = self.gateway.lock().unwrap();
        use_it(&gateway.as_ref().unwrap().socket)
    }

    /// Kills the gateway, and starts another one after `meanwhile`.
    fn kill(&self, meanwhile: impl FnOnce()) {
        let mut gateway = self.gateway.lock().unwrap();
        gateway.take().unwrap().gateway.kill();
        meanwhile();
        *gateway = Some(Running::boot(&self.host));
    }

    /// Returns the input of the model when it is woken for the task with this text.
    pub fn woken(&self, text: &str) -> String {
        let answer = answer_to(text);
        let request = self.model.requests.wait("the session to be woken", |body| {
            let messages = body["messages"].to_string();
            messages.contains(NEWS) && messages.contains(&answer)
        });
        let messages = request["messages"].as_array().unwrap();
        let message = messages
            .iter()
            .rfind(|message| message.to_string().contains(NEWS));
        match &message.unwrap()["content"] {
            Value::String(text) => text.clone(),
            parts => parts.to_string(),
        }
    }

    /// Runs another turn of its session, and returns how often the model was woken for the task with this text.
    fn wakes(&self, session: &str, text: &str) -> usize {
        self.turn(session, &format!("after {text}"));
        let answer = answer_to(text);
        let wakes = self.model.requests.all(|body| {
            let messages = body["messages"].to_string();
            messages.contains(NEWS) && messages.contains(&answer)
        });
        wakes.len()
    }

    /// Returns the files of followed tasks.
    fn files(&self) -> usize {
        let folder = self.host.state().join("remote-agent/followed");
        fs::read_dir(folder).map_or(0, Iterator::count)
    }
}

fn wakes_the_session(followed: &Followed) {
    followed.hand_over("agent:main:later", "later the report");
    assert_eq!(followed.files(), 1);
    followed.peer.finish("later the report");
    let woken = followed.woken("later the report");
    println!("what the model reads when it is woken:\n{woken}\n");
    assert!(woken.contains("EXTERNAL_UNTRUSTED_CONTENT"), "{woken}");
    assert_eq!(followed.wakes("agent:main:later", "later the report"), 1);
    assert_eq!(followed.files(), 0);
}

/// OpenClaw lets one gateway use a state directory, so the second one ends, and follows nothing.
fn second_gateway_on_the_state(followed: &Followed) {
    let text = "later the minutes of the meeting";
    followed.hand_over("agent:main:shared", text);
    let mut config = followed.host.config();
    config["gateway"]["port"] = json!(free_port());
    let file = followed.host.state().join("second.json");
    fs::write(&file, config.to_string()).unwrap();
    let second = followed
        .host
        .command(&["gateway", "run"])
        .env("OPENCLAW_CONFIG_PATH", &file)
        .env("OPENCLAW_ALLOW_MULTI_GATEWAY", "1")
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&second.stderr);
    println!("the second gateway: {printed}");
    assert!(!second.status.success(), "{printed}");
    assert_eq!(followed.files(), 1);
    followed.peer.finish(text);
    followed.woken(text);
    assert_eq!(followed.wakes("agent:main:shared", text), 1);
}

fn wakes_after_a_kill(followed: &Followed) {
    let tasks: Vec<_> = (1..=5)
        .map(|n| (format!("agent:main:killed-{n}"), format!("later part {n}")))
        .collect();
    for (session, text) in &tasks {
        followed.hand_over(session, text);
    }
    assert_eq!(followed.files(), 5);
    followed.kill(|| {
        tasks
            .iter()
            .for_each(|(_, text)| followed.peer.finish(text))
    });
    for (_, text) in &tasks {
        followed.woken(text);
    }
    followed.kill(|| {});
    for (session, text) in &tasks {
        assert_eq!(followed.wakes(session, text), 1, "{session}");
    }
    assert_eq!(followed.files(), 0);
}
