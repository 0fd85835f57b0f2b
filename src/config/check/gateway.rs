//! Rules for the local gateway that the JSON Schema cannot express.

use http::HeaderName;
use url::Url;

use super::super::{Config, Gateway};
use super::super::{ConfigError, gateway_url};
use egress::address::{is_loopback, literal_ip};
use gateway_bridge::DialectChoice;

/// The name of the triad.
const TRIAD: &str = "triad";

/// The prefix of the aliases of a gateway's agents.
const PREFIX: &str = "gateway:";

/// Checks the gateway's settings, and that no target is named like one of its agents.
pub(super) fn check(config: &Config) -> Result<(), ConfigError> {
    let gateway = &config.gateway;
    let invalid =
        |place: &str, message: String| ConfigError::at(format!("/gateway/{place}"), message);
    let url =
        gateway_url(&gateway.url).map_err(|reason| invalid("url", format!("the URL {reason}")))?;
    check_address(gateway, &url).map_err(|reason| invalid("url", reason))?;
    // A subprotocol and the name of a header are both tokens (RFC 6455 §4.1, RFC 9110 §5.1).
    if HeaderName::try_from(gateway.protocol.as_str()).is_err() {
        let message = "a subprotocol is one word without spaces and separators, such as `a2a-v1`";
        return Err(invalid("protocol", message.into()));
    }
    if gateway.token_in_query && gateway.dialect != DialectChoice::HeretekJs {
        let message =
            "a token in the URL appears in logs; only the dialect `heretek-js` needs it there";
        return Err(invalid("tokenInQuery", message.into()));
    }
    check_tls(gateway, &url)
        .map_err(|(field, reason)| invalid(&format!("tls/{field}"), reason.into()))?;
    check_names(&gateway.agents).map_err(|(i, reason)| invalid(&format!("agents/{i}"), reason))?;
    let members = &gateway.triad.members;
    check_names(members).map_err(|(i, reason)| invalid(&format!("triad/members/{i}"), reason))?;
    if gateway.enabled {
        check_aliases(config)?;
    }
    Ok(())
}

/// Requires a literal address to be on this machine, unless the operator allows others. A host name is checked after it
/// is resolved, when the connection is made.
fn check_address(gateway: &Gateway, url: &Url) -> Result<(), String> {
    let Some(ip) = literal_ip(url) else {
        return Ok(());
    };
    match (is_loopback(ip), gateway.allow_remote, url.scheme()) {
        (true, _, _) | (false, true, "wss") => Ok(()),
        (false, true, _) => Err(
            "the address is not on this machine, so its connection must be secured: begin it with `wss:`"
                .into(),
        ),
        (false, false, _) => Err(
            "the address is not on this machine; a gateway elsewhere needs `gateway.allowRemote` and an address with `wss:`"
                .into(),
        ),
    }
}

/// Refuses certificates without `wss:`, and a client certificate without its key.
fn check_tls(gateway: &Gateway, url: &Url) -> Result<(), (&'static str, &'static str)> {
    let tls = &gateway.tls;
    let files = [
        ("caFile", &tls.ca_file),
        ("certFile", &tls.cert_file),
        ("keyFile", &tls.key_file),
    ];
    let first = files.iter().find(|(_, file)| file.is_some());
    if let Some((field, _)) = first.filter(|_| url.scheme() != "wss") {
        let reason = "certificates have no effect unless the gateway's address begins with `wss:`";
        return Err((*field, reason));
    }
    match (&tls.cert_file, &tls.key_file) {
        (Some(_), None) => Err((
            "certFile",
            "the certificate needs its key: set `keyFile` too",
        )),
        (None, Some(_)) => Err((
            "keyFile",
            "the key needs its certificate: set `certFile` too",
        )),
        _ => Ok(()),
    }
}

/// Refuses duplicate names and the triad's name.
fn check_names(names: &[String]) -> Result<(), (usize, String)> {
    for (i, name) in names.iter().enumerate() {
        if name == TRIAD {
            let message =
                "`triad` means the three agents of `gateway.triad` together; leave it out";
            return Err((i, message.into()));
        }
        if names[..i].contains(name) {
            return Err((i, format!("`{name}` is listed twice")));
        }
    }
    Ok(())
}

/// Refuses aliases with the gateway's prefix while a gateway is enabled.
fn check_aliases(config: &Config) -> Result<(), ConfigError> {
    let reserved = config.targets.iter().enumerate();
    let mut reserved = reserved.filter(|(_, target)| target.alias.starts_with(PREFIX));
    let Some((i, target)) = reserved.next() else {
        return Ok(());
    };
    let message = format!(
        "the alias `{}` would mean an agent of the local gateway; choose one that does not begin with `{PREFIX}`, or turn off `gateway.enabled`",
        target.alias
    );
    Err(ConfigError::at(format!("/targets/{i}/alias"), message))
}

#[cfg(test)]
mod tests;
