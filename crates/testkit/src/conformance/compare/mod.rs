//! Compares results in everything that the contract fixes.
//!
//! A recording is compared with an answer in three steps: both are *normalised* (handles, ids, times and ports become
//! names), reduced to what the *contract* fixes, and then every value of the recording must be in the answer, which may
//! have more fields.

mod blame;
mod contract;
mod matcher;
mod normalise;
mod scan;
mod subset;
mod wire;

pub(super) use blame::blame;
pub(super) use contract::{definition, envelope, update};
pub(super) use matcher::{check, check_at};
pub(super) use normalise::Normaliser;
pub(super) use subset::Subset;
pub(super) use wire::wire;
