//! A run as a stream of events.

use std::collections::VecDeque;

use a2a::Event;
use peer::{BoxFuture, EventStream, NextEvent, PeerError};

use super::listening::Listening;
use super::narrator::Narrator;
use super::outcome::Outcome;
use super::said::Said;

/// What is said of one run, until it is over.
pub(super) struct RunStream {
    /// Nobody has anything to say any more where there is none.
    listening: Option<Listening>,
    narrator: Narrator,
    /// The end of the run, for who did not begin it and is not told.
    end: Option<BoxFuture<'static, Result<Outcome, PeerError>>>,
    told: VecDeque<(Event, usize)>,
}

impl RunStream {
    /// Begins with `first`.
    pub(super) fn new(narrator: Narrator, first: impl IntoIterator<Item = Event>) -> Self {
        Self {
            listening: None,
            narrator,
            end: None,
            told: first.into_iter().map(|event| (event, 0)).collect(),
        }
    }

    /// Goes on with what is said.
    pub(super) fn listening(mut self, listening: Listening) -> Self {
        self.listening = Some(listening);
        self
    }

    /// Ends with `end`, where that comes before the gateway says so.
    pub(super) fn ending(mut self, end: BoxFuture<'static, Result<Outcome, PeerError>>) -> Self {
        self.end = Some(end);
        self
    }

    async fn more(&mut self) -> Option<PeerError> {
        let listening = self.listening.as_mut()?;
        let ended = async {
            match &mut self.end {
                Some(end) => end.await,
                None => std::future::pending().await,
            }
        };
        // What was said before the end was known is told before it.
        let told = tokio::select! {
            biased;
            said = listening.next() => said.and_then(|(said, size)| {
                let over = matches!(said, Said::Over(_) | Said::GivenUp(_));
                Ok((self.narrator.tell(said)?, size, over))
            }),
            outcome = ended => outcome.and_then(|outcome| Ok((self.narrator.end(outcome)?, 0, true))),
        };
        match told {
            Ok((events, size, over)) => {
                self.told
                    .extend(events.into_iter().map(|event| (event, size)));
                if over {
                    (self.listening, self.end) = (None, None);
                }
                None
            }
            Err(error) => {
                (self.listening, self.end) = (None, None);
                Some(error)
            }
        }
    }
}

impl EventStream for RunStream {
    fn next(&mut self) -> BoxFuture<'_, NextEvent> {
        Box::pin(async {
            loop {
                if let Some((event, size)) = self.told.pop_front() {
                    return Some(Ok((event, size)));
                }
                self.listening.as_ref()?;
                if let Some(error) = self.more().await {
                    return Some(Err(error));
                }
            }
        })
    }
}
