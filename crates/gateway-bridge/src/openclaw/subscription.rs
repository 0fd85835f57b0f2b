//! Subscriptions to the events of one run.

use std::sync::Arc;

use serde_json::Value;

use peer::PeerError;

use super::connection::OpenClawConnection;
use super::errors::{self, RequestError};
use super::run_event::RunEvent;
use super::subscriber::RunEventReceiver;

/// A subscription to one run. Dropping it does not stop the run.
pub(super) struct RunSubscription {
    connection: Arc<OpenClawConnection>,
    run: String,
    events: RunEventReceiver,
}

impl RunSubscription {
    /// Subscribes to later events of `run`.
    pub(super) fn open(connection: &Arc<OpenClawConnection>, run: &str) -> Result<Self, PeerError> {
        Ok(Self {
            connection: Arc::clone(connection),
            run: run.to_owned(),
            events: connection.add_subscriber(run)?,
        })
    }

    /// Subscribes to `run`, starts it, and returns the first response: accepted, or ended if it was started before.
    pub(super) async fn start(
        connection: &Arc<OpenClawConnection>,
        run: &str,
        params: &Value,
    ) -> Result<(Value, Self), RequestError> {
        let subscription = Self::open(connection, run).map_err(RequestError::Connection)?;
        let answer = connection.start_run(run, params).await?;
        Ok((answer, subscription))
    }

    /// Returns the next event and the size of its frame in bytes.
    ///
    /// # Errors
    /// The connection has ended, or this subscriber was too slow.
    pub(super) async fn next(&mut self) -> Result<(RunEvent, usize), PeerError> {
        match self.events.recv().await {
            Some(event) => Ok(event),
            None if self.connection.is_open() => Err(errors::connection_lost(
                "this subscriber was too slow for the agent's events",
            )),
            None => Err(self.connection.close_error()),
        }
    }
}

impl Drop for RunSubscription {
    fn drop(&mut self) {
        self.connection.remove_subscriber(&self.run, self.events.id);
    }
}
