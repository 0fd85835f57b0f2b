//! Checks the contract's examples, the schemas, the manifests and the documents against the code.
//!
//! Parts of the manifests and documents are generated. `UPDATE=1 cargo test --test suite contract::` updates them. Without it,
//! the test of an outdated part fails.

mod architecture;
mod artifact_pages;
mod dependencies;
mod deployment;
pub(crate) mod documents;
mod examples;
mod gateway;
mod import_cycles;
pub(crate) mod in_process;
mod json_examples;
mod manifests;
mod ordered_json;
mod prose;
mod requests;
mod results;
mod sections;
mod serve;
mod settings;
#[cfg(feature = "real")]
mod tokens;
pub(crate) use crate::support::in_process as unchecked;
pub(crate) use testkit::support::generated;

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;
use testkit::support::{root, text};

/// Returns the files below a folder, in order, without hidden folders and those that a build or an installation made.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut files = Vec::new();
    for path in entries {
        let name = path.file_name().unwrap().to_str().unwrap();
        match path.is_dir() {
            true if name.starts_with('.') || ["target", "node_modules"].contains(&name) => {}
            true => files.extend(self::files(&path)),
            false => files.push(path),
        }
    }
    files.sort();
    files
}

fn json(path: &str) -> Value {
    serde_json::from_str(&text(path)).unwrap_or_else(|error| panic!("`{path}`: {error}"))
}
