//! Runs simulations of many processes with faults.
//!
//! ```console
//! SIMULATED_CALLS=1000000 cargo test --release -p openclaw-remote-agent-fuzzing --test simulation -- --nocapture
//! SIMULATION_SEED=42 cargo test -p openclaw-remote-agent-fuzzing --test simulation -- --nocapture
//! ```
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

mod wire;

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use openclaw_remote_agent_fuzzing::simulation::{
    EXCHANGES, Report, Settings, expiries, run, torture,
};

const SETTINGS: Settings = Settings {
    calls: 200,
    faults: 25,
    pause: Duration::from_secs(3),
};

/// Simulations side by side.
const THREADS: usize = 2;

fn variable<T: FromStr>(name: &str) -> Option<T> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().ok().expect("a number"))
}

/// Returns what is needed to run a seed again, where an invariant does not hold.
fn failure(seed: u64, report: &Report) -> Option<String> {
    let violations = &report.violations;
    let again = format!(
        "SIMULATION_SEED={seed} cargo test -p openclaw-remote-agent-fuzzing --test simulation"
    );
    (!violations.is_empty()).then(|| format!("{violations:#?}\n{again}"))
}

/// The resident memory of this process in MiB, where the system shows it.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = pages
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or_default() * 4 / 1024
}

#[test]
fn invariants_hold_under_faults() {
    let first = variable("SIMULATION_SEED");
    let calls = variable("SIMULATED_CALLS").unwrap_or(match first {
        Some(_) => SETTINGS.calls,
        None => 2 * SETTINGS.calls,
    });
    let (seed, began) = (AtomicU64::new(first.unwrap_or(0)), Instant::now());
    let total = Mutex::new((0, BTreeMap::<_, u64>::new()));
    let failures = Mutex::new(Vec::new());
    let last = seed.load(Ordering::Relaxed) + calls.div_ceil(SETTINGS.calls);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let seed = seed.fetch_add(1, Ordering::Relaxed);
                    if seed >= last {
                        break;
                    }
                    let report = run(seed, SETTINGS);
                    if let Some(failure) = failure(seed, &report) {
                        println!("{failure}");
                        failures.lock().unwrap().push(failure);
                    }
                    let mut total = total.lock().unwrap();
                    let before = total.0;
                    total.0 += report.calls;
                    for (fault, count) in report.faults {
                        *total.1.entry(fault).or_default() += count;
                    }
                    if before / 10_000 < total.0 / 10_000 {
                        let (seconds, memory) = (began.elapsed().as_secs(), resident());
                        let (calls, faults) = (total.0, total.1.values().sum::<u64>());
                        println!("{calls} calls, {faults} faults, {seconds} s, {memory} MiB");
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    let (calls, faults) = total.into_inner().unwrap();
    let sum: u64 = faults.values().sum();
    println!(
        "{calls} calls, {sum} faults in {:?}: {faults:#?}",
        began.elapsed()
    );
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(faults.len() > 10, "{faults:?}");
}

#[test]
fn seed_replays_exactly() {
    let seed = variable("SIMULATION_SEED").unwrap_or(7);
    let (one, other) = (run(seed, SETTINGS), run(seed, SETTINGS));
    assert_eq!(one, other);
}

#[test]
fn calls_without_faults_succeed() {
    let settings = Settings {
        faults: 0,
        ..SETTINGS
    };
    let report = run(1, settings);
    assert_eq!(report.violations, [""; 0]);
    // A few calls are cancelled or have a short timeout.
    assert!(report.succeeded * 10 > report.calls * 8, "{report:?}");
}

#[test]
fn invariants_hold_for_a_day_of_faults() {
    let settings = Settings {
        calls: 450,
        pause: Duration::from_secs(3600),
        ..SETTINGS
    };
    let report = run(3, settings);
    assert_eq!(report.violations, [""; 0]);
    assert!(
        report.elapsed > Duration::from_secs(24 * 3600),
        "{report:?}"
    );
}

#[test]
fn handles_tokens_and_questions_expire() {
    assert_eq!(expiries().violations, [""; 0]);
}

/// Returns the distance of the bytes that have a fault. `TORTURE` sets it to 1: for `all` exchanges, or for the one that it names.
fn step(exchange: &str) -> usize {
    match std::env::var("TORTURE").as_deref() {
        Ok(chosen) if chosen == "all" || chosen == exchange => 1,
        _ => 301,
    }
}

#[test]
fn faults_at_each_byte_break_no_invariant() {
    std::thread::scope(|scope| {
        for exchange in EXCHANGES {
            scope.spawn(move || {
                let began = Instant::now();
                let report = torture(exchange, step(exchange));
                let (calls, time) = (report.calls, began.elapsed());
                println!("{exchange}: {calls} faults in {time:?}");
                assert_eq!(report.violations, [""; 0], "{exchange}");
            });
        }
    });
}
