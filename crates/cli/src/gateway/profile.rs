//! The scripted gateways of `remote-agent gateway --profile`, for tests of clients.

use std::{
    io::{self, ErrorKind},
    net::{Ipv4Addr, SocketAddr},
};

use conformance::gateways::{Gateways, profile};

use crate::exit::Failure;

/// Starts the gateway of this name on a port of 127.0.0.1. It ends when it is dropped.
///
/// # Errors
/// The port is in use.
pub(super) async fn start(name: &str, port: u16) -> Result<Gateways, Failure> {
    let address: SocketAddr = (Ipv4Addr::LOCALHOST, port).into();
    let failed = |error: io::Error| {
        Failure::new(format!(
            "cannot run the profile `{name}` at {address}: {error}"
        ))
    };
    let script = profile(name).map_err(failed)?;
    let gateway = Gateways::start_at(&script, address).await;
    gateway.map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => Failure::new(format!(
            "cannot run the profile `{name}`: the port {} of {} is taken; `remote-agent gateway status --url ws://{address}` shows whether a gateway uses it, and `--port 0` selects a free one",
            address.port(),
            address.ip()
        )),
        _ => failed(error),
    })
}
