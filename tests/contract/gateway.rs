//! Checks the documents of the local gateway against its code.

use collective::ErrorCode;
use openclaw_remote_agent::remote_agent::Reason;
use remote_agent_cli::gateway::tally_table;

use crate::contract::generated;

#[test]
fn table_of_tallies_matches_the_code() {
    generated::part("docs/reference/a2a-v1.md", "tally", &tally_table());
}

#[test]
fn gateway_error_table_matches_the_registry() {
    let mut table =
        "| number | `error.reason` | meaning | retryable |\n|---|---|---|---|\n".to_owned();
    for code in ErrorCode::ALL {
        let reason = Reason::ALL
            .iter()
            .find(|reason| reason.as_str() == code.name().to_ascii_lowercase())
            .unwrap_or_else(|| panic!("{code} has no reason"));
        table += &format!(
            "| {} | `{}` | {} | {} |\n",
            code.number(),
            reason.as_str(),
            code.meaning(),
            if reason.retryable() { "yes" } else { "no" },
        );
    }
    generated::part("docs/reference/gateway.md", "gateway-errors", &table);
}
