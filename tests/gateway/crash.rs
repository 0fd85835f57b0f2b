//! Kills the gateway's process during messages, or fills its disk: the files contain every acknowledged entry.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use common::{environment::SystemEnvironment, log::Silent};
use egress::{
    AddressPolicy, ReqwestClient,
    websocket::{self, Dial, Frame, Opened},
};
use gateway_server::{config::ServerConfig, sessions::Sessions};
#[cfg(target_os = "linux")]
use rustix::process::{Pid, Resource, Rlimit, WaitId, WaitIdOptions, getrlimit, prlimit, waitid};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::gateway::{folder::Folder, rig::soon};

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod writes;

const AGENTS: [&str; 3] = ["alpha", "beta", "charlie"];
const CLIENTS: usize = 6;

/// The process of a gateway. Dropping it kills the process.
struct Gateway {
    process: Child,
    url: String,
}

/// Starts a program for which a write beyond the limit of file sizes fails, as on a full disk, instead of killing it.
pub(crate) const WITHOUT_SIGNAL: [&str; 2] = ["-c", "trap '' XFSZ; exec \"$0\" \"$@\""];

/// Limits a resource of a running process. The limit can be raised again.
#[cfg(target_os = "linux")]
pub(crate) fn limit(process: &Child, resource: Resource, current: Option<u64>) {
    let maximum = getrlimit(resource).maximum;
    let limit = Rlimit { current, maximum };
    prlimit(Some(Pid::from_child(process)), resource, limit).unwrap();
}

/// Returns the size of the largest file in a directory, or below it.
pub(crate) fn largest(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.path() {
        path if path.is_dir() => largest(&path),
        path => fs::metadata(path).map_or(0, |file| file.len()),
    });
    sizes.max().unwrap_or(0)
}

impl Gateway {
    fn start(state: &Path, fsync: &str) -> Self {
        Self::from(
            Command::new(env!("CARGO_BIN_EXE_remote-agent")),
            state,
            fsync,
        )
    }

    /// Starts a gateway whose writes can fail as on a full disk.
    fn without_signal(state: &Path) -> Self {
        let mut command = Command::new("sh");
        command
            .args(WITHOUT_SIGNAL)
            .arg(env!("CARGO_BIN_EXE_remote-agent"));
        Self::from(command, state, "always")
    }

    fn from(command: Command, state: &Path, fsync: &str) -> Self {
        let gateway = Self::from_process(spawn(command, state, fsync));
        assert!(!gateway.url.is_empty(), "the gateway ended");
        gateway
    }

    /// Waits until the gateway listens. Its URL is empty if it ends before.
    fn from_process(mut process: Child) -> Self {
        let mut line = String::new();
        let out = process.stdout.as_mut().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        let reported: Value = serde_json::from_str(&line).unwrap_or_default();
        let url = reported["url"].as_str().unwrap_or_default().to_owned();
        Self { process, url }
    }

    /// Kills the process with SIGKILL.
    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn spawn(mut command: Command, state: &Path, fsync: &str) -> Child {
    command
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
        .unwrap()
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The time to kill a gateway.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// After so many further acknowledged entries.
    Entries(usize),
    /// After a file has grown by so many bytes.
    #[cfg(target_os = "linux")]
    Byte(u64),
}

/// Waits until a child has ended, without reaping it.
#[cfg(target_os = "linux")]
async fn ended(process: &Child) {
    let child = WaitId::Pid(Pid::from_child(process));
    let wait = move || waitid(child, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
    soon(tokio::task::spawn_blocking(wait))
        .await
        .unwrap()
        .unwrap();
}

/// The ids that each agent's workspace must contain.
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
    try_connect(url).await.expect("the gateway accepts clients")
}

/// Connects a client; `None` if the gateway has ended.
async fn try_connect(url: &str) -> Option<Opened> {
    let dial = Dial {
        url: url.parse().unwrap(),
        protocols: vec!["a2a-v1".into()],
        headers: Default::default(),
        access: AddressPolicy::Loopback,
        trust: None,
        frame_bytes: 1 << 20,
    };
    soon(websocket::connect(&ReqwestClient::new().unwrap(), dial))
        .await
        .ok()
}

/// Returns the next message; `None` once the gateway has ended.
async fn next(opened: &mut Opened) -> Option<Value> {
    loop {
        match opened.receiver.next().await {
            Frame::Text(text) => return Some(serde_json::from_str(&text).unwrap()),
            Frame::Closed { .. } | Frame::Broken(_) => return None,
            _ => {}
        }
    }
}

/// Runs an agent that answers every message until the gateway ends. The gateway has acknowledged these messages.
async fn agent(mut opened: Opened, name: &'static str, acknowledged: Acknowledged) {
    while let Some(request) = next(&mut opened).await {
        if request["type"] != "message" {
            continue;
        }
        let id = request["id"].as_str().unwrap().to_owned();
        let answer = json!({
            "type": "message", "id": format!("re-{id}"), "agent": request["from"], "sessionId": request["sessionId"],
            "content": {"role": "agent", "content": format!("received {id}")},
            "metadata": {"correlationId": request["metadata"]["correlationId"], "parentId": id},
        });
        insert(&acknowledged, name, id);
        if opened.sender.text(answer.to_string()).await.is_err() {
            return;
        }
    }
}

/// Connects an agent, and returns its connection once the gateway has acknowledged the name.
pub(crate) async fn advertised(url: &str, name: &str) -> Opened {
    let opened = try_advertise(url, name).await;
    opened.expect("the gateway acknowledges the agent")
}

/// Connects an agent like [`advertised`]; `None` if the gateway has ended.
async fn try_advertise(url: &str, name: &str) -> Option<Opened> {
    let mut opened = try_connect(url).await?;
    let advertise = json!({"type": "handshake", "content": {"action": "advertise",
        "capabilities": {"supportedMessageTypes": ["message"], "supportedAgents": [name], "version": "1.0.0"}}});
    opened.sender.text(advertise.to_string()).await.ok()?;
    let reported = soon(next(&mut opened)).await?;
    assert_eq!(reported["content"]["action"], "acknowledge", "{reported}");
    Some(opened)
}

async fn serve(url: &str, name: &'static str, acknowledged: &Acknowledged) {
    let opened = advertised(url, name).await;
    tokio::spawn(agent(opened, name, Arc::clone(acknowledged)));
}

/// Returns a message to an agent with so many characters, which needs a reply.
fn message(id: &str, agent: &str, session: &str, length: usize) -> Value {
    json!({
        "type": "message", "id": id, "agent": agent, "sessionId": session,
        "content": {"role": "user", "content": "x".repeat(length)},
        "metadata": {"requiresResponse": true, "correlationId": id},
    })
}

/// Calls one agent after the other until the gateway ends. The gateway has acknowledged these replies.
async fn call_agents(mut opened: Opened, round: usize, client: usize, acknowledged: Acknowledged) {
    for i in 0.. {
        let id = format!("m-{round}-{client}-{i}");
        let to = AGENTS[i % AGENTS.len()];
        let request = message(&id, to, &format!("s-{client}"), i % 700);
        if opened.sender.text(request.to_string()).await.is_err() {
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
fn stored_ids(state: &Path, agent: &str) -> Vec<String> {
    let config = ServerConfig {
        state_dir: state.to_owned(),
        ..ServerConfig::default()
    };
    let sessions = Sessions::read_only(&config, Arc::new(SystemEnvironment), Arc::new(Silent));
    let listed = sessions.list(agent, true, usize::MAX).unwrap();
    let mut lines = Vec::new();
    for session in listed {
        // Archived sessions can only be exported.
        let exported = sessions.export(agent, &session.session_id, &mut lines);
        exported.unwrap();
    }
    let entries = serde_json::Deserializer::from_slice(&lines).into_iter::<Value>();
    entries
        .map(|entry| entry.unwrap()["id"].as_str().unwrap().to_owned())
        .collect()
}

#[expect(clippy::print_stdout, reason = "how much was tried is worth knowing")]
async fn kill_and_check(fsync: &str, moments: &[Moment]) {
    let state = Folder::new();
    let limits = json!({"limits": {"messagesPerSecond": 1_000_000, "burst": 1_000_000}});
    fs::write(state.path().join("gateway.json"), limits.to_string()).unwrap();
    let acknowledged = Acknowledged::default();
    let mut ids = acknowledged.subscribe();
    for (round, moment) in moments.iter().enumerate() {
        let before = count(&ids.borrow());
        let gateway = Gateway::start(state.path(), fsync);
        for name in AGENTS {
            serve(&gateway.url, name, &acknowledged).await;
        }
        let mut connections = Vec::new();
        for _ in 0..CLIENTS {
            connections.push(connect(&gateway.url).await);
        }
        let asking: Vec<_> = (0..)
            .zip(connections)
            .map(|(client, opened)| {
                tokio::spawn(call_agents(
                    opened,
                    round,
                    client,
                    Arc::clone(&acknowledged),
                ))
            })
            .collect();
        match moment {
            Moment::Entries(entries) => {
                let kill_at = before + entries;
                soon(ids.wait_for(|ids| count(ids) >= kill_at))
                    .await
                    .unwrap();
            }
            #[cfg(target_os = "linux")]
            Moment::Byte(byte) => {
                let limited = Some(largest(state.path()) + byte);
                limit(&gateway.process, Resource::Fsize, limited);
                ended(&gateway.process).await;
            }
        }
        gateway.kill();
        for one in asking {
            soon(one).await.unwrap();
        }
        assert!(
            count(&ids.borrow()) > before,
            "nothing was acknowledged until {moment:?}"
        );
        for (agent, acknowledged) in &*ids.borrow() {
            let stored = stored_ids(state.path(), agent);
            let all: BTreeSet<_> = stored.iter().cloned().collect();
            assert_eq!(all.len(), stored.len(), "entries of {agent} are doubled");
            let lost: Vec<_> = acknowledged.difference(&all).collect();
            assert!(
                lost.is_empty(),
                "killed at {moment:?}, {agent} lost {lost:?}"
            );
        }
    }
    let count = count(&ids.borrow());
    println!(
        "fsync {fsync}: {} kills, {count} acknowledged entries, none lost",
        moments.len()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigkill_under_load_keeps_acknowledged_entries() {
    kill_and_check("always", &[1, 61, 397, 149, 541, 307].map(Moment::Entries)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigkill_without_fsync_keeps_acknowledged_entries() {
    kill_and_check("never", &[83, 611].map(Moment::Entries)).await;
    kill_and_check("interval", &[97, 583].map(Moment::Entries)).await;
}

/// The kernel kills the gateway during the write that reaches a certain byte of a session's file.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_at_a_byte_keeps_acknowledged_entries() {
    kill_and_check("always", &[997, 4001, 9973].map(Moment::Byte)).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn full_disk_refuses_entries_only() {
    let state = Folder::new();
    let gateway = Gateway::without_signal(state.path());
    let acknowledged = Acknowledged::default();
    serve(&gateway.url, "alpha", &acknowledged).await;
    let mut client = connect(&gateway.url).await;
    let mut send = async |id: String| {
        let request = message(&id, "alpha", "s", 300);
        client.sender.text(request.to_string()).await.unwrap();
        soon(next(&mut client))
            .await
            .expect("the gateway continues")
    };
    assert_eq!(send("before".into()).await["id"], "re-before");
    limit(
        &gateway.process,
        Resource::Fsize,
        Some(largest(state.path())),
    );
    let refused = send("full".into()).await;
    assert_eq!(refused["type"], "error", "{refused}");
    limit(&gateway.process, Resource::Fsize, None);
    assert_eq!(send("after".into()).await["id"], "re-after");
    let stored: BTreeSet<_> = stored_ids(state.path(), "alpha").into_iter().collect();
    assert!(
        stored.contains("before") && stored.contains("after"),
        "{stored:?}"
    );
    assert!(
        !stored.contains("full"),
        "a refused entry is stored: {stored:?}"
    );
}
