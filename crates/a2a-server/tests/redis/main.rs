//! Several servers on one Redis: a real one, that is killed, restarted and refused.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

mod death;
mod followers;
mod losses;
mod outage;
mod proxy;
mod queues;
#[path = "../support/record.rs"]
mod record;
#[path = "../support/redis_server.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod redis_server;
mod refusals;
mod rig;
mod servers;
mod services;
mod tls;
