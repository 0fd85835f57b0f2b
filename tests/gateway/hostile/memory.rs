//! Repeated misbehaviour with one process, which must not grow. The process is separate, so that the test measures only the
//! tool.

use futures_util::future::join_all;
use serde_json::json;

use crate::gateway::jsonl_process::JsonlProcess;
use crate::gateway::support::{message_to, propose, start_profile, with_fields};

/// The allowed growth between few and many rounds, in kB, for fragmentation. It is 600 kB for each round, or 15 bytes for
/// each message of the floods.
const MAX_GROWTH_KB: u64 = 6 * 1024;

/// The number of concurrent processes. Most of a round is waiting.
const PROCESSES: usize = 2;

/// The number of rounds after which every cache and list is full.
const WARM_UP_ROUNDS: usize = 3;

const ROUNDS: usize = 10;

/// The agents that could cause leaks.
const AGENTS: [&str; 18] = [
    "oversize",
    "endless",
    "endless-fragments",
    "binary",
    "half-frame",
    "reset",
    "bad-utf8",
    "not-objects",
    "deep",
    "unknown-type",
    "forged-from",
    "other-correlation",
    "twice",
    "answer-and-error",
    "flood",
    "disconnect-shutdown",
    "close-1011",
    "honest",
];

const PROPOSALS: [&str; 5] = [
    "contradict",
    "twice",
    "another proposal",
    "strange votes",
    "flood of votes",
];

fn round(process: &mut JsonlProcess) {
    for agent in AGENTS {
        let request = with_fields(message_to(agent, "Hello?"), json!({"timeout_ms": 10_000}));
        let envelope = process.call(&request);
        assert_ne!(
            envelope["error"]["reason"], "timeout",
            "{agent}: {envelope}"
        );
    }
    for proposal in PROPOSALS {
        let envelope = process.call(&with_fields(
            propose(proposal),
            json!({"timeout_ms": 10_000}),
        ));
        assert_eq!(envelope["ok"], true, "{proposal}: {envelope}");
    }
    // The replies of these agents never end, but the call does.
    for agent in ["endless-flood", "endless-pings", "forged-only", "silent"] {
        process.call(&with_fields(
            message_to(agent, "Hello?"),
            json!({"timeout_ms": 60}),
        ));
    }
}

/// Returns the memory of a process after few and after many rounds, in kB.
async fn resident_kb() -> (u64, u64) {
    let gateway = start_profile("hostile").await;
    let config = json!({
        "gateway": {"enabled": true, "url": gateway.url(), "timeoutMs": 5000},
        "limits": {"eventBytes": 1_048_576},
    });
    let resident_kb = tokio::task::spawn_blocking(move || {
        let mut process = JsonlProcess::start(&config);
        for _ in 0..WARM_UP_ROUNDS {
            round(&mut process);
        }
        let before = process.memory_kb("VmRSS");
        for _ in 0..ROUNDS {
            round(&mut process);
        }
        (before, process.memory_kb("VmRSS"))
    });
    resident_kb.await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_stays_flat_over_many_rounds() {
    for (before, after) in join_all((0..PROCESSES).map(|_| resident_kb())).await {
        println!("{before} kB after {WARM_UP_ROUNDS} rounds, {after} kB after {ROUNDS} more");
        assert!(
            after < before + MAX_GROWTH_KB,
            "{before} kB became {after} kB"
        );
    }
}
