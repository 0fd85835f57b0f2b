//! Stops the gateway at its writes: of a start, of entries, of every operation on sessions, and of a shutdown.

use rustix::process::{Signal, kill_process};
use testkit::support::trace::{self, AtWrite};

use super::*;

const AGENT: &str = "alpha";

/// Requests in turn, with the ids of the entries that each one adds, or that a deletion removes.
fn requests() -> Vec<(Value, Vec<String>)> {
    let message = |id: &str, session| {
        let ids = vec![id.to_owned(), format!("re-{id}")];
        (message(id, AGENT, session, 300), ids)
    };
    let manage = |operation: &str, session: &str, ids: &[&str]| {
        let line = |id: &&str| {
            let entry = json!({"timestamp": 1, "role": "user", "content": "x", "sessionId": session, "id": id});
            format!("{entry}\n")
        };
        let content = json!({
            "service": "gateway", "operation": operation, "agent": AGENT, "sessionId": session,
            "jsonl": ids.iter().map(line).collect::<String>(), "olderThanMs": 0,
        });
        let ids = ids.iter().map(|id| (*id).to_owned()).collect();
        (json!({"type": "request", "content": content}), ids)
    };
    vec![
        message("m-0", "s-0"),
        message("m-1", "s-0"),
        message("m-2", "s-1"),
        manage("sessions.commit", "s-0", &[]),
        manage("sessions.create", "s-2", &[]),
        manage("sessions.import", "s-3", &["i-0", "i-1"]),
        manage("sessions.delete", "s-1", &["m-2", "re-m-2"]),
        manage("sessions.archive", "", &[]),
        message("m-3", "s-4"),
    ]
}

/// The entries that the clients of a gateway expect in its files.
#[derive(Debug, Default)]
struct KnownEntries {
    stored: BTreeSet<String>,
    /// Refused or deleted entries.
    absent: BTreeSet<String>,
    errors: usize,
}

impl KnownEntries {
    /// Sends the requests, and returns whether the gateway answered all of them before it ended.
    async fn run(&mut self, url: &str) -> bool {
        let received = Acknowledged::default();
        let Some(connection) = try_connect_agent(url, AGENT).await else {
            return false;
        };
        tokio::spawn(run_agent(connection, AGENT, Arc::clone(&received)));
        let Some(mut client) = try_connect(url).await else {
            return false;
        };
        for (request, ids) in requests() {
            let deletes = request["content"]["operation"] == "sessions.delete";
            if deletes {
                self.stored.retain(|id| !ids.contains(id));
            }
            if client.sender.text(request.to_string()).await.is_err() {
                return false;
            }
            let answer = within_timeout(next(&mut client)).await;
            if !deletes {
                let received = received.borrow();
                let received = received.values().flatten();
                self.stored
                    .extend(received.filter(|id| ids.contains(id)).cloned());
            }
            let Some(answer) = answer else { return false };
            let is_error = answer["type"] == "error";
            self.errors += usize::from(is_error);
            match (is_error, deletes) {
                (false, false) => self.stored.extend(ids),
                (false, true) => self.absent.extend(ids),
                (true, false) => {
                    let refused = ids.into_iter().filter(|id| !self.stored.contains(id));
                    self.absent.extend(refused);
                }
                (true, true) => {}
            }
        }
        true
    }

    fn check(&self, state: &Path) {
        let ids = stored_ids(state, AGENT);
        let all: BTreeSet<_> = ids.iter().cloned().collect();
        assert_eq!(all.len(), ids.len(), "entries are doubled: {ids:?}");
        assert!(self.stored.is_subset(&all), "{self:?}, not {all:?}");
        assert!(self.absent.is_disjoint(&all), "{self:?}, not {all:?}");
        let imported = ["i-0", "i-1"].map(|id| all.contains(id));
        assert_eq!(imported[0], imported[1], "half an import is stored");
    }
}

/// Starts a gateway on the files, and adds an entry to each session.
async fn check_restart(state: &Path, mut entries: KnownEntries) {
    let gateway = Gateway::start(state, "always");
    let received = Acknowledged::default();
    start_agent(&gateway.url, AGENT, &received).await;
    let mut client = connect(&gateway.url).await;
    for session in ["s-0", "s-1", "s-2", "s-3", "s-4"] {
        let id = format!("after-{session}");
        let request = message(&id, AGENT, session, 300).to_string();
        client.sender.text(request).await.unwrap();
        let answer = within_timeout(next(&mut client)).await.unwrap();
        let is_archived = answer["content"]["code"] == 4002;
        assert!(answer["type"] == "message" || is_archived, "{answer}");
        if !is_archived {
            entries.stored.insert(id);
        }
    }
    gateway.kill();
    entries.absent.clear();
    entries.check(state);
}

/// Lets `at` happen at one write, and checks the files. Returns the number of writes.
async fn run_with_stop(at: AtWrite, stop: Option<usize>) -> usize {
    let state = Folder::new();
    let command = trace::command(Path::new(env!("CARGO_BIN_EXE_remote-agent")));
    let mut process = spawn(command, state.path(), "always", 0);
    let tracer = trace::follow(&mut process, state.path(), at, stop);
    let mut entries = KnownEntries::default();
    let gateway = Gateway::from_process(process);
    if !gateway.url.is_empty() {
        let all_answered = entries.run(&gateway.url).await;
        assert!(all_answered || at == AtWrite::Kill, "the gateway ended");
        // The deletion of a session without entries is refused too.
        assert!(entries.errors <= 2, "{entries:?}");
        let pid = Pid::from_child(&gateway.process);
        // A killed gateway has ended already.
        let _ = kill_process(pid, Signal::TERM);
    }
    let writes = tracer.join().unwrap();
    drop(gateway);
    entries.check(state.path());
    check_restart(state.path(), entries).await;
    writes
}

#[test]
fn sigkill_at_a_write_keeps_acknowledged_entries() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    trace::at_each_write(AtWrite::Kill, |stop| {
        runtime.block_on(run_with_stop(AtWrite::Kill, stop))
    });
}

#[test]
fn write_without_space_refuses_one_request() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    trace::at_each_write(AtWrite::NoSpace, |stop| {
        runtime.block_on(run_with_stop(AtWrite::NoSpace, stop))
    });
}
