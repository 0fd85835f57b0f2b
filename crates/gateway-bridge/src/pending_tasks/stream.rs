//! The events of one task.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use a2a::Event;
use base::json::encoded_bytes;
use peer::{BoxFuture, EventStream, NextEvent, PeerError, PeerErrorKind};

use super::task::{PendingTask, TaskProgress};
use super::{connection_reset, render};

/// The events of one task: a snapshot of the steps delivered before, every later step, then the end.
pub(super) struct TaskStream {
    entry: Arc<PendingTask>,
    progress: watch::Receiver<TaskProgress>,
    started: bool,
    /// The number of delivered steps.
    delivered: usize,
    /// The number of lost connections at the start.
    cuts: usize,
    /// The remaining events of the end.
    last: VecDeque<Value>,
    over: bool,
}

impl PendingTask {
    /// Subscribes to the task's events, starting after those delivered before. Steps from before the first
    /// subscription, such as early votes, are delivered too.
    pub(crate) fn subscribe(self: &Arc<Self>) -> Box<dyn EventStream> {
        Box::new(TaskStream::new(Arc::clone(self), self.progress.subscribe()))
    }
}

impl TaskStream {
    pub(super) fn new(entry: Arc<PendingTask>, progress: watch::Receiver<TaskProgress>) -> Self {
        let cuts = progress.borrow().cuts;
        Self {
            entry,
            progress,
            started: false,
            delivered: 0,
            cuts,
            last: VecDeque::new(),
            over: false,
        }
    }

    async fn step(&mut self) -> NextEvent {
        loop {
            self.entry.expire_if_due();
            if let Some(value) = self.last.pop_front() {
                return event(value);
            }
            if self.over {
                return None;
            }
            if let Some(step) = self.next_stored() {
                return step;
            }
            let forever = Instant::now() + std::time::Duration::from_secs(24 * 60 * 60);
            let until = self.entry.deadline().unwrap_or(forever);
            // The sender lives as long as the task, and the next loop checks the deadline.
            drop(timeout_at(until, self.progress.changed()).await);
        }
    }

    /// Returns the next event that has not been delivered.
    fn next_stored(&mut self) -> Option<NextEvent> {
        let progress = self.progress.borrow_and_update();
        if !self.started {
            self.started = true;
            let (task, delivered, over) = self.entry.delivered_snapshot(&progress);
            (self.delivered, self.over) = (delivered, over);
            return Some(event(task));
        }
        if let Some(step) = progress.steps.get(self.delivered) {
            self.delivered += 1;
            self.entry.mark_delivered(self.delivered);
            return Some(event(step.clone()));
        }
        if let Some(outcome) = &progress.outcome {
            self.over = true;
            self.last =
                render::final_updates(self.entry.ids(), progress.steps.len(), outcome).into();
            return self.last.pop_front().map(event);
        }
        if progress.cuts > self.cuts {
            self.cuts = progress.cuts;
            let reason = "the next connection waits for the decision";
            return Some(Some(Err(connection_reset(reason))));
        }
        None
    }
}

fn event(value: Value) -> NextEvent {
    let bytes = encoded_bytes(&value);
    match Event::read(value) {
        Ok(event) => Some(Ok((event, bytes))),
        Err(e) => Some(Err(PeerError::new(
            PeerErrorKind::InvalidResponse,
            e.to_string(),
        ))),
    }
}

impl EventStream for TaskStream {
    fn next(&mut self) -> BoxFuture<'_, NextEvent> {
        Box::pin(self.step())
    }
}
