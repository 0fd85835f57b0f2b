//! Support code of several suites.

pub(crate) mod in_process;
pub(crate) mod tool_fixture;
pub(crate) use testkit::support::*;
