//! Several servers on one Redis: a real one, that is killed, restarted and refused.

mod death;
mod followers;
mod losses;
mod outage;
mod proxy;
mod queues;
mod refusals;
mod rig;
mod servers;
mod services;
mod tls;
