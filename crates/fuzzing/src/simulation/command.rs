//! The messages of callers.

use std::time::Duration;

use serde_json::Value;

use super::body::ECHOED;
use super::random::Random;
use super::servers::SERVERS;

/// The targets, each with the index of its server.
pub(super) const TARGETS: [(&str, usize); 5] = [
    ("rpc-1", 0),
    ("rpc-0.3", 1),
    ("http-1", 0),
    ("http-0.3", 1),
    ("any", SERVERS - 1),
];

/// The behavior that a message requests from the scripted executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    Echo,
    EchoCredential,
    Message,
    Say,
    Task,
    Stream(u64, u64),
    Big(u64),
    Slow(u64),
    Endless,
    Ask,
    Fail,
    Reject,
}

impl Command {
    pub(super) fn any(random: &mut Random) -> Self {
        match random.below(16) {
            0 | 1 => Self::Echo,
            2 => Self::EchoCredential,
            3 => Self::Message,
            4 => Self::Say,
            5 => Self::Task,
            6..=9 => Self::Stream(1 + random.below(12), random.pick(&[0, 5, 300, 4000])),
            10 => Self::Big(random.below(20_000)),
            11 => Self::Slow(random.below(90_000)),
            12 => Self::Endless,
            13 => Self::Ask,
            14 => Self::Fail,
            _ => Self::Reject,
        }
    }

    pub(super) fn text(self, id: &str) -> String {
        match self {
            Self::Echo => format!("echo {id}"),
            Self::EchoCredential => format!("echo {id} {ECHOED} {ECHOED}"),
            Self::Message => format!("message {id}"),
            Self::Say => format!("say {id}"),
            Self::Task => format!("task {id}"),
            Self::Stream(events, apart) => format!("stream {events} {apart}"),
            Self::Big(bytes) => format!("big {bytes}"),
            Self::Slow(time) => format!("slow {time}"),
            Self::Endless => format!("begun {id}"),
            Self::Ask => format!("ask {id}"),
            Self::Fail => format!("fail {id}"),
            Self::Reject => format!("reject {id}"),
        }
    }

    /// Returns the final state of the script.
    pub(super) fn state(self) -> &'static str {
        match self {
            Self::Endless => "working",
            Self::Ask => "input-required",
            Self::Fail => "failed",
            Self::Reject => "rejected",
            _ => "completed",
        }
    }

    /// Returns the text of all artifacts at the end, if it can be predicted.
    pub(super) fn artifact(self, id: &str) -> Option<String> {
        match self {
            Self::Echo | Self::Endless => Some(id.to_owned()),
            Self::Task => Some(format!("alpha beta {id}")),
            Self::Stream(events, _) => Some((0..events).map(|n| format!("{n} ")).collect()),
            Self::Big(bytes) => Some("x".repeat(usize::try_from(bytes).unwrap())),
            _ => None,
        }
    }
}

/// A message to a server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    /// The alias and the index of its server.
    pub(super) target: (&'static str, usize),
    pub(super) command: Command,
    pub(super) follows: bool,
    pub(super) timeout_ms: Option<u64>,
}

impl Work {
    pub(super) fn any(random: &mut Random) -> Self {
        Self {
            target: random.pick(&TARGETS),
            command: Command::any(random),
            follows: random.percent(60),
            timeout_ms: any_timeout(random),
        }
    }
}

/// Returns a random timeout for a request, or `None`.
pub(super) fn any_timeout(random: &mut Random) -> Option<u64> {
    match random.below(4) {
        0 => None,
        1 => Some(50 + random.below(1000)),
        _ => Some(1000 + random.below(40_000)),
    }
}

/// Sets the timeout of a request. Returns the maximum duration of the call.
pub(super) fn limit(request: &mut Value, timeout_ms: Option<u64>) -> Duration {
    let Some(millis) = timeout_ms else {
        // The default timeout of a call that does not follow its task.
        return Duration::from_secs(120);
    };
    request["timeout_ms"] = millis.into();
    Duration::from_millis(millis)
}
