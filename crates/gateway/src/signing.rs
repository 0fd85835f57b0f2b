//! Signatures of messages (docs/reference/a2a-v1.md, "Signatures"): the keys of agents, replays, and the key of the gateway.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use serde_json::{Value, json};

use base::config::ConfigError;
use base::files;
use base::json::{self, Limits};
use base::jws::{KeySet, SigningKey};
use base::log::{Level, Log};
use collective::signature::{self, SIGNATURE_STATUS, SignatureError};
use collective::{Envelope, ErrorCode, Kind, SignatureStatus};

use super::config::{MAX_AGENT_KEYS, ServerConfig, SigningMode, message_keys};
use super::frames::RequestError;

/// The file with pinned keys, in the state directory.
const PIN_FILE: &str = "signing-pins.json";

/// The maximum size of that file, in bytes. A key has fewer than 300, and only configured agents have pins.
const MAX_PIN_FILE_BYTES: u64 = 16 << 20;

/// How old a signed message may be, and how far ahead its clock, in milliseconds.
const MAX_AGE_MS: u64 = 5 * 60 * 1000;
const MAX_AHEAD_MS: u64 = 60 * 1000;

/// The maximum number of remembered messages of one agent. Older ones than these are refused.
const MAX_RECENT: usize = 1024;

/// Verifies signatures of clients, and signs messages of the gateway.
pub(super) struct Signing {
    /// The mode of messages whose sender has none of its own; the greatest of all modes.
    default: SigningMode,
    greatest: SigningMode,
    requires_votes: bool,
    pins_first_use: bool,
    /// The modes of the configured agents.
    agents: HashMap<String, Option<SigningMode>>,
    keys: Mutex<Keys>,
    pin_file: PathBuf,
    own: Option<SigningKey>,
    /// Whether the log has the reason why messages of the gateway are not signed.
    is_reported: AtomicBool,
    recent: Mutex<HashMap<String, RecentMessages>>,
    started_at: u64,
}

/// The keys of agents, by name. Those of the configuration replace pinned ones.
struct Keys {
    configured: HashMap<String, KeySet>,
    pinned: BTreeMap<String, KeySet>,
}

impl Keys {
    fn get(&self, name: &str) -> Option<&KeySet> {
        self.configured.get(name).or_else(|| self.pinned.get(name))
    }
}

impl Signing {
    /// Reads the key of the gateway and the pinned keys. `now` is in milliseconds since 1970.
    ///
    /// # Errors
    /// A file cannot be used; the error has its JSON Pointer in the configuration.
    pub(super) fn load(config: &ServerConfig, now: u64) -> Result<Self, ConfigError> {
        let own = config.signing.key.as_ref().map(|source| {
            let key = SigningKey::read_for_messages(source, |name| std::env::var(name).ok());
            key.map_err(|error| ConfigError::at(format!("/signing/{}", source.member()), error))
        });
        let mut configured = HashMap::new();
        for (i, agent) in config.agents.iter().enumerate() {
            if !agent.keys.is_empty() {
                configured.insert(agent.name.clone(), message_keys(i, agent)?);
            }
        }
        let pin_file = config.state_dir.join(PIN_FILE);
        Ok(Self {
            default: config.signing.mode,
            greatest: config.greatest_signing_mode(),
            requires_votes: config.signing.require_votes,
            pins_first_use: config.signing.pin_first_use,
            agents: (config.agents.iter())
                .map(|agent| (agent.name.clone(), agent.signing))
                .collect(),
            keys: Mutex::new(Keys {
                configured,
                pinned: match config.greatest_signing_mode() {
                    SigningMode::Off => BTreeMap::new(),
                    _ => read_pins(&pin_file)
                        .map_err(|error| ConfigError::at("/signing/pinFirstUse", error))?,
                },
            }),
            pin_file,
            own: own.transpose()?,
            is_reported: AtomicBool::new(false),
            recent: Mutex::default(),
            started_at: now,
        })
    }

    /// Returns whether the gateway verifies any signatures.
    fn is_on(&self) -> bool {
        self.greatest != SigningMode::Off
    }

    fn mode(&self, from: &str, kind: Kind) -> SigningMode {
        if kind == Kind::Vote && self.requires_votes {
            return SigningMode::Require;
        }
        self.agents
            .get(from)
            .copied()
            .flatten()
            .unwrap_or(self.default)
    }

    /// Verifies the signature of a message in the form in which the gateway delivers it, and sets its status. `is_exempt` states
    /// whether the sender need not sign: an agent that the gateway itself runs, or one behind a link.
    ///
    /// # Errors
    /// 5002 if the sender must sign and the signature does not count.
    pub(super) fn check(
        &self,
        envelope: Envelope,
        is_exempt: bool,
        now: u64,
    ) -> Result<Envelope, RequestError> {
        if !self.is_on() {
            return Ok(envelope);
        }
        let from = envelope.from().unwrap_or_default();
        let mode = self.mode(from, envelope.kind());
        if mode == SigningMode::Off {
            return Ok(match envelope.metadata(SIGNATURE_STATUS) {
                Some(_) => envelope.with_metadata(SIGNATURE_STATUS, Value::Null),
                None => envelope,
            });
        }
        let status = match self.verify(&envelope, from, now) {
            Err(error) if mode == SigningMode::Require && !is_exempt => {
                return Err(refused(from, &error));
            }
            Err(error) => error.status,
            Ok(()) => SignatureStatus::Verified,
        };
        Ok(envelope.with_metadata(SIGNATURE_STATUS, status.as_str()))
    }

    fn verify(&self, envelope: &Envelope, from: &str, now: u64) -> Result<(), SignatureError> {
        let invalid = |reason: &'static str| SignatureError::invalid(reason);
        let keys = self.keys.lock().get(from).cloned();
        signature::verify(envelope, keys.as_ref())?;
        let (Some(id), Some(written)) = (envelope.id(), envelope.timestamp()) else {
            return Err(invalid("it has no id, or no time in `timestamp`"));
        };
        if written.saturating_add(MAX_AGE_MS) < now {
            return Err(invalid("it is older than five minutes"));
        }
        if written > now.saturating_add(MAX_AHEAD_MS) {
            return Err(invalid(
                "its `timestamp` is more than a minute ahead of the gateway's clock",
            ));
        }
        let mut recent = self.recent.lock();
        // Only agents with a known key get there, so their number is bounded.
        let recent = recent
            .entry(from.to_owned())
            .or_insert_with(|| RecentMessages::since(self.started_at));
        recent.insert(written, id, now).map_err(invalid)
    }

    /// Forgets a message that was refused after its verification, so that its sender may send it again unchanged.
    pub(super) fn forget(&self, envelope: &Envelope) {
        let status = envelope.metadata(SIGNATURE_STATUS).and_then(Value::as_str);
        if status != Some(SignatureStatus::Verified.as_str()) {
            return;
        }
        if let (Some(from), Some(id), Some(written)) =
            (envelope.from(), envelope.id(), envelope.timestamp())
            && let Some(recent) = self.recent.lock().get_mut(from)
        {
            recent.seen.remove(&(written, id.into()));
        }
    }

    /// Reads the keys that a client advertises; `None` without any.
    ///
    /// # Errors
    /// 2005 for unusable keys.
    pub(super) fn advertised(&self, content: &Value) -> Result<Option<KeySet>, RequestError> {
        let Some(keys) = content.get("keys").filter(|_| self.is_on()) else {
            return Ok(None);
        };
        let invalid = |message| RequestError::new(ErrorCode::InvalidContent, message);
        let Some(list) = keys.as_array().filter(|list| list.len() <= MAX_AGENT_KEYS) else {
            return Err(invalid(format!(
                "`content.keys` must be a list of at most {MAX_AGENT_KEYS} JSON Web Keys"
            )));
        };
        let keys = KeySet::of_messages(list)
            .map_err(|(i, fault)| invalid(format!("the key `content.keys[{i}]` {fault}")))?;
        Ok((!list.is_empty()).then_some(keys))
    }

    /// Checks that keys are those of the agents `names`. With `pins`, the first keys of a configured agent become its own, if the
    /// configuration allows that.
    ///
    /// # Errors
    /// 5002 if an agent has other keys, 3004 if the keys cannot be stored.
    pub(super) fn accept(
        &self,
        names: &[&str],
        keys: &KeySet,
        pins: bool,
    ) -> Result<(), RequestError> {
        let mut known = self.keys.lock();
        let differs = |name: &&&str| known.get(name).is_some_and(|own| !own.contains_all(keys));
        if let Some(name) = names.iter().find(differs) {
            let next = match known.configured.contains_key(*name) {
                true => "the gateway's operator can add it to `agents[].keys`".to_owned(),
                false => format!(
                    "the gateway's operator can remove the pinned one from `{PIN_FILE}` and start the gateway again"
                ),
            };
            let message =
                format!("`{name}` has another key, and this one was not accepted; {next}");
            return Err(RequestError::new(ErrorCode::AuthFailed, message));
        }
        let is_first = |name: &&&str| self.agents.contains_key(**name) && known.get(name).is_none();
        let first: Vec<&&str> = names.iter().filter(is_first).collect();
        if !pins || !self.pins_first_use || first.is_empty() {
            return Ok(());
        }
        let mut pinned = known.pinned.clone();
        pinned.extend(first.iter().map(|name| ((**name).to_owned(), keys.clone())));
        // At most once for each configured agent, so it may block the thread.
        write_pins(&self.pin_file, &pinned).map_err(|error| {
            let message = format!("cannot store the key of `{}`: {error}", first[0]);
            RequestError::new(ErrorCode::AgentError, message)
        })?;
        known.pinned = pinned;
        Ok(())
    }

    /// Adds to an acknowledgement whether the gateway sets the status of messages, and its own key.
    pub(super) fn introduce(&self, content: &mut Value) {
        if self.is_on() {
            content["signing"] = self.greatest.as_str().into();
        }
        if let Some(key) = &self.own {
            content["keys"] = json!([key.public_key()]);
        }
    }

    /// Signs a message of the gateway, if it has a key. A message that cannot be signed leaves unsigned, and its receiver decides.
    /// The log has the first one, and the first one after a signature.
    pub(super) fn sign(&self, envelope: Envelope, log: &dyn Log) -> Envelope {
        let Some(key) = &self.own else {
            return envelope;
        };
        match signature::sign(envelope.clone(), key) {
            Ok(signed) => {
                self.is_reported.store(false, Ordering::Relaxed);
                signed
            }
            Err(cause) => {
                if !self.is_reported.swap(true, Ordering::Relaxed) {
                    let kind = envelope.kind();
                    let line = format!(
                        "cannot sign a `{kind}` of the gateway: {cause}; it is sent unsigned"
                    );
                    log.log(Level::Warn, &line);
                }
                envelope
            }
        }
    }
}

fn refused(from: &str, error: &SignatureError) -> RequestError {
    let next = match error.status {
        SignatureStatus::UnknownKey => "the gateway's operator can add the key to `agents[].keys`",
        SignatureStatus::Unsigned => "sign it with a key that the gateway knows",
        _ => "sign it as the gateway delivers it, with `id`, `from` and `timestamp`",
    };
    let message = format!(
        "the gateway requires signatures of `{from}` and ignored this message: {}; {next}",
        error.reason
    );
    RequestError::new(ErrorCode::AuthFailed, message)
}

fn read_pins(path: &Path) -> Result<BTreeMap<String, KeySet>, String> {
    let unusable = |cause: String| {
        format!(
            "the pinned keys in `{}` cannot be used: {cause}; restore the file, or remove it to accept new keys",
            path.display()
        )
    };
    let text = match files::read_bounded(path, MAX_PIN_FILE_BYTES) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(BTreeMap::new()),
        read => read.map_err(|error| unusable(error.to_string()))?,
    };
    let all: BTreeMap<String, Vec<Value>> =
        json::from_str(&text, Limits::NONE).map_err(|error| unusable(error.to_string()))?;
    let read = |(name, keys): (String, Vec<Value>)| match KeySet::of_messages(&keys) {
        Ok(keys) => Ok((name, keys)),
        Err((i, fault)) => Err(unusable(format!("the key {i} of `{name}` {fault}"))),
    };
    all.into_iter().map(read).collect()
}

fn write_pins(path: &Path, pinned: &BTreeMap<String, KeySet>) -> std::io::Result<()> {
    let all: BTreeMap<&String, Vec<Value>> = pinned
        .iter()
        .map(|(name, keys)| (name, keys.public_keys()))
        .collect();
    if let Some(dir) = path.parent() {
        files::create_private_dir(dir)?;
    }
    files::replace_private(path, &json!(all).to_string())
}

/// The recent verified messages of one agent.
struct RecentMessages {
    /// The oldest accepted time, in milliseconds since 1970.
    since: u64,
    seen: BTreeSet<(u64, Box<str>)>,
}

impl RecentMessages {
    /// Creates a memory without messages. Those before `since` may have been accepted before a restart.
    fn since(since: u64) -> Self {
        Self {
            since,
            seen: BTreeSet::new(),
        }
    }

    /// Adds a message.
    ///
    /// # Errors
    /// The message was accepted before, or is too old to know.
    fn insert(&mut self, written: u64, id: &str, now: u64) -> Result<(), &'static str> {
        if written < self.since {
            return Err(
                "it is older than the start of the gateway, or than a thousand newer messages of its sender",
            );
        }
        if !self.seen.insert((written, id.into())) {
            return Err("it was accepted before");
        }
        let expired = now.saturating_sub(MAX_AGE_MS);
        while let Some((oldest, _)) = self.seen.first()
            && (self.seen.len() > MAX_RECENT || *oldest < expired)
        {
            self.since = self.since.max(oldest + 1);
            self.seen.pop_first();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
