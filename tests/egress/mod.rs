//! Tries every known way to make a client connect to an internal address. None may connect.
//!
//! `cargo test --test suite egress:: -- --nocapture` prints the table.

mod environment;
mod rig;
mod ways;

use comfy_table::{ContentArrangement, Table, presets};

use rig::{Outcome, try_way};

/// The minimum number of ways in the table.
const WAYS: usize = 60;

#[tokio::test]
async fn only_operator_settings_reach_internal_addresses() {
    let ways = ways::all();
    let mut table = Table::new();
    table
        .load_preset(presets::UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(["way", "address", "outcome", "connections"]);
    let mut wrong = Vec::new();
    let mut refused = 0;
    for way in &ways {
        let came = try_way(way).await;
        refused += usize::from(!matches!(way.expected, Outcome::Allowed));
        if let Some(why) = way.expected.differs(&came) {
            wrong.push(format!(
                "{} {}: {why}: {}",
                way.group, way.address, came.envelope
            ));
        }
        table.add_row([
            way.group.to_owned(),
            way.address.clone(),
            came.reported,
            came.connections.to_string(),
        ]);
    }
    println!(
        "{table}\n{refused} ways in, {} of the operator's own",
        ways.len() - refused
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(refused >= WAYS, "{refused} ways");
    assert!(
        refused < ways.len(),
        "the operator's own targets are allowed"
    );
}
