//! Several servers on one real Redis, which is killed, restarted and misconfigured.

mod connection_errors;
mod death;
#[cfg(target_os = "linux")]
mod floods;
mod followers;
mod foreign_data;
mod foreign_messages;
mod lies;
mod losses;
mod outage;
mod proxy;
mod queues;
mod rig;
mod servers;
mod services;
mod tls;
