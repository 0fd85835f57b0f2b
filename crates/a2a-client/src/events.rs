//! Decodes streams of events.

use std::sync::Arc;

use a2a::{Event, Reply};
use egress::sse::{EventReader, SseItem};
use peer::{BoxFuture, EventStream, NextEvent, PeerError};

use super::decoder::Decoder;
use super::error::from_net;
use super::{peer_secrets::PeerSecrets, response_json};

/// The events of one connection.
pub(super) struct Events {
    reader: EventReader,
    decoder: Decoder,
    secrets: Arc<PeerSecrets>,
    answer_bytes: usize,
    ended: bool,
}

impl Events {
    pub(super) fn new(
        reader: EventReader,
        decoder: Decoder,
        secrets: Arc<PeerSecrets>,
        answer_bytes: usize,
    ) -> Self {
        Self {
            reader,
            decoder,
            secrets,
            answer_bytes,
            ended: false,
        }
    }

    /// Decodes the data of an event; `None` for one that only keeps the connection open.
    fn read(&self, data: &str) -> Result<Option<Event>, PeerError> {
        let limits = response_json::limits(self.answer_bytes);
        self.decoder.event(data, limits, &self.secrets)
    }

    async fn step(&mut self) -> NextEvent {
        if self.ended {
            return None;
        }
        let event = loop {
            match self.reader.next().await {
                Some(Ok(SseItem::Event { data, .. })) if !data.is_empty() => {
                    match self.read(&data) {
                        Ok(Some(event)) => break Some(Ok((event, response_json::size(&data)))),
                        Ok(None) => {}
                        Err(error) => break Some(Err(error)),
                    }
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => break Some(Err(from_net(error))),
                None => break None,
            }
        };
        self.ended = !matches!(event, Some(Ok(_)));
        event
    }
}

impl EventStream for Events {
    fn next(&mut self) -> BoxFuture<'_, NextEvent> {
        Box::pin(self.step())
    }
}

/// A plain response in place of a stream: one event.
pub(super) struct SingleEvent(pub(super) Option<(Reply, usize)>);

impl EventStream for SingleEvent {
    fn next(&mut self) -> BoxFuture<'_, NextEvent> {
        let event = self.0.take();
        let event = event.map(|(reply, bytes)| Ok((reply.into(), bytes)));
        Box::pin(std::future::ready(event))
    }

    fn is_plain_response(&self) -> bool {
        true
    }
}
