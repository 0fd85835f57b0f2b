//! The tool and a local gateway: what is shown of its agents, who may call them, and how they are gone on with.
#![allow(clippy::unwrap_used, clippy::panic)]

mod calls;
mod errors;
mod fake;
mod listing;
mod names;
