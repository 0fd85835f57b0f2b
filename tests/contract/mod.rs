//! What the project promises, held against what it does: the contract's examples, the schemas, the manifests and the documents.
//!
//! Parts of the manifests and documents are generated. `UPDATE=1 cargo test --test suite contract::` writes them anew; without it a part that is out
//! of date fails its test.

mod architecture;
pub(crate) mod documents;
mod examples;
mod gateway;
pub(crate) mod generated;
mod import_cycles;
mod in_process;
mod manifests;
mod ordered;
mod reading;
mod requests;
mod results;
mod serve;
mod settings;
mod shown;
pub(crate) use crate::support::in_process as unchecked;

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

/// A path below the checkout.
fn root(path: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path)
}

fn text(path: &str) -> String {
    fs::read_to_string(root(path)).unwrap_or_else(|error| panic!("`{path}`: {error}"))
}

fn json(path: &str) -> Value {
    serde_json::from_str(&text(path)).unwrap_or_else(|error| panic!("`{path}`: {error}"))
}
