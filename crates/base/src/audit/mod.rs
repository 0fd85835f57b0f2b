//! Files of JSON lines that are bounded in size.

pub mod fields;
mod file;
mod lines;

pub use lines::Lines;
