//! The host interfaces: the entry points of hosts. They convert values and know nothing about tasks.
//!
//! The one shared library has both interfaces. Loading it runs neither; each runs when its kind of host calls it.

// The only modules with `unsafe`: the macros of abi_stable and napi expand to it.
#![allow(unsafe_code)]

pub mod abi;
pub mod node;
pub mod node_api;
mod pieces;

use base::panics::Panicked;

/// Returns the error for a panic while a configuration is parsed, in the shape of a configuration error.
fn config_panicked(panicked: &Panicked) -> String {
    serde_json::json!({
        "code": "INTERNAL_ERROR",
        "message": format!("the plugin failed while it read its configuration, {panicked}"),
        "path": "",
    })
    .to_string()
}
