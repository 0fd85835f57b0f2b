//! Tables: with lines on a terminal, plain columns elsewhere.

use std::io::IsTerminal;

use comfy_table::{ContentArrangement, Table, presets};

/// Returns a table with this head.
pub(super) fn table<'a>(head: impl IntoIterator<Item = &'a str>) -> Table {
    let mut table = Table::new();
    if std::io::stdout().is_terminal() {
        table
            .load_preset(presets::UTF8_FULL_CONDENSED)
            .set_content_arrangement(ContentArrangement::Dynamic);
    } else {
        table.load_preset(presets::NOTHING);
    }
    table.set_header(head);
    table
}
