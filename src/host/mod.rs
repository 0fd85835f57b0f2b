//! The doors: how a host reaches the plugin. Conversions and hand-over, nothing that knows what a task is.
//!
//! Both doors are in the one shared library. Loading it runs neither: each waits for its own kind of host.

// The only place with `unsafe`: the macros of abi_stable and napi expand to it.
#![allow(unsafe_code)]

pub mod abi;
pub mod node;

use common::panics::Panicked;

/// What a door answers when the plugin panics over a configuration, in the shape of a configuration error.
fn config_panicked(panicked: &Panicked) -> String {
    serde_json::json!({
        "code": "INTERNAL_ERROR",
        "message": format!("the plugin failed while it read its configuration, {panicked}"),
        "path": "",
    })
    .to_string()
}
