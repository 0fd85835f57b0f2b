//! The command `remote-agent`.
fn main() {}
