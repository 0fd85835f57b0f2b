//! Checking requests against the schema.

use std::{hint::black_box, time::Instant};

use common::validation;
use openclaw_remote_agent::remote_agent::REQUEST_SCHEMA;
use serde_json::{Value, json};

use crate::{
    ROUNDS, median,
    table::{Table, time},
};

pub(crate) fn measure(table: &mut Table) {
    let each = |times: u32, work: &dyn Fn()| {
        let round = |_| {
            let start = Instant::now();
            (0..times).for_each(|_| work());
            start.elapsed().as_secs_f64() / f64::from(times)
        };
        time(median((0..ROUNDS).map(round).collect()))
    };
    let validator = validation::compile(REQUEST_SCHEMA).expect("the schema compiles");
    let good = json!({"action": "send", "target_alias": "desk", "parts": [{"kind": "text", "text": "x".repeat(600)}]});
    let wrong_parts: Vec<Value> = (0..3)
        .map(|n| json!({"kind": "text", "texts": n}))
        .collect();
    let bad =
        json!({"action": "send", "target_alias": 7, "parts": wrong_parts, "timeout_ms": "soon"});
    assert!(validator.is_valid(&good) && !validator.is_valid(&bad));
    let text = good.to_string();

    table.row(
        "compile the request schema",
        each(20, &|| drop(black_box(validation::compile(REQUEST_SCHEMA)))),
        String::new(),
    );
    table.row(
        "parse a good request, for scale",
        each(20_000, &|| {
            drop(black_box(serde_json::from_str::<Value>(&text)))
        }),
        String::new(),
    );
    table.row(
        "check a good request",
        each(20_000, &|| assert!(black_box(validator.is_valid(&good)))),
        String::new(),
    );
    table.row(
        "list the errors of a bad one",
        each(500, &|| {
            drop(black_box(validation::complaints(&validator, &bad)))
        }),
        String::new(),
    );
}
