//! Kills a process that writes to a durable store at random moments, and checks that every acknowledged change is
//! stored.
//!
//! `CRASH_ROUNDS=100 cargo test -p openclaw-remote-agent-a2a-server --test suite sqlite_crash` runs more rounds.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use a2a_server::store::Fsync;

mod acknowledged;
mod child;
mod script;

use acknowledged::Acknowledged;

const ROUNDS: u64 = 10;

/// The environment variables of the writer: directory, `fsync` mode and round.
const WRITER: &str = "SQLITE_CRASH_WRITER";

/// The writer process. The test below starts this binary for it, and kills it.
#[test]
#[ignore = "the other test starts it"]
fn writes_until_killed() {
    let order = std::env::var(WRITER).expect("an order of the test below");
    let [directory, fsync, round] = order.split('\n').collect::<Vec<_>>()[..] else {
        panic!("{order:?}")
    };
    child::write(directory, mode(fsync), round);
}

fn mode(word: &str) -> Fsync {
    match word {
        "always" => Fsync::Always,
        "interval" => Fsync::Interval,
        "never" => Fsync::Never,
        other => panic!("no such mode: {other}"),
    }
}

#[test]
fn keeps_every_acknowledged_change_when_killed() {
    let rounds = std::env::var("CRASH_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let mut acknowledged = Acknowledged::default();
    let mut killed = 0;
    for round in 0..rounds {
        let fsync = ["interval", "always", "never"][usize::try_from(round % 3).unwrap()];
        let patience = Duration::from_millis(u64::from(uuid::Uuid::new_v4().as_fields().1) % 300);
        killed += u64::from(kill_a_writer(
            directory.path(),
            fsync,
            round,
            patience,
            &mut acknowledged,
        ));
        acknowledged.is_there(directory.path());
    }
    assert_eq!(killed, rounds, "a writer ended by itself");
    println!(
        "{rounds} times killed: {} tasks, {} changes, {} configurations, {} deletions acknowledged, none lost",
        acknowledged.tasks(),
        acknowledged.changes,
        acknowledged.configurations(),
        acknowledged.deletions(),
    );
}

/// Starts a writer, kills it `patience` after its first acknowledgement, and records all of them. Returns whether it
/// was killed.
fn kill_a_writer(
    directory: &Path,
    fsync: &str,
    round: u64,
    patience: Duration,
    acknowledged: &mut Acknowledged,
) -> bool {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sqlite_crash::writes_until_killed", "--ignored"])
        .args(["--nocapture", "--quiet"])
        .env(WRITER, format!("{}\n{fsync}\n{round}", directory.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = lines.next().expect("an acknowledgement").unwrap();
    acknowledged.note(&first);
    // Drains the pipe, so that the writer does not block.
    let reader = std::thread::spawn(move || lines.map(Result::unwrap).collect::<Vec<_>>());
    std::thread::sleep(patience);
    child.kill().unwrap();
    let status = child.wait().unwrap();
    for line in reader.join().unwrap() {
        acknowledged.note(&line);
    }
    status.code().is_none()
}
