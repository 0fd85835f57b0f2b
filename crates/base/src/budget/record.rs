//! What is on record: the use of scopes, and what tasks were charged.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::{
    Amounts, BudgetError, Level, Reservation, SECONDS_OF_DAY, Scope, Settled, Settlement, Unit,
    VERSION,
};
use crate::environment::unix_seconds;

/// How many chains, sessions and tasks are kept, each. The one that was used least recently is forgotten first.
pub(super) const MAX_ENTRIES: usize = 1000;

/// The longest name of a task that is kept, in bytes. Peers choose the ids of tasks.
pub(super) const MAX_TASK_BYTES: usize = 512;

/// A chain of delegations that rests for so long begins anew.
const CHAIN_LIFETIME: u64 = SECONDS_OF_DAY;

/// What a report of the first task of a target is plausible up to: a million tokens and ten dollars.
const PLAUSIBLE_FIRST: Amounts = Amounts([u64::MAX, u64::MAX, 1_000_000, 10_000_000]);

/// How many times as much as the largest earlier task of its target a task may plausibly report.
const PLAUSIBLE_GROWTH: u64 = 10;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    pub(super) version: u32,
    pub(super) day: u64,
    pub(super) scopes: BTreeMap<String, Entry>,
    pub(super) tasks: BTreeMap<String, Charge>,
}

/// What a scope has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// What was used and is reserved.
    pub used: Amounts,
    /// What the operator added to its limits.
    pub added: Amounts,
    /// When it was last used, in seconds since 1970.
    pub(super) touched: u64,
}

/// What a task was charged. Reports speak of the whole task.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Charge {
    /// The largest report.
    pub(super) reported: Amounts,
    /// What the scope of the target was charged; absent in a record that has `estimated`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) charged: Option<Amounts>,
    #[serde(default, skip_serializing)]
    pub(super) estimated: Amounts,
    /// The scope of the chain or session of its last message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) chain: Option<String>,
    pub(super) touched: u64,
}

impl Charge {
    fn charged(&self) -> Amounts {
        self.charged
            .unwrap_or_else(|| self.reported.or(self.estimated))
    }

    /// Adds a report, of which at most `plausible` counts, and the estimate for the messages of the call.
    ///
    /// The first report replaces all estimates, and a larger one may say what is in them already. Many peers report each
    /// turn alone: after a report that is no larger than an earlier one, the estimate for the message stays.
    fn add(&mut self, report: Amounts, estimate: Amounts, plausible: Amounts) {
        let (earlier, before) = (self.reported, self.charged());
        self.reported = earlier.with(report, u64::max);
        let charged = Unit::ALL.map(|unit| {
            let (earlier, report) = (earlier.of(unit), report.of(unit));
            let counted = report.min(plausible.of(unit));
            match report > earlier {
                true if earlier == 0 => counted,
                true => counted.max(before.of(unit)),
                false => before.of(unit).saturating_add(estimate.of(unit)),
            }
        });
        self.charged = Some(Amounts(charged));
    }
}

/// What the end of a call changes.
pub(super) struct Change {
    /// What its task was charged before it.
    pub(super) before: Amounts,
    /// What its task is charged now.
    pub(super) after: Amounts,
    pub(super) is_implausible: bool,
}

impl Entry {
    /// Returns the limit of a unit in this scope, with what was added.
    pub fn limit(&self, scope: &Scope, unit: Unit) -> Option<u64> {
        let limit = scope.limits[unit as usize]?;
        Some(limit.saturating_add(self.added.of(unit)))
    }
}

impl Record {
    /// Replaces a reservation by what was used, or adds what is new about a task.
    pub(super) fn settle(&mut self, scopes: &[Scope], end: &Settlement, seconds: u64) -> Settled {
        let mut names: Vec<String> = scopes.iter().map(|scope| scope.name.clone()).collect();
        let own = scopes.first().map(|scope| {
            let entry = self.scopes.get(&scope.name).copied();
            Unit::ALL.map(|unit| entry.unwrap_or_default().limit(scope, unit))
        });
        let own = own.unwrap_or_default();
        let Change {
            before,
            after,
            is_implausible,
        } = match end.unsent {
            true => Change {
                before: Amounts::default(),
                after: Amounts::default(),
                is_implausible: false,
            },
            false => self.charge(end, own, &mut names, seconds),
        };
        for (i, name) in names.into_iter().enumerate() {
            // What a target may not use, its report does not take from the others.
            let most = match i {
                0 => Amounts([u64::MAX; 4]),
                _ => Amounts(own.map(|limit| limit.unwrap_or(u64::MAX))),
            };
            let [less, more] = [before, after].map(|amounts| amounts.with(most, u64::min));
            let entry = self.scopes.entry(name).or_default();
            entry.used = entry.used.plus(more).minus(end.reserved).minus(less);
            entry.touched = seconds;
        }
        let mut warning = self.fullest(scopes);
        if end.usd_micros.is_none() && end.unknown_currency.is_some() {
            warning = warning.or_else(|| self.uncounted(scopes));
            if let Some(level) = &mut warning {
                level.unknown_currency.clone_from(&end.unknown_currency);
            }
        }
        Settled {
            warning,
            is_implausible,
        }
    }

    pub(super) fn new() -> Self {
        Self {
            version: VERSION,
            day: 0,
            scopes: BTreeMap::new(),
            tasks: BTreeMap::new(),
        }
    }

    /// Begins a new day, if it is one, and returns the time in seconds since 1970.
    pub(super) fn roll(&mut self, now: SystemTime) -> u64 {
        let seconds = unix_seconds(now);
        let today = seconds / SECONDS_OF_DAY;
        if today > self.day {
            self.day = today;
            self.scopes.retain(|name, _| is_chain(name));
        }
        self.scopes.retain(|name, entry| {
            !is_chain(name) || seconds.saturating_sub(entry.touched) <= CHAIN_LIFETIME
        });
        seconds
    }

    /// Forgets chains, sessions and tasks beyond the maximum.
    pub(super) fn forget(&mut self) {
        for is_kind in [is_chain, is_session] {
            let scopes = self.scopes.iter().filter(|(name, _)| is_kind(name));
            if let Some(oldest) = oldest(scopes.map(|(name, entry)| (name, entry.touched))) {
                self.scopes.remove(&oldest);
            }
        }
        if let Some(oldest) = oldest(self.tasks.iter().map(|(name, task)| (name, task.touched))) {
            self.tasks.remove(&oldest);
        }
    }

    /// Charges the end of a call to its task. `own` has the limits of the target. A call without a message counts in the
    /// chain or session of the task's last message; the names get it.
    pub(super) fn charge(
        &mut self,
        end: &Settlement,
        own: [Option<u64>; 4],
        names: &mut Vec<String>,
        seconds: u64,
    ) -> Change {
        let [tokens, usd] = [end.tokens, end.usd_micros].map(Option::unwrap_or_default);
        let report = Amounts([0, 0, tokens, usd]);
        let [_, _, tokens, usd] = end.reserved.0;
        let estimate = Amounts([end.reserved.of(Unit::Calls), end.elapsed, tokens, usd]);
        // A longer name is not remembered: every report about its task counts.
        let task = end.task.as_ref();
        let task = task.filter(|task| task.len() <= MAX_TASK_BYTES);
        let target = names.first().and_then(|name| name.strip_prefix("target "));
        let others = self.tasks.iter().filter(|(name, _)| {
            let rest = target.and_then(|target| name.strip_prefix(target));
            rest.is_some_and(|rest| rest.starts_with(' ')) && task != Some(*name)
        });
        let largest = others.fold(Amounts::default(), |most, (_, other)| {
            most.with(other.charged(), u64::max)
        });
        let plausible = Amounts(largest.0.map(|most| most.saturating_mul(PLAUSIBLE_GROWTH)));
        let plausible = plausible.with(PLAUSIBLE_FIRST, u64::max);
        // A limit of its own bounds what a target can take from the others, so all of its report counts for it.
        let most = Amounts(own.map(|limit| limit.map_or(0, |_| u64::MAX)));
        let most = plausible.with(most, u64::max);
        let exceeds = |report: Amounts| {
            let limits = Amounts(own.map(Option::unwrap_or_default));
            let plausible = plausible.with(limits, u64::max);
            report.with(plausible, u64::min) != report
        };
        let Some(task) = task else {
            let mut charge = Charge::default();
            charge.add(report, estimate, most);
            return Change {
                before: Amounts::default(),
                after: charge.charged(),
                is_implausible: exceeds(report),
            };
        };
        let charge = self.tasks.entry(task.clone()).or_default();
        let (earlier, before) = (charge.reported, charge.charged());
        charge.add(report, estimate, most);
        charge.touched = seconds;
        let current = names.iter().position(|name| is_work(name));
        match (current, &charge.chain) {
            (Some(i), _) if end.reserved.of(Unit::Calls) > 0 => {
                charge.chain = Some(names[i].clone());
            }
            (Some(i), Some(chain)) => names[i].clone_from(chain),
            (None, Some(chain)) => names.push(chain.clone()),
            (_, None) => {}
        }
        Change {
            before,
            after: charge.charged(),
            is_implausible: exceeds(report) && !exceeds(earlier),
        }
    }

    /// Returns the fullest limit of which four fifths are used.
    pub(super) fn fullest(&self, scopes: &[Scope]) -> Option<Level> {
        let levels = scopes.iter().flat_map(|scope| {
            let entry = self.scopes.get(&scope.name).copied().unwrap_or_default();
            Unit::ALL.into_iter().filter_map(move |unit| {
                let limit = u128::from(entry.limit(scope, unit)?);
                let used = u128::from(entry.used.of(unit));
                let share = (used * 1000).checked_div(limit).unwrap_or(1000);
                (share >= 800).then_some((share, scope, unit, entry))
            })
        });
        let (_, scope, unit, entry) = levels.max_by_key(|(share, ..)| *share)?;
        Some(self.level(scope, unit, &entry))
    }

    /// Returns the first limit in dollars.
    pub(super) fn uncounted(&self, scopes: &[Scope]) -> Option<Level> {
        scopes.iter().find_map(|scope| {
            let entry = self.scopes.get(&scope.name).copied().unwrap_or_default();
            entry.limit(scope, Unit::Usd)?;
            Some(self.level(scope, Unit::Usd, &entry))
        })
    }

    /// Returns what one more message takes from each scope: itself, and as much of the other units as one has used on average.
    ///
    /// # Errors
    /// It does not fit into a scope.
    pub(super) fn reservation(&self, scopes: &[Scope]) -> Result<Reservation, BudgetError> {
        let first = scopes
            .first()
            .and_then(|scope| self.scopes.get(&scope.name));
        let used = first.map(|entry| entry.used).unwrap_or_default();
        let calls = used.of(Unit::Calls);
        // Without a message there is no average: a call that only watches takes time too.
        let mut amounts = Amounts(used.0.map(|sum| sum.checked_div(calls).unwrap_or(0)));
        amounts.0[Unit::Calls as usize] = 1;
        let mut left = [None; 4];
        for scope in scopes {
            let entry = self.scopes.get(&scope.name).copied().unwrap_or_default();
            for unit in Unit::ALL {
                let Some(limit) = entry.limit(scope, unit) else {
                    continue;
                };
                let used = entry.used.of(unit);
                let after = used.saturating_add(amounts.of(unit));
                if used >= limit || after > limit {
                    let level = self.level(scope, unit, &entry);
                    return Err(BudgetError::Exceeded(Box::new(level)));
                }
                let least = &mut left[unit as usize];
                *least = Some(least.unwrap_or(u64::MAX).min(limit - after));
            }
        }
        Ok(Reservation { amounts, left })
    }

    pub(super) fn level(&self, scope: &Scope, unit: Unit, entry: &Entry) -> Level {
        let resets = Duration::from_secs(self.day.saturating_add(1).saturating_mul(SECONDS_OF_DAY));
        let resets = UNIX_EPOCH
            .checked_add(resets)
            .filter(|_| !is_chain(&scope.name));
        let kind = match is_work(&scope.name) {
            true => "chain",
            false => scope.name.split(' ').next().unwrap_or_default(),
        };
        Level {
            scope: kind.to_owned(),
            unit: unit.as_str(),
            limit: unit.shown(entry.limit(scope, unit).unwrap_or_default()),
            used: unit.shown(entry.used.of(unit)),
            resets: resets.map(|at| humantime::format_rfc3339_millis(at).to_string()),
            unknown_currency: None,
        }
    }
}

pub(super) fn is_chain(name: &str) -> bool {
    name.starts_with("chain ")
}

pub(super) fn is_session(name: &str) -> bool {
    name.starts_with("session ")
}

/// Returns whether the budget of chains limits this scope.
pub(super) fn is_work(name: &str) -> bool {
    is_chain(name) || is_session(name)
}

/// Returns the least recent name, if there are too many.
fn oldest<'a>(names: impl Iterator<Item = (&'a String, u64)> + Clone) -> Option<String> {
    let many = names.clone().nth(MAX_ENTRIES).is_some();
    let oldest = names.min_by_key(|(_, touched)| *touched)?;
    many.then(|| oldest.0.clone())
}
