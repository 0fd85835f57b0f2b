//! Which task of an earlier command a call continues, by a continuation file or by task id, and how long the call waits.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use base::{
    files::create_private,
    json::{self, Limits},
};
use serde_json::{Map, Value};

use super::exit::Failure;

/// Which task a command is about.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Task")]
pub(super) struct FollowUpArgs {
    /// Continue from the file that `send --save FILE` wrote
    #[arg(long, value_name = "FILE", conflicts_with = "task")]
    continuation: Option<PathBuf>,

    /// Continue the task with this id
    #[arg(long, value_name = "ID")]
    task: Option<String>,
}

impl FollowUpArgs {
    /// Reads the continuation file, if the options name one.
    ///
    /// # Errors
    /// The file cannot be read, or does not contain a continuation.
    pub(super) fn read(&self) -> Result<FollowUp<'_>, Failure> {
        let file = self.continuation.as_deref();
        Ok(FollowUp {
            continuation: file.map(read).transpose()?,
            file,
            task: self.task.as_deref(),
        })
    }
}

/// The task or conversation to continue.
#[derive(Clone, Debug, Default)]
pub(super) struct FollowUp<'a> {
    /// The continuation in the file.
    pub(super) continuation: Option<Value>,
    /// The file.
    pub(super) file: Option<&'a Path>,
    /// The task of `--task`.
    pub(super) task: Option<&'a str>,
}

impl FollowUp<'_> {
    /// Adds the continuation or the task id to a request.
    pub(super) fn add_to(&self, request: &mut Map<String, Value>) {
        if let Some(continuation) = &self.continuation {
            request.insert("continuation".to_owned(), continuation.clone());
        }
        if let Some(task) = self.task {
            request.insert("task_id".to_owned(), task.into());
        }
    }

    /// Returns whether the options name a task or a conversation.
    pub(super) fn has_task(&self) -> bool {
        self.continuation.is_some() || self.task.is_some()
    }
}

/// Reads a continuation that [`save`] wrote.
///
/// # Errors
/// The file cannot be read, or does not contain a continuation.
pub(super) fn read(file: &Path) -> Result<Value, Failure> {
    let invalid = |cause: String| {
        let file = file.display();
        Failure::usage(format!(
            "cannot continue from `{file}`: {cause}; name a file that `remote-agent send --save FILE` wrote"
        ))
    };
    let text = fs::read(file).map_err(|error| invalid(error.to_string()))?;
    let value: Value =
        json::from_slice(&text, Limits::NONE).map_err(|error| invalid(error.to_string()))?;
    let names = |part: &str, field: &str| value[part][field].is_string();
    if names("target", "target_url")
        && (names("task", "task_id") || names("conversation", "context_id"))
        || value["group"]["members"].is_array()
    {
        return Ok(value);
    }
    Err(invalid(
        if value["targets"].is_array() {
            "it contains a configuration"
        } else {
            "it contains no continuation"
        }
        .to_owned(),
    ))
}

/// Writes a continuation to a file that only this user can read: its holder can send messages in the conversation. Replaces
/// an existing file atomically.
///
/// # Errors
/// The file cannot be written.
pub(super) fn save(file: &Path, continuation: &Value) -> Result<(), Failure> {
    replace(file, &format!("{continuation}\n")).map_err(|error| {
        Failure::new(format!(
            "cannot write the continuation to `{}`: {error}; it is {continuation}",
            file.display()
        ))
    })
}

/// Checks that a continuation can later be written to `file`, without changing the file.
///
/// # Errors
/// The file cannot be written.
pub(super) fn check_writable(file: &Path) -> Result<(), Failure> {
    let created = if file.is_dir() {
        Err(io::ErrorKind::IsADirectory.into())
    } else {
        let new = temporary_path(file);
        create_private(&new).and_then(|_| fs::remove_file(&new))
    };
    created.map_err(|error| {
        Failure::usage(format!(
            "cannot write `--save {}`: {error}; nothing was sent",
            file.display()
        ))
    })
}

/// Returns the path of the temporary file that [`save`] renames to `file`.
fn temporary_path(file: &Path) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    file.with_file_name(name)
}

fn replace(file: &Path, text: &str) -> io::Result<()> {
    let new = temporary_path(file);
    let written = create_private(&new)
        .and_then(|mut out| out.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(&new, file));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

/// The timeout of a call.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(super) struct TimeoutArgs {
    /// How long to wait: 500ms, 5s, 10m or 1h; a followed task continues after it [default: 25s for a followed task
    /// (limits.waitMs), else 2m (defaults.timeoutMs)]
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with = "timeout_ms")]
    timeout: Option<Duration>,

    /// The same as a number of milliseconds
    #[arg(long, value_name = "N", value_parser = milliseconds)]
    timeout_ms: Option<u64>,
}

impl TimeoutArgs {
    /// Returns the timeout in milliseconds.
    pub(super) fn milliseconds(self) -> Option<u64> {
        self.timeout
            .map(base::environment::millis)
            .or(self.timeout_ms)
    }
}

/// Parses a duration of at least one millisecond, with a unit.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    if !text.is_empty() && text.chars().all(|c| c.is_ascii_digit()) {
        return Err(match text.bytes().all(|digit| digit == b'0') {
            true => "it must be more than zero, such as 500ms, 5s, 10m or 1h".to_owned(),
            false => format!("it has no unit; try `{text}s` for seconds"),
        });
    }
    let duration = humantime::parse_duration(text)
        .map_err(|_| "it is no duration such as 500ms, 5s, 10m or 1h".to_owned())?;
    match duration.as_millis() {
        0 => Err("it is shorter than a millisecond".to_owned()),
        _ => Ok(duration),
    }
}

fn milliseconds(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(0) => Err("it is 0; the shortest timeout is 1".to_owned()),
        Ok(number) => Ok(number),
        Err(_) if duration(text).is_ok() => Err(format!("it is no number; try `--timeout {text}`")),
        Err(_) => Err("it is no number of milliseconds".to_owned()),
    }
}

#[cfg(test)]
mod timeout_tests {
    use super::*;

    #[test]
    fn timeout_is_read_or_refused_with_advice() {
        for (text, millis) in [
            ("500ms", 500),
            ("5s", 5000),
            ("10m", 600_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(milliseconds("200"), Ok(200));
        for (text, of_duration, of_milliseconds) in [
            ("5", "try `5s`", ""),
            ("0s", "shorter", "no number"),
            ("", "no duration", "no number"),
            ("5 x", "no duration", "no number"),
            ("5s", "", "`--timeout 5s`"),
            ("0", "more than zero", "the shortest"),
        ] {
            let advice = duration(text).err().unwrap_or_default();
            assert!(advice.contains(of_duration), "{text}: {advice}");
            assert_eq!(advice.is_empty(), of_duration.is_empty(), "{text}");
            let advice = milliseconds(text).err().unwrap_or_default();
            assert!(advice.contains(of_milliseconds), "{text}: {advice}");
            assert_eq!(advice.is_empty(), of_milliseconds.is_empty(), "{text}");
        }
    }
}
