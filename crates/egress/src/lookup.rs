//! Name resolution.

use std::io;
use std::net::IpAddr;

use super::BoxFuture;

/// Resolves names. [`SystemLookup`] is the real one. The client checks the returned addresses and connects only to
/// these, so a different answer to a second lookup has no effect.
pub trait Lookup: Send + Sync + 'static {
    /// Resolves `name`.
    ///
    /// # Errors
    /// The name has no address.
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// Uses the resolver of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}
