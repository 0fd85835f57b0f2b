//! Parts of every configuration: errors with their place, secrets, addresses and paths.

mod error;
mod paths;
mod secret;
mod url;

pub use error::ConfigError;
pub use paths::{check_state_dir, default_state_dir, resolved};
pub use secret::{Secret, SecretMap};
pub use url::{card_url, contains_url, gateway_url, normal_url, with_presumed_scheme};
