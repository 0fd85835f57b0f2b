//! A workspace's file, written anew and put in place of the old one: either all of it happens or nothing.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use super::line::{Head, Scanner, session_of_damaged};
use super::load::load;
use super::lock::hold;
use super::workspace::{Appender, Workspace};
use super::{SessionError, files, lock};
use crate::log::Silent;

/// What writes more lines behind the old ones.
pub(super) type More<'a> = &'a mut dyn FnMut(&mut dyn Write) -> Result<(), SessionError>;

/// Writes the file anew with the lines of the sessions that `keep` names, and with `more` behind them. Lines that do not say
/// whose they are stay.
pub(super) fn rewrite(
    workspace: &Workspace,
    appender: &mut Appender,
    keep: &dyn Fn(&str) -> bool,
    more: Option<More<'_>>,
    now: u64,
) -> Result<(), SessionError> {
    let path = workspace.path();
    appender.usable(&path)?;
    let old = workspace.opened(appender)?;
    let wrong = |error| SessionError::io("write", &path, error);
    let new = path.with_extension("jsonl.new");
    let mut to = BufWriter::new(files::create_new(&new).map_err(wrong)?);
    copy(&path, &mut to, keep).map_err(wrong)?;
    if let Some(more) = more
        && let Err(error) = more(&mut to)
    {
        // The old file holds; what is left of the new one is in nobody's way.
        let _ = fs::remove_file(&new);
        return Err(error);
    }
    let done = to.into_inner().map_err(io::IntoInnerError::into_error);
    done.and_then(|file| file.sync_all())
        .and_then(|()| fs::rename(&new, &path))
        .map_err(wrong)?;
    drop(old);
    let replaced = files::sync_folder(&workspace.folder)
        .and_then(|()| files::open_to_append(&path))
        // What is damaged has been told.
        .and_then(|file| Ok((load(&file, &path, now, &Silent)?, file)));
    match replaced {
        Ok((loaded, file)) => {
            hold(&file, &path)?;
            *lock(&workspace.index) = loaded.index;
            *appender = Appender {
                file: Some(Arc::new(file)),
                end: loaded.end,
                lines: loaded.lines,
                scheduled: appender.scheduled,
                ..Appender::default()
            };
            Ok(())
        }
        Err(error) => {
            appender.failed = Some(error.to_string());
            Err(wrong(error))
        }
    }
}

fn copy(from: &Path, to: &mut impl Write, keep: &dyn Fn(&str) -> bool) -> io::Result<()> {
    let mut lines = Scanner::new(BufReader::with_capacity(256 << 10, File::open(from)?), 0);
    while let Some(line) = lines.next()? {
        // A line that was too long to be looked at is let go with the first rewrite: it belongs to nobody.
        let Some(bytes) = line.bytes else {
            continue;
        };
        let stays = match Head::read(bytes) {
            Some(head) => keep(&head.session_id),
            None => session_of_damaged(bytes).is_none_or(|session| keep(&session)),
        };
        if stays {
            to.write_all(bytes)?;
            to.write_all(b"\n")?;
        }
    }
    Ok(())
}
