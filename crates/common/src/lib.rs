//! Code that several crates of the workspace share: clock and ids, the log sink, caught panics, signatures, JSON Schema
//! validation, redaction of secrets, settings and files of lines.

#![forbid(unsafe_code)]

pub mod audit;
pub mod config;
pub mod confusables;
pub mod environment;
pub mod files;
pub mod jws;
pub mod log;
pub mod panics;
pub mod redact;
pub mod validation;
