//! The gateway's process is killed while agents talk: whatever was acknowledged is in the files.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use common::{environment::SystemEnvironment, log::Silent};
use egress::{
    Access, HttpClient,
    websocket::{self, Dial, Frame, Opened},
};
use gateway_server::{config::ServerConfig, sessions::Sessions};
use serde_json::{Value, json};

use crate::gateway::{folder::Folder, rig::soon};

const AGENTS: [&str; 3] = ["alpha", "beta", "charlie"];
const ASKERS: usize = 6;

/// A gateway in a process of its own, which is killed with the value.
struct Gateway {
    process: Child,
    url: String,
}

impl Gateway {
    fn start(state: &Path, fsync: &str) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_remote-agent"))
            .args([
                "gateway",
                "--port",
                "0",
                "--json",
                "--fsync",
                fsync,
                "--state-dir",
            ])
            .arg(state)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let out = process.stdout.as_mut().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        let reported: Value = serde_json::from_str(&line).unwrap();
        let url = reported["url"].as_str().unwrap().to_owned();
        Self { process, url }
    }

    /// Kills the process with SIGKILL.
    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The ids that each agent's workspace must have.
type Acknowledged = Arc<Mutex<BTreeMap<String, BTreeSet<String>>>>;

async fn connect(url: &str) -> Opened {
    let dial = Dial {
        url: url.parse().unwrap(),
        protocols: vec!["a2a-v1".into()],
        headers: Default::default(),
        access: Access::Loopback,
        trust: None,
        frame_bytes: 1 << 20,
    };
    soon(websocket::connect(&HttpClient::new().unwrap(), dial))
        .await
        .unwrap()
}

/// Returns the next message; nothing once the gateway is gone.
async fn next(opened: &mut Opened) -> Option<Value> {
    loop {
        match opened.receiver.next().await {
            Frame::Text(text) => return Some(serde_json::from_str(&text).unwrap()),
            Frame::Closed { .. } | Frame::Broken(_) => return None,
            _ => {}
        }
    }
}

/// An agent that answers everything until the gateway is gone. What reaches it was acknowledged.
async fn agent(mut opened: Opened, name: &'static str, acknowledged: Acknowledged) {
    while let Some(asked) = next(&mut opened).await {
        if asked["type"] != "message" {
            continue;
        }
        let id = asked["id"].as_str().unwrap().to_owned();
        let answer = json!({
            "type": "message", "id": format!("re-{id}"), "agent": asked["from"], "sessionId": asked["sessionId"],
            "content": {"role": "agent", "content": format!("received {id}")},
            "metadata": {"correlationId": asked["metadata"]["correlationId"], "parentId": id},
        });
        acknowledged
            .lock()
            .unwrap()
            .entry(name.into())
            .or_default()
            .insert(id);
        if opened.sender.text(answer.to_string()).await.is_err() {
            return;
        }
    }
}

/// Connects an agent, and returns its connection once the gateway has acknowledged the name.
pub(crate) async fn advertised(url: &str, name: &str) -> Opened {
    let mut opened = connect(url).await;
    let advertise = json!({"type": "handshake", "content": {"action": "advertise",
        "capabilities": {"supportedMessageTypes": ["message"], "supportedAgents": [name], "version": "1.0.0"}}});
    opened.sender.text(advertise.to_string()).await.unwrap();
    let reported = soon(next(&mut opened)).await.unwrap();
    assert_eq!(reported["content"]["action"], "acknowledge", "{reported}");
    opened
}

async fn serve(url: &str, name: &'static str, acknowledged: &Acknowledged) {
    let opened = advertised(url, name).await;
    tokio::spawn(agent(opened, name, Arc::clone(acknowledged)));
}

/// Asks one agent after the other until the gateway is gone. What comes back was acknowledged.
async fn ask(mut opened: Opened, round: usize, asker: usize, acknowledged: Acknowledged) {
    for i in 0.. {
        let id = format!("m-{round}-{asker}-{i}");
        let to = AGENTS[i % AGENTS.len()];
        let said = json!({
            "type": "message", "id": id, "agent": to, "sessionId": format!("s-{asker}"),
            "content": {"role": "user", "content": "x".repeat(i % 700)},
            "metadata": {"requiresResponse": true, "correlationId": id},
        });
        if opened.sender.text(said.to_string()).await.is_err() {
            return;
        }
        let Some(answer) = next(&mut opened).await else {
            return;
        };
        assert_eq!(answer["type"], "message", "{answer}");
        let answer = answer["id"].as_str().unwrap().to_owned();
        assert_eq!(answer, format!("re-{id}"));
        acknowledged
            .lock()
            .unwrap()
            .entry(to.into())
            .or_default()
            .insert(answer);
    }
}

/// Returns every id in an agent's sessions.
fn kept(state: &Path, agent: &str) -> Vec<String> {
    let config = ServerConfig {
        state_dir: state.to_owned(),
        ..ServerConfig::default()
    };
    let sessions = Sessions::read_only(&config, Arc::new(SystemEnvironment), Arc::new(Silent));
    let listed = sessions.list(agent, true, usize::MAX).unwrap();
    let entries = listed
        .iter()
        .flat_map(|session| sessions.get(agent, &session.session_id).unwrap());
    entries
        .map(|entry| entry.unwrap().id.into_owned())
        .collect()
}

#[expect(clippy::print_stdout, reason = "how much was tried is worth knowing")]
async fn killed(fsync: &str, moments: &[u64]) {
    let state = Folder::new();
    let limits = json!({"limits": {"messagesPerSecond": 1_000_000, "burst": 1_000_000}});
    fs::write(state.path().join("gateway.json"), limits.to_string()).unwrap();
    let acknowledged = Acknowledged::default();
    for (round, moment) in moments.iter().enumerate() {
        let before: usize = acknowledged
            .lock()
            .unwrap()
            .values()
            .map(BTreeSet::len)
            .sum();
        let gateway = Gateway::start(state.path(), fsync);
        for name in AGENTS {
            serve(&gateway.url, name, &acknowledged).await;
        }
        let mut connections = Vec::new();
        for _ in 0..ASKERS {
            connections.push(connect(&gateway.url).await);
        }
        let asking: Vec<_> = (0..)
            .zip(connections)
            .map(|(asker, opened)| {
                tokio::spawn(ask(opened, round, asker, Arc::clone(&acknowledged)))
            })
            .collect();
        // Not to wait for something: the moment is what is tried.
        tokio::time::sleep(Duration::from_millis(*moment)).await;
        gateway.kill();
        for one in asking {
            soon(one).await.unwrap();
        }
        let after: usize = acknowledged
            .lock()
            .unwrap()
            .values()
            .map(BTreeSet::len)
            .sum();
        assert!(
            after > before,
            "nothing was acknowledged within {moment} ms"
        );
        for (agent, acknowledged) in &*acknowledged.lock().unwrap() {
            let kept = kept(state.path(), agent);
            let all: BTreeSet<_> = kept.iter().cloned().collect();
            assert_eq!(all.len(), kept.len(), "entries of {agent} are doubled");
            let lost: Vec<_> = acknowledged.difference(&all).collect();
            assert!(
                lost.is_empty(),
                "killed after {moment} ms, {agent} lost {lost:?}"
            );
        }
    }
    let count: usize = acknowledged
        .lock()
        .unwrap()
        .values()
        .map(BTreeSet::len)
        .sum();
    println!(
        "fsync {fsync}: {} kills, {count} acknowledged entries, none lost",
        moments.len()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigkill_under_load_keeps_acknowledged_entries() {
    killed("always", &[61, 233, 397, 149, 541, 307]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigkill_without_fsync_keeps_acknowledged_entries() {
    killed("never", &[83, 311]).await;
    killed("interval", &[97, 283]).await;
}
