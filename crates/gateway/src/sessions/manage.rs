//! What people do with sessions: list, get, archive, delete, export, import (000 §7.3, §7.5). All of it blocks.

use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::aside::{put_aside, take_away};
use super::index::{Index, Known};
use super::line::{self, Event, Scanner, Written};
use super::reader::{Lines, Reader};
use super::rewrite::{Rewrite, renew};
use super::workspace::Workspace;
use super::{Entry, SessionError, Sessions, archive, folders, lock, name};

/// What is known of a session without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The workspace.
    pub agent: String,
    /// Its id.
    pub session_id: String,
    /// Where it stands.
    pub state: State,
    /// How many entries it has.
    pub entries: u64,
    /// When it began.
    pub created: SystemTime,
    /// When something was last kept.
    pub updated: SystemTime,
    /// When it was last committed.
    pub committed: Option<SystemTime>,
}

/// Where a session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It goes on.
    Active,
    /// Its time is up.
    Expired,
    /// It is in the archive.
    Archived,
    /// Some of it cannot be read.
    Corrupt,
}

impl State {
    /// `active`, `expired`, `archived` or `corrupt`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Expired => "expired",
            Self::Archived => "archived",
            Self::Corrupt => "corrupt",
        }
    }
}

impl Sessions {
    /// The workspaces there are, by name.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn agents(&self) -> Result<Vec<String>, SessionError> {
        folders(&self.0.folder)
    }

    /// The sessions of a workspace, oldest first, those of the archive behind the others.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn list(&self, agent: &str) -> Result<Vec<Summary>, SessionError> {
        let workspace = self.0.workspace(agent)?;
        let now = self.0.writers.now();
        let ttl = self.0.writers.options.ttl;
        let summary = |id: &str, known: &Known| Summary {
            agent: agent.to_owned(),
            session_id: id.to_owned(),
            state: match known {
                Known {
                    damaged: Some(_), ..
                } => State::Corrupt,
                known if known.is_over(now, ttl) => State::Expired,
                _ => State::Active,
            },
            entries: known.entries,
            created: time(known.created),
            updated: time(known.updated),
            committed: known.committed.map(time),
        };
        let index = lock(&workspace.index);
        let mut all: Vec<_> = index.iter().map(|(id, known)| summary(id, known)).collect();
        drop(index);
        all.sort_by(|a, b| (a.created, &a.session_id).cmp(&(b.created, &b.session_id)));
        let archived = archive::all(&workspace.folder)?;
        all.extend(archived.into_iter().map(|(session_id, about)| Summary {
            agent: agent.to_owned(),
            session_id,
            state: State::Archived,
            entries: about.entries,
            created: time(about.created),
            updated: time(about.updated),
            committed: about.committed.map(time),
        }));
        Ok(all)
    }

    /// Lines of a workspace's file that are damaged and do not say which session they belong to. None of them was lost by a
    /// crash of the gateway.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn strays(&self, agent: &str) -> Result<u64, SessionError> {
        Ok(lock(&self.0.workspace(agent)?.index).strays)
    }

    /// The entries of a session.
    ///
    /// # Errors
    /// 4001, 4002, 4004, or a file cannot be read.
    pub fn get(&self, agent: &str, session_id: &str) -> Result<Reader, SessionError> {
        let workspace = self.0.workspace(agent)?;
        name::session(session_id)?;
        let now = self.0.writers.now();
        // With the file held, what is known of the session and the file belong together.
        let _appender = lock(&workspace.file);
        let known = workspace.known(session_id, now, &self.0.writers.options)?;
        let lines = Lines::open(&workspace.path(), known.pieces, session_id)?;
        Ok(Reader::new(lines))
    }

    /// Puts sessions into the archive whose last entry is at least this old, and says which. They are over then: 4002.
    /// Damaged ones stay.
    ///
    /// # Errors
    /// A file cannot be written. A session is whole in one place or the other whatever happens.
    pub fn archive(&self, agent: &str, older: Duration) -> Result<Vec<String>, SessionError> {
        self.0.writable()?;
        let workspace = self.0.workspace(agent)?;
        let writers = &self.0.writers;
        let old = |index: &Index| {
            let now = writers.now();
            let idle = |known: &Known| Duration::from_millis(now.saturating_sub(known.updated));
            let old = |known: &Known| known.damaged.is_none() && idle(known) >= older;
            let chosen = index.iter().filter(|(_, known)| old(known));
            chosen.map(|(id, _)| id.to_owned()).collect()
        };
        put_aside(&workspace, &old, &|| writers.now(), &|| false)
    }

    /// Takes a session away, from the archive too. What was said is gone from the files.
    ///
    /// # Errors
    /// 4001, or a file cannot be written.
    pub fn delete(&self, agent: &str, session_id: &str) -> Result<(), SessionError> {
        self.0.writable()?;
        name::session(session_id)?;
        let workspace = self.0.workspace(agent)?;
        let _turn = lock(&workspace.renewing);
        let is_here = take_away(&workspace, session_id, &|| self.0.writers.now())?;
        let was_archived = archive::remove(&workspace.folder, session_id)?;
        if is_here || was_archived {
            return Ok(());
        }
        Err(workspace.unknown(session_id))
    }

    /// Writes the entries of a session to `to`, one a line, and says how many. Archived and expired ones are read as well.
    ///
    /// # Errors
    /// 4001, 4004, or something cannot be read or written.
    pub fn export(
        &self,
        agent: &str,
        session_id: &str,
        to: &mut dyn Write,
    ) -> Result<u64, SessionError> {
        let reader = match self.get(agent, session_id) {
            Err(SessionError::Expired { archived, .. }) => {
                self.over(agent, session_id, archived)?
            }
            other => other?,
        };
        let mut count = 0;
        for entry in reader {
            let line = line::entry(&entry?);
            let written = to.write_all(&line);
            written.map_err(|e| SessionError::io("write", "the export".as_ref(), e))?;
            count += 1;
        }
        Ok(count)
    }

    /// A session that is over.
    fn over(&self, agent: &str, session: &str, archived: bool) -> Result<Reader, SessionError> {
        let workspace = self.0.workspace(agent)?;
        if archived {
            let path = archive::path(&workspace.folder, session);
            return Ok(Reader::new(Lines::open(
                &path,
                vec![(0, u64::MAX)],
                session,
            )?));
        }
        let _appender = lock(&workspace.file);
        let known = lock(&workspace.index).get(session).cloned();
        let pieces = known.ok_or_else(|| workspace.unknown(session))?.pieces;
        Ok(Reader::new(Lines::open(
            &workspace.path(),
            pieces,
            session,
        )?))
    }

    /// Makes a session of lines that were exported, under the id they have or another, and says its id and how many entries
    /// it has. All of it is there afterwards, or nothing.
    ///
    /// # Errors
    /// 2005 there is one of this id or the lines are no session, or something cannot be read or written.
    pub fn import(
        &self,
        agent: &str,
        from: &mut dyn BufRead,
        session_id: Option<&str>,
    ) -> Result<(String, u64), SessionError> {
        self.0.writable()?;
        session_id.map_or(Ok(()), name::session)?;
        let workspace = self.0.workspace(agent)?;
        let writers = &self.0.writers;
        let _turn = lock(&workspace.renewing);
        let sessions = lock(&workspace.index).len();
        if sessions >= writers.options.most {
            let (agent, most) = (agent.to_owned(), writers.options.most);
            return Err(SessionError::Full { agent, most });
        }
        let mut import = Import {
            workspace: &workspace,
            from: Some(from),
            theirs: None,
            ours: session_id.map(str::to_owned),
            entries: 0,
        };
        let mut more = |to: &mut Rewrite<'_>| import.write(to, writers.now());
        renew(&workspace, &|_| true, Some(&mut more), &|| writers.now())?;
        Ok((import.ours.unwrap_or_default(), import.entries))
    }
}

/// What becomes of lines that are imported.
struct Import<'a> {
    workspace: &'a Arc<Workspace>,
    from: Option<&'a mut dyn BufRead>,
    theirs: Option<String>,
    ours: Option<String>,
    entries: u64,
}

impl Import<'_> {
    fn write(&mut self, to: &mut Rewrite<'_>, now: u64) -> Result<(), SessionError> {
        let Some(from) = self.from.take() else {
            return Ok(());
        };
        let mut lines = Scanner::new(from, 0);
        loop {
            let line = lines.next();
            let line = line.map_err(|e| SessionError::io("read", "the import".as_ref(), e))?;
            let Some(line) = line else { break };
            let bytes = line.bytes.unwrap_or_default();
            if line.bytes.is_some() && bytes.trim_ascii().is_empty() {
                continue;
            }
            if let Some(entry) = self.entry(bytes, line.number)? {
                to.line(line::entry(&entry).trim_ascii_end())?;
                self.entries += 1;
            }
        }
        let Some(ours) = &self.ours.clone().filter(|_| self.entries > 0) else {
            return Err(SessionError::Import {
                line: 1,
                why: "is missing: there is no entry".into(),
            });
        };
        let last = line::event(Event::Imported, ours, now, Value::from("session imported"));
        to.line(last.trim_ascii_end())
    }

    /// The entry on a line, in our session.
    fn entry(&mut self, line: &[u8], number: u64) -> Result<Option<Entry<'static>>, SessionError> {
        let wrong = |why: &str| SessionError::Import {
            line: number,
            why: why.to_owned(),
        };
        let written: Written<'_> = serde_json::from_slice(line).map_err(|_| {
            wrong("is no entry `{timestamp, role, content, sessionId, id}` in JSON")
        })?;
        let theirs = written.entry.session_id.as_ref();
        match &self.theirs {
            Some(first) if first != theirs => {
                return Err(wrong("belongs to another session; import one at a time"));
            }
            Some(_) => {}
            None => {
                let ours = self.ours.get_or_insert_with(|| theirs.to_owned());
                name::session(ours)?;
                self.theirs = Some(theirs.to_owned());
                self.is_new()?;
            }
        }
        if written.event.is_some() {
            return Ok(None);
        }
        let mut entry = written.entry.into_owned();
        entry.session_id = self.ours.clone().unwrap_or_default().into();
        Ok(Some(entry))
    }

    fn is_new(&self) -> Result<(), SessionError> {
        let session = self.ours.clone().unwrap_or_default();
        let is_here = {
            let index = lock(&self.workspace.index);
            index.get(&session).is_some() || index.is_leaving(&session)
        };
        let known = is_here || archive::path(&self.workspace.folder, &session).exists();
        if !known {
            return Ok(());
        }
        let agent = self.workspace.agent.clone();
        Err(SessionError::Exists { agent, session })
    }
}

fn time(millis: u64) -> SystemTime {
    let since = Duration::from_millis(millis);
    UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH)
}
