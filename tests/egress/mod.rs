//! Attempts every known route to an internal address. No connection may reach it.
//!
//! `cargo test --test suite egress:: -- --nocapture` prints the table.

mod attempt;
mod environment;
mod routes;

use comfy_table::{ContentArrangement, Table, presets};

use attempt::{Outcome, attempt_route};

/// The minimum number of refused routes.
const MIN_REFUSED: usize = 60;

#[tokio::test]
async fn only_operator_settings_reach_internal_addresses() {
    let routes = routes::all();
    let mut table = Table::new();
    table
        .load_preset(presets::UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(["route", "address", "outcome", "connections"]);
    let mut failures = Vec::new();
    let mut refused = 0;
    for route in &routes {
        let attempt = attempt_route(route).await;
        refused += usize::from(!matches!(route.expected, Outcome::Allowed));
        if let Some(difference) = route.expected.difference(&attempt) {
            failures.push(format!(
                "{} {}: {difference}: {}",
                route.group, route.address, attempt.envelope
            ));
        }
        table.add_row([
            route.group.to_owned(),
            route.address.clone(),
            attempt.result,
            attempt.connections.to_string(),
        ]);
    }
    println!(
        "{table}\n{refused} refused routes, {} set by the operator",
        routes.len() - refused
    );
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(refused >= MIN_REFUSED, "{refused} routes");
    assert!(refused < routes.len(), "routes of the operator are allowed");
}
