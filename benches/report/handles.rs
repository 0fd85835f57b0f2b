//! Measures the task handle store at three sizes that differ by orders of magnitude.

use std::{
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use openclaw_remote_agent::handles::{Handle, HandleLookup, Handles, NewHandle};
use uuid::Uuid;

use crate::{Scale, samples::Section};

const OPERATION_COUNT: usize = 50_000;
/// The number of most recent handles that the benchmark resolves. Most handles are used again soon after their creation.
const RECENT_HANDLES: usize = 1_000;

struct HandleStore {
    handles: Handles<()>,
    existing: Vec<Handle>,
    created: u32,
    target: Arc<()>,
    key: Arc<str>,
    now: Instant,
}

impl HandleStore {
    fn with_size(size: u32) -> Self {
        let mut store = Self {
            handles: Handles::new(size as usize, Duration::from_hours(1)),
            existing: Vec::new(),
            created: 0,
            target: Arc::new(()),
            key: "http://desk.example".into(),
            now: Instant::now(),
        };
        store.existing = (0..size).map(|_| store.create()).collect();
        store
    }

    /// Adds a task, which evicts the oldest one from a full store.
    fn create(&mut self) -> Handle {
        self.created += 1;
        let task = NewHandle {
            target: &self.target,
            key: &self.key,
            task_id: &format!("task-{}", self.created),
            context_id: Some("context"),
            owner: "",
        };
        self.handles.insert(task, None, self.now, Uuid::new_v4)
    }

    /// Returns the seconds for resolving a recent handle, resolving any handle, and creating a handle.
    fn round(&mut self) -> [f64; 3] {
        let size = self.existing.len();
        [
            seconds_each(|n| self.resolve(size - 1 - n % RECENT_HANDLES)),
            // The step is coprime to every size, so that the CPU caches do not help.
            seconds_each(|n| self.resolve(n * 7_919 % size)),
            // Last, because each new handle evicts one from the full store.
            seconds_each(|_| {
                black_box(self.create());
            }),
        ]
    }

    fn resolve(&mut self, index: usize) {
        let found = self.handles.resolve(self.existing[index], self.now);
        assert!(matches!(black_box(found), HandleLookup::Live(_)));
    }
}

fn seconds_each(mut work: impl FnMut(usize)) -> f64 {
    let start = Instant::now();
    (0..OPERATION_COUNT).for_each(&mut work);
    start.elapsed().as_secs_f64() / OPERATION_COUNT as f64
}

/// Measures every size once per round.
pub(crate) fn measure(scale: &Scale, section: &mut Section) {
    for round in 0..scale.rounds {
        eprintln!("handles, round {}", round + 1);
        for size in scale.handles {
            let durations = HandleStore::with_size(*size).round();
            for (name, seconds) in ["resolve a recent one", "resolve any", "create"]
                .iter()
                .zip(durations)
            {
                section.add(&size.to_string(), name, "ns", seconds * 1e9);
            }
        }
    }
}
