//! Rewrites session files: encrypted with the first key, or plain. All functions block.

use std::fs;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use super::encryption::Form;
use super::line::NewLine;
use super::scan::SessionMeta;
use super::{ACTIVE, ARCHIVE, SessionError, SessionKey, Sessions};
use base::files;

/// Returns the path of the next content of a session file. No session has this name.
pub(super) fn draft_path(path: &Path) -> PathBuf {
    path.with_extension("rekey")
}

impl Sessions {
    /// Rewrites the sessions of all workspaces, archived ones too, in the form `form`: encrypted with the first key, or plain.
    /// Calls `visit` with each session and whether its file was rewritten: a file that has the form is left. A file that
    /// cannot be rewritten stays unchanged, and the next one follows. A process killed meanwhile leaves each file either as
    /// it was or rewritten.
    ///
    /// # Errors
    /// 3004 if a directory cannot be read or no key is configured, 4003 if the sessions are open for reading.
    pub fn rekey(
        &self,
        form: Form,
        mut visit: impl FnMut(&SessionKey, Result<bool, SessionError>),
    ) -> Result<(), SessionError> {
        self.writable()?;
        if form == Form::Encrypted && self.0.store.keys.is_none() {
            return Err(SessionError::NoKeys);
        }
        for agent in self.agents()? {
            for folder in [ACTIVE, ARCHIVE] {
                for key in self.keys(&agent, folder, usize::MAX)? {
                    let rewritten = self.rewrite(&key, folder, form);
                    visit(&key, rewritten);
                }
            }
        }
        Ok(())
    }

    fn rewrite(&self, key: &SessionKey, folder: &str, form: Form) -> Result<bool, SessionError> {
        let store = &self.0.store;
        let _files = store.files.lock();
        let path = key.path(&store.root, folder);
        let draft = draft_path(&path);
        let failed = |error| SessionError::io("write", &draft, error);
        // A process that was killed may have left it.
        files::remove_durably(&draft).map_err(failed)?;
        // `Store::meta` would also log the error that this returns.
        let keys = store.keys.as_deref();
        let scanned = files::open_regular(&path)
            .and_then(|file| SessionMeta::scan(&file, &key.session, store.now(), keys, None));
        let meta = scanned.map_err(|error| SessionError::io("read", &path, error))?;
        if let Some(line) = meta.damaged {
            return Err(SessionError::Corrupt(key.clone(), path, line));
        }
        if let Some(id) = meta.missing_key {
            return Err(SessionError::MissingKey(key.clone(), id));
        }
        if !meta.exists || (meta.form == form && !(form == Form::Encrypted && meta.has_older_key)) {
            return Ok(false);
        }
        let written = self.write_draft(key, folder, &meta, form, &draft);
        let renamed = written.and_then(|()| files::rename_durably(&draft, &path).map_err(failed));
        if renamed.is_err() {
            let _ = fs::remove_file(&draft);
        }
        store.forget(&path);
        renamed?;
        store.log_torn(&path, &meta);
        Ok(true)
    }

    fn write_draft(
        &self,
        key: &SessionKey,
        folder: &str,
        meta: &SessionMeta,
        form: Form,
        draft: &Path,
    ) -> Result<(), SessionError> {
        let failed = |error: io::Error| SessionError::io("write", draft, error);
        let mut file = BufWriter::new(files::create_private(draft).map_err(failed)?);
        let mut reader = self.reader(key, folder, meta)?;
        let mut codec = self.0.store.codec(key, form, 0);
        while let Some((entry, bytes)) = reader.next_line()? {
            let line = NewLine {
                event: entry.event,
                time: entry.timestamp,
                id: entry.id.into_owned(),
                bytes: [&bytes, b"\n".as_slice()].concat(),
            };
            let encoded = codec.encode(&line).map_err(failed)?;
            file.write_all(&encoded).map_err(failed)?;
        }
        file.flush().map_err(failed)
    }
}
