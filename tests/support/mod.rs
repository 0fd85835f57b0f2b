//! Support code of several suites.

pub(crate) mod in_process;
pub(crate) use testkit::support::*;
