//! Keeps an agent connected.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{ClientError, Endpoint, connection::ClientConnection, event::AgentEvent};
use base::environment::Environment;
use egress::HttpClient;

/// The initial and the maximum delay before the agent reconnects.
pub(super) const INITIAL_BACKOFF: Duration = Duration::from_millis(250);
pub(super) const MAX_BACKOFF: Duration = Duration::from_secs(15);

/// The agent that a connection serves, and how to connect to its gateway.
#[derive(Clone, Copy)]
pub(super) struct ServeOptions<'a> {
    pub(super) net: &'a dyn HttpClient,
    pub(super) endpoint: &'a Endpoint,
    pub(super) name: &'a str,
    pub(super) env: &'a Arc<dyn Environment>,
}

/// Connects and passes the connection to `serve`, until that returns `Ok` or `shutdown` is cancelled. Reconnects after a
/// lost connection, and sends `disconnect` at the end.
///
/// # Errors
/// The server is not an `a2a-v1` gateway, or it refuses the agent or the credential.
pub(super) async fn keep_connected<F>(
    options: ServeOptions<'_>,
    on_event: &(impl Fn(&AgentEvent) + Send + Sync),
    shutdown: &CancellationToken,
    serve: impl Fn(ClientConnection) -> F,
) -> Result<(), ClientError>
where
    F: Future<Output = Result<(), ClientError>>,
{
    let names = [options.name];
    let mut pause = INITIAL_BACKOFF;
    loop {
        let opened = tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            opened = ClientConnection::open(options.net, options.endpoint, &names, options.env) => opened,
        };
        let error = match opened {
            Ok((connection, welcome)) => {
                pause = INITIAL_BACKOFF;
                on_event(&AgentEvent::Connected(welcome.client_id));
                let sender = connection.sender().clone();
                let ended = tokio::select! {
                    () = shutdown.cancelled() => {
                        sender.disconnect().await;
                        return Ok(());
                    }
                    ended = serve(connection) => ended,
                };
                match ended {
                    Ok(()) => return Ok(()),
                    Err(error) => error,
                }
            }
            Err(error) => error,
        };
        if !error.is_retryable() {
            return Err(error);
        }
        let wait = jittered(pause, &**options.env);
        on_event(&AgentEvent::Lost(error, wait));
        tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            () = tokio::time::sleep(wait) => {}
        }
        pause = (pause * 2).min(MAX_BACKOFF);
    }
}

/// Returns a random duration between half of the delay and the whole delay, so that agents of one gateway do not reconnect
/// at the same time.
pub fn jittered(pause: Duration, env: &dyn Environment) -> Duration {
    let random = env.uuid().as_u128() % 1000;
    let random = u32::try_from(random).unwrap_or_default();
    pause / 2 + pause / 2 * random / 1000
}
