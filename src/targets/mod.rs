//! The targets: the configured ones, the agents of the local gateway, their agent cards and what an operator
//! accepted of them, and URLs that a request names.

mod callbacks;
mod cards;
mod catalog;
mod credentials;
mod local;
mod pins;
mod target;

pub use callbacks::Callbacks;
pub use cards::{CardCache, FetchedCard};
pub use catalog::{Catalog, TargetError};
pub use credentials::local_trust;
pub use local::{Local, NAME_PATTERN, local_alias, local_name};
pub use pins::{CardChange, CardError, PinError, PinFile, PinState, SeenCards, add_changes};
pub use target::{Target, for_user, same_base_url, transports};
