//! What happens to one message, told as it happens.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use a2a::Event;
use peer::{BoxFuture, EventStream, NextEvent, PeerError, PeerErrorKind};

use super::entry::{Entry, Life};
use super::{reset, wording};

/// Listens to one entry: how far it was heard of, then every step, then its end.
pub(super) struct Listener {
    entry: Arc<Entry>,
    life: watch::Receiver<Life>,
    begun: bool,
    /// How many steps were told.
    told: usize,
    /// How often the connection had been lost when this began.
    cuts: usize,
    /// What is still to be told of the end.
    last: VecDeque<Value>,
    over: bool,
}

impl Listener {
    pub(super) fn new(entry: Arc<Entry>, life: watch::Receiver<Life>) -> Self {
        let cuts = life.borrow().cuts;
        Self {
            entry,
            life,
            begun: false,
            told: 0,
            cuts,
            last: VecDeque::new(),
            over: false,
        }
    }

    async fn step(&mut self) -> NextEvent {
        loop {
            self.entry.look_at_the_clock();
            if let Some(value) = self.last.pop_front() {
                return event(value);
            }
            if self.over {
                return None;
            }
            if let Some(step) = self.known() {
                return step;
            }
            let forever = Instant::now() + std::time::Duration::from_secs(24 * 60 * 60);
            let until = self.entry.over_at().unwrap_or(forever);
            // The sender lives as long as the entry, and the clock is looked at next.
            drop(timeout_at(until, self.life.changed()).await);
        }
    }

    /// What has happened and is not told.
    fn known(&mut self) -> Option<NextEvent> {
        let life = self.life.borrow_and_update();
        if !self.begun {
            self.begun = true;
            let (task, told, over) = self.entry.as_heard(&life);
            (self.told, self.over) = (told, over);
            return Some(event(task));
        }
        if let Some(step) = life.steps.get(self.told) {
            self.told += 1;
            self.entry.is_heard(self.told);
            return Some(event(step.clone()));
        }
        if let Some(outcome) = &life.outcome {
            self.over = true;
            self.last = wording::end(&self.entry, &life, outcome).into();
            return self.last.pop_front().map(event);
        }
        if life.cuts > self.cuts {
            self.cuts = life.cuts;
            let why = "the decision is waited for on the next one";
            return Some(Some(Err(reset(why))));
        }
        None
    }
}

fn event(value: Value) -> NextEvent {
    let bytes = value.to_string().len();
    match Event::read(value) {
        Ok(event) => Some(Ok((event, bytes))),
        Err(e) => Some(Err(PeerError::new(
            PeerErrorKind::InvalidResponse,
            e.to_string(),
        ))),
    }
}

impl EventStream for Listener {
    fn next(&mut self) -> BoxFuture<'_, NextEvent> {
        Box::pin(self.step())
    }
}
