//! Asking which addresses a name has.

use std::io;
use std::net::IpAddr;

use super::BoxFuture;

/// Tells which addresses a name has. [`SystemLookup`] is the real one. What it answers is judged afterwards, and only what
/// was judged is connected, so an answer that differs the next time changes nothing.
pub trait Lookup: Send + Sync + 'static {
    /// Resolves `name`.
    ///
    /// # Errors
    /// Why there is none.
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// Asks the operating system.
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
