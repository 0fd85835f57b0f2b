//! The end of the gateway: everybody is told, and nothing takes longer than it may.

use collective::{CloseCode, ErrorCode};

use super::frames;
use super::hub::Hub;
use super::outbox::Close;
use super::refusal::Refusal;

/// What who waits for an answer is told.
pub(super) fn going_down() -> Refusal {
    Refusal::new(
        ErrorCode::ConnectionReset,
        "the gateway is shutting down; what was asked may or may not be done",
    )
}

impl Hub {
    /// Answers what is open with errors, tells every client that the gateway goes down, and ends every connection behind
    /// what waits for it.
    pub(super) fn say_goodbye(&self) {
        self.stopping.cancel();
        let clients: Vec<_> = self.registry().clients().cloned().collect();
        for client in &clients {
            self.give_up(client, |_| going_down());
        }
        self.triad.give_up(&going_down(), self.millis());
        let farewell = frames::disconnect("shutdown", "the gateway is shutting down");
        for client in &clients {
            let _ = client.outbox.text(farewell.clone());
            client.outbox.finish(Close {
                code: CloseCode::GoingAway,
                reason: "the gateway is shutting down",
            });
        }
    }
}
