//! Standard input, standard output and standard error.

use std::{
    fmt::Display,
    io::{self, ErrorKind, Write},
    sync::OnceLock,
};

use console::style;
use tokio::io::AsyncReadExt;
use tokio_util::sync::CancellationToken;

use super::{exit::Failure, text};

/// The first error of standard output, which is one for the process. A closed pipe is not among them: a reader such as `head`
/// may have seen enough.
static WRITE_ERROR: OnceLock<String> = OnceLock::new();

/// Writes `text` to standard output, and flushes. [`write_failure`] has the error of a write that failed.
///
/// Returns whether the text was written.
pub(crate) fn write(text: &str) -> bool {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    if let Err(error) = &written
        && error.kind() != ErrorKind::BrokenPipe
    {
        WRITE_ERROR.get_or_init(|| error.to_string());
    }
    written.is_ok()
}

/// Returns the failure of a command whose output did not reach standard output; `None` if all of it did, or if the reader has
/// closed the pipe.
pub(crate) fn write_failure() -> Option<Failure> {
    let error = WRITE_ERROR.get()?;
    Some(Failure::new(format!(
        "cannot write to standard output: {error}; part of the output is missing"
    )))
}

/// Writes complete lines to standard output, from any thread.
#[derive(Debug, Default)]
pub struct LineWriter {
    closed: CancellationToken,
}

impl LineWriter {
    /// Writes `text` and a line end, and flushes. Blocks while the reader is slow.
    ///
    /// Once a write has failed, drops lines and cancels [`closed`](Self::closed).
    pub fn write(&self, mut text: String) {
        text.push('\n');
        if self.closed.is_cancelled() || !write(&text) {
            self.closed.cancel();
        }
    }

    /// Returns the token that is cancelled once standard output takes no more: its reader has closed it, or a write failed.
    #[must_use]
    pub fn closed(&self) -> &CancellationToken {
        &self.closed
    }
}

/// Writes an error to standard error.
pub fn print_error(message: &str) {
    // The same colors as clap's errors.
    let prefix = style("error:").for_stderr().red().bold();
    let _ = writeln!(io::stderr(), "{prefix} {}", text::block(message));
}

/// Writes one line to standard error without terminal control sequences, because many lines contain text of agents. Ignores
/// a closed standard error.
pub fn note(line: impl Display) {
    let line = line.to_string();
    let _ = writeln!(io::stderr(), "{}", text::block(&line));
}

/// Reads standard input to its end.
///
/// # Errors
/// Standard input cannot be read, or is not UTF-8. The message names the expected content, `what`.
pub async fn standard_input(what: &str) -> Result<String, Failure> {
    let mut text = String::new();
    let read = tokio::io::stdin().read_to_string(&mut text).await;
    read.map_err(|error| {
        Failure::usage(format!("cannot read {what} from standard input: {error}"))
    })?;
    // A byte order mark of an editor is not part of the text.
    if text.starts_with('\u{feff}') {
        text.remove(0);
    }
    Ok(text)
}
