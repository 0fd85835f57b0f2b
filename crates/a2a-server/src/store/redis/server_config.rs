//! Checks Redis before the store uses it.

use super::inner::Inner;
use super::lease::field;
use crate::store::StoreError;

/// The version of the data format under the prefix.
const FORMAT: &str = "2";

/// Checks that the prefix is unused or has data of this format, and logs the persistence settings.
///
/// # Errors
/// The prefix has other data, or Redis does not respond.
pub(super) async fn check_server_config(inner: &Inner) -> Result<(), StoreError> {
    let call = inner.scripts.open.call().arg(FORMAT);
    let said: String = inner.connection.call(&call).await?;
    let display_address = inner.connection.display_address();
    match said.as_str() {
        "ok" => {}
        "foreign" => {
            return Err(StoreError::Failed(format!(
                "keys under the prefix `{}` in Redis at {display_address} belong to another program; name another prefix with \
                 `?prefix=`",
                inner.prefix
            )));
        }
        _ => {
            return Err(StoreError::Failed(format!(
                "the tasks under the prefix `{}` in Redis at {display_address} were written by another version; use that one, or \
                 name another prefix with `?prefix=`",
                inner.prefix
            )));
        }
    }
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
