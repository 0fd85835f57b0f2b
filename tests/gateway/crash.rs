//! The gateway's process is killed while agents talk: whatever was acknowledged is in the files.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
};

use common::{environment::SystemEnvironment, log::Silent};
use egress::{
    Access, HttpClient,
    websocket::{self, Dial, Frame, Opened},
};
use gateway_server::{config::ServerConfig, sessions::Sessions};
use serde_json::{Value, json};
use tokio::sync::watch;

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
type Ids = BTreeMap<&'static str, BTreeSet<String>>;
type Acknowledged = Arc<watch::Sender<Ids>>;

fn insert(acknowledged: &Acknowledged, agent: &'static str, id: String) {
    acknowledged.send_modify(|ids| {
        ids.entry(agent).or_default().insert(id);
    });
}

fn count(ids: &Ids) -> usize {
    ids.values().map(BTreeSet::len).sum()
}

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
        insert(&acknowledged, name, id);
        if opened.sender.text(answer.to_string()).await.is_err() {
            return;
        }
    }
}

async fn serve(url: &str, name: &'static str, acknowledged: &Acknowledged) {
    let mut opened = connect(url).await;
    let advertise = json!({"type": "handshake", "content": {"action": "advertise",
        "capabilities": {"supportedMessageTypes": ["message"], "supportedAgents": [name], "version": "1.0.0"}}});
    opened.sender.text(advertise.to_string()).await.unwrap();
    let reported = soon(next(&mut opened)).await.unwrap();
    assert_eq!(reported["content"]["action"], "acknowledge", "{reported}");
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
        insert(&acknowledged, to, answer);
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
async fn killed(fsync: &str, rounds: &[usize]) {
    let state = Folder::new();
    let limits = json!({"limits": {"messagesPerSecond": 1_000_000, "burst": 1_000_000}});
    fs::write(state.path().join("gateway.json"), limits.to_string()).unwrap();
    let acknowledged = Acknowledged::default();
    let mut ids = acknowledged.subscribe();
    for (round, entries) in rounds.iter().enumerate() {
        let kill_at = count(&ids.borrow()) + entries;
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
        soon(ids.wait_for(|ids| count(ids) >= kill_at))
            .await
            .unwrap();
        gateway.kill();
        for one in asking {
            soon(one).await.unwrap();
        }
        for (agent, acknowledged) in &*ids.borrow() {
            let kept = kept(state.path(), agent);
            let all: BTreeSet<_> = kept.iter().cloned().collect();
            assert_eq!(all.len(), kept.len(), "entries of {agent} are doubled");
            let lost: Vec<_> = acknowledged.difference(&all).collect();
            assert!(
                lost.is_empty(),
                "killed at entry {kill_at}, {agent} lost {lost:?}"
            );
        }
    }
    let count = count(&ids.borrow());
    println!(
        "fsync {fsync}: {} kills, {count} acknowledged entries, none lost",
        rounds.len()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigkill_under_load_keeps_acknowledged_entries() {
    killed("always", &[1, 61, 397, 149, 541, 307]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigkill_without_fsync_keeps_acknowledged_entries() {
    killed("never", &[83, 611]).await;
    killed("interval", &[97, 583]).await;
}
