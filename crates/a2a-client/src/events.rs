//! Streams of events, decoded one by one.

use std::sync::Arc;

use a2a::{Event, Reply};
use egress::sse::{self, EventReader, Item};
use peer::{BoxFuture, End, EventStream, PeerError, Step};

use super::line::from_net;
use super::{secrets::Secrets, weight};

/// Turns the data of one server-sent event into an event of the model.
pub(super) type Decode = fn(&str, &Secrets) -> Result<Event, PeerError>;

/// The events of one connection.
pub(super) struct Events {
    reader: EventReader,
    decode: Decode,
    secrets: Arc<Secrets>,
    answer_bytes: usize,
    over: bool,
}

impl Events {
    pub(super) fn new(
        reader: EventReader,
        decode: Decode,
        secrets: Arc<Secrets>,
        answer_bytes: usize,
    ) -> Self {
        Self {
            reader,
            decode,
            secrets,
            answer_bytes,
            over: false,
        }
    }

    fn read(&self, data: &str) -> Result<Event, PeerError> {
        weight::check(data.as_bytes(), self.answer_bytes)?;
        (self.decode)(data, &self.secrets)
    }

    async fn step(&mut self) -> Step {
        if self.over {
            return Step::End(End::Clean);
        }
        loop {
            let end = match self.reader.next().await {
                Item::Alive => continue,
                Item::Event { data, .. } if data.is_empty() => continue,
                Item::Event { data, .. } => match self.read(&data) {
                    Ok(event) => return Step::Event(event, weight::bytes(&data)),
                    Err(error) => End::Broken(error),
                },
                Item::End(sse::End::Clean) => End::Clean,
                Item::End(sse::End::Cut(error)) => End::Broken(from_net(error)),
            };
            self.over = true;
            return Step::End(end);
        }
    }
}

impl EventStream for Events {
    fn next(&mut self) -> BoxFuture<'_, Step> {
        Box::pin(self.step())
    }
}

/// A plain answer in the place of a stream: one event, and nothing more to wait for.
pub(super) struct Answered(pub(super) Option<(Reply, usize)>);

impl EventStream for Answered {
    fn next(&mut self) -> BoxFuture<'_, Step> {
        let step = match self.0.take() {
            Some((reply, bytes)) => Step::Event(reply.into(), bytes),
            None => Step::End(End::Answer),
        };
        Box::pin(std::future::ready(step))
    }
}
