//! The hostile gateway: each misbehaviour causes one clear error or no harm, no call hangs, and the next call works.

mod agents;
mod handshake;
mod memory;
mod triad;
