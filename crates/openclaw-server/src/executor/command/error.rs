//! Errors of the command `openclaw`. Each has a reason for programs and a text for people.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{CommandSettings, RunMode};
use base::process::Finished;
use base::text::first_chars;

/// The maximum length of a text of OpenClaw in an error, in characters.
const MAX_TEXT_CHARS: usize = 1000;

/// An error that prevents a turn from returning an answer.
#[derive(Debug, PartialEq)]
pub(super) struct CommandError {
    /// The reason in one word, for programs.
    pub reason: &'static str,
    /// What failed, why, and what to do.
    pub text: String,
}

impl CommandError {
    fn new(reason: &'static str, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { reason, text }
    }

    /// Returns the error of a command that cannot be started.
    pub(super) fn start_failed(error: &io::Error, settings: &CommandSettings) -> Self {
        let folder = settings
            .working_directory
            .as_deref()
            .filter(|folder| !folder.is_dir());
        if let Some(folder) = folder {
            let text = format!(
                "`--working-directory` (in a configuration `workingDirectory`) is `{}`, which is not a directory",
                folder.display()
            );
            return Self::new("working_directory_not_found", text);
        }
        let path = settings.openclaw_path.display();
        match error.kind() {
            io::ErrorKind::NotFound => Self::not_found(settings),
            // The standard library has no error kind for a file that is not executable code.
            io::ErrorKind::PermissionDenied => Self::not_executable(settings),
            _ if error.raw_os_error() == Some(ENOEXEC) => Self::not_executable(settings),
            _ => Self::new(
                "not_started",
                format!("cannot start the command `{path}`: {error}"),
            ),
        }
    }

    fn not_found(settings: &CommandSettings) -> Self {
        let path = settings.openclaw_path.display();
        let text = format!(
            "there is no command `{path}`; install OpenClaw, or set `--openclaw-path` (in a configuration `openclawPath`) to its path"
        );
        Self::new("binary_not_found", text)
    }

    fn not_executable(settings: &CommandSettings) -> Self {
        let path = settings.openclaw_path.display();
        let text = format!(
            "`{path}` cannot be executed; set `--openclaw-path` (in a configuration `openclawPath`) to the command of OpenClaw, and make it executable"
        );
        Self::new("binary_not_executable", text)
    }

    pub(super) fn timed_out(limit: Duration) -> Self {
        let text = format!(
            "OpenClaw did not finish within {} s and was stopped; ask for less, or set a longer `timeout`",
            limit.as_secs_f64()
        );
        Self::new("timeout", text)
    }

    /// Returns the error of a turn that OpenClaw stopped.
    pub(super) fn stopped() -> Self {
        Self::new(
            "timeout",
            "OpenClaw ended the turn before it finished; ask for less, or set a longer `timeout`",
        )
    }

    pub(super) fn canceled() -> Self {
        Self::new("canceled", "the turn was canceled on request")
    }

    pub(super) fn unknown_agent() -> Self {
        Self::new(
            "agent_not_found",
            "OpenClaw has no agent; create one with `openclaw agents add`",
        )
    }

    /// Returns the error if OpenClaw rejected every mode that `local` allows.
    pub(super) fn mode_rejected(local: RunMode) -> Self {
        match local {
            RunMode::Auto => Self::new(
                "gateway_unreachable",
                "OpenClaw's gateway started or stopped during the command; send the message again",
            ),
            RunMode::InProcess => Self::new(
                "gateway_running",
                "cannot run the turn with `--local`: a gateway runs on OpenClaw's state; stop it, or set `local` to `auto`",
            ),
            RunMode::Gateway => Self::new(
                "gateway_unreachable",
                "cannot reach OpenClaw's gateway: the connection is refused; start it, or set `local` to `auto`",
            ),
        }
    }

    /// Replaces the home directory in the text by `~`.
    pub(super) fn redact_home(mut self, home: Option<&Path>) -> Self {
        if let Some(home) = home.and_then(Path::to_str) {
            self.text = self.text.replace(home, "~");
        }
        self
    }

    pub(super) fn malformed(cause: &str) -> Self {
        Self::new(
            "invalid_json",
            format!("OpenClaw's answer is invalid: {cause}"),
        )
    }

    /// Returns the error of a turn that OpenClaw reports as failed.
    pub(super) fn agent(cause: &str) -> Self {
        let text = match excerpt(cause) {
            "" => "the agent's turn failed and OpenClaw does not say why",
            cause => cause,
        };
        Self::new("agent_failed", text.to_owned())
    }

    /// Returns the error that OpenClaw reported before the turn.
    pub(super) fn reported(message: &str) -> Self {
        let lower = message.to_ascii_lowercase();
        let reason = match () {
            () if lower.contains("thinking level") && lower.contains("not supported") => {
                THINKING_NOT_SUPPORTED
            }
            () if lower.contains("unknown agent id") => "agent_not_found",
            () if lower.contains("gateway") && lower.contains("not reachable") => {
                "gateway_unreachable"
            }
            () if lower.contains("config")
                && (lower.contains("invalid") || lower.contains("parse")) =>
            {
                "bad_config"
            }
            () => "openclaw_error",
        };
        Self::new(reason, format!("OpenClaw says: {}", excerpt(message)))
    }

    /// Returns the error of output that contains no answer.
    pub(super) fn without_answer(finished: &Finished) -> Self {
        let stderr = finished.stderr_tail(MAX_TEXT_CHARS);
        let with_stderr = |what: String| match stderr.as_str() {
            "" => what,
            stderr => format!("{what}; its last output was: {stderr}"),
        };
        #[cfg(unix)]
        if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&finished.status) {
            return Self::new(
                "killed",
                with_stderr(format!("the command was ended by signal {signal}")),
            );
        }
        if finished.is_truncated {
            return Self::new(
                "output_too_large",
                "the command printed more than the maximum size of an answer",
            );
        }
        match finished.status.code() {
            Some(0) if finished.out.iter().all(u8::is_ascii_whitespace) => {
                Self::new("no_output", with_stderr("the command printed nothing".into()))
            }
            Some(0) => Self::new(
                "invalid_json",
                with_stderr("the command printed no JSON answer; check that `--openclaw-path` (in a configuration `openclawPath`) is OpenClaw's command".into()),
            ),
            code => {
                let lower = stderr.to_ascii_lowercase();
                let bad = lower.contains("config") && (lower.contains("invalid") || lower.contains("parse"));
                let reason = if bad { "bad_config" } else { "exit_status" };
                let code = code.map_or("no status".to_owned(), |code| format!("status {code}"));
                Self::new(reason, with_stderr(format!("the command ended with {code}")))
            }
        }
    }
}

/// The reason if the model does not support the thinking level.
pub(super) const THINKING_NOT_SUPPORTED: &str = "thinking_not_supported";

/// The operating system's error for a file that is not executable code (`ENOEXEC`).
const ENOEXEC: i32 = 8;

fn excerpt(text: &str) -> &str {
    first_chars(text.trim(), MAX_TEXT_CHARS)
}

/// Checks that the command exists. Searches the directories of `path` for a name without `/`.
pub(super) fn find(settings: &CommandSettings, path: Option<OsString>) -> Result<(), CommandError> {
    let command = &settings.openclaw_path;
    let folder = settings
        .working_directory
        .as_deref()
        .unwrap_or(Path::new(""));
    let candidates: Vec<PathBuf> = match command.components().count() {
        0 | 1 => std::env::split_paths(&path.unwrap_or_default())
            .map(|directory| directory.join(command))
            .collect(),
        _ => vec![folder.join(command)],
    };
    let files: Vec<_> = candidates
        .iter()
        .filter_map(|candidate| candidate.metadata().ok())
        .filter(|metadata| metadata.is_file())
        .collect();
    match () {
        () if files.iter().any(is_executable) => Ok(()),
        () if files.is_empty() => Err(CommandError::not_found(settings)),
        () => Err(CommandError::not_executable(settings)),
    }
}

fn is_executable(metadata: &std::fs::Metadata) -> bool {
    #[cfg(unix)]
    return std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o111 != 0;
    #[cfg(not(unix))]
    return metadata.is_file();
}
