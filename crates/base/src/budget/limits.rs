//! What budgets limit, and their settings.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::config::{default_state_dir, plugin_state_dir};
use crate::named;

/// The name of all targets that the configuration does not name.
pub const BY_URL: &str = "by URL";

named! {
    /// What a budget limits.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Unit {
        /// Messages.
        Calls = "calls",
        /// The time that calls take, counted in milliseconds.
        Seconds = "seconds",
        /// Tokens of models.
        Tokens = "tokens",
        /// Money, counted in millionths of a US dollar.
        Usd = "usd",
    }
}

impl Unit {
    /// Returns an amount in the unit of its setting.
    #[expect(clippy::cast_precision_loss, reason = "for display")]
    pub fn shown(self, amount: u64) -> Value {
        match self {
            Self::Calls | Self::Tokens => amount.into(),
            Self::Seconds => (amount as f64 / 1e3).into(),
            Self::Usd => (amount as f64 / 1e6).into(),
        }
    }
}

/// An amount of each unit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amounts(pub [u64; 4]);

impl Amounts {
    /// Returns the amount of one unit.
    pub fn of(self, unit: Unit) -> u64 {
        self.0[unit as usize]
    }

    pub(super) fn with(self, other: Self, combine: impl Fn(u64, u64) -> u64) -> Self {
        Self(std::array::from_fn(|i| combine(self.0[i], other.0[i])))
    }

    /// Returns the sum; it saturates.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    /// Returns the amounts that are not zero, and those of `other` for the rest.
    pub(super) fn or(self, other: Self) -> Self {
        self.with(other, |amount, other| match amount {
            0 => other,
            amount => amount,
        })
    }

    pub(super) fn minus(self, other: Self) -> Self {
        self.with(other, u64::saturating_sub)
    }
}

/// The settings of a budget. What is absent is not limited.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Budget {
    /// Messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// Seconds that calls take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u64>,
    /// Tokens, as peers report them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// US dollars, as peers report them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd: Option<f64>,
}

impl Budget {
    /// Returns the limit of each unit.
    pub fn limits(&self) -> [Option<u64>; 4] {
        let seconds = self.seconds.map(|seconds| seconds.saturating_mul(1000));
        [self.calls, seconds, self.tokens, self.usd.map(usd_micros)]
    }

    fn is_limited(&self) -> bool {
        self.limits().iter().any(Option::is_some)
    }

    /// Returns the amounts; what is absent is zero.
    pub fn amounts(&self) -> Amounts {
        Amounts(self.limits().map(Option::unwrap_or_default))
    }
}

/// Returns millionths of US dollars.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the conversion saturates"
)]
fn usd_micros(usd: f64) -> u64 {
    (usd * 1e6).round() as u64
}

/// The budgets that are not those of one target.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Budgets {
    /// The file of what was used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// The budget of each target without one of its own.
    pub target: Budget,
    /// The budget of each chain of delegations that was received, and of each session with work of its own.
    pub chain: Budget,
    /// The budget of all targets together.
    pub total: Budget,
}

/// The file below the host's state directory.
const HOST_FILE: &str = "remote-agent/budget.json";
const FILE: &str = "budget.json";

impl Budgets {
    /// Returns the file of what was used: that of the settings, else one in the configured state directory, in that of the host,
    /// or in the user's. `variable` looks up the environment.
    pub fn file(
        &self,
        state_dir: Option<&Path>,
        host: Option<&Path>,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> PathBuf {
        match (&self.path, state_dir, host) {
            (Some(path), ..) => path.clone(),
            (None, Some(dir), _) => plugin_state_dir(Some(dir), variable).join(FILE),
            (None, None, Some(host)) => host.join(HOST_FILE),
            (None, None, None) => default_state_dir(FILE, variable),
        }
    }

    /// Returns the scopes that a message counts in, the target's first; empty if nothing limits it.
    pub fn scopes(&self, target: &str, own: Option<&Budget>, work: Option<Work<'_>>) -> Vec<Scope> {
        let scope = |name: String, budget: &Budget| Scope {
            limits: budget.limits(),
            name,
        };
        let own = own.unwrap_or(&self.target);
        // A late report about a task may be that of a chain.
        if !(own.is_limited() || self.total.is_limited() || self.chain.is_limited()) {
            return Vec::new();
        }
        let mut scopes = vec![scope(format!("target {target}"), own)];
        if let Some(work) = work.filter(|_| self.chain.is_limited()) {
            scopes.push(scope(work.scope_name(), &self.chain));
        }
        scopes.push(scope("total".to_owned(), &self.total));
        scopes
    }
}

/// The work that a message belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work<'a> {
    /// A chain of delegations that the host received, by its id.
    Chain(&'a str),
    /// The host's session, by its key: the chain begins there.
    Session(&'a str),
}

/// The longest part of a session's key that counts, in bytes. Sessions with the same beginning share a budget.
const MAX_SESSION_BYTES: usize = 256;

impl Work<'_> {
    /// Returns the name of its scope.
    pub fn scope_name(self) -> String {
        match self {
            Self::Chain(id) => format!("chain {id}"),
            Self::Session(key) => {
                let end = key.floor_char_boundary(MAX_SESSION_BYTES);
                format!("session {}", &key[..end])
            }
        }
    }
}

/// What a budget is for, and its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// `target ALIAS`, `chain ID`, `session KEY` or `total`.
    pub name: String,
    /// The limit of each unit.
    pub limits: [Option<u64>; 4],
}
