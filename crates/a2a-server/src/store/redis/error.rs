//! Error messages of Redis: what failed, why, and what to do. They contain no stored data.

use redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::store::StoreError;

/// Returns whether Redis is unreachable or not ready to respond.
pub(super) fn is_unavailable(error: &RedisError) -> bool {
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
pub(super) fn is_temporary(error: &RedisError) -> bool {
    is_unavailable(error) || error.code() == Some("BUSY") || is_refused_for_now(&error.to_string())
}

const FULL: &str = "OOM";
const DISK_FAILED: &str = "MISCONF";
const TOO_FEW_REPLICAS: &str = "NOREPLICAS";
const MAX_CLIENTS: &str = "max number of clients";

/// Returns whether Redis refuses changes or connections for now. The error of a script contains that of its command.
fn is_refused_for_now(text: &str) -> bool {
    [FULL, DISK_FAILED, TOO_FEW_REPLICAS, MAX_CLIENTS]
        .iter()
        .any(|reason| text.contains(reason))
}

/// The beginnings of the errors of scripts that found values of other types than they store.
const UNEXPECTED_VALUES: [&str; 5] = [
    "WRONGTYPE",
    "user_script",
    "hash value is not",
    "value is not",
    "would overflow",
];

/// Converts an error of Redis at `address`.
pub(super) fn to_store_error(error: &RedisError, address: &str) -> StoreError {
    let text = error.to_string();
    if (is_response_error(error) || error.code() == Some("WRONGTYPE"))
        && !is_temporary(error)
        && !text.contains("killed by user")
        && UNEXPECTED_VALUES.iter().any(|value| text.contains(value))
    {
        return StoreError::Damaged(format!(
            "a key under the prefix in Redis at {address} belongs to another program; name another prefix with `?prefix=`"
        ));
    }
    StoreError::Failed(message(error, &text, address))
}

/// Describes an error. Of the text of Redis it contains only the code, because Redis repeats arguments.
fn message(error: &RedisError, text: &str, address: &str) -> String {
    // Searches for the names of commands, users or keys, never for stored values.
    let contains = |name: &str| text.contains(name);
    match error.kind() {
        ErrorKind::Server(ServerErrorKind::BusyLoading) => {
            format!("Redis at {address} is still loading its data; try again soon")
        }
        ErrorKind::Server(ServerErrorKind::ReadOnly) => format!(
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
        ErrorKind::Server(ServerErrorKind::NoPerm) => format!(
            "the user of Redis at {address} may not do what is needed; allow it scripts, publish and subscribe, and all \
             keys and channels under the prefix (`~PREFIX* &PREFIX* +@all -@dangerous +info`)"
        ),
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
