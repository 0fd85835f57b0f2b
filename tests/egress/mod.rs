//! Tries every known way to make a client connect to an internal address. None may connect.
//!
//! `cargo test --test suite egress:: -- --nocapture` prints the table.

mod environment;
mod rig;
mod routes;

use comfy_table::{ContentArrangement, Table, presets};

use rig::{Outcome, try_route};

/// The minimum number of ways in the table.
const MIN_REFUSED: usize = 60;

#[tokio::test]
async fn only_operator_settings_reach_internal_addresses() {
    let routes = routes::all();
    let mut table = Table::new();
    table
        .load_preset(presets::UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(["way", "address", "outcome", "connections"]);
    let mut failures = Vec::new();
    let mut refused = 0;
    for route in &routes {
        let attempt = try_route(route).await;
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
            attempt.reported,
            attempt.connections.to_string(),
        ]);
    }
    println!(
        "{table}\n{refused} ways in, {} of the operator's own",
        routes.len() - refused
    );
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(refused >= MIN_REFUSED, "{refused} ways");
    assert!(
        refused < routes.len(),
        "the operator's own targets are allowed"
    );
}
