//! The command, for people and scripts.

mod add;
mod answers;
mod ask;
mod budget;
mod demo;
mod doctor;
mod embedded;
mod failures;
mod follow_up;
mod gateway;
#[cfg(unix)]
mod interrupts;
mod local_gateway;
mod next_steps;
mod openclaw;
mod package;
mod pages;
mod recording;
mod several;
pub(crate) mod sign_in;
mod tasks;
pub(crate) use crate::support::process;
pub(crate) mod support;
