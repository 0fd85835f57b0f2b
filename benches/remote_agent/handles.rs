//! The store of task handles at sizes three orders apart.

use std::{
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use openclaw_remote_agent::handles::{Found, Handle, Handles, Named};
use uuid::Uuid;

use crate::{
    ROUNDS, median,
    table::{Table, time},
};

const SIZES: [u32; 4] = [1_000, 10_000, 100_000, 1_000_000];
const OPERATIONS: u32 = 50_000;

struct Store {
    handles: Handles<()>,
    known: Vec<Handle>,
    created: u32,
    target: Arc<()>,
    key: Arc<str>,
    now: Instant,
}

impl Store {
    fn full(size: u32) -> Self {
        let mut store = Self {
            handles: Handles::new(size as usize, Duration::from_hours(1)),
            known: Vec::new(),
            created: 0,
            target: Arc::new(()),
            key: "http://desk.example".into(),
            now: Instant::now(),
        };
        store.known = (0..size).map(|_| store.create()).collect();
        store
    }

    /// Remembers a new task, which pushes the oldest one out of a full store.
    fn create(&mut self) -> Handle {
        self.created += 1;
        let task = Named {
            target: &self.target,
            key: &self.key,
            task_id: &format!("task-{}", self.created),
            context_id: Some("context"),
        };
        self.handles.remember(task, None, self.now, Uuid::new_v4)
    }

    /// Seconds for one resolve and for one create. Resolves hop through the store, so that caches help as little as they would.
    fn round(&mut self) -> [f64; 2] {
        let step = 7_919;
        let start = Instant::now();
        for n in 0..OPERATIONS {
            let handle = self.known[(n as usize * step) % self.known.len()];
            black_box(matches!(
                self.handles.resolve(handle, self.now),
                Found::Live(_)
            ));
        }
        let resolve = start.elapsed().as_secs_f64() / f64::from(OPERATIONS);
        let start = Instant::now();
        for _ in 0..OPERATIONS {
            black_box(self.create());
        }
        [
            resolve,
            start.elapsed().as_secs_f64() / f64::from(OPERATIONS),
        ]
    }
}

pub(crate) fn measure(table: &mut Table) {
    let mut smallest = None;
    for size in SIZES {
        let rounds: Vec<[f64; 2]> = (0..ROUNDS).map(|_| Store::full(size).round()).collect();
        let [resolve, create] =
            [0, 1].map(|n| median(rounds.iter().map(|round| round[n]).collect()));
        let [small_resolve, small_create] = *smallest.get_or_insert([resolve, create]);
        table.row(
            format!("handles at {size}: resolve, create"),
            format!("{}, {}", time(resolve), time(create)),
            format!(
                "{:.1}x, {:.1}x of 1000; limit 4x",
                resolve / small_resolve,
                create / small_create
            ),
        );
    }
}
