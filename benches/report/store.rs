//! Measures the task stores of the A2A server without the server: acknowledged changes, compared with raw writes to disk and
//! Redis, and a store with many tasks.

use std::{
    fs::OpenOptions,
    io::Write as _,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use a2a::Version;
use a2a::v1_0::{Artifact, Message, Part, Role, Task, TaskState, TaskStatus};
use a2a_server::store::{Filter, TaskStore, redis, sqlite};
use a2a_server::task_record::{TaskChange, TaskRecord};
use base::environment::SystemEnvironment;
use base::files::Fsync;
use futures_util::future::join_all;
use serde_json::{Value, json};
use testkit::support::{redis_server::RedisServer, target};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    Scale,
    process::{Process, own_resident_bytes},
    samples::Section,
};

pub(crate) const ROLE: &str = "--store";

/// The number of changes of a task before the next task starts.
const CHANGES: u64 = 50;
const WRITERS: [u64; 2] = [1, 64];

pub(crate) fn measure(scale: &Scale, section: &mut Section) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let time = Duration::from_secs_f64(scale.slice);
    let redis = RedisServer::start();
    for round in 0..scale.rounds {
        eprintln!("store, round {}", round + 1);
        for writers in WRITERS {
            let mut add = |subject: &str, times: Vec<Duration>| {
                let case = format!("{writers} writers");
                record(section, &case, subject, time, times);
            };
            for (name, fsync) in [
                ("SQLite, fsync never", Fsync::Never),
                ("SQLite, fsync interval", Fsync::Interval),
                ("SQLite, fsync always", Fsync::Always),
            ] {
                let directory = tempfile::tempdir_in(target()).unwrap();
                let times = runtime.block_on(async {
                    let store = open(directory.path(), fsync);
                    let times = changes(&store, writers, time).await;
                    store.close().await.unwrap();
                    times
                });
                add(name, times);
            }
            let times = runtime.block_on(async {
                let options = redis::Options::new(redis.url());
                let store = redis::RedisStore::connect(&options, &SystemEnvironment).await;
                let store: Arc<dyn TaskStore> = Arc::new(store.unwrap());
                changes(&store, writers, time).await
            });
            add("Redis", times);
            let xadd = (0..writers).map(|writer| xadd(redis.port(), writer, time));
            let times = runtime.block_on(join_all(xadd)).concat();
            add("XADD without a store", times);
            if writers == 1 {
                add("plain file", plain_file(time, false));
                add("plain file, fdatasync", plain_file(time, true));
            }
        }
    }
    many(scale, section, &runtime);
}

fn record(
    section: &mut Section,
    case: &str,
    subject: &str,
    time: Duration,
    mut times: Vec<Duration>,
) {
    times.sort_unstable();
    let count = f64::from(u32::try_from(times.len()).unwrap());
    let p99 = times[(times.len() - 1) * 99 / 100].as_secs_f64() * 1e6;
    section.add(case, subject, "changes/s", count / time.as_secs_f64());
    section.add(case, subject, "p99 µs", p99);
}

pub(crate) fn open(directory: &Path, fsync: Fsync) -> Arc<dyn TaskStore> {
    let mut options = sqlite::Options::new(directory);
    options.fsync = fsync;
    Arc::new(sqlite::SqliteStore::open(&options, Default::default()).unwrap())
}

/// Writes changes of tasks, one task per writer at a time. Returns the duration of each change.
async fn changes(store: &Arc<dyn TaskStore>, writers: u64, time: Duration) -> Vec<Duration> {
    let until = Instant::now() + time;
    let work = (0..writers).map(|writer| tokio::spawn(write(Arc::clone(store), writer, until)));
    let times = join_all(work).await.into_iter();
    times.flat_map(Result::unwrap).collect()
}

async fn write(store: Arc<dyn TaskStore>, writer: u64, until: Instant) -> Vec<Duration> {
    let mut times = Vec::new();
    // Redis still has the tasks of earlier rounds, so the numbers start at a random offset.
    let first = u64::from(uuid::Uuid::new_v4().as_fields().0) * 1_000_000;
    for number in 0.. {
        let task = task(first + writer * 1_000 + number);
        store.create(&task).await.unwrap();
        for revision in 0..CHANGES {
            let started = Instant::now();
            if started >= until {
                return times;
            }
            let (id, at) = (&task.task.id, task.changed_ms);
            store
                .append(id, revision, at, &[chunk(revision)])
                .await
                .unwrap();
            times.push(started.elapsed());
        }
    }
    times
}

/// Appends the same number of bytes to a Redis stream.
async fn xadd(port: u16, writer: u64, time: Duration) -> Vec<Duration> {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    socket.set_nodelay(true).unwrap();
    let (key, payload) = (format!("floor-{writer}"), line());
    let words = [
        b"XADD".as_slice(),
        key.as_bytes(),
        b"*",
        b"change",
        &payload,
    ];
    let mut command = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        command.extend(format!("${}\r\n", word.len()).bytes());
        command.extend(word);
        command.extend(b"\r\n");
    }
    let (until, mut times) = (Instant::now() + time, Vec::new());
    while Instant::now() < until {
        let started = Instant::now();
        socket.write_all(&command).await.unwrap();
        let mut answer = Vec::new();
        // The response is `$15` and the id, each on a line.
        while answer.iter().filter(|byte| **byte == b'\n').count() < 2 {
            socket.read_buf(&mut answer).await.unwrap();
        }
        times.push(started.elapsed());
    }
    times
}

/// Appends the same number of bytes to a file.
fn plain_file(time: Duration, sync: bool) -> Vec<Duration> {
    let directory = tempfile::tempdir_in(target()).unwrap();
    let path = directory.path().join("plain");
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .unwrap();
    let (line, until, mut times) = (line(), Instant::now() + time, Vec::new());
    while Instant::now() < until {
        let started = Instant::now();
        file.write_all(&line).unwrap();
        if sync {
            file.sync_data().unwrap();
        }
        times.push(started.elapsed());
    }
    times
}

fn line() -> Vec<u8> {
    serde_json::to_vec(&chunk(7)).unwrap()
}

/// Opens a store with many tasks, lists and loads tasks. Runs in a separate process, whose memory is that of the store.
fn many(scale: &Scale, section: &mut Section, runtime: &tokio::runtime::Runtime) {
    let directory = tempfile::tempdir_in(target()).unwrap();
    runtime.block_on(fill(directory.path(), scale.tasks));
    let (folder, tasks) = (directory.path().to_str().unwrap(), scale.tasks.to_string());
    for _ in 0..scale.rounds {
        let process = Process::start_role(&[ROLE, folder, &tasks]);
        let answer: Value = serde_json::from_str(&process.ready).unwrap();
        for metric in ["open ms", "listed tasks/s", "loaded tasks/s", "resident MB"] {
            let case = format!("{tasks} tasks");
            section.add(&case, "SQLite", metric, answer[metric].as_f64().unwrap());
        }
    }
}

/// Stores completed tasks in a new store.
pub(crate) async fn fill(directory: &Path, tasks: u64) {
    const WRITERS: usize = 64;
    let store = open(directory, Fsync::Never);
    let work = (0..WRITERS as u64).map(|writer| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            for number in (writer..tasks).step_by(WRITERS) {
                complete(&store, number).await;
            }
        })
    });
    join_all(work).await;
    store.close().await.unwrap();
}

/// Stores a task that completes with one artifact.
pub(crate) async fn complete(store: &Arc<dyn TaskStore>, number: u64) {
    let task = task(number);
    let (id, at) = (&task.task.id, task.changed_ms);
    store.create(&task).await.unwrap();
    store.append(id, 0, at, &[chunk(0)]).await.unwrap();
    let end = TaskChange::Status(status(TaskState::Completed));
    store.append(id, 1, at, &[end]).await.unwrap();
}

/// Runs the measured process.
pub(crate) fn serve(folder: &Path, tasks: u64) {
    let before = own_resident_bytes();
    let start = Instant::now();
    let store = open(folder, Fsync::Interval);
    let opened = start.elapsed();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (listed, loaded) = runtime.block_on(async {
        let mut filter = Filter {
            owner: None,
            context_id: None,
            state: None,
            changed_after: None,
            page_size: 100,
            after: None,
        };
        let (start, mut read) = (Instant::now(), 0);
        loop {
            let page = store.list(&filter).await.unwrap();
            read += page.tasks.len();
            filter.after = page.next;
            if filter.after.is_none() {
                break;
            }
        }
        assert_eq!(read as u64, tasks);
        let listed = read as f64 / start.elapsed().as_secs_f64();
        let start = Instant::now();
        for number in 0..5_000 {
            assert!(
                store
                    .load(&task_id(number * 7 % tasks))
                    .await
                    .unwrap()
                    .is_some()
            );
        }
        (listed, 5_000.0 / start.elapsed().as_secs_f64())
    });
    println!(
        "{}",
        json!({
            "open ms": opened.as_secs_f64() * 1e3, "listed tasks/s": listed, "loaded tasks/s": loaded,
            "resident MB": (own_resident_bytes() - before) / 1e6,
        })
    );
}

pub(crate) fn task_id(number: u64) -> String {
    format!("task-{number:08}")
}

/// Returns a submitted task of a typical size.
fn task(number: u64) -> TaskRecord {
    let at_ms = 1_790_000_000_000;
    let text = Part::text("Please say how things are. ".repeat(6));
    let mut message = Message::new(Role::User, vec![text]);
    message.message_id = format!("message-{number:08}");
    TaskRecord {
        task: Task {
            context_id: format!("context-{:06}", number / 5),
            id: task_id(number),
            status: status(TaskState::Submitted),
            artifacts: None,
            history: Some(vec![message]),
            metadata: None,
        },
        owner: format!("client-{}", number % 4),
        agent: Some("main".to_owned()),
        session: format!("agent:main:a2a:client-{}:{number:08}", number % 4),
        version: Version::V1_0,
        run: None,
        created_ms: at_ms,
        changed_ms: at_ms,
        revision: 0,
    }
}

fn chunk(revision: u64) -> TaskChange {
    TaskChange::Artifact {
        artifact: Artifact {
            artifact_id: "answer".to_owned(),
            name: None,
            description: None,
            parts: vec![Part::text("Things are as they were before. ".repeat(4))],
            metadata: None,
            extensions: None,
        },
        append: revision > 0,
        last_chunk: false,
    }
}

fn status(state: TaskState) -> TaskStatus {
    TaskStatus {
        state,
        message: None,
        timestamp: None,
    }
}
