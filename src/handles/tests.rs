#![allow(clippy::unwrap_used)]
use super::*;

const TTL: Duration = Duration::from_secs(60);

struct Bench {
    handles: Handles<u8>,
    target: Arc<u8>,
    key: Arc<str>,
    start: Instant,
}

impl Bench {
    fn new(max: usize) -> Self {
        Self {
            handles: Handles::new(max, TTL),
            target: Arc::new(7),
            key: "peer".into(),
            start: Instant::now(),
        }
    }

    fn insert(&mut self, task_id: &str, current: Option<Handle>, after: u64) -> Handle {
        self.insert_for("", task_id, current, after)
    }

    fn insert_for(
        &mut self,
        owner: &str,
        task_id: &str,
        current: Option<Handle>,
        after: u64,
    ) -> Handle {
        let task = NewHandle {
            owner,
            target: &self.target,
            key: &self.key,
            task_id,
            context_id: Some("c"),
        };
        self.handles.insert(
            task,
            current,
            self.start + Duration::from_secs(after),
            Uuid::new_v4,
        )
    }

    fn resolve(&mut self, handle: Handle, after: u64) -> HandleLookup<u8> {
        self.handles
            .resolve(handle, self.start + Duration::from_secs(after))
    }

    fn task(&mut self, handle: Handle, after: u64) -> String {
        match self.resolve(handle, after) {
            HandleLookup::Live(entry) => entry.task_id.to_string(),
            other => format!("{other:?}"),
        }
    }
}

#[test]
fn handle_round_trips_as_text() {
    let handle = Handle::new(Uuid::new_v4());
    assert_eq!(handle.to_string().parse(), Ok(handle));
    assert_eq!("rah_nope".parse::<Handle>(), Err(()));
}

#[test]
fn handle_has_one_spelling() {
    for other in [
        "0A3FF8C2-4A6D-48CB-A57D-4AE6F3C589D0",
        "0a3ff8c24a6d48cba57d4ae6f3c589d0",
    ] {
        let text = format!("rah_{other}");
        assert_eq!(text.parse::<Handle>(), Err(()), "{other}");
    }
}

#[test]
fn task_has_one_valid_handle() {
    let mut bench = Bench::new(10);
    let first = bench.insert("t", None, 0);
    assert_eq!(bench.insert("t", None, 30), first);
    assert_ne!(bench.insert("other", None, 30), first);
}

#[test]
fn handle_expires_only_when_unused() {
    let mut bench = Bench::new(10);
    let handle = bench.insert("t", None, 0);
    bench.insert("t", None, 50);
    assert_eq!(bench.task(handle, 109), "t");
    assert!(matches!(bench.resolve(handle, 110), HandleLookup::Expired));
}

#[test]
fn expired_handle_stays_expired_until_evicted() {
    let mut bench = Bench::new(2);
    let old = bench.insert("t", None, 0);
    let new = bench.insert("t", None, 100);
    assert_ne!(old, new);
    assert!(matches!(bench.resolve(old, 100), HandleLookup::Expired));
    bench.insert("u", None, 100);
    bench.insert("v", None, 100);
    assert!(matches!(bench.resolve(old, 100), HandleLookup::Unknown));
}

#[test]
fn current_handle_follows_its_task_and_survives_eviction() {
    let mut bench = Bench::new(1);
    let current = bench.insert("t1", None, 0);
    bench.insert("noise", None, 1);
    assert!(matches!(bench.resolve(current, 1), HandleLookup::Unknown));
    assert_eq!(bench.insert("t2", Some(current), 2), current);
    assert_eq!(bench.task(current, 2), "t2");
}

#[test]
fn evicts_least_recently_used_handle() {
    let mut bench = Bench::new(2);
    let a = bench.insert("a", None, 0);
    let b = bench.insert("b", None, 0);
    bench.resolve(a, 1);
    bench.insert("c", None, 1);
    assert_eq!(bench.task(a, 1), "a");
    assert!(matches!(bench.resolve(b, 1), HandleLookup::Unknown));
}

#[test]
fn many_handles_of_one_owner_evict_none_of_another() {
    let mut bench = Bench::new(4);
    let kept = bench.insert_for("bob", "b", None, 0);
    for i in 0..20 {
        bench.insert_for("ada", &format!("a{i}"), None, 1);
    }
    assert_eq!(bench.task(kept, 1), "b");
    assert_eq!(bench.handles.len(), 4);
    let count: usize = bench.handles.by_owner.values().sum();
    assert_eq!(count, 4);
}

#[test]
fn index_is_no_larger_than_the_store() {
    let mut bench = Bench::new(3);
    for i in 0..50 {
        let handle = bench.insert(&format!("t{i}"), None, i);
        bench.insert(&format!("moved{i}"), Some(handle), i);
    }
    assert_eq!(bench.handles.len(), 3);
    assert_eq!(bench.handles.by_task.len(), 3);
}
