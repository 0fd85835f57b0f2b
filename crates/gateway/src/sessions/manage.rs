//! Lists, reads, archives, deletes, exports and imports sessions (Heretek A2A §7.3, §7.5). All functions block.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read as _, Take, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::encryption::{DecodeError, Form, KeyId, LineCodec};
use super::line::{Event, NewLine, Scanner};
use super::rekey::draft_path;
use super::scan::SessionMeta;
use super::store::{FILE_BYTES, Store, for_each_name};
use super::{
    ACTIVE, ARCHIVE, EXTENSION, Entry, SessionError, SessionKey, Sessions, file_stem,
    is_agent_name, line,
};
use serde::Deserialize;

use base::files::{self, FileVersion};
use base::json::{self, Limits};
use base::named;

/// Metadata of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The workspace.
    pub agent: String,
    /// The id.
    pub session_id: String,
    /// The state.
    pub state: State,
    /// How its lines are stored; `None` if the first one is damaged.
    pub form: Option<Form>,
    /// The number of entries.
    pub entries: u64,
    /// The time of the first line.
    pub created: SystemTime,
    /// The time of the last line.
    pub updated: SystemTime,
    /// The time of the last commit.
    pub committed: Option<SystemTime>,
    /// The first key of the session that the gateway does not have.
    pub missing_key: Option<KeyId>,
}

named! {
    /// The state of a session.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum State {
        /// The session accepts entries.
        Active = "active",
        /// The session's time to live has expired.
        Expired = "expired",
        /// The session is in the archive.
        Archived = "archived",
        /// The session's file is damaged.
        Corrupt = "corrupt",
        /// The session is encrypted with a key that the gateway does not have.
        NoKey = "no-key",
    }
}

/// Reads the entries that a session had when it was opened, in order. Holds only one entry in memory. Reading blocks.
pub struct Reader {
    key: SessionKey,
    path: PathBuf,
    scanner: Scanner<BufReader<Take<File>>>,
    codec: LineCodec,
    /// The version of the open file, which may no longer be the one at `path`.
    version: FileVersion,
    store: Arc<Store>,
}

impl Reader {
    /// Returns the next line: its entry, which may be a change of the session, and its plain bytes without line end.
    #[expect(clippy::type_complexity, reason = "one caller takes the pair apart")]
    pub(super) fn next_line(
        &mut self,
    ) -> Result<Option<(Entry<'static>, Cow<'_, [u8]>)>, SessionError> {
        let line = self.scanner.next();
        let line = line.map_err(|error| SessionError::io("read", &self.path, error))?;
        let Some(line) = line else { return Ok(None) };
        let decoded = self.codec.decode(&line).map_err(|error| match error {
            DecodeError::Damaged => {
                self.store
                    .set_damaged(&self.path, &self.key, Some(self.version), line.number);
                SessionError::Corrupt(self.key.clone(), self.path.clone(), line.number)
            }
            DecodeError::MissingKey(id) => SessionError::MissingKey(self.key.clone(), id),
        });
        decoded.map(Some)
    }
}

impl Iterator for Reader {
    type Item = Result<Entry<'static>, SessionError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.next_line() {
                Ok(Some((entry, _))) if entry.event.is_none() => return Some(Ok(entry)),
                Ok(Some(_)) => {}
                Ok(None) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

impl Sessions {
    /// Returns the names of all workspaces, sorted.
    ///
    /// # Errors
    /// 3004 if the directory cannot be read.
    pub fn agents(&self) -> Result<Vec<String>, SessionError> {
        let mut names = BTreeSet::new();
        for_each_name(&self.0.store.root, |name| {
            if is_agent_name(name) {
                names.insert(name.to_owned());
            }
        })?;
        Ok(names.into_iter().collect())
    }

    /// Lists at most `limit` sessions of a workspace, the oldest first. With `archived`, archived sessions follow the
    /// others.
    ///
    /// # Errors
    /// 3004 if a file cannot be read.
    pub fn list(
        &self,
        agent: &str,
        archived: bool,
        limit: usize,
    ) -> Result<Vec<Summary>, SessionError> {
        self.0.store.check_agent(agent)?;
        let mut all = self.list_folder(agent, ACTIVE, limit)?;
        if archived {
            all.extend(self.list_folder(agent, ARCHIVE, limit - all.len())?);
        }
        Ok(all)
    }

    fn list_folder(
        &self,
        agent: &str,
        folder: &str,
        limit: usize,
    ) -> Result<Vec<Summary>, SessionError> {
        let store = &self.0.store;
        let mut all = Vec::new();
        for key in self.keys(agent, folder, limit)? {
            let meta = store.meta(&key, folder)?;
            let state = match meta.damaged {
                Some(_) => State::Corrupt,
                None if meta.missing_key.is_some() => State::NoKey,
                None if folder == ARCHIVE => State::Archived,
                None if store.is_expired(&meta) => State::Expired,
                None => State::Active,
            };
            // A file without a complete line does not contain a session yet.
            all.extend(meta.exists.then(|| Summary {
                agent: key.agent,
                session_id: key.session,
                state,
                form: (meta.damaged != Some(1)).then_some(meta.form),
                entries: meta.entries,
                created: time(meta.created),
                updated: time(meta.updated),
                committed: meta.committed.map(time),
                missing_key: meta.missing_key,
            }));
        }
        all.sort_by(|a, b| (a.created, &a.session_id).cmp(&(b.created, &b.session_id)));
        Ok(all)
    }

    /// Returns the sessions in a directory: the first `limit` in order of the file names.
    pub(super) fn keys(
        &self,
        agent: &str,
        folder: &str,
        limit: usize,
    ) -> Result<Vec<SessionKey>, SessionError> {
        let mut stems = BTreeSet::new();
        self.0.store.for_each_session(agent, folder, |stem| {
            stems.insert(stem.to_owned());
            if stems.len() > limit {
                stems.pop_last();
            }
        })?;
        let root = &self.0.store.root;
        let key = |stem: String| {
            let path = root
                .join(agent)
                .join(folder)
                .join(format!("{stem}.{EXTENSION}"));
            let read = read_session_id(&path, &stem);
            // A file in which no line has an id is entirely damaged.
            let session = read
                .map_err(|e| SessionError::io("read", &path, e))?
                .unwrap_or(stem);
            let agent = agent.to_owned();
            Ok(SessionKey { agent, session })
        };
        stems.into_iter().map(key).collect()
    }

    /// Reads the entries of a session.
    ///
    /// # Errors
    /// 4001, 4002, 4004, or 3004 if the file cannot be read.
    pub fn get(&self, agent: &str, session_id: &str) -> Result<Reader, SessionError> {
        let key = self.key(agent, session_id)?;
        let store = &self.0.store;
        let _files = store.files.lock();
        let meta = store.meta(&key, ACTIVE)?;
        if !meta.exists {
            return Err(store.missing(&key));
        }
        store.check_usable(&key, &meta)?;
        self.read(&key, ACTIVE)
    }

    fn read(&self, key: &SessionKey, folder: &str) -> Result<Reader, SessionError> {
        let meta = self.0.store.meta(key, folder)?;
        self.0.store.check_form(key, &meta)?;
        self.reader(key, folder, &meta)
    }

    /// Opens a session file with this metadata.
    pub(super) fn reader(
        &self,
        key: &SessionKey,
        folder: &str,
        meta: &SessionMeta,
    ) -> Result<Reader, SessionError> {
        let store = &self.0.store;
        let path = key.path(&store.root, folder);
        let file = files::open_regular(&path);
        let file = file.map_err(|e| SessionError::io("open", &path, e))?;
        let found = file.metadata();
        let found = found.map_err(|e| SessionError::io("read", &path, e))?;
        let scanner = Scanner::new(BufReader::new(file.take(meta.line_bytes)));
        let (key, codec) = (key.clone(), store.codec(key, meta.form, 0));
        Ok(Reader {
            key,
            path,
            scanner,
            codec,
            version: FileVersion::of(&found),
            store: Arc::clone(store),
        })
    }

    /// Archives the sessions whose last entry is at least this old, and returns their ids. Further operations on them fail
    /// with 4002. Does not archive damaged sessions.
    ///
    /// # Errors
    /// 3004 if a file cannot be renamed, or if the key of a session is missing, whatever its age; no session is archived then.
    pub fn archive(&self, agent: &str, older: Duration) -> Result<Vec<String>, SessionError> {
        self.writable()?;
        let store = &self.0.store;
        store.check_agent(agent)?;
        let (keys, mut archived) = (self.keys(agent, ACTIVE, usize::MAX)?, Vec::new());
        for key in &keys {
            let meta = store.meta(key, ACTIVE)?;
            if let Some(id) = meta.missing_key {
                return Err(SessionError::MissingKey(key.clone(), id));
            }
        }
        for key in keys {
            let _files = store.files.lock();
            let (from, to) = (store.path(&key), store.archive_path(&key));
            let meta = store.meta(&key, ACTIVE)?;
            if !meta.exists || meta.damaged.is_some() || meta.idle(store.now()) < older {
                continue;
            }
            files::rename_durably(&from, &to).map_err(|e| SessionError::io("archive", &from, e))?;
            store.forget(&from);
            store.add_to_count(agent, -1);
            archived.push(key.session);
        }
        Ok(archived)
    }

    /// Deletes a session, whether it is archived or not.
    ///
    /// # Errors
    /// 4001, or 3004 if a file cannot be removed.
    pub fn delete(&self, agent: &str, session_id: &str) -> Result<(), SessionError> {
        self.writable()?;
        let key = self.key(agent, session_id)?;
        let store = &self.0.store;
        let _files = store.files.lock();
        let remove = |path: &Path| {
            store.forget(path);
            files::remove_durably(path).map_err(|e| SessionError::io("delete", path, e))
        };
        let (path, archive_path) = (store.path(&key), store.archive_path(&key));
        for path in [&path, &archive_path] {
            remove(&draft_path(path))?;
        }
        let active = remove(&path)?;
        let archived = remove(&archive_path)?;
        store.add_to_count(agent, -isize::from(active));
        match active || archived {
            true => Ok(()),
            false => Err(SessionError::NotFound(key)),
        }
    }

    /// Writes the entries of a session to `to`, one per line, and returns their number. Accepts expired and archived
    /// sessions.
    ///
    /// # Errors
    /// 4001, 4004, or 3004 if reading or writing fails.
    pub fn export(
        &self,
        agent: &str,
        session_id: &str,
        to: &mut dyn Write,
    ) -> Result<u64, SessionError> {
        let reader = match self.get(agent, session_id) {
            Err(SessionError::Expired(key)) => self.read(&key, ACTIVE),
            Err(SessionError::Archived(key)) => self.read(&key, ARCHIVE),
            other => other,
        };
        let mut count = 0;
        for entry in reader? {
            let written = to.write_all(&line::serialize(&entry?));
            written.map_err(|e| SessionError::io("write", "the export".as_ref(), e))?;
            count += 1;
        }
        Ok(count)
    }

    /// Creates a session for a client from exported lines, with their session id or `session_id`. Returns the id and the number
    /// of entries. Imports either all lines or none. The file counts towards the limits of the client's identity.
    ///
    /// # Errors
    /// 2005 if the id is in use or a line is not an entry of the session, 3003 if the identity has added too much, or 3004 if
    /// reading or writing fails.
    pub(crate) fn import_for(
        &self,
        identity: &Arc<str>,
        agent: &str,
        from: &mut dyn BufRead,
        session_id: Option<&str>,
    ) -> Result<(String, u64), SessionError> {
        self.writable()?;
        let store = &self.0.store;
        store.check_agent(agent)?;
        let folder = store.root.join(agent).join(ACTIVE);
        // A file name that no session can have.
        let draft = folder.join(format!("{}.import", store.env.uuid()));
        let failed = |error| SessionError::io("write", &draft, error);
        files::create_private_dir_durably(&folder).map_err(failed)?;
        let file = BufWriter::new(files::create_private(&draft).map_err(failed)?);
        let imported = self.write_import(identity, agent, from, session_id, file, &draft);
        if imported.is_err() {
            let _ = fs::remove_file(&draft);
        }
        imported
    }

    fn write_import(
        &self,
        identity: &Arc<str>,
        agent: &str,
        from: &mut dyn BufRead,
        session_id: Option<&str>,
        mut file: BufWriter<File>,
        draft: &Path,
    ) -> Result<(String, u64), SessionError> {
        let store = &self.0.store;
        let failed = |error| SessionError::io("write", draft, error);
        let (mut source, mut target) = (None, session_id.map(str::to_owned));
        let (mut entries, mut bytes, mut codec) = (0, FILE_BYTES, None);
        // A draft is encrypted, too.
        let new_codec = |target: &str| {
            let key = self.key(agent, target)?;
            Ok::<_, SessionError>(store.codec(&key, store.form(&SessionMeta::default()), 0))
        };
        let mut lines = Scanner::new(from);
        loop {
            let line = lines.next();
            let line = line.map_err(|e| SessionError::io("read", "the import".as_ref(), e))?;
            let Some(line) = line else { break };
            let invalid = |problem| SessionError::Import(line.number, problem);
            let mut entry: Entry<'static> =
                json::from_slice(line.bytes, Limits::NONE).map_err(|_| {
                    invalid("is not a JSON entry `{timestamp, role, content, sessionId, id}`")
                })?;
            if *source.get_or_insert_with(|| entry.session_id.clone()) != entry.session_id {
                return Err(invalid("belongs to another session; import one at a time"));
            }
            let target = target.get_or_insert_with(|| entry.session_id.clone().into_owned());
            if entry.event.is_none() {
                entry.session_id = target.clone().into();
                let codec = match &mut codec {
                    Some(codec) => codec,
                    new => new.insert(new_codec(target)?),
                };
                let line = NewLine::from(&entry);
                let encoded = codec.encode(&line).map_err(failed)?;
                file.write_all(&encoded).map_err(failed)?;
                (entries, bytes) = (entries + 1, bytes + encoded.len() as u64);
            }
        }
        let (Some(target), Some(mut codec)) = (target, codec) else {
            let problem = "is missing: the import has no entry";
            return Err(SessionError::Import(1, problem));
        };
        let key = self.key(agent, &target)?;
        // The time to live starts with the import.
        let last = Event::Imported.line(&target, store.now());
        let encoded = codec.encode(&last).map_err(failed)?;
        file.write_all(&encoded).map_err(failed)?;
        file.flush().map_err(failed)?;
        let _files = store.files.lock();
        let path = store.path(&key);
        if store.meta(&key, ACTIVE)?.exists || store.archive_path(&key).exists() {
            return Err(SessionError::Exists(key));
        }
        store.charge(identity, bytes)?;
        files::rename_durably(draft, &path).map_err(failed)?;
        store.add_to_count(agent, 1);
        Ok((target, entries))
    }
}

/// The member of a line that names its session.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NamedSession {
    session_id: String,
}

/// Returns the id of the session in the file `path`, whose name is `stem`.
fn read_session_id(path: &Path, stem: &str) -> io::Result<Option<String>> {
    if file_stem(stem) == stem {
        return Ok(Some(stem.to_owned()));
    }
    let mut scanner = Scanner::new(BufReader::new(files::open_regular(path)?));
    while let Some(line) = scanner.next()? {
        // Encrypted lines have this member, too.
        let named: Option<NamedSession> = serde_json::from_slice(line.bytes).ok();
        if let Some(named) = named.filter(|named| file_stem(&named.session_id) == stem) {
            return Ok(Some(named.session_id));
        }
    }
    Ok(None)
}

fn time(millis: u64) -> SystemTime {
    let since = Duration::from_millis(millis);
    UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH)
}
