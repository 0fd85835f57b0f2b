//! The client with real A2A servers, each over every binding and version it offers.
//!
//! The first word of a message selects the behaviour of a server's agent; all servers share one table of behaviours. A
//! test is one scenario with one server over one binding. It passes if everything arrives unchanged, or if the peer
//! refuses in exactly the expected words. Comments about the messages of a server are measurements. `UPDATE=1 cargo real
//! --test peers -- table` writes the table.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs,
    unreachable_pub
)]

mod elicitation;
mod expected;
mod flavours;
mod mcp;
mod openclaw;
mod outcome;
mod peer;
mod person;
mod scenarios;
mod servers;
mod table;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use testkit::support::{driver, generated, host, http, node, sdk, webhook};

use outcome::Expected;
use scenarios::{SCENARIOS, Scenario};
use servers::{Column, Vendor};

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // The tests mostly wait for servers.
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
        let offered =
            |scenario: &&Scenario| expected::expected(column, scenario) != Expected::NotOffered;
        let scenarios = SCENARIOS.iter().filter(offered);
        trials.extend(scenarios.map(|scenario| cell(column, scenario)));
        trials.push(Trial::test(
            format!("{column}: called over MCP"),
            move || {
                mcp::check(&column.peer());
                Ok(())
            },
        ));
        // OpenClaw's channel never asks.
        if column.vendor != Vendor::OpenClaw {
            trials.push(Trial::test(
                format!("{column}: answered by a person"),
                move || {
                    person::check(&column.peer());
                    Ok(())
                },
            ));
        }
    }
    trials.extend(flavours::trials());
    trials.extend(elicitation::trials());
    let conclusion = libtest_mimic::run(&arguments, trials);
    openclaw::stop();
    conclusion.exit_code()
}

/// Returns the test of one scenario with one server over one binding.
fn cell(column: Column, scenario: &'static Scenario) -> Trial {
    let name = format!("{column}: {}", scenario.name.replace('_', " "));
    Trial::test(name, move || {
        let outcome = scenario.run(column.peer());
        let expected = expected::expected(column, scenario);
        outcome.compare(&expected).map_err(Failed::from)
    })
}
