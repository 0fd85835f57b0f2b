//! A run as a stream of events.

use std::collections::VecDeque;

use a2a::Event;
use peer::{BoxFuture, EventStream, NextEvent, PeerError};

use super::event_mapper::RunEventMapper;
use super::outcome::RunOutcome;
use super::run_event::RunEvent;
use super::subscription::RunSubscription;

/// The events of one run, until its end.
pub(super) struct RunStream {
    /// `None` once the run has ended.
    subscription: Option<RunSubscription>,
    mapper: RunEventMapper,
    /// Resolves with the end of a run that another caller started.
    end: Option<BoxFuture<'static, Result<RunOutcome, PeerError>>>,
    queued: VecDeque<(Event, usize)>,
}

impl RunStream {
    /// Creates a stream that begins with `first`.
    pub(super) fn new(mapper: RunEventMapper, first: impl IntoIterator<Item = Event>) -> Self {
        Self {
            subscription: None,
            mapper,
            end: None,
            queued: first.into_iter().map(|event| (event, 0)).collect(),
        }
    }

    /// Continues with the events of a subscription.
    pub(super) fn with_subscription(mut self, subscription: RunSubscription) -> Self {
        self.subscription = Some(subscription);
        self
    }

    /// Ends with `end` if it resolves before the gateway reports the end.
    pub(super) fn with_end(
        mut self,
        end: BoxFuture<'static, Result<RunOutcome, PeerError>>,
    ) -> Self {
        self.end = Some(end);
        self
    }

    async fn more(&mut self) -> Option<PeerError> {
        let subscription = self.subscription.as_mut()?;
        let ended = async {
            match &mut self.end {
                Some(end) => end.await,
                None => std::future::pending().await,
            }
        };
        // Deliver events from before the end first.
        let next = tokio::select! {
            biased;
            said = subscription.next() => said.and_then(|(said, size)| {
                let over = matches!(said, RunEvent::Ended(_) | RunEvent::Abandoned(_));
                Ok((self.mapper.map(said)?, size, over))
            }),
            outcome = ended => outcome.and_then(|outcome| Ok((self.mapper.end(outcome)?, 0, true))),
        };
        match next {
            Ok((events, size, over)) => {
                self.queued
                    .extend(events.into_iter().map(|event| (event, size)));
                if over {
                    (self.subscription, self.end) = (None, None);
                }
                None
            }
            Err(error) => {
                (self.subscription, self.end) = (None, None);
                Some(error)
            }
        }
    }
}

impl EventStream for RunStream {
    fn next(&mut self) -> BoxFuture<'_, NextEvent> {
        Box::pin(async {
            loop {
                if let Some((event, size)) = self.queued.pop_front() {
                    return Some(Ok((event, size)));
                }
                self.subscription.as_ref()?;
                if let Some(error) = self.more().await {
                    return Some(Err(error));
                }
            }
        })
    }
}
