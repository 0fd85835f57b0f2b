//! What a release needs and no user runs, as functions for `cargo xtask` and the tests.

#![forbid(unsafe_code)]

pub mod bundle;
pub mod compile;
pub mod release;
mod sbom;
pub mod task;

use ring::digest::{SHA256, digest};

/// Returns the SHA-256 of `bytes` in hexadecimal digits.
fn sha256_hex(bytes: &[u8]) -> String {
    let digest = digest(&SHA256, bytes);
    let digits = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
    digits.collect()
}
