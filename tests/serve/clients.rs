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
    let expected = expected::expected_result(column, operation);
    let run = column.run();
    match expected {
        Expected::NotOffered => assert!(
            !run.results.contains_key(operation),
            "{column} does `{operation}`, although the table says that it does not"
        ),
        Expected::Returned(value) | Expected::Deviates(_, value) => {
            assert_result(column, run, operation, &value)
        }
        Expected::Refused(expected) => {
            let result = &run.results[operation];
            let message = result["message"].as_str().unwrap_or_default();
            let matches = result["error"] == expected.error
                && result["reason"].as_str() == expected.reason
                && message.contains(expected.message);
            assert!(
                matches,
                "{column}, {operation}: {result:#}, and not {expected:?}"
            );
        }
    }
}

fn assert_result(column: Column, run: &Run, operation: &str, expected: &Value) {
    let result = run.results.get(operation);
    let result = result.unwrap_or_else(|| panic!("{column} has no result of `{operation}`"));
    if operation != "push" {
        assert_eq!(result, expected, "{column}, {operation}");
        return;
    }
    let task = result["task"].as_str();
    let task = task.unwrap_or_else(|| panic!("{column}, push: {result:#}"));
    let received = run.webhook_report(task);
    assert_eq!(received, *expected, "{column}, push");
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

                operations!(card send message return_immediately parts artifact_parts fail reject ask stream resubscribe get list cancel
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
