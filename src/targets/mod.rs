//! Who work can be handed to: the configured targets, their agent cards, and who else a request may name.

mod callbacks;
mod cards;
mod catalog;
mod credentials;
mod files;
mod signers;

pub use callbacks::Callbacks;
pub use cards::{CardCache, KnownCard};
pub use catalog::{Catalog, Refused, Target, same_place};
