//! Sessions on disk: JSON Lines, one append-only file per session.
//!
//! Below the state directory, `agents/NAME/sessions/FILE.jsonl` contains the entries of one session, one per line, in the
//! format of Heretek A2A §7.2. A written line never changes. Archiving moves the file to `agents/NAME/archive/`; deleting
//! removes it. A crash loses at most an incomplete line at the end of a file.

mod error;
mod line;
mod lock;
mod manage;
mod name;
mod queue;
mod quota;
mod scan;
mod store;
mod writer;

use std::future::Future;
use std::io;
use std::sync::Arc;

use base::environment::Environment;
use base::log::Log;

pub use error::SessionError;
pub use line::{Entry, Reader};
pub use manage::{State, Summary};
pub(super) use name::is_agent_name;

use crate::config::ServerConfig;
use line::Event;
use lock::ProcessLock;
use name::SessionKey;
use store::Store;

/// The directory of all workspaces, below the state directory.
const AGENTS: &str = "agents";

/// The sessions of all workspaces. Clones share them.
#[derive(Clone)]
pub struct Sessions(Arc<Inner>);

struct Inner {
    store: Arc<Store>,
    /// The lock of the process that may write; `None` for read-only access.
    lock: Option<ProcessLock>,
}

impl Sessions {
    /// Opens the sessions for writing and locks out other processes. Blocks.
    ///
    /// # Errors
    /// 4003 if another process holds the lock.
    pub fn open(
        config: &ServerConfig,
        env: Arc<dyn Environment>,
        log: Arc<dyn Log>,
    ) -> Result<Self, SessionError> {
        let lock = Some(ProcessLock::acquire(&config.state_dir.join(AGENTS))?);
        let store = Arc::new(Store::new(config, env, log));
        Ok(Self(Arc::new(Inner { store, lock })))
    }

    /// Opens the sessions for reading. Another process may write at the same time.
    pub fn read_only(config: &ServerConfig, env: Arc<dyn Environment>, log: Arc<dyn Log>) -> Self {
        let store = Arc::new(Store::new(config, env, log));
        Self(Arc::new(Inner { store, lock: None }))
    }

    /// Appends an entry. Entries are appended in the order of the calls, even if the caller drops the future.
    ///
    /// # Errors
    /// 4001, 4002 or 4004 if the session does not accept entries, 3003 if the queue is full, 3004 if the write failed. On
    /// error the file does not contain the entry.
    pub fn append(
        &self,
        agent: &str,
        entry: &Entry<'_>,
    ) -> impl Future<Output = Result<(), SessionError>> + Send + use<> {
        self.append_for(&Arc::default(), agent, entry)
    }

    /// Appends an entry of a client, which counts towards the limits of its identity.
    ///
    /// # Errors
    /// The same as [`append`](Self::append), and 3003 if the identity has added too much.
    pub(crate) fn append_for(
        &self,
        identity: &Arc<str>,
        agent: &str,
        entry: &Entry<'_>,
    ) -> impl Future<Output = Result<(), SessionError>> + Send + use<> {
        let line = line::serialize(entry);
        let session = &entry.session_id;
        self.write(identity, agent, session, None, entry.timestamp, line)
    }

    /// Creates a session with the id `session_id` or a new id, and returns the id.
    ///
    /// # Errors
    /// 2005 if the id is in use; otherwise the same as [`append`](Self::append).
    pub async fn create(
        &self,
        agent: &str,
        session_id: Option<&str>,
    ) -> Result<String, SessionError> {
        let new_id = || format!("sess-{}", self.0.store.env.uuid());
        let id = session_id.map_or_else(new_id, str::to_owned);
        self.write_event(agent, &id, Event::Created).await?;
        Ok(id)
    }

    /// Syncs a session to disk and records the commit.
    ///
    /// # Errors
    /// The same as [`append`](Self::append).
    pub async fn commit(&self, agent: &str, session_id: &str) -> Result<(), SessionError> {
        self.write_event(agent, session_id, Event::Committed).await
    }

    fn write_event(
        &self,
        agent: &str,
        session: &str,
        event: Event,
    ) -> impl Future<Output = Result<(), SessionError>> + Send + use<> {
        let now = self.0.store.now();
        let line = line::serialize_event(event, session, now);
        self.write(&Arc::default(), agent, session, Some(event), now, line)
    }

    fn write(
        &self,
        identity: &Arc<str>,
        agent: &str,
        session: &str,
        event: Option<Event>,
        time: u64,
        line: Vec<u8>,
    ) -> impl Future<Output = Result<(), SessionError>> + Send + use<> {
        let key = self.writable().and_then(|()| self.key(agent, session));
        let reply = key.and_then(|key| self.0.store.enqueue(identity, key, event, time, line));
        async move {
            reply?.await.unwrap_or_else(|_| {
                let error = io::Error::other("the gateway is shutting down");
                Err(SessionError::io("write", AGENTS.as_ref(), error))
            })
        }
    }

    /// Returns the number of sessions of a workspace without archived ones. Needs no I/O once the workspace is in use.
    pub fn count(&self, agent: &str) -> usize {
        self.0.store.count(agent).unwrap_or(0)
    }

    /// Writes the queued lines and syncs them to disk. Blocks.
    ///
    /// # Errors
    /// 3004 if a file cannot be synced.
    pub fn close(&self) -> Result<(), SessionError> {
        self.0.store.flush()
    }

    fn key(&self, agent: &str, session: &str) -> Result<SessionKey, SessionError> {
        self.0.store.check_agent(agent)?;
        SessionKey::new(agent, session).ok_or_else(|| SessionError::SessionId(session.to_owned()))
    }

    fn writable(&self) -> Result<(), SessionError> {
        match self.0.lock {
            Some(_) => Ok(()),
            None => Err(SessionError::ReadOnly),
        }
    }
}

/// Writes the queued lines before other processes can acquire the lock.
impl Drop for Inner {
    fn drop(&mut self) {
        let _ = self.store.flush();
    }
}

#[cfg(test)]
mod tests;
