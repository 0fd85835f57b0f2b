//! The pins of a target of a configuration, for an operator: what was accepted of its cards, what differs now, and the acceptance.
//! The state `PinState` of a call is the same without the request for the cards.

use std::mem;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use a2a::card_fields::CardSigner;
use base::environment::SystemEnvironment;
use serde_json::{Value, json};

use crate::config::{Config, ConfigError};
use crate::plugin::{Plugin, network, peers};
use crate::remote_agent::ToolError;
use crate::targets::{
    CardCache, CardChange, CardError, Catalog, PinFile, PinState, SeenCards, for_user,
};

/// How long an agent may take for its card.
const CARD_TIMEOUT: Duration = Duration::from_secs(30);

/// Why the pins cannot be shown.
#[derive(Debug)]
pub enum PinReviewError {
    /// The configuration is invalid.
    Config(ConfigError),
    /// No such target can be chosen; a sentence.
    Target(String),
    /// The target has no pins; a sentence.
    Unpinned(String),
    /// The card cannot be accepted; a sentence.
    Refused(String),
    /// The cards of the agent cannot be read.
    Card(ToolError),
}

impl From<ConfigError> for PinReviewError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

/// The pins of a target, and the cards that it has now.
pub struct PinReview {
    /// What was accepted, and what differs.
    pub state: PinState,
    /// The alias of the target.
    pub alias: String,
    /// What differed before the card was accepted; `None` unless it was.
    pub accepted: Option<Vec<CardChange>>,
    file: PinFile,
    seen: SeenCards,
}

impl PinReview {
    /// Reads the cards of the target `alias`, or of the only one with pins, as `user` sees them, and compares them with the pins.
    /// Accepts nothing.
    ///
    /// # Errors
    /// The configuration is invalid, the target has no pins, or its card cannot be read.
    pub async fn open(
        config_json: &str,
        alias: Option<&str>,
        user: Option<&str>,
    ) -> Result<Self, PinReviewError> {
        let config = Config::parse(config_json)?;
        let net = Arc::new(network(&config)?);
        let catalog = Catalog::new(&config)?;
        let env = Arc::new(SystemEnvironment);
        let cards = CardCache::new(peers(&config, net), env, CARD_TIMEOUT, 1);
        Self::find(&catalog, &cards, alias, user).await
    }

    /// Does what [`open`](Self::open) does, with the targets of an instance.
    ///
    /// # Errors
    /// The target has no pins, or its card cannot be read.
    pub(crate) async fn in_plugin(
        plugin: &Plugin,
        alias: Option<&str>,
        user: Option<&str>,
    ) -> Result<Self, PinReviewError> {
        let (catalog, cards) = plugin.targets();
        Self::find(catalog, cards, alias, user).await
    }

    /// Does what [`open`](Self::open) does, with targets that are known.
    ///
    /// # Errors
    /// The target has no pins, or its card cannot be read.
    async fn find(
        catalog: &Catalog,
        cards: &CardCache,
        alias: Option<&str>,
        user: Option<&str>,
    ) -> Result<Self, PinReviewError> {
        let mut all = catalog.targets().iter().filter(|target| match alias {
            Some(alias) => target.alias.as_deref() == Some(alias),
            None => target.pins.is_some(),
        });
        let target = match (all.next(), all.next(), alias) {
            (Some(target), None, _) => for_user(target, user),
            (_, _, Some(alias)) => {
                let message = format!("no target is named `{}`", alias.escape_debug());
                return Err(PinReviewError::Target(message));
            }
            (_, _, None) => {
                let message = "name a target: not exactly one of them has pins".to_owned();
                return Err(PinReviewError::Target(message));
            }
        };
        let alias = target.alias.clone().unwrap_or_default();
        let Some(file) = target.pins.clone() else {
            let message = format!(
                "`{}` has no pins: set `pins` of the target to `report` or `enforce`",
                alias.escape_debug()
            );
            return Err(PinReviewError::Unpinned(message));
        };
        if let Some(reference) = &target.unresolved {
            let message = format!("the secret `{reference}` of `{alias}` has no value");
            return Err(PinReviewError::Target(message));
        }
        let seen = cards.read(&target, CARD_TIMEOUT).await;
        let seen = seen.map_err(|error| PinReviewError::Card(CardError::Peer(error).into()))?;
        Ok(Self {
            state: file.review(&seen),
            alias,
            accepted: None,
            file,
            seen,
        })
    }

    /// Returns who signed the card that the agent has now.
    pub fn signers(&self) -> &[CardSigner] {
        self.seen.signers()
    }

    /// Returns the file of the pins.
    pub fn path(&self) -> PathBuf {
        self.file.path()
    }

    /// Returns what stands for the cards that the agent has now.
    pub fn fingerprint(&self) -> String {
        self.seen.fingerprint()
    }

    /// Accepts the cards that were compared, on behalf of `by`, if they have this fingerprint. Returns the new path of a file that
    /// was damaged.
    ///
    /// # Errors
    /// They have another fingerprint, or the file cannot be written.
    pub fn accept(
        &mut self,
        by: &str,
        fingerprint: Option<&str>,
    ) -> Result<Option<PathBuf>, PinReviewError> {
        let present = self.fingerprint();
        if fingerprint.is_some_and(|expected| expected != present) {
            return Err(PinReviewError::Refused(format!(
                "the card that `{}` has now is another one, with the fingerprint {present}; nothing was accepted. Look at it with `--diff`, then accept that fingerprint",
                self.alias.escape_debug()
            )));
        }
        let accepted = self.file.accept(&self.seen, by, SystemTime::now());
        let aside = accepted.map_err(|error| PinReviewError::Refused(error.to_string()))?;
        let before = mem::replace(&mut self.state, self.file.review(&self.seen));
        self.accepted = Some(before.changes);
        Ok(aside)
    }

    /// Returns the pins as JSON, and accepts the card if it is on behalf of someone.
    ///
    /// # Errors
    /// As [`accept`](Self::accept).
    pub(crate) fn answer(
        &mut self,
        accept: Option<&str>,
        fingerprint: Option<&str>,
    ) -> Result<Value, PinReviewError> {
        let aside = match accept {
            Some(by) => self.accept(by, fingerprint)?,
            None => None,
        };
        let mut shown = self.to_json();
        if let Some(aside) = aside {
            shown["damaged"] = aside.display().to_string().into();
        }
        Ok(shown)
    }

    /// Returns the pins as JSON: their file, what was accepted and when, the signers, and every difference, for an operator and no
    /// model. After an acceptance they are those after it.
    pub fn to_json(&self) -> Value {
        let mut shown = self.state.to_json();
        if let Some(members) = shown.as_object_mut() {
            members.remove("more_changes");
        }
        let all = [
            (
                "changes",
                Some(&self.state.changes).filter(|all| !all.is_empty()),
            ),
            ("accepted_changes", self.accepted.as_ref()),
        ];
        for (name, changes) in all {
            if let Some(changes) = changes {
                shown[name] = changes.iter().map(CardChange::to_json).collect();
            }
        }
        shown["fingerprint"] = self.fingerprint().into();
        shown["target"] = self.alias.clone().into();
        if self.state.accepted_at.is_some() {
            shown["accepted_by"] = self.state.accepted_by.clone().into();
        }
        shown["stops"] = self.state.stops().into();
        shown["path"] = self.path().display().to_string().into();
        shown["signers"] = json!(self.signers());
        shown
    }
}
