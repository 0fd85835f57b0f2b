//! What an operator accepts of the cards of targets (trust on first use), in a file for each target that only its owner may read:
//! the pins of one are damaged, locked and removed without the others.
//!
//! A card is compared where it is read, so a call with a card from the cache costs nothing. A change that stops calls is never
//! accepted by itself; one that is reported is reported once for each new value, and what was accepted stays.

mod drift;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use a2a::card_fields::{CardFields, CardSigner, FieldClass};
use base::files;
use base::text::shell_word;
use peer::PeerError;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::config::Pins;

pub use drift::{CardChange, SeenCards, add_changes};

pub(super) use drift::{take_extended_fields, take_fields};

const VERSION: u32 = 1;

/// The maximum size of a file, in bytes. What is kept of a card is smaller.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The longest wait for another process that holds the file.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// How many reported changes a file remembers, the newest.
const MAX_REPORTED: usize = 100;

/// Who accepted a card that no person looked at.
const FIRST_USE: &str = "first use";

/// What the name of an operator who accepted a card begins with.
const OPERATOR: &str = "operator";

/// The file with the pins of a target, or of one person at a target.
#[derive(Debug, Clone)]
pub struct PinFile {
    dir: PathBuf,
    alias: String,
    /// The addresses in the configuration. With others, the agent is another one.
    identity: String,
    user: Option<String>,
    mode: Pins,
}

/// The content of a file.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    version: u32,
    alias: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    public: Pin,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    extended: Option<Pin>,
    /// The ids of reported changes, the newest last.
    #[serde(default)]
    reported: Vec<String>,
}

/// An accepted card.
#[derive(Debug, Serialize, Deserialize)]
struct Pin {
    /// In seconds since 1970.
    accepted_at: u64,
    accepted_by: String,
    fields: BTreeMap<String, String>,
    #[serde(default)]
    signers: Vec<CardSigner>,
}

impl Pin {
    fn new(fields: &CardFields, by: &str, now: u64) -> Self {
        Self {
            accepted_at: now,
            accepted_by: by.to_owned(),
            fields: fields.values.clone(),
            signers: fields.signers.clone(),
        }
    }

    fn changes(&self, seen: &CardFields) -> Vec<CardChange> {
        let accepted = CardFields {
            values: self.fields.clone(),
            signers: self.signers.clone(),
        };
        drift::changes(&accepted, seen)
    }
}

impl Record {
    fn changes(&self, seen: &SeenCards) -> Vec<CardChange> {
        let mut all = self.public.changes(&seen.public);
        if let (Some(pin), Some(seen)) = (&self.extended, &seen.extended) {
            let changes = pin.changes(seen).into_iter().map(|change| CardChange {
                path: format!("{}{}", drift::EXTENDED, change.path),
                ..change
            });
            all.extend(changes);
            all.sort_by_key(|change| change.class);
        }
        all
    }

    /// Accepts what needs no person: an extended card that is seen for the first time, and the keys of a card that a pinned key
    /// has signed too. Returns whether there is any.
    fn learn(&mut self, seen: &SeenCards, now: u64) -> bool {
        if self
            .changes(seen)
            .iter()
            .any(|change| change.class == FieldClass::Stop)
        {
            return false;
        }
        let mut has_learned = false;
        if let (None, Some(extended)) = (&self.extended, &seen.extended) {
            self.extended = Some(Pin::new(extended, FIRST_USE, now));
            has_learned = true;
        }
        let pins = [Some(&mut self.public), self.extended.as_mut()];
        let cards = [Some(&seen.public), seen.extended.as_ref()];
        for (pin, card) in pins.into_iter().zip(cards) {
            let (Some(pin), Some(card)) = (pin, card) else {
                continue;
            };
            let is_verified = card
                .signers
                .iter()
                .any(|signer| signer.thumbprint.is_some());
            if is_verified && pin.signers != card.signers {
                pin.signers.clone_from(&card.signers);
                has_learned = true;
            }
        }
        has_learned
    }
}

/// A card that may not be used. `Display` is a sentence that quotes no agent.
#[derive(Debug, Clone)]
pub enum PinError {
    /// It is not the accepted one.
    Changed(Box<PinState>),
    /// The file cannot be used.
    Unusable(String),
}

impl fmt::Display for PinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed(state) => f.write_str(&state.sentence()),
            Self::Unusable(message) => f.write_str(message),
        }
    }
}

/// Why a target has no usable card.
#[derive(Debug, Clone)]
pub enum CardError {
    /// It cannot be read.
    Peer(PeerError),
    /// It may not be used.
    Pin(PinError),
}

impl From<PeerError> for CardError {
    fn from(error: PeerError) -> Self {
        Self::Peer(error)
    }
}

/// What is accepted of a target, and what its cards have otherwise.
#[derive(Debug)]
pub struct PinState {
    file: PinFile,
    /// When the card was accepted, in seconds since 1970; `None` without a pin.
    pub accepted_at: Option<u64>,
    /// By whom.
    pub accepted_by: String,
    /// The signers of the accepted card.
    pub signers: Vec<CardSigner>,
    /// What differs, what matters most first.
    pub changes: Vec<CardChange>,
    /// Why the file cannot be used.
    pub problem: Option<String>,
    /// The ids of changes that were reported before.
    reported: Vec<String>,
    /// Whether a call has to report something.
    has_news: AtomicBool,
}

impl Clone for PinState {
    fn clone(&self) -> Self {
        Self {
            file: self.file.clone(),
            accepted_by: self.accepted_by.clone(),
            signers: self.signers.clone(),
            changes: self.changes.clone(),
            problem: self.problem.clone(),
            reported: self.reported.clone(),
            has_news: AtomicBool::new(self.has_news.load(Ordering::Relaxed)),
            ..*self
        }
    }
}

impl PinState {
    fn new(file: &PinFile, record: Option<Record>, seen: &SeenCards) -> Self {
        let mut state = Self {
            file: file.clone(),
            accepted_at: None,
            accepted_by: String::new(),
            signers: Vec::new(),
            changes: Vec::new(),
            problem: None,
            reported: Vec::new(),
            has_news: AtomicBool::new(false),
        };
        if let Some(record) = record {
            state.changes = record.changes(seen);
            state.accepted_at = Some(record.public.accepted_at);
            state.accepted_by = record.public.accepted_by;
            state.signers = record.public.signers;
            state.reported = record.reported;
            let has_news = state.unreported().next().is_some();
            state.has_news = AtomicBool::new(has_news);
        }
        state
    }

    /// Returns whether a change stops calls where pins are enforced.
    pub fn stops(&self) -> bool {
        self.changes
            .iter()
            .any(|change| change.class == FieldClass::Stop)
    }

    fn unreported(&self) -> impl Iterator<Item = &CardChange> {
        let is_known = |change: &&CardChange| {
            change.class == FieldClass::Note || self.reported.contains(&change.id())
        };
        self.changes.iter().filter(move |change| !is_known(change))
    }

    /// Returns what the next call has to report, once: a sentence and the changes that were not reported before.
    pub async fn take_report(&self) -> Option<(String, Vec<CardChange>)> {
        if !self.has_news.swap(false, Ordering::Relaxed) {
            return None;
        }
        if let Some(problem) = &self.problem {
            return Some((problem.clone(), Vec::new()));
        }
        let changes: Vec<_> = self.unreported().cloned().collect();
        let (file, ids) = (
            self.file.clone(),
            changes.iter().map(CardChange::id).collect(),
        );
        // If it is not remembered, it is reported again.
        let _ = files::blocking(move || {
            file.remember(ids)
                .map_err(|error| io::Error::other(error.to_string()))
        })
        .await;
        Some((self.sentence(), changes))
    }

    /// Returns what has changed, and what the operator can do.
    fn sentence(&self) -> String {
        let mut parts: Vec<&str> = Vec::new();
        for change in self
            .changes
            .iter()
            .filter(|change| change.class != FieldClass::Note)
        {
            if !parts.contains(&change.part()) {
                parts.push(change.part());
            }
        }
        let at = UNIX_EPOCH + Duration::from_secs(self.accepted_at.unwrap_or_default());
        let command = self.file.command();
        format!(
            "the agent card of `{}` is not the one that was accepted at {}: {} changed; `{command} --diff` shows the changes, and `{command} --accept` accepts them",
            self.file.alias.escape_debug(),
            humantime::format_rfc3339_seconds(at),
            parts.join(", ")
        )
    }

    /// Returns the state as results show it.
    pub fn to_json(&self) -> Value {
        let at = self.accepted_at.map(|at| {
            let at = UNIX_EPOCH + Duration::from_secs(at);
            humantime::format_rfc3339_millis(at).to_string()
        });
        let mut shown = json!({"mode": self.file.mode});
        if let Some(at) = at {
            shown["accepted_at"] = at.into();
            // Agents read results too, and need no name of a person.
            let by = match self.accepted_by.starts_with(OPERATOR) {
                true => OPERATOR,
                false => &self.accepted_by,
            };
            shown["accepted_by"] = by.into();
        }
        if let Some(problem) = &self.problem {
            shown["problem"] = problem.clone().into();
        }
        add_changes(&mut shown, &self.changes);
        shown
    }
}

/// The year 10000 in seconds since 1970, which no text of a time can show.
const END_OF_TIMES: u64 = 253_402_300_800;

impl PinFile {
    /// Returns the file of a target below `dir`. `identity` is the addresses of its configuration.
    pub(super) fn new(dir: PathBuf, alias: String, identity: &[&str], mode: Pins) -> Self {
        Self {
            dir,
            alias,
            identity: json!(identity).to_string(),
            user: None,
            mode,
        }
    }

    /// Returns the file of a person, whose card may be another one.
    pub(super) fn for_user(&self, user: Option<&str>) -> Self {
        Self {
            user: user.map(str::to_owned),
            ..self.clone()
        }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> PathBuf {
        let key = json!([self.alias, self.identity, self.user]).to_string();
        self.dir
            .join(drift::short_digest(&key))
            .with_extension("json")
    }

    /// Returns the command that shows the pins.
    fn command(&self) -> String {
        let user = self.user.as_deref();
        let user = user.map(|user| format!(" --person {}", shell_word(user)));
        format!(
            "remote-agent pin {}{}",
            shell_word(&self.alias),
            user.unwrap_or_default()
        )
    }

    /// Compares cards with the pins, and accepts those of a target that has none.
    ///
    /// # Errors
    /// Pins are enforced, and a change stops calls or the file cannot be used.
    pub(super) async fn check(
        &self,
        seen: SeenCards,
        now: SystemTime,
    ) -> Result<PinState, PinError> {
        let file = self.clone();
        let checked = files::blocking(move || Ok(file.check_now(&seen, unix(now)))).await;
        let checked = checked.unwrap_or_else(|error| Err(self.unusable(&error)));
        let is_enforced = self.mode == Pins::Enforce;
        match checked {
            Ok(state) if is_enforced && state.stops() => Err(PinError::Changed(Box::new(state))),
            Err(error) if is_enforced => Err(error),
            Ok(state) => Ok(state),
            Err(error) => {
                Ok(PinState {
                    problem: Some(error.to_string()),
                    // A directory that cannot be written is for the operator, whom `doctor` tells.
                    has_news: AtomicBool::new(self.path().exists()),
                    ..PinState::new(self, None, &SeenCards::default())
                })
            }
        }
    }

    fn check_now(&self, seen: &SeenCards, now: u64) -> Result<PinState, PinError> {
        let (mut record, is_own) = self.accepted(seen)?;
        if !is_own {
            let state = PinState::new(self, record, seen);
            if state.stops() {
                return Ok(state);
            }
            record = self.read()?;
        }
        let is_new = match &mut record {
            Some(record) => record.learn(seen, now),
            None => true,
        };
        if is_new {
            // Another process may have been first.
            let _alone = self.lock()?;
            let mut current = self
                .read()?
                .unwrap_or_else(|| self.record(seen, FIRST_USE, now));
            current.learn(seen, now);
            self.write(&current)?;
            record = Some(current);
        }
        Ok(PinState::new(self, record, seen))
    }

    /// Returns what cards are compared with, and whether all of it is from this file. A card that is new for a person is compared
    /// with that of the target, where that one has been accepted.
    fn accepted(&self, seen: &SeenCards) -> Result<(Option<Record>, bool), PinError> {
        let own = self.read()?;
        let has_all = match &own {
            None => false,
            Some(own) => own.extended.is_some() || seen.extended.is_none(),
        };
        if self.user.is_none() || has_all {
            return Ok((own, true));
        }
        let Some(shared) = self.for_user(None).read()? else {
            return Ok((own, true));
        };
        let compared = match own {
            Some(own) => Record {
                extended: shared.extended,
                ..own
            },
            None => Record {
                user: self.user.clone(),
                reported: Vec::new(),
                ..shared
            },
        };
        Ok((Some(compared), false))
    }

    /// Compares cards with the pins, and accepts nothing. A file that cannot be used is a problem of the state.
    pub(crate) fn review(&self, seen: &SeenCards) -> PinState {
        match self.accepted(seen) {
            Ok((record, _)) => PinState::new(self, record, seen),
            Err(error) => PinState {
                problem: Some(error.to_string()),
                ..PinState::new(self, None, seen)
            },
        }
    }

    /// Accepts cards on behalf of `by`. A file that is damaged is put aside; returns its new path.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn accept(
        &self,
        seen: &SeenCards,
        by: &str,
        now: SystemTime,
    ) -> Result<Option<PathBuf>, PinError> {
        let _alone = self.lock()?;
        let mut record = self.record(seen, by, unix(now));
        let mut aside = None;
        match self.read() {
            // An extended card that did not come is not accepted with this one.
            Ok(before) if record.extended.is_none() => {
                record.extended = before.and_then(|before| before.extended);
            }
            Ok(_) => {}
            Err(_) => {
                let path = files::with_suffix(&self.path(), ".damaged");
                fs::rename(self.path(), &path).map_err(|error| self.unusable(&error))?;
                aside = Some(path);
            }
        }
        self.write(&record)?;
        Ok(aside)
    }

    /// Remembers that changes were reported.
    fn remember(&self, ids: Vec<String>) -> Result<(), PinError> {
        let _alone = self.lock()?;
        let (Some(mut record), _) = self.accepted(&SeenCards::default())? else {
            return Ok(());
        };
        record.reported.retain(|known| !ids.contains(known));
        record.reported.extend(ids);
        let excess = record.reported.len().saturating_sub(MAX_REPORTED);
        record.reported.drain(..excess);
        self.write(&record)
    }

    fn record(&self, seen: &SeenCards, by: &str, now: u64) -> Record {
        Record {
            version: VERSION,
            alias: self.alias.clone(),
            user: self.user.clone(),
            public: Pin::new(&seen.public, by, now),
            extended: seen.extended.as_ref().map(|card| Pin::new(card, by, now)),
            reported: Vec::new(),
        }
    }

    /// Reads the pins; `None` if there are none.
    fn read(&self) -> Result<Option<Record>, PinError> {
        let text = match files::read_bounded(&self.path(), MAX_FILE_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.unusable(&error)),
            Ok(text) => text,
        };
        self.check_dir()?;
        let read: Result<Record, _> = serde_json::from_str(&text);
        let version = serde_json::from_str::<Value>(&text).map(|json| json["version"].as_u64());
        match (read, version) {
            (_, Ok(Some(version))) if version > u64::from(VERSION) => {
                Err(self.unusable(&"a newer version of the plugin wrote it; update this one"))
            }
            (Ok(record), _) if record.public.accepted_at >= END_OF_TIMES => {
                Err(self.unusable(&"it is damaged: its time is after the year 9999"))
            }
            (Ok(record), _) => Ok(Some(record)),
            (Err(error), _) => Err(self.unusable(&format_args!(
                "it is damaged from line {} column {} on",
                error.line(),
                error.column()
            ))),
        }
    }

    fn write(&self, record: &Record) -> Result<(), PinError> {
        let text = serde_json::to_string(record).map_err(|error| self.unusable(&error))?;
        let written = files::replace(&self.path(), &text);
        written.map_err(|error| self.unusable(&error))
    }

    fn lock(&self) -> Result<files::LockedFile, PinError> {
        files::create_private_dir(&self.dir).map_err(|error| self.unusable(&error))?;
        self.check_dir()?;
        let locked = files::lock_beside(&self.path(), LOCK_TIMEOUT);
        locked
            .map_err(|error| self.unusable(&error))?
            .ok_or_else(|| self.unusable(&"another process holds its lock"))
    }

    fn check_dir(&self) -> Result<(), PinError> {
        files::check_private_dir(&self.dir)
            .map_err(|cause| self.unusable(&format_args!("its directory {cause}")))
    }

    fn unusable(&self, cause: &dyn fmt::Display) -> PinError {
        PinError::Unusable(format!(
            "the pins of `{}` in `{}` cannot be used: {cause}. Mend that, or let `{} --accept` put the file aside and accept the card that the agent has now",
            self.alias.escape_debug(),
            self.path().display(),
            self.command()
        ))
    }
}

fn unix(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests;
