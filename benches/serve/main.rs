//! The A2A server under load: streamed tasks side by side on the scripted executor, beside the server of `a2a-sdk` 1.3.0 with
//! an agent that says the same, in one run.
//!
//!     cargo bench --bench serve                        all of it
//!     cargo bench --bench serve -- TASKS ROUNDS        with so many tasks at a time, so often
//!
//! The servers run in processes of their own, one after another, each measured by the same client over JSON-RPC of 1.0 on
//! loopback. The Python server is the one that the tests install, into `target/sdk/py13`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

mod client;
mod servers;

use std::{env, time::Duration};

use client::Measured;
use servers::Server;

/// What each task is asked to say, and how many events that makes: the task, what it says, and its last state at least.
const LOADS: [(&str, &str, u64); 2] = [
    // As a model writes.
    ("20 pieces, 50 ms apart", "stream 20 50", 20),
    ("100 pieces at once", "chunks 100", 100),
];

fn main() {
    let arguments = env::args().skip(1).filter(|word| word != "--bench");
    let numbers: Vec<usize> = arguments.filter_map(|word| word.parse().ok()).collect();
    let tasks = numbers.first().copied().unwrap_or(200);
    let rounds = numbers.get(1).copied().unwrap_or(3);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    println!("{tasks} streamed tasks at a time, {rounds} times over\n");
    println!(
        "| server | each task | first event p50 | p99 | whole p50 | p99 | events a task | events/s | memory idle | most |"
    );
    println!("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|");
    for (name, start) in servers::ALL {
        for (what, said, pieces) in LOADS {
            let server = start();
            let idle = server.memory();
            let load = client::load(server.endpoint(), said, pieces, tasks, rounds);
            let measured = runtime.block_on(load);
            println!("{}", row(name, what, &measured, idle, &server));
        }
    }
}

fn row(name: &str, what: &str, measured: &Measured, idle: u64, server: &Server) -> String {
    let at = |times: &[Duration], part: f64| {
        let place = (times.len() as f64 * part) as usize;
        let time = times[place.min(times.len() - 1)];
        format!("{:.1} ms", time.as_secs_f64() * 1000.0)
    };
    let mebibytes = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    let Measured {
        first,
        whole,
        events,
        took,
    } = measured;
    let cells = [
        name.to_owned(),
        what.to_owned(),
        at(first, 0.5),
        at(first, 0.99),
        at(whole, 0.5),
        at(whole, 0.99),
        format!("{:.1}", *events as f64 / whole.len() as f64),
        format!("{:.0}", *events as f64 / took.as_secs_f64()),
        mebibytes(idle),
        mebibytes(server.most_memory()),
    ];
    format!("| {} |", cells.join(" | "))
}
