//! The order of the tests: those of a group run one after another, because they share a fixture, and two groups run at once.

use std::{
    collections::BTreeSet,
    sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use libtest_mimic::{Arguments, Conclusion, Trial};

/// How many groups run at once. OpenClaw starts on one core, and its commands run on one.
const CONCURRENT_GROUPS: usize = 2;

/// A value that the first test of a group creates. The last one drops it.
pub type Fixture<T> = Arc<LazyLock<T, Box<dyn FnOnce() -> T + Send>>>;

pub fn fixture<T: 'static>(start: impl FnOnce() -> T + Send + 'static) -> Fixture<T> {
    Arc::new(LazyLock::new(Box::new(start)))
}

/// The name of a test with a fixture, and its function.
pub type FixtureTest<T> = (&'static str, fn(&T));

/// All tests. The first groups start first, so the longest come first.
#[derive(Default)]
pub struct Groups {
    trials: Vec<Trial>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// The tests of each group that have not ended. Tests that are filtered out end before the first one runs.
    open: Mutex<Vec<BTreeSet<usize>>>,
    ended: Condvar,
    durations: Mutex<Vec<TestDuration>>,
}

struct TestDuration {
    group: usize,
    test: String,
    duration: Duration,
}

impl Groups {
    /// Begins a group. It has the tests that are added until the next one begins.
    pub fn begin(&mut self) {
        self.shared.open().push(BTreeSet::new());
    }

    /// Adds a test to the last group.
    pub fn test(&mut self, name: impl Into<String>, run: impl FnOnce() + Send + 'static) {
        let name = name.into();
        let turn = Turn::new(&self.shared);
        let test = name.clone();
        self.trials.push(Trial::test(name, move || {
            turn.wait();
            let timer = Timer {
                turn: &turn,
                test,
                began: Instant::now(),
            };
            run();
            drop(timer);
            Ok(())
        }));
    }

    /// Adds tests with a fixture to the last group.
    pub fn tests<T: Send + Sync + 'static>(
        &mut self,
        prefix: &str,
        tests: &[FixtureTest<T>],
        fixture: &Fixture<T>,
    ) {
        for (name, test) in tests {
            let (fixture, test) = (Arc::clone(fixture), *test);
            self.test(format!("{prefix}{name}"), move || test(&fixture));
        }
    }

    /// Runs the tests, one after another with `--test-threads=1`. Prints how long each of them took, and each group.
    pub fn run(self, mut arguments: Arguments) -> Conclusion {
        if arguments.test_threads != Some(1) {
            // Each test waits in its own thread.
            arguments.test_threads = Some(self.trials.len());
        }
        let conclusion = libtest_mimic::run(&arguments, self.trials);
        let durations = self.shared.durations.lock();
        let mut durations = durations.unwrap_or_else(PoisonError::into_inner);
        durations.sort_by_key(|one| one.group);
        for group in durations.chunk_by(|one, next| one.group == next.group) {
            let total: Duration = group.iter().map(|one| one.duration).sum();
            println!("group {}: {:.0} s", group[0].group + 1, total.as_secs_f32());
            for one in group {
                println!("  {} {:.1}", one.test, one.duration.as_secs_f32());
            }
        }
        conclusion
    }
}

impl Shared {
    fn open(&self) -> MutexGuard<'_, Vec<BTreeSet<usize>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a test in its group. Dropping it lets the next one run, also after a failure.
struct Turn {
    shared: Arc<Shared>,
    group: usize,
    number: usize,
}

impl Turn {
    /// Returns the next turn of the last group.
    fn new(shared: &Arc<Shared>) -> Self {
        let mut open = shared.open();
        let group = open.len().checked_sub(1).expect("a group");
        let number = open[group].len();
        open[group].insert(number);
        Self {
            shared: Arc::clone(shared),
            group,
            number,
        }
    }

    fn wait(&self) {
        let is_next = |open: &[BTreeSet<usize>]| {
            let running = open
                .iter()
                .enumerate()
                .filter(|(_, tests)| !tests.is_empty());
            running
                .take(CONCURRENT_GROUPS)
                .any(|(group, tests)| group == self.group && tests.first() == Some(&self.number))
        };
        let ended = &self.shared.ended;
        let waited = ended.wait_while(self.shared.open(), |open| !is_next(open));
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.shared.open()[self.group].remove(&self.number);
        self.shared.ended.notify_all();
    }
}

/// Records how long a test took, also one that fails. The time of a fixture counts for the test that starts or stops it.
struct Timer<'a> {
    turn: &'a Turn,
    test: String,
    began: Instant,
}

impl Drop for Timer<'_> {
    fn drop(&mut self) {
        let one = TestDuration {
            group: self.turn.group,
            test: std::mem::take(&mut self.test),
            duration: self.began.elapsed(),
        };
        let durations = self.turn.shared.durations.lock();
        durations.unwrap_or_else(PoisonError::into_inner).push(one);
    }
}
