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

use base::{environment::SystemEnvironment, log::Silent};
use egress::{
    AddressPolicy, ReqwestClient,
    credential::Trust,
    websocket::{self, Dial, Frame, Opened},
};
use gateway_server::{config::ServerConfig, sessions::Sessions};
#[cfg(target_os = "linux")]
use rustix::process::{Pid, Resource, Rlimit, WaitId, WaitIdOptions, getrlimit, prlimit, waitid};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::gateway::{folder::Folder, tool_fixture::within_timeout};

mod links;
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
pub(crate) const IGNORE_FILE_SIZE_SIGNAL: [&str; 2] = ["-c", "trap '' XFSZ; exec \"$0\" \"$@\""];

/// Limits a resource of a running process. The limit can be raised again.
#[cfg(target_os = "linux")]
pub(crate) fn set_limit(process: &Child, resource: Resource, current: Option<u64>) {
    let maximum = getrlimit(resource).maximum;
    let set_limit = Rlimit { current, maximum };
    prlimit(Some(Pid::from_child(process)), resource, set_limit).unwrap();
}

/// Returns the size of the largest file in a directory, or below it.
pub(crate) fn largest_file_size(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.path() {
        path if path.is_dir() => largest_file_size(&path),
        path => fs::metadata(path).map_or(0, |file| file.len()),
    });
    sizes.max().unwrap_or(0)
}

impl Gateway {
    fn start(state: &Path, fsync: &str) -> Self {
        Self::at_port(state, fsync, 0)
    }

    /// Starts a gateway on a port; 0 selects a free one.
    fn at_port(state: &Path, fsync: &str, port: u16) -> Self {
        let command = Command::new(env!("CARGO_BIN_EXE_remote-agent"));
        Self::from_command(command, state, fsync, port)
    }

    /// Starts a gateway whose writes can fail as on a full disk.
    fn with_ignored_file_size_signal(state: &Path) -> Self {
        let mut command = Command::new("sh");
        command
            .args(IGNORE_FILE_SIZE_SIGNAL)
            .arg(env!("CARGO_BIN_EXE_remote-agent"));
        Self::from_command(command, state, "always", 0)
    }

    fn from_command(command: Command, state: &Path, fsync: &str, port: u16) -> Self {
        let gateway = Self::from_process(spawn(command, state, fsync, port));
        assert!(!gateway.url.is_empty(), "the gateway ended");
        gateway
    }

    /// Waits until the gateway listens. Its URL is empty if it ends before.
    fn from_process(mut process: Child) -> Self {
        let mut line = String::new();
        let out = process.stdout.as_mut().unwrap();
        BufReader::new(out).read_line(&mut line).unwrap();
        let message: Value = serde_json::from_str(&line).unwrap_or_default();
        let url = message["url"].as_str().unwrap_or_default().to_owned();
        Self { process, url }
    }

    /// Kills the process with SIGKILL.
    fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

fn spawn(mut command: Command, state: &Path, fsync: &str, port: u16) -> Child {
    let port = port.to_string();
    command
        .args(["gateway", "--port", &port, "--json"])
        .args(["--fsync", fsync, "--state-dir"])
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

/// The point at which a gateway is killed.
#[derive(Debug, Clone, Copy)]
enum KillPoint {
    /// After this number of further acknowledged entries.
    Entries(usize),
    /// After a file has grown by this number of bytes.
    #[cfg(target_os = "linux")]
    Byte(u64),
}

/// Waits until a child has ended, without reaping it.
#[cfg(target_os = "linux")]
async fn wait_for_exit(process: &Child) {
    let child = WaitId::Pid(Pid::from_child(process));
    let wait = move || waitid(child, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
    within_timeout(tokio::task::spawn_blocking(wait))
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
    try_connect_as(url, None).await
}

/// Connects a client with this certificate; `None` if the gateway has ended.
async fn try_connect_as(url: &str, trust: Option<Arc<Trust>>) -> Option<Opened> {
    let dial = Dial {
        url: url.parse().unwrap(),
        protocols: vec!["a2a-v1".into()],
        headers: Default::default(),
        access: AddressPolicy::Loopback,
        trust,
        frame_bytes: 1 << 20,
    };
    within_timeout(websocket::connect(&ReqwestClient::new().unwrap(), dial))
        .await
        .ok()
}

/// Returns the next message; `None` once the gateway has ended.
async fn next(connection: &mut Opened) -> Option<Value> {
    loop {
        match connection.receiver.next().await {
            Frame::Text(text) => return Some(serde_json::from_str(&text).unwrap()),
            Frame::Closed { .. } | Frame::Broken(_) => return None,
            _ => {}
        }
    }
}

/// Runs an agent that answers every message that requires it, until the gateway ends. The gateway has acknowledged the
/// messages.
async fn run_agent(mut connection: Opened, name: &'static str, acknowledged: Acknowledged) {
    while let Some(request) = next(&mut connection).await {
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
        let requires_answer = request["metadata"]["requiresResponse"] == true;
        if requires_answer && connection.sender.text(answer.to_string()).await.is_err() {
            return;
        }
    }
}

/// Connects an agent, and returns its connection once the gateway has acknowledged the name.
pub(crate) async fn connect_agent(url: &str, name: &str) -> Opened {
    let connection = try_connect_agent(url, name).await;
    connection.expect("the gateway acknowledges the agent")
}

/// Connects an agent like [`advertised`]; `None` if the gateway has ended.
async fn try_connect_agent(url: &str, name: &str) -> Option<Opened> {
    advertise_agent(try_connect(url).await?, name).await
}

/// Advertises an agent on a connection; `None` if the gateway has ended.
async fn advertise_agent(mut connection: Opened, name: &str) -> Option<Opened> {
    let advertise = json!({"type": "handshake", "content": {"action": "advertise",
        "capabilities": {"supportedMessageTypes": ["message"], "supportedAgents": [name], "version": "1.0.0"}}});
    connection.sender.text(advertise.to_string()).await.ok()?;
    let message = within_timeout(next(&mut connection)).await?;
    assert_eq!(message["content"]["action"], "acknowledge", "{message}");
    Some(connection)
}

async fn start_agent(url: &str, name: &'static str, acknowledged: &Acknowledged) {
    let connection = connect_agent(url, name).await;
    tokio::spawn(run_agent(connection, name, Arc::clone(acknowledged)));
}

/// Returns a message to an agent of this length in characters, which needs a reply.
fn message(id: &str, agent: &str, session: &str, length: usize) -> Value {
    json!({
        "type": "message", "id": id, "agent": agent, "sessionId": session,
        "content": {"role": "user", "content": "x".repeat(length)},
        "metadata": {"requiresResponse": true, "correlationId": id},
    })
}

/// Calls one agent after the other until the gateway ends. The gateway has acknowledged these replies.
async fn call_agents(
    mut connection: Opened,
    round: usize,
    client: usize,
    acknowledged: Acknowledged,
) {
    for i in 0.. {
        let id = format!("m-{round}-{client}-{i}");
        let agent = AGENTS[i % AGENTS.len()];
        let request = message(&id, agent, &format!("s-{client}"), i % 700);
        if connection.sender.text(request.to_string()).await.is_err() {
            return;
        }
        let Some(answer) = next(&mut connection).await else {
            return;
        };
        assert_eq!(answer["type"], "message", "{answer}");
        let answer = answer["id"].as_str().unwrap().to_owned();
        assert_eq!(answer, format!("re-{id}"));
        insert(&acknowledged, agent, answer);
    }
}

/// Returns every id in an agent's sessions.
fn stored_ids(state: &Path, agent: &str) -> Vec<String> {
    let config = ServerConfig {
        state_dir: state.to_owned(),
        ..ServerConfig::default()
    };
    let sessions = Sessions::read_only(&config, Arc::new(SystemEnvironment), Arc::new(Silent));
    let sessions = sessions.unwrap();
    let listed = sessions.list(agent, true, usize::MAX).unwrap();
    let mut lines = Vec::new();
    for session in listed {
        // Archived sessions can only be exported.
        let result = sessions.export(agent, &session.session_id, &mut lines);
        result.unwrap();
    }
    let entries = serde_json::Deserializer::from_slice(&lines).into_iter::<Value>();
    entries
        .map(|entry| entry.unwrap()["id"].as_str().unwrap().to_owned())
        .collect()
}

#[expect(clippy::print_stdout, reason = "the log shows the number of kills")]
async fn kill_and_check(fsync: &str, kill_points: &[KillPoint]) {
    let state = Folder::new();
    let limits = json!({"limits": {"messagesPerSecond": 1_000_000, "burst": 1_000_000}});
    fs::write(state.path().join("gateway.json"), limits.to_string()).unwrap();
    let acknowledged = Acknowledged::default();
    let mut ids = acknowledged.subscribe();
    for (round, kill_point) in kill_points.iter().enumerate() {
        let count_before = count(&ids.borrow());
        let gateway = Gateway::start(state.path(), fsync);
        for name in AGENTS {
            start_agent(&gateway.url, name, &acknowledged).await;
        }
        let mut connections = Vec::new();
        for _ in 0..CLIENTS {
            connections.push(connect(&gateway.url).await);
        }
        let callers: Vec<_> = (0..)
            .zip(connections)
            .map(|(client, connection)| {
                tokio::spawn(call_agents(
                    connection,
                    round,
                    client,
                    Arc::clone(&acknowledged),
                ))
            })
            .collect();
        match kill_point {
            KillPoint::Entries(entries) => {
                let kill_at = count_before + entries;
                within_timeout(ids.wait_for(|ids| count(ids) >= kill_at))
                    .await
                    .unwrap();
            }
            #[cfg(target_os = "linux")]
            KillPoint::Byte(byte) => {
                let size = Some(largest_file_size(state.path()) + byte);
                set_limit(&gateway.process, Resource::Fsize, size);
                wait_for_exit(&gateway.process).await;
            }
        }
        gateway.kill();
        for caller in callers {
            within_timeout(caller).await.unwrap();
        }
        assert!(
            count(&ids.borrow()) > count_before,
            "nothing was acknowledged until {kill_point:?}"
        );
        for (agent, acknowledged) in &*ids.borrow() {
            let stored = stored_ids(state.path(), agent);
            let all: BTreeSet<_> = stored.iter().cloned().collect();
            assert_eq!(all.len(), stored.len(), "entries of {agent} are doubled");
            let missing: Vec<_> = acknowledged.difference(&all).collect();
            assert!(
                missing.is_empty(),
                "killed at {kill_point:?}, {agent} lost {missing:?}"
            );
        }
    }
    let count = count(&ids.borrow());
    println!(
        "fsync {fsync}: {} kills, {count} acknowledged entries, none lost",
        kill_points.len()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigkill_under_load_keeps_acknowledged_entries() {
    let entries = [1, 61, 397, 149, 541, 307];
    let rounds =
        std::env::var("CRASH_ROUNDS").map_or(entries.len(), |rounds| rounds.parse().unwrap());
    let points = entries.into_iter().cycle().take(rounds);
    let points: Vec<_> = points.map(KillPoint::Entries).collect();
    kill_and_check("always", &points).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigkill_without_fsync_keeps_acknowledged_entries() {
    kill_and_check("never", &[83, 611].map(KillPoint::Entries)).await;
    kill_and_check("interval", &[97, 583].map(KillPoint::Entries)).await;
}

/// The kernel kills the gateway during the write that reaches a certain byte of a session's file.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_at_a_byte_keeps_acknowledged_entries() {
    kill_and_check("always", &[997, 4001, 9973].map(KillPoint::Byte)).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn full_disk_refuses_entries_only() {
    let state = Folder::new();
    let gateway = Gateway::with_ignored_file_size_signal(state.path());
    let acknowledged = Acknowledged::default();
    start_agent(&gateway.url, "alpha", &acknowledged).await;
    let mut client = connect(&gateway.url).await;
    let mut send = async |id: String| {
        let request = message(&id, "alpha", "s", 300);
        client.sender.text(request.to_string()).await.unwrap();
        within_timeout(next(&mut client))
            .await
            .expect("the gateway continues")
    };
    assert_eq!(send("before".into()).await["id"], "re-before");
    set_limit(
        &gateway.process,
        Resource::Fsize,
        Some(largest_file_size(state.path())),
    );
    let refused = send("full".into()).await;
    assert_eq!(refused["type"], "error", "{refused}");
    set_limit(&gateway.process, Resource::Fsize, None);
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
