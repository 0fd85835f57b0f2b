//! Sessions on their way to the archive, or out: on request, and by themselves where there are many.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::runtime::Handle;

use super::index::{Index, Known};
use super::queue::Writers;
use super::rewrite::renew;
use super::workspace::Workspace;
use super::{SessionError, archive, lock};
use common::log::Level;

/// Nothing that was said to less long ago goes to the archive by itself.
const REST: Duration = Duration::from_mins(1);

/// How long it is before that is tried again.
const AGAIN: Duration = Duration::from_secs(10);

/// So many sessions go to the archive by themselves at a time.
const AT_A_TIME: usize = 10_000;

/// Puts the sessions that `choose` names into the archive. From when they are chosen on they take nothing.
///
/// # Errors
/// A file cannot be written, or `stop` says so. A session is whole in one place or the other whatever happens.
pub(super) fn put_aside(
    workspace: &Workspace,
    choose: &dyn Fn(&Index) -> Vec<String>,
    now: &dyn Fn() -> u64,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<String>, SessionError> {
    let _turn = lock(&workspace.renewing);
    if stop() {
        return Err(SessionError::Busy);
    }
    let chosen = {
        // With the file held, nobody is about to write to one of them.
        let _appender = lock(&workspace.file);
        let mut index = lock(&workspace.index);
        let names = choose(&index);
        index.take_out(&names, true)
    };
    if chosen.is_empty() {
        return Ok(Vec::new());
    }
    let put = || {
        for (session, known) in &chosen {
            if stop() {
                return Err(SessionError::Busy);
            }
            archive::put(workspace, session, known, now())?;
        }
        archive::sync(&workspace.folder)?;
        let gone = |session: &str| {
            let found = chosen.binary_search_by(|(one, _)| one.as_str().cmp(session));
            found.is_ok()
        };
        renew(workspace, &|session| !gone(session), None, now)
    };
    if let Err(error) = put() {
        // Where the new file may be in place, the archive has them. And what cannot be taken out of the archive again must take
        // nothing here: at the next start the archive's word counts.
        if lock(&workspace.file).failed.is_none() {
            let out = |session: &str| {
                archive::remove(&workspace.folder, session).is_ok()
                    || !archive::path(&workspace.folder, session).exists()
            };
            let stays = chosen.into_iter().filter(|(session, _)| out(session));
            let stays = stays.collect();
            lock(&workspace.index).put_back(stays);
        }
        return Err(error);
    }
    Ok(chosen.into_iter().map(|(session, _)| session).collect())
}

/// Takes one session out of the workspace's file, and says whether it was there. Whoever calls it holds the turn to do so.
pub(super) fn take_away(
    workspace: &Workspace,
    session: &str,
    now: &dyn Fn() -> u64,
) -> Result<bool, SessionError> {
    let taken = {
        let _appender = lock(&workspace.file);
        lock(&workspace.index).take_out(&[session.to_owned()], false)
    };
    if taken.is_empty() {
        return Ok(false);
    }
    renew(workspace, &|one| one != session, None, now).inspect_err(|_| {
        if lock(&workspace.file).failed.is_none() {
            lock(&workspace.index).put_back(taken);
        }
    })?;
    Ok(true)
}

impl Writers {
    /// Where a workspace has nearly as many sessions as it may, those that were silent longest go to the archive, off the
    /// path of messages.
    pub(super) fn make_room(self: &Arc<Self>, workspace: &Arc<Workspace>) {
        let most = self.options.most;
        let tenth = (most / 10).clamp(1, AT_A_TIME);
        let crowded = || lock(&workspace.index).len() + tenth > most;
        let tried = &workspace.made_room;
        let now = self.now();
        let soon = |before: u64| {
            let since = Duration::from_millis(now.saturating_sub(before));
            before != 0 && since < AGAIN
        };
        let before = tried.load(Ordering::Relaxed);
        if soon(before) || !crowded() || self.closing.load(Ordering::Relaxed) {
            return;
        }
        let changed = tried.compare_exchange(before, now, Ordering::Relaxed, Ordering::Relaxed);
        // Without a runtime nobody is served either.
        let (Ok(_), Ok(runtime)) = (changed, Handle::try_current()) else {
            return;
        };
        let (writers, workspace) = (Arc::clone(self), Arc::clone(workspace));
        runtime.spawn_blocking(move || {
            let oldest = |index: &Index| longest_silent(index, tenth, writers.now());
            let stop = || writers.closing.load(Ordering::Relaxed);
            match put_aside(&workspace, &oldest, &|| writers.now(), &stop) {
                Ok(gone) if gone.is_empty() => {}
                Ok(gone) => {
                    let message = format!(
                        "the workspace `{}` has as many sessions as it may; those that were silent longest were archived: {}",
                        workspace.agent,
                        gone.len()
                    );
                    writers.log.log(Level::Info, &message);
                }
                Err(SessionError::Busy) => {}
                Err(error) => writers.log.log(Level::Error, &error.to_string()),
            }
        });
    }
}

fn longest_silent(index: &Index, count: usize, now: u64) -> Vec<String> {
    let rested = |known: &Known| {
        let idle = Duration::from_millis(now.saturating_sub(known.updated));
        known.damaged.is_none() && idle >= REST
    };
    let all = index.iter().filter(|(_, known)| rested(known));
    let mut all: Vec<_> = all.map(|(id, known)| (known.updated, id)).collect();
    if all.len() > count {
        all.select_nth_unstable(count);
        all.truncate(count);
    }
    all.into_iter().map(|(_, id)| id.to_owned()).collect()
}
