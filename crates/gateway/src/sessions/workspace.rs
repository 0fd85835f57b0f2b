//! One workspace: its file, and where what is in it.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use super::index::{Index, Known};
use super::load::{Tail, load};
use super::lock::hold;
use super::queue::Queue;
use super::rewrite::Rewrite;
use super::{Options, SessionError, archive, files, lock};
use common::log::{Level, Log};

/// The file of a workspace (000 §7.1).
const FILE: &str = "session.jsonl";

/// One workspace. Its index is changed by whoever holds its file, and looked at by everybody.
pub(super) struct Workspace {
    pub(super) agent: String,
    pub(super) folder: PathBuf,
    pub(super) queue: Mutex<Queue>,
    pub(super) file: Mutex<Appender>,
    pub(super) index: Mutex<Index>,
    /// The turn of who writes the file anew. It is taken before the file.
    pub(super) renewing: Mutex<()>,
    /// When room was made for more sessions last, in milliseconds since 1970.
    pub(super) made_room: AtomicU64,
}

/// The end of a workspace's file.
#[derive(Default)]
pub(super) struct Appender {
    /// The file, once there is one. Shared with whoever brings it to the disk.
    pub(super) file: Option<Arc<File>>,
    /// The byte behind its last line.
    pub(super) end: u64,
    /// How many lines it has.
    pub(super) lines: u64,
    /// Something in it may not be on the disk.
    pub(super) unsynced: bool,
    /// Somebody will bring it to the disk soon.
    pub(super) scheduled: bool,
    /// Why nothing can be written any more: what is on the disk is not known.
    pub(super) failed: Option<String>,
}

impl Appender {
    /// Whether what is on the disk is known.
    pub(super) fn usable(&self, path: &Path) -> Result<(), SessionError> {
        match &self.failed {
            None => Ok(()),
            Some(why) => {
                let message = format!(
                    "an earlier write failed ({why}); see to the disk and start the gateway anew"
                );
                Err(SessionError::io("write", path, io::Error::other(message)))
            }
        }
    }
}

impl Workspace {
    /// The workspace of `agent` below `agents`, read where it has a file. With `write`, what a crash has left behind is
    /// mended; else it is passed over.
    pub(super) fn open(
        agents: &Path,
        agent: &str,
        now: u64,
        write: bool,
        log: &dyn Log,
    ) -> Result<Self, SessionError> {
        let workspace = Self {
            agent: agent.to_owned(),
            folder: agents.join(agent),
            queue: Mutex::default(),
            file: Mutex::default(),
            index: Mutex::default(),
            renewing: Mutex::default(),
            made_room: AtomicU64::new(0),
        };
        let path = workspace.path();
        let opened = if write && path.exists() {
            files::open_to_append(&path)
        } else {
            File::open(&path)
        };
        match opened {
            Ok(file) => workspace.read(file, now, write, log)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(SessionError::io("open", &path, error)),
        }
        Ok(workspace)
    }

    /// Its file.
    pub(super) fn path(&self) -> PathBuf {
        self.folder.join(FILE)
    }

    fn read(&self, file: File, now: u64, write: bool, log: &dyn Log) -> Result<(), SessionError> {
        let path = self.path();
        if write {
            hold(&file, &path)?;
        }
        let loaded = load(&file, &path, now, log);
        let mut loaded = loaded.map_err(|e| SessionError::io("read", &path, e))?;
        if write {
            let mended = mend(&file, &mut loaded.end, loaded.tail, &path, log);
            mended.map_err(|e| SessionError::io("mend", &path, e))?;
        }
        let mut appender = lock(&self.file);
        *appender = Appender {
            file: Some(Arc::new(file)),
            end: loaded.end,
            lines: loaded.lines,
            ..Appender::default()
        };
        *lock(&self.index) = loaded.index;
        // A crash may have kept what was put into the archive here as well.
        let archived = archive::names(&self.folder)?;
        if archived.is_empty() {
            return Ok(());
        }
        let both = |session: &str| archived.contains(&archive::name(session));
        if !lock(&self.index).iter().any(|(session, _)| both(session)) {
            return Ok(());
        }
        if write {
            let mut new = Rewrite::begin(self, &mut appender)?;
            new.copy(appender.end, &|one| !both(one), now)?;
            return new.finish(&mut appender);
        }
        lock(&self.index).forget(both);
        Ok(())
    }

    /// Makes the file where there is none, and gives it.
    pub(super) fn opened(&self, appender: &mut Appender) -> Result<Arc<File>, SessionError> {
        if let Some(file) = &appender.file {
            return Ok(Arc::clone(file));
        }
        let path = self.path();
        let made = files::create_folder(&self.folder).and_then(|()| {
            let file = files::open_to_append(&path)?;
            files::sync_folder(&self.folder)?;
            self.folder.parent().map_or(Ok(()), files::sync_folder)?;
            Ok(Arc::new(file))
        });
        let file = made.map_err(|e| SessionError::io("make", &path, e))?;
        hold(&file, &path)?;
        appender.file = Some(Arc::clone(&file));
        Ok(file)
    }

    /// What is known of a session that can be read.
    ///
    /// # Errors
    /// 4001, 4002 or 4004.
    pub(super) fn known(
        &self,
        session: &str,
        now: u64,
        options: &Options,
    ) -> Result<Known, SessionError> {
        let index = lock(&self.index);
        match index.get(session) {
            Some(known) => {
                self.readable(session, known, now, options)?;
                Ok(known.clone())
            }
            None => {
                drop(index);
                Err(self.unknown(session))
            }
        }
    }

    /// Whether a session of the index can be read and written.
    pub(super) fn readable(
        &self,
        session: &str,
        known: &Known,
        now: u64,
        options: &Options,
    ) -> Result<(), SessionError> {
        if let Some(line) = known.damaged {
            return Err(SessionError::Corrupt {
                session: session.to_owned(),
                path: self.path(),
                line,
            });
        }
        if known.is_over(now, options.ttl) {
            return Err(SessionError::Expired {
                agent: self.agent.clone(),
                session: session.to_owned(),
                archived: false,
            });
        }
        Ok(())
    }

    /// Why a session that is not in the index cannot be used.
    pub(super) fn unknown(&self, session: &str) -> SessionError {
        let (agent, session) = (self.agent.clone(), session.to_owned());
        if lock(&self.index).is_leaving(&session) {
            return SessionError::Leaving { agent, session };
        }
        if archive::path(&self.folder, &session).exists() {
            return SessionError::Expired {
                agent,
                session,
                archived: true,
            };
        }
        SessionError::NotFound { agent, session }
    }

    /// Brings what was written to the disk, without keeping others from writing more.
    pub(super) fn sync(&self) -> Result<(), SessionError> {
        let mut appender = lock(&self.file);
        appender.scheduled = false;
        let unsynced = std::mem::take(&mut appender.unsynced);
        let Some(file) = appender.file.clone().filter(|_| unsynced) else {
            return Ok(());
        };
        drop(appender);
        file.sync_data().map_err(|error| {
            lock(&self.file).failed = Some(error.to_string());
            SessionError::io("sync", &self.path(), error)
        })
    }
}

/// Makes the file end with a line end.
fn mend(file: &File, end: &mut u64, tail: Tail, path: &Path, log: &dyn Log) -> io::Result<()> {
    let path = path.display();
    match tail {
        Tail::Clean => return Ok(()),
        Tail::Open => {
            let mut file = file;
            file.write_all(b"\n")?;
            *end += 1;
            let message = format!("the last line of `{path}` had no line end and got one");
            log.log(Level::Warn, &message);
        }
        Tail::Torn(bytes) => {
            file.set_len(*end)?;
            let message = format!(
                "the end of `{path}` was an unfinished line of {bytes} bytes and was cut off: whoever wrote it was stopped before the entry was acknowledged"
            );
            log.log(Level::Warn, &message);
        }
    }
    file.sync_all()
}
