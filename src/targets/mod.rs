//! Who work can be handed to: the configured targets, their agent cards, and who else a request may name.

mod cards;
mod catalog;

pub use cards::{CardCache, KnownCard};
pub use catalog::{Catalog, Refused, Target, same_place};
