//! Reads the delegation file on a blocking thread, and only after a change.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use base::log::{Level, Log};
use parking_lot::Mutex;

use super::Delegation;
use super::file::{DelegationFile, FileVersion, by_session};

/// The resolution of modification times in a file system. A second write within this time may not change the modification
/// time.
const MTIME_GRANULARITY: Duration = Duration::from_secs(2);

/// Looks up delegations and caches the newest version of the file.
#[derive(Debug, Default)]
pub struct DelegationLookup {
    cached: Arc<Mutex<Option<CachedFile>>>,
}

#[derive(Debug)]
struct CachedFile {
    file: DelegationFile,
    stamp: Option<FileVersion>,
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
    let stamp = file.stamp();
    let before = cached.take().filter(|cached| cached.file == file);
    let same = before.as_ref().is_some_and(|cached| cached.stamp == stamp);
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
    let written = stamp.as_ref().and_then(FileVersion::modified);
    let age = written.and_then(|written| now.duration_since(written).ok());
    cached.insert(CachedFile {
        file,
        calm: stamp.is_none() || age.is_some_and(|age| age >= MTIME_GRANULARITY),
        stamp,
        sessions: by_session(sessions),
    })
}
