//! Where the entries of each session are, and what is known of it. It holds no content.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// Lines of other sessions between two of one session are read over where they are fewer bytes than this.
const GAP: u64 = 64 << 10;

/// So many pieces of the file are remembered for one session. Where there are more, neighbours become one.
const PIECES: usize = 128;

/// The sessions of one workspace.
#[derive(Default)]
pub(super) struct Index {
    sessions: HashMap<String, Known>,
    /// Those that are on their way to the archive, and take nothing.
    leaving: HashSet<String>,
    /// Damaged lines that say no session they could belong to.
    pub(super) strays: u64,
}

/// What is known of a session. Times are in milliseconds since 1970.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    /// Where its lines are, in order: from a byte of the file to the byte behind. Others' lines may be among them.
    pub(super) pieces: Vec<(u64, u64)>,
    pub(super) entries: u64,
    pub(super) created: u64,
    pub(super) updated: u64,
    pub(super) committed: Option<u64>,
    /// The first line that cannot be read.
    pub(super) damaged: Option<u64>,
}

/// What a line does to its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// It is an entry.
    Entry,
    /// It says that the session was committed.
    Committed,
    /// It says something else.
    Other,
}

impl Index {
    pub(super) fn get(&self, session: &str) -> Option<&Known> {
        self.sessions.get(session)
    }

    pub(super) fn len(&self) -> usize {
        self.sessions.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Known)> {
        self.sessions.iter().map(|(id, known)| (id.as_str(), known))
    }

    /// A line of a session is in the file, from byte `start` to the one before `end`, written at `time`.
    pub(super) fn note(
        &mut self,
        session: &str,
        change: Change,
        (start, end): (u64, u64),
        time: u64,
    ) {
        let known = self.known(session, time);
        known.updated = known.updated.max(time);
        known.entries += u64::from(change == Change::Entry);
        if change == Change::Committed {
            known.committed = Some(time);
        }
        match known.pieces.last_mut() {
            Some(last) if start.saturating_sub(last.1) <= GAP => last.1 = end,
            _ => known.pieces.push((start, end)),
        }
        if known.pieces.len() > PIECES {
            let pairs = known.pieces.chunks(2);
            let joined = pairs.filter_map(|pair| Some((pair.first()?.0, pair.last()?.1)));
            known.pieces = joined.collect();
        }
    }

    /// A line of a session cannot be read.
    pub(super) fn damage(&mut self, session: &str, line: u64) {
        self.known(session, 0).damaged.get_or_insert(line);
    }

    /// Takes sessions out whose lines are about to be taken out of the file, and gives what was known of them by their names in
    /// order. `archived`: they go to the archive, and cannot begin anew.
    pub(super) fn take_out(&mut self, names: &[String], archived: bool) -> Vec<(String, Known)> {
        let taken = names.iter().filter_map(|name| {
            let known = self.sessions.remove(name)?;
            if archived {
                self.leaving.insert(name.clone());
            }
            Some((name.clone(), known))
        });
        let mut taken: Vec<_> = taken.collect();
        taken.sort_by(|a, b| a.0.cmp(&b.0));
        taken
    }

    /// They stay: their lines are still in the file.
    pub(super) fn put_back(&mut self, taken: Vec<(String, Known)>) {
        for (session, before) in taken {
            self.leaving.remove(&session);
            let merged = match self.sessions.remove(&session) {
                None => before,
                Some(since) => before.and(since),
            };
            self.sessions.insert(session, merged);
        }
    }

    /// It is on its way to the archive.
    pub(super) fn is_leaving(&self, session: &str) -> bool {
        self.leaving.contains(session)
    }

    /// Forgets the sessions that `which` names.
    pub(super) fn forget(&mut self, which: impl Fn(&str) -> bool) {
        self.sessions.retain(|session, _| !which(session));
    }

    fn known(&mut self, session: &str, time: u64) -> &mut Known {
        self.sessions
            .entry(session.to_owned())
            .or_insert_with(|| Known {
                created: time,
                ..Known::default()
            })
    }
}

impl Known {
    /// What is known of it with what came after.
    fn and(mut self, since: Self) -> Self {
        self.pieces.extend(since.pieces);
        Self {
            pieces: self.pieces,
            entries: self.entries + since.entries,
            created: self.created,
            updated: self.updated.max(since.updated),
            committed: since.committed.or(self.committed),
            damaged: self.damaged.or(since.damaged),
        }
    }

    /// Its time is up.
    pub(super) fn is_over(&self, now: u64, ttl: Option<Duration>) -> bool {
        let idle = Duration::from_millis(now.saturating_sub(self.updated));
        ttl.is_some_and(|ttl| idle > ttl)
    }
}
