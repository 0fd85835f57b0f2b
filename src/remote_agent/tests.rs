//! The tool and a local gateway: listing, access control, calls and continuations.
#![allow(clippy::unwrap_used, clippy::panic)]

mod calls;
mod errors;
mod fake;
mod listing;
mod names;
