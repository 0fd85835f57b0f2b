//! The hostile gateway: each misbehaviour is one clear error or does no harm, nothing hangs, and the next call works.

mod agents;
mod doors;
mod memory;
mod triad;
