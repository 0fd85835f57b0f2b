//! The abi_stable types of the Rust door.
