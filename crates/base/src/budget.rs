//! Daily budgets: what calls have used, and whether another one may begin.
//!
//! An amount is reserved before a call and settled after it, in a file that processes share under a lock. If a process ends
//! in between, the reservation counts. Days are those of UTC; a clock that is set back does not begin another day.
//!
//! Format of the file: `{"version": 1, "day": DAYS_SINCE_1970, "scopes": {NAME: {"used", "added", "touched"}}, "tasks": {NAME:
//! {"reported", "charged", "chain"?, "touched"}}}`, where amounts are lists in the order of [`Unit::ALL`]. A file of another form
//! is an error, and never a fresh start: that would lift every limit.

mod limits;
mod record;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{fmt, io};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::files::{self, LockedFile, with_suffix};

use record::{Record, is_work};

pub use limits::{Amounts, BY_URL, Budget, Budgets, Scope, Unit, Work};
pub use record::Entry;

const VERSION: u32 = 1;
const SECONDS_OF_DAY: u64 = 86_400;
const MAX_FILE_BYTES: u64 = 8 << 20;

/// The longest wait for another process that holds the file.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);
/// The same for the end of a call, whose use would be lost.
const SETTLE_LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// How much of a budget is used.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Level {
    /// `target`, `chain` or `total`.
    pub scope: String,
    /// The name of the unit.
    pub unit: &'static str,
    /// In the unit of the setting.
    pub limit: Value,
    /// In the same unit.
    pub used: Value,
    /// When the use starts from zero (RFC 3339). A received chain ends a day after its last message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resets: Option<String>,
    /// The currency of a cost that the peer reports and a limit in dollars does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown_currency: Option<String>,
}

/// Why no work may begin, or the record cannot be changed.
#[derive(Debug)]
pub enum BudgetError {
    /// Another call does not fit.
    Exceeded(Box<Level>),
    /// The file cannot be used; a sentence without its path, which a model may read.
    Unusable(String),
}

/// What is wrong with the file; a sentence without its path.
#[derive(Debug)]
enum RecordError {
    /// It has another form. Another file may take its place.
    Damaged(String),
    /// It cannot be used, and has to stay.
    Unusable(String),
}

impl From<RecordError> for BudgetError {
    fn from(error: RecordError) -> Self {
        let (RecordError::Damaged(message) | RecordError::Unusable(message)) = error;
        Self::Unusable(message)
    }
}

/// What a call was reserved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// What it was reserved.
    pub amounts: Amounts,
    /// What is left of each limited unit after it.
    pub left: [Option<u64>; 4],
}

/// The end of a call.
#[derive(Debug, Clone, Default)]
pub struct Settlement {
    /// What it was reserved; nothing for a call that only follows a task.
    pub reserved: Amounts,
    /// Whether the message did not leave.
    pub unsent: bool,
    /// The task, with its target.
    pub task: Option<String>,
    /// How long the call took, in milliseconds.
    pub elapsed: u64,
    /// The tokens that the task used so far, as its peer reports them.
    pub tokens: Option<u64>,
    /// The cost of the task so far, in millionths of a dollar, as its peer reports it.
    pub usd_micros: Option<u64>,
    /// The currency of a cost that the peer reports in place of dollars.
    pub unknown_currency: Option<String>,
}

/// What is to say about a call that was recorded.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settled {
    /// The fullest scope of which four fifths are used, or a limit in dollars that does not count another currency.
    pub warning: Option<Level>,
    /// Whether the peer reports more than is plausible, for the first time about the task.
    pub is_implausible: bool,
}

/// The file of what was used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ledger(PathBuf);

impl Ledger {
    /// Returns the file at `path`, without opening it.
    pub fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Reserves one message in each scope, with as much of the other units as one has used on average.
    ///
    /// # Errors
    /// The message does not fit into a scope, or the file cannot be used. Nothing is reserved.
    pub fn reserve(&self, scopes: &[Scope], now: SystemTime) -> Result<Reservation, BudgetError> {
        self.update(now, LOCK_TIMEOUT, |record, seconds| {
            let reservation = record.reservation(scopes)?;
            for scope in scopes {
                let entry = record.scopes.entry(scope.name.clone()).or_default();
                entry.used = entry.used.plus(reservation.amounts);
                entry.touched = seconds;
            }
            Ok(reservation)
        })
    }

    /// Checks that one more message fits now, without reserving it.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve).
    pub fn check(&self, scopes: &[Scope], now: SystemTime) -> Result<(), BudgetError> {
        let alone = self.lock_within(Duration::ZERO)?;
        let mut record = self.read()?;
        // A process that changes the file now has a draft of the new content, and is soon done.
        if alone.is_some() {
            self.check_replace()?;
        }
        record.roll(now);
        record.reservation(scopes).map(drop)
    }

    /// Replaces a reservation by what was used, or adds what is new about a task.
    ///
    /// # Errors
    /// The file cannot be used. The reservation stays.
    pub fn settle(
        &self,
        scopes: &[Scope],
        end: &Settlement,
        now: SystemTime,
    ) -> Result<Settled, BudgetError> {
        let mut settled = self.settle_all(&[(scopes, end)], now)?;
        Ok(settled.pop().unwrap_or_default())
    }

    /// Settles like [`settle`](Self::settle) several calls at once.
    ///
    /// # Errors
    /// The file cannot be used. All reservations stay.
    pub fn settle_all(
        &self,
        ends: &[(&[Scope], &Settlement)],
        now: SystemTime,
    ) -> Result<Vec<Settled>, BudgetError> {
        self.update(now, SETTLE_LOCK_TIMEOUT, |record, seconds| {
            let settle =
                |(scopes, end): &(&[Scope], &Settlement)| record.settle(scopes, end, seconds);
            Ok(ends.iter().map(settle).collect())
        })
    }

    /// Returns every limit of `scopes`, and of the other targets, chains and sessions on record, with the name of its scope.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn levels(
        &self,
        mut scopes: Vec<Scope>,
        budgets: &Budgets,
        now: SystemTime,
    ) -> Result<Vec<(String, Level)>, BudgetError> {
        let mut record = self.read()?;
        record.roll(now);
        let known: Vec<_> = scopes.iter().map(|scope| scope.name.clone()).collect();
        for name in record.scopes.keys().filter(|name| !known.contains(name)) {
            let budget = match () {
                () if is_work(name) => &budgets.chain,
                () if name.starts_with("target ") => &budgets.target,
                () => continue,
            };
            scopes.push(Scope {
                name: name.clone(),
                limits: budget.limits(),
            });
        }
        let levels = scopes.iter().flat_map(|scope| {
            let entry = record.scopes.get(&scope.name).copied().unwrap_or_default();
            let limited = Unit::ALL
                .into_iter()
                .filter(|unit| entry.limit(scope, *unit).is_some());
            let levels =
                limited.map(|unit| (scope.name.clone(), record.level(scope, unit, &entry)));
            levels.collect::<Vec<_>>()
        });
        Ok(levels.collect())
    }

    /// Changes what a scope has used, and what is added to its limits.
    ///
    /// # Errors
    /// The file cannot be used.
    pub fn change(
        &self,
        scope: &str,
        now: SystemTime,
        change: impl FnOnce(&mut Entry),
    ) -> Result<(), BudgetError> {
        self.update(now, LOCK_TIMEOUT, |record, seconds| {
            let entry = record.scopes.entry(scope.to_owned()).or_default();
            entry.touched = seconds;
            change(entry);
            Ok(())
        })
    }

    /// Renames a damaged file, so that a new one begins. Returns its new path; `None` if the file is not damaged.
    ///
    /// # Errors
    /// The file cannot be renamed.
    pub fn repair(&self) -> Result<Option<PathBuf>, BudgetError> {
        let _alone = self.lock(LOCK_TIMEOUT)?;
        match self.read() {
            Ok(_) => return Ok(None),
            Err(RecordError::Damaged(_)) => {}
            Err(error) => return Err(error.into()),
        }
        let damaged = with_suffix(&self.0, ".damaged");
        fs::rename(&self.0, &damaged).map_err(Self::failed)?;
        Ok(Some(damaged))
    }

    /// Checks that a message could be reserved as far as the file matters, without changing it.
    ///
    /// # Errors
    /// The file cannot be locked, read or replaced.
    pub fn check_file(&self) -> Result<(), BudgetError> {
        let _alone = self.lock(LOCK_TIMEOUT)?;
        self.read()?;
        self.check_replace()
    }

    /// Checks that the file can be replaced. The caller has its lock.
    fn check_replace(&self) -> Result<(), BudgetError> {
        files::check_replace(&self.0).map_err(Self::failed)
    }

    fn update<T>(
        &self,
        now: SystemTime,
        lock_timeout: Duration,
        change: impl FnOnce(&mut Record, u64) -> Result<T, BudgetError>,
    ) -> Result<T, BudgetError> {
        let _alone = self.lock(lock_timeout)?;
        let mut record = self.read()?;
        let seconds = record.roll(now);
        let result = change(&mut record, seconds)?;
        record.forget();
        let written = serde_json::to_string(&record).map_err(io::Error::from);
        written
            .and_then(|text| files::replace(&self.0, &text))
            .map_err(Self::failed)?;
        Ok(result)
    }

    /// Waits until no other process changes the file.
    fn lock(&self, timeout: Duration) -> Result<LockedFile, BudgetError> {
        self.lock_within(timeout)?
            .ok_or_else(|| Self::unusable("another process holds its lock").into())
    }

    /// Waits like [`lock`](Self::lock); `None` if another process still has the lock.
    fn lock_within(&self, timeout: Duration) -> Result<Option<LockedFile>, BudgetError> {
        if self.0.is_relative() {
            let cause = "its path is not absolute; set `budget.path`";
            return Err(Self::unusable(cause).into());
        }
        if let Some(folder) = self.0.parent() {
            files::create_private_dir(folder).map_err(Self::failed)?;
            files::check_private_dir(folder).map_err(|cause| {
                Self::unusable(format_args!("its directory {cause}; set `budget.path`"))
            })?;
        }
        files::lock_beside(&self.0, timeout).map_err(Self::failed)
    }

    fn read(&self) -> Result<Record, RecordError> {
        // Callers wait for the record within their own time, so a pipe or a disk that does not answer is no danger.
        let file = fs::File::open(&self.0);
        let bytes = match file.and_then(|file| files::read_bytes(file, MAX_FILE_BYTES)) {
            Ok(bytes) => bytes,
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound => return Ok(Record::new()),
                io::ErrorKind::FileTooLarge => return Err(Self::damaged("it is too large")),
                _ => return Err(Self::unusable(error)),
            },
        };
        // A later form may have other members.
        if let Ok(Versioned { version }) = serde_json::from_slice(&bytes)
            && version > VERSION
        {
            return Err(Self::unusable(format_args!(
                "a newer version of the plugin wrote it (form {version}, and this one reads form {VERSION}); update this one"
            )));
        }
        let record: Record = serde_json::from_slice(&bytes).map_err(|error| {
            let place = format!("line {} column {}", error.line(), error.column());
            Self::damaged(&format!("it cannot be read from {place} on"))
        })?;
        match record.version {
            VERSION => Ok(record),
            other => Err(Self::damaged(&format!(
                "it has the version {other}, not {VERSION}"
            ))),
        }
    }

    fn unusable(cause: impl fmt::Display) -> RecordError {
        RecordError::Unusable(format!("the record of budgets cannot be used: {cause}"))
    }

    fn failed(error: io::Error) -> BudgetError {
        Self::unusable(error).into()
    }

    fn damaged(cause: &str) -> RecordError {
        RecordError::Damaged(format!(
            "the record of budgets is damaged: {cause}; `remote-agent budget --repair` puts it aside and begins a new one"
        ))
    }
}

/// What every form of the file has.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

#[cfg(test)]
mod tests;
