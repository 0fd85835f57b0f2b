//! Who work can be handed to: the configured targets, the agents of the local gateway, their agent cards, and who else a
//! request may name.

mod callbacks;
mod cards;
mod catalog;
mod configured;
mod credentials;
mod files;
mod local;
mod signers;

pub use callbacks::Callbacks;
pub use cards::{CardCache, KnownCard};
pub use catalog::{Catalog, Refused, Target, same_place};
pub use credentials::local_trust;
pub use local::{Local, NAME_PATTERN, local_alias, local_name};
