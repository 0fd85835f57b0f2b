//! Credentials that a program of the operator prints.
//!
//! The program runs without a shell, in a process group of its own, with closed standard input and few environment variables.

use std::ffi::{OsStr, OsString};
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{env, fmt};

use base::json::{self, Limits};
use base::process::{self, Ended, Finished};
use base::redact::{MARK, Secrets};
use base::text::{shortened, utf8};
use base::visible::visible;
use http::HeaderValue;
use secrecy::SecretString;
use serde_json::Value;
use tokio::process::Command;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::tokens::{Issued, Token, Tokens, other_token_type, seconds};
use crate::{NetError, NetFault, Sent};

/// The maximum size of what the program prints, in bytes.
const MAX_OUTPUT_BYTES: usize = 64 * 1024;

/// The size of standard error, in bytes, up to which its first line is certainly its beginning.
const MAX_STDERR_BYTES: usize = 8 * 1024;

/// The maximum length of the program's text in an error, in characters.
const MAX_QUOTED_CHARS: usize = 160;

/// The minimum time from the end of a run that failed, or that a refusal caused, to the next one.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// The variables that every program gets.
const VARIABLES: &[&str] = if cfg!(windows) {
    // Without `SystemRoot` a program has no sockets and no random numbers.
    &[
        "PATH",
        "PATHEXT",
        "SystemRoot",
        "TEMP",
        "USERPROFILE",
        "APPDATA",
        "LOCALAPPDATA",
    ]
} else {
    &["PATH", "HOME"]
};

/// What plugins of Kubernetes clients require: the version of the answer, and that no person can answer questions.
const EXEC_INFO: &str = r#"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","spec":{"interactive":false}}"#;

const UNKNOWN_FORM: &str = "it printed JSON without a credential in a known form; print `access_token`, an ExecCredential, or the token alone in one line";
/// A program that prints a credential.
pub struct CommandCredential<T = HeaderValue> {
    command: Vec<String>,
    env: Vec<String>,
    timeout: Duration,
    pub(crate) tokens: Tokens<T>,
}

impl<T> CommandCredential<T> {
    /// Creates a credential from a program and its arguments, the names of the environment variables that it gets, and the
    /// limit of its time.
    pub fn new(command: Vec<String>, env: Vec<String>, timeout: Duration) -> Self {
        Self {
            command,
            env,
            timeout,
            tokens: Tokens::new(RETRY_INTERVAL),
        }
    }

    /// Returns what the program prints.
    pub(super) async fn output(&self) -> Result<Vec<u8>, String> {
        let (program, arguments) = self.command.split_first().ok_or("it is not configured")?;
        let mut command = Command::new(program);
        // The directory of this process may belong to others: a program and its modules must not come from there.
        command.args(arguments).current_dir("/").env_clear();
        command.envs(VARIABLES.iter().copied().filter_map(variable));
        command.envs(self.env.iter().filter_map(|name| variable(name)));
        command.env("KUBERNETES_EXEC_INFO", EXEC_INFO);
        let (too_long, mut bytes) = (CancellationToken::new(), 0);
        let on_output = |piece: &[u8]| {
            bytes += piece.len();
            if bytes > MAX_OUTPUT_BYTES {
                too_long.cancel();
            }
        };
        let until = Instant::now() + self.timeout;
        let ended = process::run(command, None, until, &too_long, on_output).await;
        let ended = ended.map_err(|error| {
            format!("it does not start: {error}; name a program in PATH, or its full path")
        })?;
        match ended {
            Ended::TimedOut => Err(format!(
                "it did not end within {} ms; it must not ask questions, and auth.timeoutMs is its limit",
                self.timeout.as_millis()
            )),
            Ended::Exited(finished) if bytes <= MAX_OUTPUT_BYTES => {
                if finished.status.success() {
                    return Ok(finished.out);
                }
                let line = self.quoted(&finished);
                let line = line.map(|line| format!(": {line}")).unwrap_or_default();
                Err(format!("it failed with {}{line}", finished.status))
            }
            Ended::Exited(_) | Ended::Canceled => Err(format!(
                "it printed more than {MAX_OUTPUT_BYTES} bytes; print the credential only"
            )),
        }
    }

    /// Returns the first line of standard error, without arguments of the program and words that may be secrets; `None` if it
    /// contains a secret that is known.
    fn quoted(&self, finished: &Finished) -> Option<String> {
        if finished.err.len() >= MAX_STDERR_BYTES {
            return None;
        }
        let text = String::from_utf8_lossy(&finished.err);
        let text = visible(&text);
        let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
        let given = self.env.iter().filter_map(|name| env::var(name).ok());
        let given = given
            .filter(|value| value.len() > 2)
            .map(SecretString::from);
        let issued = self.tokens.issued();
        let known = Secrets::in_all_forms(given.chain(issued.iter().cloned()));
        let printed = String::from_utf8_lossy(&finished.out);
        let mut words = line.split(is_separator).filter(|word| word.len() > 3);
        if known.redact(line) != line || words.any(|word| printed.contains(word)) {
            return None;
        }
        let line = self.argument_texts().redact(line);
        let pieces = line.split_inclusive(is_separator).map(|piece| {
            let word = piece.trim_end_matches(is_separator);
            match may_be_secret(word) {
                true => format!("{MARK}{}", &piece[word.len()..]),
                false => piece.to_owned(),
            }
        });
        Some(shortened(&pieces.collect::<String>(), MAX_QUOTED_CHARS))
    }

    /// Returns the arguments of the program and the values of settings in them (`--password=VALUE`): one may be a secret.
    fn argument_texts(&self) -> Secrets {
        let texts = self.command.iter().skip(1).flat_map(|argument| {
            let settings = argument.split_whitespace();
            let values = settings.filter_map(|word| Some(word.split_once('=')?.1));
            let parts = values.flat_map(|value| value.split(is_separator));
            parts.chain([argument.as_str()])
        });
        let texts = texts.filter(|text| text.len() > 3);
        Secrets::in_all_forms(texts.map(|text| text.to_owned().into()))
    }

    /// Returns the seconds until `time`.
    fn until(&self, time: SystemTime) -> Result<f64, String> {
        match time.duration_since(self.tokens.clock.system_time()) {
            Ok(left) if !left.is_zero() => Ok(left.as_secs_f64()),
            _ => Err("the credential that it printed has expired; sign in again".to_owned()),
        }
    }

    /// Returns the seconds until a time (RFC 3339), if there is one.
    pub(super) fn until_date(&self, value: Option<&Value>) -> Result<Option<f64>, String> {
        let Some(value) = value.filter(|value| !value.is_null()) else {
            return Ok(None);
        };
        let time = value.as_str().and_then(parse_date);
        let time = time.ok_or("the expiry that it printed is no time of RFC 3339")?;
        self.until(time).map(Some)
    }

    /// Returns the seconds until a time in seconds since 1970, if there is one.
    fn until_unix(&self, value: Option<&Value>) -> Result<Option<f64>, String> {
        let since = value.and_then(seconds);
        let since = since.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let time = since.and_then(|since| UNIX_EPOCH.checked_add(since));
        time.map(|time| self.until(time)).transpose()
    }

    pub(super) fn unavailable(&self, reason: impl fmt::Display) -> NetError {
        let program = self.command.first().map(Path::new);
        let program = program.and_then(Path::file_name).unwrap_or_default();
        let message = format!(
            "the command `{}` gave no credential: {reason}",
            program.display()
        );
        NetError::new(NetFault::TokenUnavailable, Sent::No, message)
    }
}

impl<T: Clone + Send + 'static> CommandCredential<T> {
    /// Returns a valid credential: the current one, or the one that `fetch` gets. An attempt goes on without the caller: the
    /// program may be about to store a refresh token that replaces the one it has used.
    ///
    /// # Errors
    /// That of the attempt.
    pub(crate) async fn get<F>(
        self: &Arc<Self>,
        fetch: impl FnOnce(Arc<Self>) -> F,
    ) -> Result<Token<T>, NetError>
    where
        F: Future<Output = Result<Issued<T>, NetError>> + Send + 'static,
    {
        if let Some(token) = self.tokens.current(Instant::now()) {
            return Ok(token);
        }
        let (credential, fetch) = (Arc::clone(self), fetch(Arc::clone(self)));
        let attempt = tokio::spawn(async move { credential.tokens.get(fetch).await });
        attempt
            .await
            .unwrap_or_else(|error| Err(self.unavailable(error)))
    }
}

impl CommandCredential {
    /// Runs the program for a bearer token.
    ///
    /// # Errors
    /// [`NetFault::TokenUnavailable`]: it fails, or prints none.
    pub(crate) async fn fetch_bearer(&self) -> Result<Issued, NetError> {
        let printed = self.output().await.and_then(|out| self.bearer(&out));
        let (token, lifetime) = printed.map_err(|reason| self.unavailable(reason))?;
        Issued::bearer(token.into(), lifetime)
    }

    /// Reads a token and its lifetime in seconds.
    fn bearer(&self, out: &[u8]) -> Result<(String, Option<f64>), String> {
        let Some(object) = object(out)? else {
            let line = utf8(out)?.trim();
            return Ok((in_header(line)?, None));
        };
        let field = |name: &str| object.get(name).filter(|value| !value.is_null());
        let text = |name: &str| field(name).and_then(Value::as_str);
        if let Some(status) = field("status").filter(|status| status.is_object()) {
            if !status["clientCertificateData"].is_null() {
                return Err("it printed a client certificate; only a token is supported, and certificates as files with the type `mtls`".to_owned());
            }
            let token = status["token"].as_str().ok_or(UNKNOWN_FORM)?;
            let lifetime = self.until_date(status.get("expirationTimestamp"))?;
            return Ok((in_header(token)?, lifetime));
        }
        if field("AccessKeyId").is_some() {
            return Err("it printed keys of AWS; use the type `awsSigV4`".to_owned());
        }
        if field("success").is_some_and(|success| *success != Value::Bool(true)) {
            return Err("it printed that it failed (`success` is not true)".to_owned());
        }
        let kind = text("token_type").or_else(|| text("tokenType"));
        if let Some(kind) = kind.and_then(other_token_type) {
            let kind = kind.to_ascii_lowercase();
            return Err(format!(
                "it printed a token of the type `{kind}`; only bearer tokens are supported"
            ));
        }
        let names = ["access_token", "id_token", "accessToken"];
        let token = names.into_iter().find_map(text).ok_or(UNKNOWN_FORM)?;
        let expiry = field("expiration_time").or_else(|| field("expires_on"));
        let lifetime = field("expires_in").and_then(seconds);
        let lifetime = match lifetime.filter(|seconds| *seconds > 0.0) {
            Some(seconds) => Some(seconds),
            None => self.until_unix(expiry)?,
        };
        Ok((in_header(token)?, lifetime))
    }
}

impl<T> Hash for CommandCredential<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.command, &self.env, self.timeout).hash(state);
    }
}

fn variable(name: &str) -> Option<(&str, OsString)> {
    let value = env::var_os(name)?;
    match name {
        "PATH" => Some((name, absolute_paths(&value)?)),
        _ => Some((name, value)),
    }
}

/// Returns a list of directories without the relative ones; `None` if no other is left, since an empty list means the
/// current directory.
fn absolute_paths(list: &OsStr) -> Option<OsString> {
    let absolute = env::split_paths(list).filter(|path| path.is_absolute());
    let list = env::join_paths(absolute).ok()?;
    (!list.is_empty()).then_some(list)
}

/// Reads a JSON object; `None` for a text that is no JSON. No error quotes the text.
pub(super) fn object(out: &[u8]) -> Result<Option<Value>, String> {
    let text = utf8(out).map_err(|_| "it printed bytes that are not UTF-8")?;
    let text = text.trim();
    if text.is_empty() {
        return Err("it printed nothing".to_owned());
    }
    if !text.starts_with(['{', '[', '"']) {
        return Ok(None);
    }
    match json::from_str::<Value>(text, Limits::NONE) {
        Ok(value) if value.is_object() => Ok(Some(value)),
        _ => Err(UNKNOWN_FORM.to_owned()),
    }
}

/// Checks that a header can contain a part of a credential, which is one word.
pub(super) fn in_header(text: &str) -> Result<String, String> {
    match !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic()) {
        true => Ok(text.to_owned()),
        false => Err("the credential that it printed is empty, or has spaces, line breaks or other characters that are not of a token".to_owned()),
    }
}

/// Parses a time (RFC 3339) with any offset.
fn parse_date(text: &str) -> Option<SystemTime> {
    let text = text.trim();
    let at = text.len().checked_sub("+00:00".len())?;
    let (Some(time), Some(offset)) = (text.get(..at), text.get(at..)) else {
        return None;
    };
    let (sign, offset) = offset.split_at_checked(1)?;
    let Some((hours, minutes)) = offset.split_once(':').filter(|_| matches!(sign, "+" | "-"))
    else {
        return humantime::parse_rfc3339_weak(text).ok();
    };
    let time = humantime::parse_rfc3339_weak(&format!("{time}Z")).ok()?;
    let minutes = hours.parse::<u64>().ok()? * 60 + minutes.parse::<u64>().ok()?;
    let offset = Duration::from_secs(minutes * 60);
    match sign {
        "+" => time.checked_sub(offset),
        _ => time.checked_add(offset),
    }
}

fn is_separator(c: char) -> bool {
    c.is_whitespace() || "'\"`=,:;()<>[]{}".contains(c)
}

/// Returns whether a word of an error may be a secret: it is long, or has digits as words of a language have not.
fn may_be_secret(word: &str) -> bool {
    word.len() >= 20 || word.len() >= 6 && word.contains(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests;
