//! Every official client over every binding and version it supports, against the running server.
//!
//! A column is one client over one binding in one version. Its program (`py13_client.py` and its siblings) calls one
//! operation after another and prints the results; a test is one operation of one column. [`expected`] lists what a
//! client cannot do or does wrong. `UPDATE=1 cargo real --test suite serve::clients::table` writes the table in the
//! documents.

mod columns;
mod expected;
mod table;

use serde_json::Value;

use columns::{Column, Run};
use expected::Expected;

/// Checks one operation of one column.
fn check(column: Column, operation: &str) {
    let wanted = expected::of(column, operation);
    let run = column.run();
    match wanted {
        Expected::NotOffered => assert!(
            !run.seen.contains_key(operation),
            "{column} does `{operation}`, which it was not known to"
        ),
        Expected::Seen(value) | Expected::But(_, value) => held(column, run, operation, &value),
        Expected::Refused(wanted) => {
            let seen = &run.seen[operation];
            let said = seen["said"].as_str().unwrap_or_default();
            let same = seen["error"] == wanted.error
                && seen["reason"].as_str() == wanted.reason
                && said.contains(wanted.words);
            assert!(same, "{column}, {operation}: {seen:#}, and not {wanted:?}");
        }
    }
}

fn held(column: Column, run: &Run, operation: &str, wanted: &Value) {
    let seen = run.seen.get(operation);
    let seen = seen.unwrap_or_else(|| panic!("{column} says nothing of `{operation}`"));
    if operation != "push" {
        assert_eq!(seen, wanted, "{column}, {operation}");
        return;
    }
    let task = seen["task"].as_str();
    let task = task.unwrap_or_else(|| panic!("{column}, push: {seen:#}"));
    let received = run.received_for(task);
    assert_eq!(received, *wanted, "{column}, push");
}

/// Creates a test for each operation of a column.
macro_rules! column {
    ($($name:ident = $client:ident, $binding:ident, $version:ident;)+) => {
        $(
            mod $name {
                use super::columns::{Binding, Client, Column, Version};

                const COLUMN: Column = Column {
                    client: Client::$client,
                    binding: Binding::$binding,
                    version: Version::$version,
                };

                operations!(card send message at_once parts gift fail reject ask stream resubscribe get list cancel
                    push_configs push not_found not_cancelable bad_webhook);
            }
        )+

        /// All columns, in the order of the table.
        const COLUMNS: &[Column] = &[$(Column {
            client: columns::Client::$client,
            binding: columns::Binding::$binding,
            version: columns::Version::$version,
        }),+];
    };
}

macro_rules! operations {
    ($($operation:ident)+) => {
        $(
            #[test]
            fn $operation() {
                super::check(COLUMN, stringify!($operation));
            }
        )+
    };
}

column! {
    py13_json_rpc = Py13, JsonRpc, V1;
    py13_http_json = Py13, HttpJson, V1;
    py13_json_rpc_0_3 = Py13, JsonRpc, V0_3;
    py13_http_json_0_3 = Py13, HttpJson, V0_3;
    js13_json_rpc = Js13, JsonRpc, V1;
    js13_http_json = Js13, HttpJson, V1;
    js13_json_rpc_0_3 = Js13, JsonRpc, V0_3;
    js13_http_json_0_3 = Js13, HttpJson, V0_3;
    py03_json_rpc = Py03, JsonRpc, V0_3;
    py03_http_json = Py03, HttpJson, V0_3;
    js03_json_rpc = Js03, JsonRpc, V0_3;
    js03_http_json = Js03, HttpJson, V0_3;
}

#[test]
fn table_matches_expectations() {
    table::check();
}
