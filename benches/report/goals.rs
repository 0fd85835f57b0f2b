//! The performance goals, as ratios of numbers of the same run.

use crate::{
    callers::{IN_PROCESS, JS03, JS13, NODE_API, NODE_API_03, OPENCLAW, REQWEST, RUST_ABI},
    gateway::{ECHO, GATEWAY, GATEWAY_INTERVAL},
    growth,
    render::number,
    samples::{Measured, Section},
    server::{AXUM_ECHO, INTERVAL, JS, MEMORY, REDIS, RS},
};

/// A goal and its measured value.
struct Goal {
    what: &'static str,
    /// The bound, and whether it is a minimum. Otherwise it is a maximum.
    bound: f64,
    least: bool,
    unit: &'static str,
    measured: Option<f64>,
}

const SEND: &str = "send, 64 in flight";
const LONG: &str = "append, 10000 events";
const UPDATES: &str = "Node-API, updates";
const BUSY: &str = "1000 agents, 16 in flight";

fn all(measured: &Measured) -> Vec<Goal> {
    let section = |name: &str| measured.get(name);
    let ratio = |name: &str, one: [&str; 3], other: [&str; 3]| section(name)?.ratio(one, other);
    let median = |name: &str, [case, subject, metric]: [&str; 3]| {
        section(name)?.median(case, subject, metric)
    };
    let calls = |one, other| ratio("client", [SEND, one, "calls/s"], [SEND, other, "calls/s"]);
    let processor = |one, other| ratio("client", [SEND, one, "CPU µs"], [SEND, other, "CPU µs"]);
    let stream = |one, other| ratio("stream", [LONG, one, "ms"], [LONG, other, "ms"]);
    let message = "message, 64 clients";
    let task = "task, 64 clients";
    let list = "list, 64 clients";
    let answers = |case: &'static str, one, other| {
        ratio(
            "server",
            [case, one, "answers/s"],
            [case, other, "answers/s"],
        )
    };
    let a_core = |one, other| {
        ratio(
            "server",
            [message, other, "CPU µs"],
            [message, one, "CPU µs"],
        )
    };
    let least = |what, bound, measured| Goal {
        what,
        bound,
        least: true,
        unit: "x",
        measured,
    };
    let most = |what, bound, unit, measured| Goal {
        what,
        bound,
        least: false,
        unit,
        measured,
    };
    vec![
        least(
            "calls through Node-API beside `@a2a-js/sdk` 1.3.0, 64 in flight",
            3.0,
            calls(NODE_API, JS13),
        ),
        least(
            "the same beside `@a2a-js/sdk` 0.3.14, in A2A 0.3",
            3.0,
            calls(NODE_API_03, JS03),
        ),
        most(
            "CPU of a call through Node-API beside 1.3.0",
            0.2,
            "x",
            processor(NODE_API, JS13),
        ),
        most(
            "CPU of a call through Node-API beside 0.3.14",
            0.25,
            "x",
            processor(NODE_API_03, JS03),
        ),
        least(
            "calls through the Rust ABI beside bare reqwest, 64 in flight",
            0.65,
            calls(RUST_ABI, REQWEST),
        ),
        least("the same in process", 0.8, calls(IN_PROCESS, REQWEST)),
        most(
            "CPU of a call through the Rust ABI, 512 in flight beside 64",
            1.0,
            "x",
            ratio(
                "client",
                ["send, 512 in flight", RUST_ABI, "CPU µs"],
                [SEND, RUST_ABI, "CPU µs"],
            ),
        ),
        most(
            "10,000 events with updates through Node beside the bare stream of 1.3.0",
            1.5,
            "x",
            stream(UPDATES, JS13),
        ),
        most(
            "the same beside the bare stream of 0.3.14",
            1.5,
            "x",
            stream(UPDATES, JS03),
        ),
        most(
            "the same with updates and result as OpenClaw takes them, beside 1.3.0",
            1.5,
            "x",
            stream(OPENCLAW, JS13),
        ),
        most(
            "100,000 events beside 10,000, with updates through Node (linear: 10)",
            12.0,
            "x",
            ratio(
                "stream",
                ["append, 100000 events", UPDATES, "ms"],
                [LONG, UPDATES, "ms"],
            ),
        ),
        most(
            "cost of any operation for ten times as much, by the table below (linear: 10)",
            12.0,
            "x",
            growth::largest(measured),
        ),
        most(
            "longest stall of Node's event loop, any stream with updates",
            10.0,
            " ms",
            section("stream").and_then(|section| longest(section, "stall ms")),
        ),
        most(
            "the same, as far as the thread of the loop had a processor",
            8.0,
            " ms",
            section("stream").and_then(|section| longest(section, "busy ms")),
        ),
        least(
            "messages a second and core of `serve` beside the server of `@a2a-js/sdk`",
            5.0,
            a_core(MEMORY, JS),
        ),
        most(
            "CPU of a message to `serve` beside `a2a-server-lf`, 64 clients",
            1.2,
            "x",
            a_core(RS, MEMORY),
        ),
        least(
            "messages a second of `serve` beside axum without A2A, no task",
            0.4,
            answers(message, MEMORY, AXUM_ECHO),
        ),
        least("the same a second and core", 0.4, a_core(MEMORY, AXUM_ECHO)),
        least(
            "tasks a second in SQLite with fsync `interval` beside memory",
            0.75,
            answers(task, INTERVAL, MEMORY),
        ),
        least(
            "lists a second from SQLite beside memory, 64 clients",
            0.6,
            answers(list, INTERVAL, MEMORY),
        ),
        least(
            "the same beside the memory of `@a2a-js/sdk`",
            8.0,
            answers(list, INTERVAL, JS),
        ),
        least(
            "lists a second from Redis beside memory, 64 clients",
            0.5,
            answers(list, REDIS, MEMORY),
        ),
        most(
            "a page of 50 of the most stored tasks",
            3.0,
            " ms",
            section("growth").and_then(|section| last(section, "first page of 50")),
        ),
        most(
            "opening the store of the most tasks",
            2.0,
            " ms",
            section("growth").and_then(|section| last(section, "open the store")),
        ),
        most(
            "p99 of an exchange through the gateway, 1,000 agents, 16 in flight",
            3.0,
            " ms",
            median("gateway", [BUSY, GATEWAY, "p99 ms"]),
        ),
        most(
            "the same with fsync `interval`",
            5.0,
            " ms",
            median("gateway", [BUSY, GATEWAY_INTERVAL, "p99 ms"]),
        ),
        most(
            "the same for first exchanges of conversations",
            8.0,
            " ms",
            median("gateway", [BUSY, GATEWAY_INTERVAL, "first p99 ms"]),
        ),
        least(
            "messages a second through the gateway beside the echo, 1,000 agents, 16 in flight",
            0.4,
            ratio(
                "gateway",
                [BUSY, GATEWAY, "messages/s"],
                [BUSY, ECHO, "messages/s"],
            ),
        ),
        most(
            "library mapped to tool registered, Node",
            6.0,
            " ms",
            median("cold", ["first use", NODE_API, "registered ms"]),
        ),
        most(
            "library mapped to tool registered, Rust",
            6.0,
            " ms",
            median("cold", ["first use", RUST_ABI, "registered ms"]),
        ),
        most(
            "memory added up to the first answer, Node",
            15.0,
            " MB",
            median("cold", ["first use", NODE_API, "answered MB"]),
        ),
        most(
            "memory added up to the first answer, Rust",
            15.0,
            " MB",
            median("cold", ["first use", RUST_ABI, "answered MB"]),
        ),
    ]
}

/// Returns the median of the last case of a subject, which has the most stored tasks.
fn last(section: &Section, subject: &str) -> Option<f64> {
    let cases = section.cases().into_iter().rev();
    let mut medians = cases.filter_map(|case| section.median(case, subject, "ms"));
    medians.next()
}

/// Returns the largest median of all cases with updates.
fn longest(section: &Section, metric: &str) -> Option<f64> {
    let cases = section.cases();
    let medians = cases
        .iter()
        .flat_map(|case| [UPDATES, OPENCLAW].map(|subject| section.median(case, subject, metric)))
        .flatten();
    medians.reduce(f64::max)
}

/// Returns the table of the goals.
pub(crate) fn table(measured: &Measured) -> String {
    let mut text = String::from("| goal | target | measured | met |\n|---|--:|--:|---|\n");
    for goal in all(measured) {
        let Some(value) = goal.measured else { continue };
        let met = if goal.least {
            value >= goal.bound
        } else {
            value <= goal.bound
        };
        text += &format!(
            "| {} | {} {}{} | {}{} | {} |\n",
            goal.what,
            if goal.least { "≥" } else { "≤" },
            number(goal.bound),
            goal.unit,
            number(value),
            goal.unit,
            if met { "yes" } else { "**no**" },
        );
    }
    text
}
