//! What several suites share.

pub(crate) mod in_process;
pub(crate) use testkit::support::*;
