//! The depth of delegation: how many agents passed the work on before it reaches a peer.
//!
//! Every message carries `{"hop", "chain"}` in its metadata under [`DELEGATION_KEY`]. `hop` counts the delegations up to
//! and including this message, so it is 1 for a sender with work of its own. `chain` identifies the chain. An agent
//! that receives the message and delegates further sends `hop` + 1 under the same `chain`.
//!
//! The host supplies the delegation of a session. Some hosts send it with each call. For OpenClaw, [`DelegationFile`] stores
//! it by session key in a file of the state directory, and [`DelegationLookup`] reads it.
//!
//! Format of the file: `{"version": 1, "sessions": [{"session", "hop", "chain"}]}`, the newest session last. Writers replace
//! the whole file, so a reader sees the old or the new version. Only its owner may read it.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use serde_json::{Value, json};
use uuid::Uuid;

use a2a::is_chain_id;
use base::files::{self, FileVersion, LockedFile};
use base::log::{Level, Log};

pub use a2a::DELEGATION_KEY;

/// The maximum number of sessions in the file. The oldest record is removed first.
pub const MAX_SESSIONS: usize = 1000;

/// The maximum length of a session key, in bytes.
pub const MAX_SESSION_KEY_BYTES: usize = 1024;

/// The maximum size of the file. An escaped character takes up to six bytes. This code never writes a larger file.
const MAX_FILE_BYTES: u64 = (MAX_SESSIONS * (MAX_SESSION_KEY_BYTES + 256) * 6) as u64;

/// The directory below the state directory.
const DIR_NAME: &str = "remote-agent";
const FILE_NAME: &str = "delegations.json";

/// The resolution of modification times in a file system. A second write within this time may not change the modification
/// time.
const MTIME_GRANULARITY: Duration = Duration::from_secs(2);

/// The position of a message in a chain of delegations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delegation {
    /// The number of delegations, this message included.
    pub hop: u64,
    /// The id of the chain, if known.
    pub chain: Option<String>,
}

impl Delegation {
    /// Reads `{"hop", "chain"}`; `None` if `hop` is not a whole number. An invalid `chain` is ignored.
    /// Accepts numbers such as `1.0`, which protobuf produces.
    pub fn read(value: &Value) -> Option<Self> {
        let hop = base::json::whole_number(value.get("hop")?)?;
        let chain = value.get("chain").and_then(Value::as_str);
        let chain = chain.filter(|id| is_chain_id(id)).map(str::to_owned);
        Some(Self { hop, chain })
    }

    /// Returns the delegation of the next message. `incoming` is the delegation of the message that the sender works on.
    /// `fresh` creates the id of a new or unnamed chain, as 32 hexadecimal digits.
    pub fn next(incoming: Option<Self>, fresh: impl FnOnce() -> Uuid) -> Self {
        let (hop, chain) = incoming.map_or((0, None), |known| (known.hop, known.chain));
        Self {
            hop: hop.saturating_add(1),
            chain: chain.or_else(|| Some(fresh().simple().to_string())),
        }
    }

    /// Returns the delegation in the format of message metadata.
    pub fn json(&self) -> Value {
        match &self.chain {
            Some(chain) => json!({ "hop": self.hop, "chain": chain }),
            None => json!({ "hop": self.hop }),
        }
    }
}

/// The delegation file at one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelegationFile {
    path: PathBuf,
}

impl DelegationFile {
    /// Returns the file of a host with the given state directory: `<state_dir>/remote-agent/delegations.json`.
    pub fn of_host(state_dir: &Path) -> Self {
        Self {
            path: state_dir.join(DIR_NAME).join(FILE_NAME),
        }
    }

    /// Returns the file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the delegation of a session; `None` if the file has none.
    ///
    /// # Errors
    /// The file exists but cannot be read or parsed.
    pub fn find(&self, session: &str) -> io::Result<Option<Delegation>> {
        let all = self.read()?;
        let found = all.into_iter().rev().find(|(key, _)| key == session);
        Ok(found.map(|(_, delegation)| delegation))
    }

    /// Records the delegation of a session and replaces its earlier record. Waits while another process writes.
    /// Replaces a file that cannot be parsed and logs a warning.
    ///
    /// # Errors
    /// The file cannot be read or written, or the key is longer than [`MAX_SESSION_KEY_BYTES`]. The old file remains.
    pub fn record(&self, session: &str, work: &Delegation, log: &dyn Log) -> io::Result<()> {
        if session.is_empty() || session.len() > MAX_SESSION_KEY_BYTES {
            let message = format!("a session key has 1 to {MAX_SESSION_KEY_BYTES} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let folder = self.path.parent().unwrap_or_else(|| Path::new("."));
        files::create_private_dir(folder)?;
        let _alone = self.lock()?;
        let mut all = match self.read() {
            Ok(all) => all,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                log.log(Level::Warn, &format!("{error}; a new file replaces it"));
                Vec::new()
            }
            // A file that could not be read may still hold valid records: keep it.
            Err(error) => return Err(error),
        };
        all.retain(|(key, _)| key != session);
        all.push((session.to_owned(), work.clone()));
        let surplus = all.len().saturating_sub(MAX_SESSIONS);
        all.drain(..surplus);
        files::replace_private(&self.path, &written(&all))
    }

    /// Returns every session, the newest last. A missing file has none.
    pub(super) fn read(&self) -> io::Result<Vec<(String, Delegation)>> {
        let mut text = String::new();
        let describe = |error: io::Error| {
            let message = format!("the file `{}` cannot be used: {error}", self.path.display());
            io::Error::new(error.kind(), message)
        };
        match File::open(&self.path) {
            Ok(file) => file
                .take(MAX_FILE_BYTES + 1)
                .read_to_string(&mut text)
                .map_err(describe)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(describe(error)),
        };
        let all = if text.len() as u64 > MAX_FILE_BYTES {
            Err("it is too large".to_owned())
        } else {
            parse_sessions(&text)
        };
        all.map_err(|reason| describe(io::Error::new(io::ErrorKind::InvalidData, reason)))
    }

    /// Locks the file against other writers until the returned file is dropped.
    fn lock(&self) -> io::Result<LockedFile> {
        let path = self.path.with_extension("lock");
        let file = LockedFile(files::open_private_append(&path)?);
        match file.lock() {
            // Some network file systems have no locks. Write without a lock then.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(file),
            locked => locked.map(|()| file),
        }
    }
}

/// Indexes the sessions by key, for repeated lookups in one version of the file.
fn by_session(all: Vec<(String, Delegation)>) -> HashMap<String, Delegation> {
    all.into_iter().collect()
}

fn written(all: &[(String, Delegation)]) -> String {
    let sessions = all.iter().map(|(session, work)| {
        let mut entry = work.json();
        entry["session"] = json!(session);
        entry
    });
    json!({ "version": 1, "sessions": sessions.collect::<Vec<_>>() }).to_string()
}

/// Parses the sessions, and skips invalid ones so that the others remain usable.
fn parse_sessions(text: &str) -> Result<Vec<(String, Delegation)>, String> {
    let value: Value = base::json::from_str(text, base::json::Limits::NONE)
        .map_err(|e| format!("it is not JSON: {e}"))?;
    if value["version"] != 1 {
        return Err("its `version` is not 1".to_owned());
    }
    let sessions = value["sessions"]
        .as_array()
        .ok_or("its `sessions` is not a list")?;
    let read = |entry: &Value| {
        Some((
            entry["session"].as_str()?.to_owned(),
            Delegation::read(entry)?,
        ))
    };
    Ok(sessions.iter().filter_map(read).collect())
}

/// Looks up delegations and caches the newest version of the file.
#[derive(Debug, Default)]
pub struct DelegationLookup {
    cached: Arc<Mutex<Option<CachedFile>>>,
}

#[derive(Debug)]
struct CachedFile {
    file: DelegationFile,
    version: Option<FileVersion>,
    sessions: HashMap<String, Delegation>,
    /// Whether the file was unchanged for [`MTIME_GRANULARITY`] before it was read, so that its modification time detects
    /// later changes.
    calm: bool,
}

impl DelegationLookup {
    /// Returns the delegation of a session, from the file in the state directory `state_dir`. Returns `None` without a
    /// file. Also returns `None` for an unusable file, and logs that once per version. `now` is the time of day. Needs
    /// a tokio runtime.
    pub async fn find(
        &self,
        state_dir: &Path,
        session: &str,
        now: SystemTime,
        log: &Arc<dyn Log>,
    ) -> Option<Delegation> {
        if !state_dir.is_absolute() {
            let message = format!(
                "the host's state directory `{}` is not an absolute path; delegations are unknown",
                state_dir.display()
            );
            log.log(Level::Warn, &message);
            return None;
        }
        let cached = Arc::clone(&self.cached);
        let (state_dir, session) = (PathBuf::from(state_dir), session.to_owned());
        let shared_log = Arc::clone(log);
        let lookup = tokio::task::spawn_blocking(move || {
            let mut cached = cached.lock();
            let known = current(
                &mut cached,
                DelegationFile::of_host(&state_dir),
                now,
                &*shared_log,
            );
            known.sessions.get(&session).cloned()
        });
        lookup.await.ok().flatten()
    }
}

/// Returns the newest version of `file`, from the cache if it is current.
fn current<'a>(
    cached: &'a mut Option<CachedFile>,
    file: DelegationFile,
    now: SystemTime,
    log: &dyn Log,
) -> &'a CachedFile {
    let version = FileVersion::at(&file.path);
    let before = cached.take().filter(|cached| cached.file == file);
    let same = before
        .as_ref()
        .is_some_and(|cached| cached.version == version);
    if let Some(before) = before.filter(|cached| same && cached.calm) {
        return cached.insert(before);
    }
    let sessions = file.read().unwrap_or_else(|error| {
        if !same {
            let message = format!("{error}; until it is repaired, no session counts as delegated");
            log.log(Level::Warn, &message);
        }
        Vec::new()
    });
    let written = version.and_then(|version| version.modified);
    let age = written.and_then(|written| now.duration_since(written).ok());
    cached.insert(CachedFile {
        file,
        calm: version.is_none() || age.is_some_and(|age| age >= MTIME_GRANULARITY),
        version,
        sessions: by_session(sessions),
    })
}

#[cfg(test)]
mod tests;
