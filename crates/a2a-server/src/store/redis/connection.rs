//! The connection for commands, which reconnects after an error, and the checks of Redis before the store uses it.
//!
//! Error messages say what failed, why, and what to do. They contain no stored data.

use std::time::Duration;

use base::backoff::Backoff;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ErrorKind, FromRedisValue, RedisError, ServerErrorKind,
    Value,
};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::Inner;
use super::lease::field;
use super::scripts::{COMMON, Call};
use crate::store::StoreError;

/// How long to wait until a connection is open.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long to wait for a response.
pub(super) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the result of a failed connection attempt applies to further calls.
const RECONNECT_DELAY: Duration = Duration::from_millis(50);
/// The delays between calls while Redis is unavailable.
const RETRY_DELAY: Backoff = Backoff::new(RECONNECT_DELAY, Duration::from_secs(1));

/// A connection to Redis that reconnects.
pub(super) struct RedisConnection {
    client: Client,
    config: AsyncConnectionConfig,
    display_address: String,
    slot: Mutex<Slot>,
}

/// The number of a connection, and an answer that it received.
type Answer = (u64, Value);

#[derive(Default)]
struct Slot {
    connection: Option<MultiplexedConnection>,
    /// The number of this connection, so that an error of an earlier connection does not close it.
    number: u64,
    last_failure: Option<(Instant, RedisError)>,
}

impl RedisConnection {
    /// Creates a connection that opens on first use. `display_address` is for messages.
    pub(super) fn new(client: Client, display_address: String) -> Self {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(RESPONSE_TIMEOUT))
            .set_pipeline_buffer_size(1024);
        Self {
            client,
            config,
            display_address,
            slot: Mutex::default(),
        }
    }

    /// Calls a script, and calls it once more if the connection broke. All scripts are idempotent.
    pub(super) async fn call<T: FromRedisValue>(&self, call: &Call<'_>) -> Result<T, StoreError> {
        let answer = match self.call_once(call).await {
            Err(error) if is_retryable(&error) => self.call_once(call).await,
            done => done,
        };
        self.decode(answer, call.lua.body).await
    }

    /// Calls a script, and retries for at most `timeout` while Redis is unavailable or refuses changes.
    pub(super) async fn call_until<T: FromRedisValue>(
        &self,
        call: &Call<'_>,
        timeout: Duration,
    ) -> Result<T, StoreError> {
        let end = Instant::now() + timeout;
        let mut retries = 0;
        loop {
            let pause = RETRY_DELAY.delay(retries);
            match self.call_once(call).await {
                Err(error) if is_temporary(&error) && Instant::now() + pause < end => {
                    tokio::time::sleep(pause).await;
                    retries += 1;
                }
                done => return self.decode(done, call.lua.body).await,
            }
        }
    }

    /// Sends a command, and sends it once more if the connection broke.
    pub(super) async fn query<T: FromRedisValue>(&self, cmd: &Cmd) -> Result<T, StoreError> {
        let answer = match self.send(cmd).await {
            Err(error) if is_retryable(&error) => self.send(cmd).await,
            done => done,
        };
        self.decode(answer, "").await
    }

    async fn send(&self, cmd: &Cmd) -> Result<Answer, RedisError> {
        let (number, mut connection) = self.connection().await?;
        let answer = cmd.query_async(&mut connection).await;
        self.discard_broken(number, &answer).await;
        Ok((number, answer?))
    }

    /// Decodes an answer to `script`. One of another type may belong to another request, so its connection is not used again.
    async fn decode<T: FromRedisValue>(
        &self,
        answer: Result<Answer, RedisError>,
        script: &str,
    ) -> Result<T, StoreError> {
        let failed = |error| to_store_error(&error, script, &self.display_address);
        let (number, value) = answer.map_err(failed)?;
        match redis::from_redis_value(value) {
            Ok(decoded) => Ok(decoded),
            // The error contains the value.
            Err(_) => {
                self.discard(number).await;
                Err(self.unexpected_answer())
            }
        }
    }

    /// Returns the error of an answer that no script gives.
    pub(super) fn unexpected_answer(&self) -> StoreError {
        StoreError::Failed(format!(
            "Redis at {} gave an unexpected answer; check that the address names a Redis and not another server, and that \
             no other program writes under the prefix",
            self.display_address
        ))
    }

    /// Converts an error of Redis to an error of the store.
    pub(super) fn store_error(&self, error: &RedisError) -> StoreError {
        to_store_error(error, "", &self.display_address)
    }

    pub(super) fn display_address(&self) -> &str {
        &self.display_address
    }

    async fn call_once(&self, call: &Call<'_>) -> Result<Answer, RedisError> {
        let (number, mut connection) = self.connection().await?;
        let mut answer = call.cmd.query_async(&mut connection).await;
        if matches!(&answer, Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript))
        {
            answer = match call.lua.script.load_async(&mut connection).await {
                Ok(_) => call.cmd.query_async(&mut connection).await,
                Err(error) => Err(error),
            };
        }
        self.discard_broken(number, &answer).await;
        Ok((number, answer?))
    }

    async fn connection(&self) -> Result<(u64, MultiplexedConnection), RedisError> {
        // Callers that wait for the lock share the result of one connection attempt.
        let mut slot = self.slot.lock().await;
        if let Some(connection) = &slot.connection {
            return Ok((slot.number, connection.clone()));
        }
        if let Some((at, error)) = &slot.last_failure
            && at.elapsed() < RECONNECT_DELAY
        {
            return Err(error.clone());
        }
        let connected = self
            .client
            .get_multiplexed_async_connection_with_config(&self.config)
            .await;
        match connected {
            Ok(connection) => {
                slot.number += 1;
                slot.connection = Some(connection.clone());
                slot.last_failure = None;
                Ok((slot.number, connection))
            }
            Err(error) => {
                slot.last_failure = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    /// Drops the connection if the error shows that it is broken.
    async fn discard_broken<T>(&self, number: u64, answer: &Result<T, RedisError>) {
        if matches!(answer, Err(error) if is_unavailable(error)) {
            self.discard(number).await;
        }
    }

    async fn discard(&self, number: u64) {
        let mut slot = self.slot.lock().await;
        if slot.number == number {
            slot.connection = None;
        }
    }
}

/// Returns whether a new connection may succeed at once. A timeout does not count, because it has used up the caller's
/// time.
fn is_retryable(error: &RedisError) -> bool {
    is_unavailable(error) && !error.is_timeout()
}

/// The version of the data format under the prefix.
const FORMAT: &str = "2";

/// Checks that the prefix is unused or has data of this format. Writes the format.
///
/// # Errors
/// The prefix has other data, or Redis does not respond or take changes.
pub(super) async fn check_prefix(inner: &Inner) -> Result<(), StoreError> {
    let call = inner.scripts.open.call().arg(FORMAT);
    let said: String = inner.connection.call(&call).await?;
    if said == "ok" {
        return Ok(());
    }
    let (prefix, address) = (&inner.prefix, inner.connection.display_address());
    Err(StoreError::Failed(match said.strip_prefix("foreign ") {
        Some(key) => format!(
            "the key `{prefix}{key}` in Redis at {address} belongs to another program; delete it, or name another prefix with \
             `?prefix=`"
        ),
        None => format!(
            "the tasks under the prefix `{prefix}` in Redis at {address} were written by another version; use that one, or name \
             another prefix with `?prefix=`"
        ),
    }))
}

/// Checks the prefix, and logs the persistence settings.
///
/// # Errors
/// The prefix has other data, or Redis does not respond.
pub(super) async fn check_server_config(inner: &Inner) -> Result<(), StoreError> {
    check_prefix(inner).await?;
    let display_address = inner.connection.display_address();
    let info: String = inner.connection.query(&redis::cmd("INFO")).await?;
    let evicts = field(&info, "maxmemory_policy").is_some_and(|policy| policy != "noeviction");
    let limited = field(&info, "maxmemory").is_some_and(|bytes| bytes != "0");
    if evicts && limited {
        tracing::warn!(
            redis = display_address,
            "Redis evicts tasks when it is full; set `maxmemory-policy` to `noeviction`"
        );
    }
    let appends = field(&info, "aof_enabled") == Some("1");
    tracing::info!(
        redis = display_address,
        appendonly = appends,
        "stores tasks in Redis; durability depends on its persistence settings"
    );
    if !appends {
        tracing::warn!(
            redis = display_address,
            "`appendonly` is off: Redis loses the changes since its last snapshot when it stops"
        );
    }
    Ok(())
}

/// Returns whether Redis is unreachable or not ready to respond.
fn is_unavailable(error: &RedisError) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Io
            | ErrorKind::Parse
            | ErrorKind::Server(
                ServerErrorKind::BusyLoading
                    | ServerErrorKind::MasterDown
                    | ServerErrorKind::ReadOnly
                    | ServerErrorKind::ClusterDown
                    | ServerErrorKind::TryAgain,
            )
    )
}

/// Returns whether Redis may accept a change later.
fn is_temporary(error: &RedisError) -> bool {
    let text = error.to_string();
    is_unavailable(error)
        || error.code() == Some("BUSY")
        || is_refused(error, &text)
        || text.contains(MAX_CLIENTS)
}

const FULL: &str = "OOM";
const DISK_FAILED: &str = "MISCONF";
const TOO_FEW_REPLICAS: &str = "NOREPLICAS";
const MAX_CLIENTS: &str = "max number of clients";

/// Returns whether Redis refuses changes. The error of a script contains that of its command.
fn is_refused(error: &RedisError, text: &str) -> bool {
    let reasons = [FULL, DISK_FAILED, TOO_FEW_REPLICAS];
    is_replica(error, text) || reasons.iter().any(|reason| text.contains(reason))
}

fn is_replica(error: &RedisError, text: &str) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly) || text.contains("READONLY")
}

/// Returns whether the user of Redis lacks a right. For a command of a script Redis gives no code.
fn is_denied(error: &RedisError, text: &str) -> bool {
    let of_script = ["The user executing the script", "ACL failure in script"];
    error.kind() == ErrorKind::Server(ServerErrorKind::NoPerm)
        || of_script.iter().any(|denial| text.contains(denial))
}

/// The beginnings of the errors of scripts that found values of other types than they store.
const UNEXPECTED_VALUES: [&str; 5] = [
    "WRONGTYPE",
    "user_script",
    "hash value is not",
    "value is not",
    "would overflow",
];

/// The code of the error of a script that found a larger value than the servers store.
const TOO_LARGE: &str = "TOOLARGE";

/// Converts an error of `script` in Redis at `address`.
fn to_store_error(error: &RedisError, script: &str, address: &str) -> StoreError {
    let text = error.to_string();
    if is_denied(error, &text) {
        return StoreError::Refused(denied(&text, script, address));
    }
    if error.code() == Some(TOO_LARGE) {
        return StoreError::Damaged(format!(
            "a value under the prefix in Redis at {address} is larger than what the servers have stored; another program has \
             written it: delete the task, or name another prefix with `?prefix=`"
        ));
    }
    if (is_response_error(error) || error.code() == Some("WRONGTYPE"))
        && !is_temporary(error)
        && !text.contains("killed by user")
        && UNEXPECTED_VALUES.iter().any(|value| text.contains(value))
    {
        return StoreError::Damaged(format!(
            "a key under the prefix in Redis at {address} belongs to another program; name another prefix with `?prefix=`"
        ));
    }
    let message = message(error, &text, address);
    match is_refused(error, &text) {
        true => StoreError::Refused(message),
        false => StoreError::Failed(message),
    }
}

/// What Redis 6.2 to 7.2 and later ones write of a denied channel or key. The name of a user has no spaces.
const OF_CHANNELS: [&str; 3] = [
    "of the channels",
    "the channel mentioned",
    "access a channel",
];
const OF_KEYS: [&str; 2] = ["of the keys", "access a key"];

/// Says which right a user lacks, and the rule that grants it.
fn denied(text: &str, script: &str, address: &str) -> String {
    let commands = |names: Vec<&str>| {
        let names: Vec<String> = names.iter().map(|name| name.to_lowercase()).collect();
        let rule = format!("+{}", names.join(" +"));
        (format!("run `{}`", names.join("` or `")), rule)
    };
    let is_name = |name: &&str| {
        let is_part = |byte: u8| byte.is_ascii_alphabetic() || matches!(byte, b'|' | b'-');
        !name.is_empty() && name.len() <= 32 && name.bytes().all(is_part)
    };
    let contains = |phrases: &[&str]| phrases.iter().any(|phrase| text.contains(phrase));
    let named = text.split_once("run the '").map(|(_, rest)| rest);
    let named = named.and_then(|rest| rest.split('\'').next());
    let of_line: Vec<&str> = commands_of_line(text, script);
    let (denied, rule) = match named.filter(is_name) {
        Some(name) => commands(vec![name]),
        None if contains(&OF_CHANNELS) => {
            let all = "use the channels under the prefix".to_owned();
            (all, "&PREFIX*".to_owned())
        }
        None if contains(&OF_KEYS) => {
            let all = "use the keys under the prefix".to_owned();
            (all, "~PREFIX*".to_owned())
        }
        None if !of_line.is_empty() => commands(of_line),
        None => ("do what is needed".to_owned(), String::new()),
    };
    let rule = match rule.is_empty() {
        true => rule,
        false => format!("grant it `{rule}` with `ACL SETUSER`; "),
    };
    format!(
        "the user of Redis at {address} may not {denied}; {rule}a server needs scripts, publish and subscribe, and all keys and \
         channels under the prefix (`~PREFIX* &PREFIX* +@all -@dangerous +info`)"
    )
}

/// Returns the commands in the line of `script` that an error names, because Redis may not name the command.
fn commands_of_line<'a>(text: &str, script: &'a str) -> Vec<&'a str> {
    let line = text.split_once("user_script:").map(|(_, rest)| rest);
    let line = line.and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    let Some(line) = line.and_then(|line| line.parse::<usize>().ok()) else {
        return Vec::new();
    };
    let mut lines = COMMON.lines().chain([""]).chain(script.lines());
    let line = lines.nth(line.saturating_sub(1)).unwrap_or_default();
    let calls = line.split("call('").skip(1);
    calls.filter_map(|call| call.split('\'').next()).collect()
}

/// Describes an error. Of the text of Redis it contains only the code, because Redis repeats arguments.
fn message(error: &RedisError, text: &str, address: &str) -> String {
    // Searches for the names of commands, users or keys, never for stored values.
    let contains = |name: &str| text.contains(name);
    match error.kind() {
        ErrorKind::Server(ServerErrorKind::BusyLoading) => {
            format!("Redis at {address} is still loading its data; try again soon")
        }
        _ if is_replica(error, text) => format!(
            "Redis at {address} is a replica and takes no changes; name the primary in the address"
        ),
        ErrorKind::Server(ServerErrorKind::MasterDown) => format!(
            "Redis at {address} is a replica without its primary; name the primary in the address"
        ),
        ErrorKind::Server(
            ServerErrorKind::Moved
            | ServerErrorKind::Ask
            | ServerErrorKind::CrossSlot
            | ServerErrorKind::ClusterDown
            | ServerErrorKind::TryAgain,
        ) => {
            format!("Redis at {address} is a cluster, which is not supported; name a single Redis")
        }
        ErrorKind::AuthenticationFailed => rejected_credentials(address),
        ErrorKind::Io if contains("certificate") || contains("Certificate") => format!(
            "the certificate of Redis at {address} is not trusted ({text}); give the certificate that signed it"
        ),
        ErrorKind::Io => {
            format!("Redis at {address} does not answer ({text}); the server reconnects by itself")
        }
        ErrorKind::Parse => format!(
            "Redis at {address} does not answer in the protocol of Redis; check that the address names a Redis, and use \
             `rediss://` if it requires TLS"
        ),
        _ if contains("WRONGPASS") || contains("NOAUTH") => rejected_credentials(address),
        _ if contains("DB index is out of range") || contains("invalid DB index") => format!(
            "Redis at {address} has no database of that number; name one it has, by default 0 to 15"
        ),
        _ if contains(MAX_CLIENTS) => format!(
            "Redis at {address} accepts no more connections; raise its `maxclients`, or close other clients"
        ),
        _ if contains("killed by user") => {
            format!("an administrator of Redis at {address} killed the script; try again")
        }
        _ if contains("unknown command") || contains("Unknown Redis command") => format!(
            "Redis at {address} does not know a command that is needed; use Redis 6.2 or newer, directly or through a \
             proxy that passes all commands on"
        ),
        _ if contains(FULL) => format!(
            "Redis at {address} is full and refuses changes; give it more with `maxmemory`, or keep fewer tasks"
        ),
        _ if contains(DISK_FAILED) => format!(
            "Redis at {address} cannot write to its disk and refuses changes; its log says why"
        ),
        _ if error.code() == Some("BUSY") => format!(
            "Redis at {address} is busy with a script of another client; wait, or end it with `SCRIPT KILL`"
        ),
        _ if contains(TOO_FEW_REPLICAS) => format!(
            "Redis at {address} has too few replicas and refuses changes; restore them, or lower \
                 `min-replicas-to-write`"
        ),
        kind => match error.code() {
            Some(code) if is_code(code) => {
                format!("Redis at {address} refuses a command ({code}); check its settings")
            }
            _ => format!(
                "Redis at {address} failed ({kind:?}); check that the address names a Redis"
            ),
        },
    }
}

/// Returns whether Redis gave no code of its own.
fn is_response_error(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::ResponseError)
}

/// Returns whether this is the code of an error as Redis writes it.
fn is_code(code: &str) -> bool {
    code.len() <= 20 && code.bytes().all(|byte| byte.is_ascii_uppercase())
}

fn rejected_credentials(address: &str) -> String {
    format!(
        "Redis at {address} rejects the user or the password; check the URL and the password setting"
    )
}
