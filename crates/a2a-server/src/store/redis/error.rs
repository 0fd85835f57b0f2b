//! Error messages of Redis: what failed, why, and what to do. They contain no stored data.

use redis::{ErrorKind, RedisError, ServerErrorKind};

use crate::store::StoreError;

/// Returns whether Redis is unreachable or not ready to respond.
pub(super) fn is_unavailable(why: &RedisError) -> bool {
    matches!(
        why.kind(),
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

/// Converts an error of Redis at the address `shown`.
pub(super) fn server_message(why: &RedisError, shown: &str) -> StoreError {
    StoreError::Failed(text(why, shown))
}

fn text(why: &RedisError, shown: &str) -> String {
    let whole = why.to_string();
    // Searches for the names of commands, users or keys, never for stored values.
    let says = |word: &str| whole.contains(word);
    match why.kind() {
        ErrorKind::Server(ServerErrorKind::BusyLoading) => {
            format!("Redis at {shown} is still loading its data; try again soon")
        }
        ErrorKind::Server(ServerErrorKind::ReadOnly) => format!(
            "Redis at {shown} is a replica and takes no changes; name the primary in the address"
        ),
        ErrorKind::Server(
            ServerErrorKind::Moved | ServerErrorKind::Ask | ServerErrorKind::CrossSlot,
        ) => {
            format!("Redis at {shown} is a cluster, which is not supported; name a single Redis")
        }
        ErrorKind::Server(ServerErrorKind::NoPerm) => format!(
            "the user of Redis at {shown} may not do what is needed; allow it scripts, publish and subscribe, and all \
             keys and channels under the prefix (`~PREFIX* &PREFIX* +@all -@dangerous +info`)"
        ),
        ErrorKind::AuthenticationFailed => refused(shown),
        _ if says("WRONGPASS") || says("NOAUTH") => refused(shown),
        _ if says("DB index is out of range") || says("invalid DB index") => format!(
            "Redis at {shown} has no database of that number; name one it has, by default 0 to 15"
        ),
        _ if says("WRONGTYPE") => format!(
            "a key under the prefix in Redis at {shown} belongs to another program; name another prefix with `?prefix=`"
        ),
        _ if says("OOM") => format!(
            "Redis at {shown} is full and refuses changes; give it more with `maxmemory`, or keep fewer tasks"
        ),
        _ if says("MISCONF") => format!(
            "Redis at {shown} cannot write to its disk and refuses changes; its log says why"
        ),
        ErrorKind::Io if whole.contains("certificate") || whole.contains("Certificate") => format!(
            "the certificate of Redis at {shown} is not trusted ({whole}); give the certificate that signed it"
        ),
        ErrorKind::Io | ErrorKind::Parse => format!(
            "Redis at {shown} does not answer ({whole}); nothing was stored. The server reconnects by itself"
        ),
        kind => format!("Redis at {shown} failed ({kind:?}: {whole})"),
    }
}

fn refused(shown: &str) -> String {
    format!(
        "Redis at {shown} rejects the user or the password; check the URL and the password setting"
    )
}
