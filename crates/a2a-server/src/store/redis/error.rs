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

/// Converts an error of Redis at `address`.
pub(super) fn to_store_error(error: &RedisError, address: &str) -> StoreError {
    StoreError::Failed(message(error, address))
}

fn message(error: &RedisError, address: &str) -> String {
    let text = error.to_string();
    // Searches for the names of commands, users or keys, never for stored values.
    let contains = |name: &str| text.contains(name);
    match error.kind() {
        ErrorKind::Server(ServerErrorKind::BusyLoading) => {
            format!("Redis at {address} is still loading its data; try again soon")
        }
        ErrorKind::Server(ServerErrorKind::ReadOnly) => format!(
            "Redis at {address} is a replica and takes no changes; name the primary in the address"
        ),
        ErrorKind::Server(
            ServerErrorKind::Moved | ServerErrorKind::Ask | ServerErrorKind::CrossSlot,
        ) => {
            format!("Redis at {address} is a cluster, which is not supported; name a single Redis")
        }
        ErrorKind::Server(ServerErrorKind::NoPerm) => format!(
            "the user of Redis at {address} may not do what is needed; allow it scripts, publish and subscribe, and all \
             keys and channels under the prefix (`~PREFIX* &PREFIX* +@all -@dangerous +info`)"
        ),
        ErrorKind::AuthenticationFailed => rejected_credentials(address),
        _ if contains("WRONGPASS") || contains("NOAUTH") => rejected_credentials(address),
        _ if contains("DB index is out of range") || contains("invalid DB index") => format!(
            "Redis at {address} has no database of that number; name one it has, by default 0 to 15"
        ),
        _ if contains("WRONGTYPE") => format!(
            "a key under the prefix in Redis at {address} belongs to another program; name another prefix with `?prefix=`"
        ),
        _ if contains("OOM") => format!(
            "Redis at {address} is full and refuses changes; give it more with `maxmemory`, or keep fewer tasks"
        ),
        _ if contains("MISCONF") => format!(
            "Redis at {address} cannot write to its disk and refuses changes; its log says why"
        ),
        ErrorKind::Io if text.contains("certificate") || text.contains("Certificate") => format!(
            "the certificate of Redis at {address} is not trusted ({text}); give the certificate that signed it"
        ),
        ErrorKind::Io | ErrorKind::Parse => format!(
            "Redis at {address} does not answer ({text}); nothing was stored. The server reconnects by itself"
        ),
        kind => format!("Redis at {address} failed ({kind:?}: {text})"),
    }
}

fn rejected_credentials(address: &str) -> String {
    format!(
        "Redis at {address} rejects the user or the password; check the URL and the password setting"
    )
}
