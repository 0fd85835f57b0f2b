//! Shares the concurrent runs among the clients.
//!
//! A free slot goes to the waiting client with the fewest runs, and among equals to the one whose last run started
//! first. The runs of one client start in the order in which they wait. Where several clients are possible, the last
//! slot stays free for another client, so that its first run starts at once.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// The slots of the concurrent runs.
#[derive(Debug)]
pub struct RunSlots {
    per_client: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    free: usize,
    /// The clients with runs or waiting runs.
    clients: HashMap<Arc<str>, Client>,
    /// The number of started runs.
    starts: u64,
}

#[derive(Debug, Default)]
struct Client {
    running: usize,
    /// The number of the last start; 0 for a newcomer.
    last_start: u64,
    waiting: VecDeque<oneshot::Sender<RunSlot>>,
}

/// The right to run. Dropping it starts the next run.
#[derive(Debug)]
pub struct RunSlot {
    slots: Option<Arc<RunSlots>>,
    client: Arc<str>,
}

impl RunSlots {
    /// Creates `total` slots. With `several_clients`, one client gets all but one.
    #[must_use]
    pub fn new(total: usize, several_clients: bool) -> Arc<Self> {
        let total = total.max(1);
        let reserved = usize::from(several_clients);
        Arc::new(Self {
            per_client: total.saturating_sub(reserved).max(1),
            state: Mutex::new(State {
                free: total,
                ..State::default()
            }),
        })
    }

    /// Waits for a slot of `client`. Returns `None` only if the slots are gone.
    pub async fn acquire(self: &Arc<Self>, client: &str) -> Option<RunSlot> {
        let (sender, slot) = oneshot::channel();
        {
            let mut state = self.state.lock();
            let known = state.clients.entry(client.into()).or_default();
            // Those whose caller has given up.
            known.waiting.retain(|waiting| !waiting.is_closed());
            known.waiting.push_back(sender);
            self.start_waiting(&mut state);
        }
        slot.await.ok()
    }

    /// Gives the free slots to waiting runs.
    fn start_waiting(self: &Arc<Self>, state: &mut State) {
        while state.free > 0 {
            let waiting = state.clients.iter_mut();
            let next = waiting
                .filter(|(_, it)| !it.waiting.is_empty() && it.running < self.per_client)
                .min_by_key(|(_, it)| (it.running, it.last_start));
            let Some((name, client)) = next else {
                return;
            };
            let name = Arc::clone(name);
            while let Some(waiting) = client.waiting.pop_front() {
                let slot = RunSlot {
                    slots: Some(Arc::clone(self)),
                    client: Arc::clone(&name),
                };
                match waiting.send(slot) {
                    Ok(()) => {
                        state.starts += 1;
                        client.last_start = state.starts;
                        client.running += 1;
                        state.free -= 1;
                        break;
                    }
                    // Its task waits no longer. The slot was not counted.
                    Err(mut unused) => unused.slots = None,
                }
            }
            if client.waiting.is_empty() && client.running == 0 {
                state.clients.remove(&name);
            }
        }
    }
}

impl Drop for RunSlot {
    fn drop(&mut self) {
        let Some(slots) = self.slots.take() else {
            return;
        };
        let mut state = slots.state.lock();
        state.free += 1;
        if let Some(client) = state.clients.get_mut(&self.client) {
            client.running -= 1;
            if client.running == 0 && client.waiting.is_empty() {
                state.clients.remove(&self.client);
            }
        }
        slots.start_waiting(&mut state);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::pin::Pin;

    use futures_util::FutureExt as _;

    use super::*;

    type Waiting = Pin<Box<dyn Future<Output = Option<RunSlot>> + Send>>;

    fn wait(slots: &Arc<RunSlots>, client: &'static str) -> Waiting {
        let slots = Arc::clone(slots);
        let mut waiting: Waiting = Box::pin(async move { slots.acquire(client).await });
        // Joins the queue; a slot stays in its channel.
        let ready = (&mut waiting).now_or_never().flatten();
        match ready {
            Some(slot) => Box::pin(std::future::ready(Some(slot))),
            None => waiting,
        }
    }

    fn started(waiting: &mut Waiting) -> Option<RunSlot> {
        waiting.now_or_never().flatten()
    }

    #[test]
    fn newcomer_gets_the_next_free_slot() {
        let slots = RunSlots::new(2, false);
        let mut running: Vec<_> = (0..2)
            .map(|_| started(&mut wait(&slots, "loud")).unwrap())
            .collect();
        let mut backlog: Vec<_> = (0..100).map(|_| wait(&slots, "loud")).collect();
        let mut newcomer = wait(&slots, "quiet");
        assert!(started(&mut newcomer).is_none());
        drop(running.pop());
        assert!(backlog.iter_mut().all(|it| started(it).is_none()));
        assert!(started(&mut newcomer).is_some());
    }

    #[test]
    fn last_slot_stays_free_for_another_client() {
        let slots = RunSlots::new(2, true);
        let _running = started(&mut wait(&slots, "loud")).unwrap();
        let mut more = wait(&slots, "loud");
        assert!(started(&mut more).is_none());
        let other = started(&mut wait(&slots, "quiet")).unwrap();
        drop(other);
        assert!(started(&mut more).is_none());
    }

    #[test]
    fn only_slot_is_shared() {
        let slots = RunSlots::new(1, true);
        let running = started(&mut wait(&slots, "loud")).unwrap();
        let mut order = [
            wait(&slots, "loud"),
            wait(&slots, "loud"),
            wait(&slots, "quiet"),
            wait(&slots, "third"),
        ];
        let mut starts = Vec::new();
        drop(running);
        while starts.len() < order.len() {
            let place = order.iter_mut().position(|it| started(it).is_some());
            starts.push(place.unwrap());
            order[place.unwrap()] = Box::pin(std::future::pending());
        }
        assert_eq!(&starts[2..], [0, 1], "{starts:?}");
    }

    #[test]
    fn runs_of_one_client_start_in_order() {
        let slots = RunSlots::new(1, false);
        let running = started(&mut wait(&slots, "ada")).unwrap();
        let mut first = wait(&slots, "ada");
        let mut second = wait(&slots, "ada");
        drop(running);
        let slot = started(&mut first).unwrap();
        assert!(started(&mut second).is_none());
        drop(slot);
        assert!(started(&mut second).is_some());
    }

    #[test]
    fn abandoned_waits_take_no_slot() {
        let slots = RunSlots::new(1, false);
        let running = started(&mut wait(&slots, "ada")).unwrap();
        let abandoned: Vec<_> = (0..3).map(|_| wait(&slots, "ada")).collect();
        let granted = wait(&slots, "bob");
        drop(abandoned);
        drop(running);
        // The slot is in the channel of a wait that ends before it reads it.
        drop(granted);
        assert!(started(&mut wait(&slots, "eve")).is_some());
        let state = slots.state.lock();
        assert_eq!((state.free, state.clients.len()), (1, 0));
    }
}
