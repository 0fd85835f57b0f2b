//! Kills a process that writes to a durable store, at random moments, at chosen bytes of its files and at its writes, and
//! checks that every acknowledged change is stored.
//!
//! `CRASH_ROUNDS=1000 cargo test -p openclaw-remote-agent-a2a-server --test suite sqlite_crash` runs more rounds, and
//! stops at every write.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base::files::Fsync;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use testkit::support::trace::{self, AtWrite};

mod acknowledged;
mod child;
mod script;

use acknowledged::Acknowledged;

const ROUNDS: u64 = 10;

/// The distance of the bytes at which a writer is killed: no page, no frame of the log and no sector begins there.
#[cfg(unix)]
const BYTE_INTERVAL: u64 = 7_919;

/// The round of a writer with few tasks.
const FEW_TASKS: &str = "few";

/// The environment variables of the writer: directory, `fsync` mode, round, and the largest file that it may write.
const WRITER: &str = "SQLITE_CRASH_WRITER";

/// The writer process. The test below starts this binary for it, and kills it.
#[test]
#[ignore = "the other test starts it"]
fn writes_until_killed() {
    let settings = std::env::var(WRITER).expect("an order of the test below");
    let [directory, fsync, round, largest] = settings.split('\n').collect::<Vec<_>>()[..] else {
        panic!("{settings:?}")
    };
    if let Ok(largest) = largest.parse() {
        child::limit_files(largest);
    }
    match round {
        FEW_TASKS => child::write_few(directory),
        round => child::write(directory, mode(fsync), round),
    }
}

fn mode(name: &str) -> Fsync {
    match name {
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
        let delay = Duration::from_millis(u64::from(uuid::Uuid::new_v4().as_fields().1) % 300);
        let mut child = writer(directory.path(), fsync, round, None)
            .spawn()
            .unwrap();
        killed += u64::from(kill(&mut child, Some(delay), &mut acknowledged));
        acknowledged.assert_stored(directory.path());
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

/// The kernel kills a writer in the middle of the write that reaches a byte of the database or of its log.
#[cfg(unix)]
#[test]
fn keeps_every_acknowledged_change_when_killed_at_a_byte() {
    use std::os::unix::process::ExitStatusExt as _;
    let rounds = std::env::var("CRASH_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let mut changes = 0;
    for round in 0..rounds {
        let directory = tempfile::tempdir().unwrap();
        let mut acknowledged = Acknowledged::default();
        let limit = Some(round * BYTE_INTERVAL);
        let mut child = writer(directory.path(), "always", round, limit)
            .spawn()
            .unwrap();
        assert!(
            kill(&mut child, None, &mut acknowledged),
            "byte {}",
            round * BYTE_INTERVAL
        );
        let signal = child.wait().unwrap().signal();
        assert_eq!(signal, Some(rustix::process::Signal::XFSZ.as_raw()));
        acknowledged.assert_stored(directory.path());
        changes += acknowledged.changes;
    }
    println!("killed at {rounds} bytes: {changes} changes acknowledged, none lost");
}

/// Runs a writer with few tasks, and lets `at` happen at some of its writes.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn run_at_writes(at: AtWrite, check: impl Fn(&Acknowledged, bool)) {
    trace::at_each_write(at, |stop| {
        let directory = tempfile::tempdir().unwrap();
        let mut command = trace::command(&std::env::current_exe().unwrap());
        configure_writer(&mut command, directory.path(), "always", FEW_TASKS, "");
        let mut child = command.spawn().unwrap();
        let writes = trace::follow(&mut child, directory.path(), at, stop);
        let mut acknowledged = Acknowledged::default();
        let killed = kill(&mut child, None, &mut acknowledged);
        acknowledged.assert_stored(directory.path());
        check(&acknowledged, killed);
        writes.join().unwrap()
    });
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn keeps_every_acknowledged_change_when_killed_at_a_write() {
    run_at_writes(AtWrite::Kill, |acknowledged, killed| {
        assert!(killed || acknowledged.deletions() == 2);
    });
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn writer_continues_after_a_write_without_space() {
    run_at_writes(AtWrite::NoSpace, |acknowledged, killed| {
        assert!(!killed && acknowledged.deletions() >= 1);
    });
}

fn writer(directory: &Path, fsync: &str, round: u64, largest: Option<u64>) -> Command {
    let largest = largest.map_or(String::new(), |largest| largest.to_string());
    let mut command = Command::new(std::env::current_exe().unwrap());
    configure_writer(&mut command, directory, fsync, &round.to_string(), &largest);
    command
}

fn configure_writer(
    command: &mut Command,
    directory: &Path,
    fsync: &str,
    round: &str,
    largest: &str,
) {
    let settings = format!("{}\n{fsync}\n{round}\n{largest}", directory.display());
    command
        .args(["--exact", "sqlite_crash::writes_until_killed", "--ignored"])
        .args(["--nocapture", "--quiet"])
        .env(WRITER, settings)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
}

/// Records the acknowledgements of a writer, and kills it `delay` after the first. Returns whether it was killed.
fn kill(child: &mut Child, delay: Option<Duration>, acknowledged: &mut Acknowledged) -> bool {
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    if delay.is_some() {
        let first = lines.next().expect("an acknowledgement").unwrap();
        acknowledged.record(&first);
    }
    // Drains the pipe, so that the writer does not block.
    let reader = std::thread::spawn(move || lines.map(Result::unwrap).collect::<Vec<_>>());
    if let Some(delay) = delay {
        std::thread::sleep(delay);
        child.kill().unwrap();
    }
    // The lines end with the process. Until then only a tracer may wait for it.
    for line in reader.join().unwrap() {
        acknowledged.record(&line);
    }
    child.wait().unwrap().code().is_none()
}
