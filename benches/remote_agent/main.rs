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
mod peers;
mod round_trip;
mod stream;
mod table;
mod validation;

use std::{env, path::Path};

use remote_agent_cli::package::build_library;
use testkit::support::node;

use table::Table;

/// How often each figure is taken. The table shows the median.
const ROUNDS: usize = 5;

/// How a part is measured.
#[derive(Clone, Copy)]
enum Measure {
    /// In this program.
    Here(fn(&mut Table)),
    /// Through the doors of the library that ships, which is in this file.
    Library(fn(&mut Table, &Path)),
}

/// What the parts are called, and how they are measured.
const PARTS: [(&str, Measure); 5] = [
    ("loading", Measure::Library(loading::measure)),
    ("validation", Measure::Here(validation::measure)),
    ("handles", Measure::Here(handles::measure)),
    ("round_trip", Measure::Library(round_trip::measure)),
    ("stream", Measure::Library(stream::measure)),
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
    let mut parts = Vec::from(PARTS);
    parts.retain(|(name, _)| chosen.is_empty() || chosen.iter().any(|part| part == name));
    let library = parts
        .iter()
        .any(|(_, how)| matches!(how, Measure::Library(_)));
    let library = library.then(|| {
        eprintln!("Building the library that ships, which takes a few minutes the first time.");
        build_library(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))).unwrap()
    });
    let mut table = Table::default();
    for (_, how) in parts {
        match how {
            Measure::Here(measure) => measure(&mut table),
            Measure::Library(measure) => measure(&mut table, library.as_ref().unwrap()),
        }
    }
    table.print();
}

/// The value in the middle.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
