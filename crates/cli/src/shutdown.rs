//! The signals that stop a long-running command.

use tokio_util::sync::CancellationToken;

use crate::exit::Failure;

/// The tokens that signals cancel.
pub(super) struct Shutdown {
    /// Cancelled by the first Ctrl-C or SIGTERM: stop.
    pub(super) stop: CancellationToken,
    /// Cancelled by the second one: end at once.
    pub(super) force: CancellationToken,
}

/// Returns a token that Ctrl-C or SIGTERM cancels.
///
/// # Errors
/// The system refuses a handler.
pub(super) fn on_signal() -> Result<CancellationToken, Failure> {
    Ok(on_signals()?.stop)
}

/// Returns the tokens that Ctrl-C and SIGTERM cancel.
///
/// The handlers are installed when this returns. A command calls this before it listens, so that no signal after its
/// first answer ends the process without a clean stop.
///
/// # Errors
/// The system refuses a handler.
pub(super) fn on_signals() -> Result<Shutdown, Failure> {
    let failed =
        |error: std::io::Error| Failure::new(format!("cannot install a signal handler: {error}"));
    let shutdown = Shutdown {
        stop: CancellationToken::new(),
        force: CancellationToken::new(),
    };
    let tokens = [shutdown.stop.clone(), shutdown.force.clone()];
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut interrupted = signal(SignalKind::interrupt()).map_err(failed)?;
        let mut terminated = signal(SignalKind::terminate()).map_err(failed)?;
        tokio::spawn(async move {
            for token in tokens {
                tokio::select! {
                    _ = interrupted.recv() => {}
                    _ = terminated.recv() => {}
                }
                token.cancel();
            }
        });
    }
    #[cfg(windows)]
    {
        let mut interrupted = tokio::signal::windows::ctrl_c().map_err(failed)?;
        tokio::spawn(async move {
            for token in tokens {
                interrupted.recv().await;
                token.cancel();
            }
        });
    }
    Ok(shutdown)
}
