//! The completion of the session files from the logs, at the start after a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use super::{CHANGED, CURRENT, DRAFT, FAILED, Failed, OLD, SyncLog};
use super::{has_failed, not_a_file, read_record, select, sync_paths};
use crate::sessions::{ACTIVE, SessionError, SessionKey};
use base::files;
use base::log::Level;

impl SyncLog {
    /// Completes the session files from the logs of a process that did not close them, and removes the logs. Keeps the
    /// records of files that it cannot complete.
    ///
    /// # Errors
    /// A log cannot be read, written or removed. The logs remain for the next start.
    pub(in crate::sessions) fn recover(&self) -> Result<(), SessionError> {
        let _ = fs::remove_file(self.root.join(DRAFT));
        let mut sessions = Sessions::new();
        let (mut logs, mut names) = (Vec::new(), Vec::new());
        for name in [FAILED, OLD, CURRENT] {
            if let Some(bytes) = self.read(name)? {
                read_records(&bytes, &mut sessions);
                logs.push(bytes);
                names.push(name);
            }
        }
        if logs.is_empty() {
            return Ok(());
        }
        let (mut failed, mut changed) = (Failed::new(), BTreeSet::new());
        let mut paths = BTreeSet::new();
        for (key, runs) in sessions {
            let path = key.path(&self.root, ACTIVE);
            let completed = complete(&path, &runs);
            let file = path.display();
            match completed {
                Err(error) => {
                    failed.insert(path, error);
                    continue;
                }
                Ok(Completed::Whole) => {}
                Ok(Completed::Restored) => self.log.log(
                    Level::Warn,
                    &format!(
                        "added acknowledged entries to `{file}`; the system had stopped before they were in it"
                    ),
                ),
                Ok(Completed::Created) => self.log.log(
                    Level::Warn,
                    &format!(
                        "restored `{file}` with its acknowledged entries; the system had stopped before they were in it; if you removed it, delete the session with `sessions delete`"
                    ),
                ),
                Ok(Completed::Changed) => {
                    let kept = self.root.join(CHANGED);
                    let message = format!(
                        "another program changed `{file}` since its last entries, which stay out of it; they are in `{}`; restore the file from a backup if it lacks any",
                        kept.display()
                    );
                    self.log.log(Level::Warn, &message);
                    changed.insert(key);
                }
            }
            paths.extend(path.ancestors().take(4).map(Path::to_owned));
        }
        failed.extend(sync_paths(&paths));
        self.report(&failed);
        let select_all = |wanted: &dyn Fn(&SessionKey) -> bool| -> Vec<u8> {
            logs.iter().flat_map(|log| select(log, wanted)).collect()
        };
        let kept = match changed.is_empty() {
            true => Ok(()),
            false => self.keep(CHANGED, &select_all(&|key| changed.contains(key))),
        };
        let of_failed = |key: &SessionKey| has_failed(&failed, &key.path(&self.root, ACTIVE));
        let kept = kept.and_then(|()| self.replace(FAILED, &select_all(&of_failed)));
        match (kept, &names[..]) {
            (Ok(()), _) => {}
            // On a full disk, records of whole files stay with the others. Otherwise no session could be deleted.
            (Err(_), [only]) => {
                return files::rename_durably(&self.root.join(only), &self.root.join(FAILED))
                    .map_err(|error| self.failed("rename", error));
            }
            (Err(error), _) => return Err(error),
        }
        self.remove(OLD)?;
        self.remove(CURRENT)
    }
}

/// Lines that follow each other in a session's file.
struct Run {
    at: u64,
    bytes: Vec<u8>,
}

impl Run {
    fn end(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }
}

type Sessions = BTreeMap<SessionKey, Vec<Run>>;

/// Adds the records of a log.
fn read_records(mut log: &[u8], sessions: &mut Sessions) {
    while let Some((key, at, bytes, rest)) = read_record(log) {
        log = rest;
        let runs = sessions.entry(key).or_default();
        match runs.last_mut() {
            Some(run) if run.end() == at => run.bytes.extend(bytes),
            // Another program added to the file.
            Some(run) if run.end() < at => runs.push(Run {
                at,
                bytes: bytes.to_vec(),
            }),
            // The file was moved, removed or replaced.
            _ => {
                runs.clear();
                runs.push(Run {
                    at,
                    bytes: bytes.to_vec(),
                });
            }
        }
    }
    sessions.retain(|_, runs| runs.iter().any(|run| !run.bytes.is_empty()));
}

enum Completed {
    /// The file had all lines.
    Whole,
    Restored,
    /// The file was missing.
    Created,
    /// The file has other bytes than the writer wrote.
    Changed,
}

/// Writes what is missing of a session's file: its end, or zeros in place of lines.
fn complete(path: &Path, runs: &[Run]) -> io::Result<Completed> {
    let is_new = runs.first().is_some_and(|run| run.at == 0);
    if is_new {
        files::create_private_dir(path.parent().unwrap_or(path))?;
    }
    // Opening a pipe would block.
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Err(not_a_file());
    }
    let is_missing = !path.exists();
    let mut options = files::private_options();
    let options = options.read(true).write(true).create(is_new);
    let mut file = match options.truncate(false).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Completed::Changed),
        file => file?,
    };
    let mut completed = Completed::Whole;
    for run in runs {
        let mut found = Vec::new();
        file.seek(SeekFrom::Start(run.at))?;
        (&file)
            .take(run.bytes.len() as u64)
            .read_to_end(&mut found)?;
        if found == run.bytes {
            continue;
        }
        let mut pairs = found.iter().zip(&run.bytes);
        let is_ours = pairs.all(|(found, written)| found == written || *found == 0);
        if !is_ours || file.metadata()?.len() < run.at {
            return Ok(Completed::Changed);
        }
        file.seek(SeekFrom::Start(run.at))?;
        file.write_all(&run.bytes)?;
        completed = match is_missing {
            true => Completed::Created,
            false => Completed::Restored,
        };
    }
    Ok(completed)
}
