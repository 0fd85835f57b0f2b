//! What was said, kept: JSON Lines, one file a workspace (000 §7).
//!
//! The file of a workspace holds the entries of all its sessions in the order they came in, each on a line of its own, in the
//! form of 000 §7.2. It is only ever appended to, or written anew and put in place of the old one, so a crash can cost no
//! more than an unfinished line at its end. Memory holds where each session's lines are, and nothing that was said.
//!
//! `queue.rs` brings entries to the disk, `load.rs` reads a file once and says what is wrong with it, `reader.rs` reads one
//! session; `rewrite.rs`, `archive.rs` and `aside.rs` take sessions out and put them in.

mod archive;
mod aside;
mod entry;
mod error;
pub mod files;
mod index;
mod line;
mod load;
mod lock;
mod manage;
mod name;
mod options;
mod queue;
mod reader;
mod rewrite;
mod workspace;

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

pub use entry::Entry;
pub use error::SessionError;
pub use manage::{State, Summary};
pub use options::{Fsync, Options};
pub use reader::Reader;

use line::Event;
use queue::{Pending, What, Writers};
use serde_json::Value;
use workspace::Workspace;

use common::environment::Environment;
use common::log::{Level, Log};

/// Where workspaces are, below the gateway's state.
const AGENTS: &str = "agents";

/// The sessions of all workspaces. Clones are the same sessions.
#[derive(Clone)]
pub struct Sessions(Arc<Inner>);

struct Inner {
    folder: PathBuf,
    writers: Arc<Writers>,
    /// By name in lower case: some file systems do not tell case apart.
    workspaces: Mutex<HashMap<String, Arc<Workspace>>>,
    /// Held by whoever may write.
    lock: Option<lock::Lock>,
}

impl Sessions {
    /// Opens the sessions to write them, and locks other processes out. Blocks. Each workspace is read when it is used
    /// first; what a crash has left behind is mended then and told to `log`.
    ///
    /// # Errors
    /// 4003 another process has them, or a file cannot be read.
    pub fn open(
        options: Options,
        env: Arc<dyn Environment>,
        log: Arc<dyn Log>,
    ) -> Result<Self, SessionError> {
        let folder = options.state_dir.join(AGENTS);
        let lock = lock::Lock::take(&folder)?;
        Ok(Self::new(options, folder, Some(lock), env, log))
    }

    /// Opens the sessions to read them, as they are now and whoever may be writing. Nothing is mended.
    pub fn read_only(options: Options, env: Arc<dyn Environment>, log: Arc<dyn Log>) -> Self {
        let folder = options.state_dir.join(AGENTS);
        Self::new(options, folder, None, env, log)
    }

    fn new(
        options: Options,
        folder: PathBuf,
        lock: Option<lock::Lock>,
        env: Arc<dyn Environment>,
        log: Arc<dyn Log>,
    ) -> Self {
        Self(Arc::new(Inner {
            folder,
            writers: Arc::new(Writers::new(options, env, log)),
            workspaces: Mutex::default(),
            lock,
        }))
    }

    /// Reads every workspace there is, so that none has to be read for a message. One that somebody else has locked is tried
    /// again when it is used. Blocks.
    ///
    /// # Errors
    /// A file cannot be read or mended.
    pub fn load(&self) -> Result<(), SessionError> {
        for agent in self.agents()? {
            match self.0.workspace(&agent) {
                Err(error @ SessionError::Locked { .. }) => {
                    self.0.writers.log.log(Level::Warn, &error.to_string());
                }
                opened => drop(opened?),
            }
        }
        Ok(())
    }

    /// Keeps an entry. It is in the order of the calls, and kept even where nobody waits for the answer.
    ///
    /// # Errors
    /// 4001, 4002, 4004 the session takes nothing, 3003 too much waits, 3004 it could not be written. Nothing is kept then.
    pub fn append(
        &self,
        agent: &str,
        entry: &Entry<'_>,
    ) -> impl Future<Output = Result<(), SessionError>> + Send + use<> {
        let line = line::entry(entry);
        self.written(agent, &entry.session_id, What::Entry, entry.timestamp, line)
    }

    /// Makes a session, under a new id where none is given, and says its id.
    ///
    /// # Errors
    /// 2005 there is one of this id, and as [`append`](Self::append).
    pub async fn create(
        &self,
        agent: &str,
        session_id: Option<&str>,
    ) -> Result<String, SessionError> {
        let writers = &self.0.writers;
        let new = || format!("sess-{}", writers.env.uuid());
        let id = session_id.map_or_else(new, str::to_owned);
        self.mark(agent, &id, What::Create, Event::Created).await?;
        Ok(id)
    }

    /// Brings a session to the disk, and marks it.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub async fn commit(&self, agent: &str, session_id: &str) -> Result<(), SessionError> {
        let event = Event::Committed;
        self.mark(agent, session_id, What::Commit, event).await
    }

    fn mark(
        &self,
        agent: &str,
        session: &str,
        what: What,
        event: Event,
    ) -> impl Future<Output = Result<(), SessionError>> + Send + use<> {
        let now = self.0.writers.now();
        let text = match event {
            Event::Created => "session created",
            _ => "session committed",
        };
        let line = line::event(event, session, now, Value::from(text));
        self.written(agent, session, what, now, line)
    }

    fn written(
        &self,
        agent: &str,
        session: &str,
        what: What,
        time: u64,
        line: Vec<u8>,
    ) -> impl Future<Output = Result<(), SessionError>> + Send + use<> {
        let taken = self.take(agent, session, what, time, line);
        async move {
            let (path, answer) = taken?;
            answer.await.unwrap_or_else(|_| {
                let error = io::Error::other("the gateway is shutting down");
                Err(SessionError::io("write", &path, error))
            })
        }
    }

    fn take(
        &self,
        agent: &str,
        session: &str,
        what: What,
        time: u64,
        line: Vec<u8>,
    ) -> Result<(PathBuf, oneshot::Receiver<Result<(), SessionError>>), SessionError> {
        self.0.writable()?;
        name::session(session)?;
        if line.len() > line::LONGEST {
            return Err(SessionError::TooLong);
        }
        let workspace = self.0.workspace(agent)?;
        let (done, answer) = oneshot::channel();
        // A clock that is wrong must not keep a session for ever.
        let time = time.min(self.0.writers.now());
        let pending = Pending {
            line,
            session: session.to_owned(),
            what,
            time,
            done,
        };
        let path = workspace.path();
        self.0.writers.take(&workspace, pending)?;
        Ok((path, answer))
    }

    /// How many sessions a workspace has; the archive does not count. Constant work: for messages.
    pub fn count(&self, agent: &str) -> usize {
        let workspace = self.0.known(agent);
        workspace.map_or(0, |workspace| lock(&workspace.index).len())
    }

    /// Brings what was written for a workspace to the disk, as when its agent leaves. Blocks.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn sync(&self, agent: &str) -> Result<(), SessionError> {
        match self.0.known(agent) {
            Some(workspace) => self.0.settled(&workspace),
            None => Ok(()),
        }
    }

    /// Writes what still waits and brings everything to the disk. Blocks.
    ///
    /// # Errors
    /// A file cannot be written; the others are.
    pub fn close(&self) -> Result<(), SessionError> {
        self.0.close()
    }
}

impl Inner {
    /// The workspace of an agent, read where it was not used before.
    fn workspace(&self, agent: &str) -> Result<Arc<Workspace>, SessionError> {
        name::agent(agent)?;
        let mut all = lock(&self.workspaces);
        let key = agent.to_ascii_lowercase();
        if let Some(workspace) = all.get(&key) {
            return match workspace.agent == agent {
                true => Ok(Arc::clone(workspace)),
                false => Err(SessionError::AgentName(agent.to_owned())),
            };
        }
        self.differs_not_in_case_alone(agent)?;
        let writers = &self.writers;
        let write = self.lock.is_some();
        let opened = Workspace::open(&self.folder, agent, writers.now(), write, &*writers.log)?;
        let workspace = Arc::new(opened);
        all.insert(key, Arc::clone(&workspace));
        Ok(workspace)
    }

    /// The workspace of an agent that was used before.
    fn known(&self, agent: &str) -> Option<Arc<Workspace>> {
        let all = lock(&self.workspaces);
        let workspace = all.get(&agent.to_ascii_lowercase())?;
        (workspace.agent == agent).then(|| Arc::clone(workspace))
    }

    fn differs_not_in_case_alone(&self, agent: &str) -> Result<(), SessionError> {
        let other = |one: &String| one != agent && one.eq_ignore_ascii_case(agent);
        match folders(&self.folder)?.iter().any(other) {
            true => Err(SessionError::AgentName(agent.to_owned())),
            false => Ok(()),
        }
    }

    fn writable(&self) -> Result<(), SessionError> {
        match self.lock {
            Some(_) => Ok(()),
            None => Err(SessionError::ReadOnly),
        }
    }

    fn close(&self) -> Result<(), SessionError> {
        self.writers.closing.store(true, Ordering::Relaxed);
        let all: Vec<_> = lock(&self.workspaces).values().cloned().collect();
        let mut result = Ok(());
        for workspace in all {
            result = result.and(self.settled(&workspace));
        }
        result
    }

    fn settled(&self, workspace: &Arc<Workspace>) -> Result<(), SessionError> {
        self.writers.write(workspace);
        workspace.sync()
    }
}

/// Nothing is written once others may have the lock.
impl Drop for Inner {
    fn drop(&mut self) {
        let _ = self.close();
        for workspace in lock(&self.workspaces).values() {
            let _turn = lock(&workspace.renewing);
            // Whoever still waits to bring it to the disk would hold it otherwise.
            if let Some(file) = &lock(&workspace.file).file {
                let _ = file.unlock();
            }
        }
    }
}

/// Whether an agent can be called so: a workspace has its name.
pub(super) fn can_be_named(agent: &str) -> bool {
    name::agent(agent).is_ok()
}

/// The names of the workspaces in a folder.
fn folders(folder: &Path) -> Result<Vec<String>, SessionError> {
    let wrong = |error| SessionError::io("read", folder, error);
    let listed = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listed => listed.map_err(wrong)?,
    };
    let mut names = Vec::new();
    for one in listed {
        let name = one.map_err(wrong)?.file_name();
        names.extend(
            name.into_string()
                .ok()
                .filter(|name| name::agent(name).is_ok()),
        );
    }
    names.sort();
    Ok(names)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
