//! Compares results in everything that the contract fixes.
//!
//! The comparison of a recording with an answer has three steps: it *normalises* both (handles, ids, times and ports become
//! names), reduces both to what the *contract* fixes, and then requires every value of the recording in the answer, which
//! may have more fields.

mod contract;
mod normalise;
mod subset;

pub(super) use contract::compare_error_locations;
pub(super) use contract::{definition, envelope, update};
pub(super) use normalise::Normaliser;
pub(super) use normalise::wire;
pub(super) use subset::Subset;
pub(super) use subset::{check, check_at};
