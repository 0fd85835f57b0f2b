//! Compares results in everything that the contract fixes.
//!
//! The comparison of a recording with an answer has three steps: it *normalises* both (handles, ids, times and ports become
//! names), reduces both to what the *contract* fixes, and then requires every value of the recording in the answer, which
//! may have more fields.

mod contract;
mod error_locations;
mod matcher;
mod normalise;
mod scan;
mod subset;
mod wire;

pub(super) use contract::{definition, envelope, update};
pub(super) use error_locations::compare_error_locations;
pub(super) use matcher::{check, check_at};
pub(super) use normalise::Normaliser;
pub(super) use subset::Subset;
pub(super) use wire::wire;
