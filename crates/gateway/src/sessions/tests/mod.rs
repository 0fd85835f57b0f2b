#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod crashes;
mod damage;
mod encryption;
mod manage;
mod names;
mod rekey;
mod storing;

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::json;
use uuid::Uuid;

use super::*;
use crate::config::{EncryptionConfig, Limits};
use base::config::Secret;
use base::environment::{Clock, IdGenerator};
use base::files::Fsync;
use base::key_source::KeySource;
use base::log::Recorder;
use collective::{Envelope, ErrorCode};

/// The start time of a test, in milliseconds since 1970.
const START: u64 = 1_711_843_200_000;

/// Keys of 32 bytes: 0 to 31, and 32 to 63.
const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8";
const OTHER_KEY: &str = "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8";

/// A temporary state directory, removed on drop, and a clock that does not advance.
struct Place {
    state: PathBuf,
    clock: Arc<TestClock>,
    log: Arc<Recorder>,
}

/// The operations of the gateway's operator, whom no limit counts.
impl Sessions {
    fn append(
        &self,
        agent: &str,
        entry: &Entry<'_>,
    ) -> impl Future<Output = Result<(), SessionError>> + Send + use<> {
        self.append_for(&Arc::default(), agent, entry)
    }

    async fn create(&self, agent: &str, id: Option<&str>) -> Result<String, SessionError> {
        self.create_for(&Arc::default(), agent, id).await
    }

    async fn commit(&self, agent: &str, id: &str) -> Result<(), SessionError> {
        self.commit_for(&Arc::default(), agent, id).await
    }

    fn import(
        &self,
        agent: &str,
        from: &mut dyn io::BufRead,
        id: Option<&str>,
    ) -> Result<(String, u64), SessionError> {
        self.import_for(&Arc::default(), agent, from, id)
    }
}

struct TestClock(AtomicU64);

impl Clock for TestClock {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn system_time(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

impl IdGenerator for TestClock {
    fn uuid(&self) -> Uuid {
        Uuid::new_v4()
    }
}

impl Place {
    fn new() -> Self {
        let state = std::env::temp_dir().join(format!("remote-agent-{}", Uuid::new_v4()));
        Self {
            state,
            clock: Arc::new(TestClock(AtomicU64::new(START))),
            log: Arc::default(),
        }
    }

    fn config(&self) -> ServerConfig {
        ServerConfig {
            state_dir: self.state.clone(),
            fsync: Fsync::Never,
            ..ServerConfig::default()
        }
    }

    fn open(&self) -> Sessions {
        self.try_open(&self.config()).unwrap()
    }

    fn try_open(&self, config: &ServerConfig) -> Result<Sessions, SessionError> {
        Sessions::open(config, self.clock.clone(), self.log.clone())
    }

    /// Returns the configuration with these keys.
    fn encrypted(&self, keys: &[&str]) -> ServerConfig {
        let key = |key: &&str| KeySource::Key(Secret::Known((*key).into()));
        let mut config = self.config();
        config.sessions.encryption = Some(EncryptionConfig {
            keys: keys.iter().map(key).collect(),
            refuse_plain: false,
        });
        config
    }

    fn open_with(&self, keys: &[&str]) -> Sessions {
        self.try_open(&self.encrypted(keys)).unwrap()
    }

    fn read_only(&self) -> Sessions {
        Sessions::read_only(&self.config(), self.clock.clone(), self.log.clone()).unwrap()
    }

    fn file(&self, agent: &str, session: &str) -> PathBuf {
        let folder = self.state.join("agents").join(agent).join("sessions");
        folder.join(format!("{session}.jsonl"))
    }

    fn bytes(&self, agent: &str, session: &str) -> Vec<u8> {
        fs::read(self.file(agent, session)).unwrap()
    }

    fn text(&self, agent: &str, session: &str) -> String {
        String::from_utf8(self.bytes(agent, session)).unwrap()
    }

    /// Replaces the content of a session's file.
    fn write(&self, agent: &str, session: &str, bytes: &[u8]) {
        let file = self.file(agent, session);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, bytes).unwrap();
    }

    fn advance(&self, time: Duration) {
        let millis = u64::try_from(time.as_millis()).unwrap();
        self.clock.0.fetch_add(millis, Ordering::Relaxed);
    }

    fn logged(&self) -> Vec<String> {
        self.log.0.lock().unwrap().clone()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.state);
    }
}

fn entry(session: &str, id: &str, content: &str) -> Entry<'static> {
    Entry {
        timestamp: START,
        role: "user".into(),
        content: std::borrow::Cow::Owned(json!(content)),
        session_id: session.to_owned().into(),
        id: id.to_owned().into(),
        event: None,
    }
}

/// Appends an entry whose content is its id.
async fn append_entry(sessions: &Sessions, agent: &str, session: &str, id: &str) {
    let mut entry = entry(session, id, id);
    entry.timestamp = sessions.0.store.now();
    sessions.append(agent, &entry).await.unwrap();
}

/// Returns the ids of a session's entries.
fn ids(sessions: &Sessions, agent: &str, session: &str) -> Vec<String> {
    let entries = sessions.get(agent, session).unwrap();
    entries
        .map(|entry| entry.unwrap().id.into_owned())
        .collect()
}

/// Returns the error of a call that fails.
fn code<T>(result: Result<T, SessionError>) -> ErrorCode {
    match result {
        Ok(_) => panic!("it did not fail"),
        Err(error) => error.code(),
    }
}
