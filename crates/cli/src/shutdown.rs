//! The signals that stop a long-running command.

use tokio_util::sync::CancellationToken;

use crate::exit::Failure;

/// Returns a token that Ctrl-C or SIGTERM cancels.
///
/// The handlers are installed when this returns. A command calls this before it listens, so that no signal after its
/// first answer ends the process without a clean stop.
///
/// # Errors
/// The system refuses a handler.
pub(super) fn on_signal() -> Result<CancellationToken, Failure> {
    let failed =
        |error: std::io::Error| Failure::new(format!("cannot install a signal handler: {error}"));
    let token = CancellationToken::new();
    let shutdown = token.clone();
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut interrupted = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut terminated = signal(SignalKind::terminate()).map_err(failed)?;
        tokio::spawn(async move {
            tokio::select! {
                _ = interrupted.recv() => {}
                _ = terminated.recv() => {}
            }
            shutdown.cancel();
        });
    }
    #[cfg(windows)]
    {
        let mut interrupted = tokio::signal::windows::ctrl_c().map_err(failed)?;
        tokio::spawn(async move {
            interrupted.recv().await;
            shutdown.cancel();
        });
    }
    Ok(token)
}
