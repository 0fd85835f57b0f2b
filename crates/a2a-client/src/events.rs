//! Decodes streams of events.

use std::collections::VecDeque;
use std::sync::Arc;

use a2a::{Event, Reply};
use async_trait::async_trait;
use base::field_order::FieldOrder;
use egress::sse::{EventReader, SseItem};
use peer::{Delivered, EventStream, NextEvent, PeerError, PeerErrorKind};

use super::decoder::{Decoder, stated_in, stating};
use super::error::from_net;
use super::{peer_secrets::PeerSecrets, response_json};

/// The events of one connection.
pub(super) struct Events {
    reader: EventReader,
    decoder: Decoder,
    secrets: Arc<PeerSecrets>,
    field_order: Option<FieldOrder>,
    answer_bytes: usize,
    /// Further events of the last data, and the bytes that each counts.
    pending: VecDeque<(Event, usize)>,
    ended: bool,
    /// Whether data has come that is no event.
    has_skipped: bool,
    /// The first text in such data.
    text: Option<String>,
    /// Whether an event has come, readable or not.
    has_event: bool,
}

impl Events {
    pub(super) fn new(
        reader: EventReader,
        decoder: Decoder,
        secrets: Arc<PeerSecrets>,
        field_order: Option<FieldOrder>,
        answer_bytes: usize,
    ) -> Self {
        Self {
            reader,
            decoder,
            secrets,
            field_order,
            answer_bytes,
            pending: VecDeque::new(),
            ended: false,
            has_skipped: false,
            text: None,
            has_event: false,
        }
    }

    /// Decodes the data of an event; none for one that only keeps the connection open.
    fn read(&self, data: &str) -> Result<Vec<Event>, PeerError> {
        let limits = response_json::answer_limits(self.answer_bytes);
        let events = self.decoder.event(data, limits, &self.secrets)?;
        if let Some(order) = &self.field_order {
            order.note(data.as_bytes());
        }
        Ok(events)
    }

    /// Notes data that is no event. Returns the error in an event that is named so.
    fn skip(&mut self, name: Option<&str>, data: &str) -> Option<PeerError> {
        let limits = response_json::answer_limits(self.answer_bytes);
        if name == Some("error") {
            return Some(self.decoder.named_error(data, limits, &self.secrets));
        }
        self.has_skipped = true;
        if self.text.is_none() && !self.has_event {
            self.text = stated_in(data, limits, &self.secrets);
        }
        None
    }

    async fn step(&mut self) -> NextEvent {
        if self.ended {
            return None;
        }
        let event = loop {
            if let Some(event) = self.pending.pop_front() {
                break Some(Ok(event));
            }
            match self.reader.next().await {
                Some(Ok(SseItem::Event { event: name, data })) if !data.is_empty() => {
                    match self.read(&data) {
                        Ok(events) if events.is_empty() => {
                            if let Some(error) = self.skip(name.as_deref(), &data) {
                                break Some(Err(error));
                            }
                        }
                        Ok(events) => {
                            let bytes = response_json::size(&data);
                            self.pending
                                .extend(events.into_iter().map(|event| (event, bytes)));
                        }
                        // The connection and the events after it are intact.
                        Err(error) if error.kind == PeerErrorKind::InvalidResponse => {
                            self.has_event = true;
                            return Some(Err(error));
                        }
                        Err(error) => break Some(Err(error)),
                    }
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => break Some(Err(from_net(error))),
                None if self.has_skipped && !self.has_event => {
                    break Some(Err(stating(no_event(), self.text.take())));
                }
                None => break None,
            }
        };
        self.ended = !matches!(event, Some(Ok(_)));
        self.has_event = true;
        event
    }
}

/// Returns the error of a stream that ended after data without any event. The agent may not have written that data.
fn no_event() -> PeerError {
    let message = "the stream ended with data, but without an event of A2A";
    let mut error = PeerError::new(PeerErrorKind::InvalidResponse, message);
    error.delivered = Delivered::Unknown;
    error
}

#[async_trait]
impl EventStream for Events {
    async fn next(&mut self) -> NextEvent {
        self.step().await
    }
}

/// A plain response in place of a stream: one event.
pub(super) struct SingleEvent(pub(super) Option<(Reply, usize)>);

#[async_trait]
impl EventStream for SingleEvent {
    async fn next(&mut self) -> NextEvent {
        let event = self.0.take();
        event.map(|(reply, bytes)| Ok((reply.into(), bytes)))
    }

    fn is_plain_response(&self) -> bool {
        true
    }
}
