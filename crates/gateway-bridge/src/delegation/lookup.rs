//! Asking the file, off the threads that carry calls, and only when it has changed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use common::log::{Level, Log};

use super::Delegation;
use super::file::{DelegationFile, FileVersion, by_session};

/// A file that was written less than this ago may be written again without its time changing: clocks of file systems tick
/// slowly.
const MTIME_GRANULARITY: Duration = Duration::from_secs(2);

/// Answers from the file, whose newest version it keeps.
#[derive(Debug, Default)]
pub struct DelegationLookup {
    kept: Arc<Mutex<Option<CachedFile>>>,
}

#[derive(Debug)]
struct CachedFile {
    file: DelegationFile,
    stamp: Option<FileVersion>,
    sessions: HashMap<String, Delegation>,
    /// The file had not been written for a while when it was read, so its version shows whether it is still the same.
    calm: bool,
}

impl DelegationLookup {
    /// Returns the delegation of a session, from the file of the host with the state directory `state_dir`. Returns
    /// `None` without a file, and for an unusable file, which is logged once per version. `now` is the time of day.
    /// Needs a tokio runtime.
    pub async fn find(
        &self,
        state_dir: &Path,
        session: &str,
        now: SystemTime,
        log: &Arc<dyn Log>,
    ) -> Option<Delegation> {
        if !state_dir.is_absolute() {
            let message = format!(
                "the host's state directory `{}` is no absolute path, so it says nothing about delegations",
                state_dir.display()
            );
            log.log(Level::Warn, &message);
            return None;
        }
        let kept = Arc::clone(&self.kept);
        let (state_dir, session) = (PathBuf::from(state_dir), session.to_owned());
        let shared_log = Arc::clone(log);
        let asked = tokio::task::spawn_blocking(move || {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            let known = fresh(
                &mut kept,
                DelegationFile::of_host(&state_dir),
                now,
                &*shared_log,
            );
            known.sessions.get(&session).cloned()
        });
        asked.await.ok().flatten()
    }
}

/// Returns the newest version of `file`, which is read unless it is kept already.
fn fresh<'a>(
    kept: &'a mut Option<CachedFile>,
    file: DelegationFile,
    now: SystemTime,
    log: &dyn Log,
) -> &'a CachedFile {
    let stamp = file.stamp();
    let before = kept.take().filter(|kept| kept.file == file);
    let same = before.as_ref().is_some_and(|kept| kept.stamp == stamp);
    if let Some(before) = before.filter(|kept| same && kept.calm) {
        return kept.insert(before);
    }
    let sessions = file.read().unwrap_or_else(|error| {
        if !same {
            let message = format!("{error}; sessions count as not delegated to until it is right");
            log.log(Level::Warn, &message);
        }
        Vec::new()
    });
    let written = stamp.as_ref().and_then(FileVersion::modified);
    let age = written.and_then(|written| now.duration_since(written).ok());
    kept.insert(CachedFile {
        file,
        calm: stamp.is_none() || age.is_some_and(|age| age >= MTIME_GRANULARITY),
        stamp,
        sessions: by_session(sessions),
    })
}
