//! What a call costs: `cargo bench`.
//!
//! Everything is measured in one run against a peer in another process, in turns, so that a busy machine slows all of it alike. Rates say little
//! on their own; the column `floor` says how much of bare reqwest's rate is left.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark that fails should say so and stop"
)]

mod handles;
mod loading;
#[path = "../../tests/support/node.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    reason = "shared with tests that need more of it"
)]
mod node;
mod peers;
mod round_trip;
mod stream;
mod table;
mod validation;

use std::{env, path::Path};

use openclaw_remote_agent::cli::package::build_library;

use table::Table;

/// How often each figure is taken. The table shows the median.
const ROUNDS: usize = 5;

/// What a part is called, and how it is measured, given the library.
type Part = (&'static str, fn(&mut Table, &Path));

const PARTS: [Part; 5] = [
    ("loading", loading::measure),
    ("validation", validation::measure),
    ("handles", handles::measure),
    ("round_trip", round_trip::measure),
    ("stream", stream::measure),
];

fn main() {
    let args: Vec<String> = env::args().collect();
    // The other processes of a run are this program again.
    match args.get(1).map(String::as_str) {
        Some(peers::ARGUMENT) => return peers::serve(),
        Some(loading::ARGUMENT) => return loading::load_once(Path::new(&args[2])),
        _ => {}
    }
    // `cargo bench -- stream` measures that part alone. Cargo adds flags of its own.
    let chosen: Vec<&String> = args[1..]
        .iter()
        .filter(|arg| !arg.starts_with("--"))
        .collect();
    eprintln!("Building the library that ships, which takes a few minutes the first time.");
    let library = build_library(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
    let mut table = Table::default();
    for (name, measure) in PARTS {
        if chosen.is_empty() || chosen.iter().any(|part| *part == name) {
            measure(&mut table, &library);
        }
    }
    table.print();
}

/// The value in the middle.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
