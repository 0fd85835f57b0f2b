//! Converts items of a script to the bytes of an event stream.

use serde_json::{Map, Value};

use super::script::Item;
use super::vars::Vars;

/// Returns the bytes of one item, with `{{i}}` still in place; `None` if the item only waits.
pub(super) fn frame(item: &Item, vars: &Vars<'_>) -> Option<String> {
    if let Some(raw) = &item.raw {
        return Some(vars.fill_raw(raw));
    }
    let payload = if let Some(rest) = &item.rest {
        rest.clone()
    } else if item.result.is_some() || item.error.is_some() {
        envelope(
            item.id.as_ref().or(vars.rpc_id),
            item.result.as_ref(),
            item.error.as_ref(),
        )
    } else {
        return None;
    };
    let data = vars.fill_value(&payload);
    let event = item
        .event
        .as_ref()
        .map(|name| format!("event: {name}\n"))
        .unwrap_or_default();
    Some(format!("{event}data: {data}\n\n"))
}

/// Returns a JSON-RPC response, without the field `id` for an absent id.
pub(super) fn envelope(id: Option<&Value>, result: Option<&Value>, error: Option<&Value>) -> Value {
    let mut fields = Map::new();
    fields.insert("jsonrpc".to_owned(), Value::from("2.0"));
    for (name, value) in [("id", id), ("error", error), ("result", result)] {
        if let Some(value) = value {
            fields.insert(name.to_owned(), value.clone());
        }
    }
    Value::Object(fields)
}
