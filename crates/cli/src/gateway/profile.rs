//! The scripted gateways of `remote-agent gateway --profile`, for tests of clients.

use std::{
    io::ErrorKind,
    net::{Ipv4Addr, SocketAddr},
};

use conformance::gateways::{Gateways, profile};
use gateway_server::config::PORT;

use super::run::listening;
use crate::{
    exit::{Exit, Failure},
    output::LineWriter,
    shutdown,
};

/// Runs the gateway until Ctrl-C.
///
/// # Errors
/// The port is in use.
pub(super) async fn run(
    name: &str,
    port: Option<u16>,
    as_json: bool,
    lines: &LineWriter,
) -> Result<Exit, Failure> {
    let address: SocketAddr = (Ipv4Addr::LOCALHOST, port.unwrap_or(PORT)).into();
    let failed = |error: std::io::Error| {
        Failure::new(format!(
            "cannot run the profile `{name}` at {address}: {error}"
        ))
    };
    let script = profile(name).map_err(failed)?;
    let shutdown = shutdown::on_signal()?;
    let gateway = Gateways::start_at(&script, address).await;
    let gateway = gateway.map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => Failure::new(format!(
            "cannot run the profile `{name}`: the port {} of {} is taken; `remote-agent gateway status --url ws://{address}` shows whether a gateway uses it, and `--port 0` selects a free one",
            address.port(),
            address.ip()
        )),
        _ => failed(error),
    })?;
    listening(&gateway.url(), &format!("profile {name}"), as_json, lines);
    shutdown.cancelled().await;
    Ok(Exit::Ok)
}
