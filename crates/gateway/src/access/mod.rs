//! Who connects, what they may do, and how fast.

mod error;
mod identity;
mod jwt;
mod keyring;
mod permissions;
mod rate;

pub use error::AccessError;
pub use identity::{Identity, Known};
pub use keyring::Keyring;
pub use permissions::Operation;
pub use rate::RateLimit;

#[cfg(test)]
mod tests;
