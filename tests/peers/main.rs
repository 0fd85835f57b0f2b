//! Our client against real A2A servers, each over every binding and version it offers.
//!
//! A server runs agents that do what the first word of a message says; one table of behaviours holds for all of them. A
//! test is one scenario against one server over one binding: it passes where everything arrives as it was said, or where
//! the peer refuses in exactly the words that are expected of it. What a comment says a server sends was measured on that
//! server. `UPDATE=1 cargo real --test peers -- table` writes the README's table.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs,
    unreachable_pub
)]

#[path = "../support/driver.rs"]
mod driver;
mod expected;
mod flavours;
#[path = "../contract/generated.rs"]
#[allow(dead_code)]
mod generated;
// Shared with the tests of the server, which need more of both.
#[allow(dead_code)]
mod hook;
// Of what the tests in OpenClaw need, a gateway that is only talked to needs half.
#[path = "../openclaw/host.rs"]
#[allow(dead_code)]
mod host;
#[path = "../openclaw/http.rs"]
#[allow(dead_code)]
mod http;
#[path = "../openclaw/journal.rs"]
#[allow(dead_code)]
mod journal;
#[path = "../support/node.rs"]
mod node;
mod openclaw;
mod outcome;
mod peer;
mod scenarios;
#[path = "../support/sdk/mod.rs"]
#[allow(dead_code)]
mod sdk;
mod servers;
#[path = "../openclaw/socket.rs"]
#[allow(dead_code)]
mod socket;
mod table;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use libtest_mimic::{Arguments, Failed, Trial};

use outcome::Expected;
use scenarios::{SCENARIOS, Scenario};
use servers::Column;

fn root(path: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path)
}

fn text(path: &str) -> String {
    fs::read_to_string(root(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Most of a test is waiting for servers.
    arguments.test_threads.get_or_insert(4);
    let mut trials = vec![
        Trial::test("the README's table is what is expected", || {
            table::check();
            Ok(())
        }),
        Trial::test("each expectation is of a scenario", || {
            expected::check();
            Ok(())
        }),
    ];
    for column in servers::columns() {
        let offered = |scenario: &&Scenario| expected::of(column, scenario) != Expected::NotOffered;
        let scenarios = SCENARIOS.iter().filter(offered);
        trials.extend(scenarios.map(|scenario| cell(column, scenario)));
    }
    trials.extend(flavours::trials());
    let conclusion = libtest_mimic::run(&arguments, trials);
    openclaw::stop();
    conclusion.exit_code()
}

/// One scenario against one server over one binding.
fn cell(column: Column, scenario: &'static Scenario) -> Trial {
    let name = format!("{column}: {}", scenario.name.replace('_', " "));
    Trial::test(name, move || {
        let Some(peer) = column.peer() else {
            return Ok(());
        };
        let outcome = scenario.run(peer);
        let wanted = expected::of(column, scenario);
        outcome.held_against(&wanted).map_err(Failed::from)
    })
}
