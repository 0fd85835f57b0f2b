//! Authentication, authorization and rate limits.

mod error;
mod identity;
mod jwt;
mod keyring;
mod permissions;
mod rate_limit;

pub use error::AccessError;
pub use identity::{Authenticated, Identity};
pub use keyring::Keyring;
pub use permissions::Operation;
pub use rate_limit::RateLimit;

#[cfg(test)]
mod tests;
