//! What several suites start and read.

pub(crate) mod driver;
pub(crate) mod filter;
pub(crate) mod in_process;
pub(crate) mod node;
pub(crate) mod process;
pub(crate) mod sdk;
