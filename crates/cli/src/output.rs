//! Standard input, standard output and standard error.

use std::{
    fmt::Display,
    io::{self, Write},
    sync::{Mutex, PoisonError},
};

use console::style;
use tokio::io::AsyncReadExt;
use tokio_util::sync::CancellationToken;

use super::{exit::Failure, text};

/// Writes complete lines to standard output, from any thread.
#[derive(Debug)]
pub struct LineWriter {
    out: Mutex<io::Stdout>,
    closed: CancellationToken,
}

impl Default for LineWriter {
    fn default() -> Self {
        Self {
            out: Mutex::new(io::stdout()),
            closed: CancellationToken::new(),
        }
    }
}

impl LineWriter {
    /// Writes `text` and a line end, and flushes. Blocks while the reader is slow.
    ///
    /// After the reader has closed the pipe, drops lines and cancels [`closed`](Self::closed).
    pub fn write(&self, mut text: String) {
        text.push('\n');
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        if out
            .write_all(text.as_bytes())
            .and_then(|()| out.flush())
            .is_err()
        {
            self.closed.cancel();
        }
    }

    /// Returns the token that is cancelled once the reader has closed standard output.
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
    Ok(text)
}
