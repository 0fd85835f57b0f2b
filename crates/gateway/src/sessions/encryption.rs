//! Encryption of session files ("Encryption at rest for session data", Heretek A2A §13.3).
//!
//! A line is encrypted with AES-256-GCM and a key that HKDF derives for its session, so that a line of another session or
//! workspace does not decrypt. The associated data has the number of the line, so that lines cannot be moved, repeated or
//! removed between others. `docs/reference/gateway.md` ("Encrypted sessions") specifies the format.

use std::borrow::Cow;
use std::sync::Arc;
use std::{fmt, io};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::digest::{Context, SHA256};
use ring::error::Unspecified;
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::{SecureRandom as _, SystemRandom};
use secrecy::{ExposeSecret as _, SecretSlice, SecretString};
use serde::{Deserialize, Serialize};

use super::SessionKey;
use super::line::{Entry, Event, Line, MAX_LINE_BYTES, NewLine, parse_entry};
use crate::config::EncryptionConfig;
use base::config::ConfigError;
use base::named;

const KEY_BYTES: usize = 32;

/// Fewer different bytes are no random key: 32 random bytes have so few once in 10^13 keys.
const MIN_DIFFERENT_BYTES: usize = 17;

const MAX_KEY_FILE_BYTES: u64 = 1024;

/// The beginning of what a key id is the hash of.
const KEY_ID_LABEL: &[u8] = b"a2a-v1 session key id\0";

/// The beginning of what a session's key is derived from.
const SESSION_LABEL: &[u8] = b"a2a-v1 session key\0";

/// The maximum length of an encrypted line without `data` and the ids of session and message.
const OVERHEAD_BYTES: usize = 160;

/// Identifies a key: the first 8 bytes of a hash over the key. It is derived, so that no key needs a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyId(u64);

impl KeyId {
    /// Parses an id as [`Display`](fmt::Display) writes it.
    fn parse(text: &str) -> Option<Self> {
        let id = Self(u64::from_str_radix(text, 16).ok()?);
        (id.to_string() == text).then_some(id)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The keys of `sessions.encryption`. The first one encrypts, all of them decrypt. `Debug` omits the keys themselves, and
/// dropping zeroes them.
#[derive(Debug)]
pub struct EncryptionKeys(Vec<EncryptionKey>);

struct EncryptionKey {
    id: KeyId,
    bytes: SecretSlice<u8>,
}

base::debug_fields!(self: EncryptionKey { id });

impl EncryptionKeys {
    /// Reads the keys. `variable` returns the value of an environment variable.
    ///
    /// # Errors
    /// A key is missing, weak or repeated, or other users can read its file. The error has its place in the configuration.
    pub fn load(
        config: &EncryptionConfig,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let mut keys: Vec<EncryptionKey> = Vec::new();
        for (i, source) in config.keys.iter().enumerate() {
            let text = source.read(MAX_KEY_FILE_BYTES, &variable);
            let key = text.and_then(|text| EncryptionKey::parse(&text));
            let key = key.and_then(|key| match keys.iter().any(|known| known.id == key.id) {
                true => Err(format!(
                    "the key `{}` is in the list twice; remove one",
                    key.id
                )),
                false => Ok(key),
            });
            let place = format!("/sessions/encryption/keys/{i}/{}", source.member());
            keys.push(key.map_err(|message| ConfigError::at(place, message))?);
        }
        Ok(Self(keys))
    }

    pub(super) fn contains(&self, id: KeyId) -> bool {
        self.0.iter().any(|key| key.id == id)
    }

    /// Returns whether new lines are encrypted with this key.
    pub(super) fn is_first(&self, id: KeyId) -> bool {
        self.0.first().is_some_and(|key| key.id == id)
    }
}

impl EncryptionKey {
    /// Parses a key: 32 random bytes in base64url without padding.
    fn parse(text: &SecretString) -> Result<Self, String> {
        let make = "`head -c 32 /dev/urandom | base64 | tr '+/' '-_' | tr -d '='` prints one";
        let bytes = URL_SAFE_NO_PAD.decode(text.expose_secret().trim());
        let bytes =
            bytes.map_err(|_| format!("a key is 32 bytes in base64url without padding; {make}"))?;
        let bytes = SecretSlice::from(bytes);
        let key = bytes.expose_secret();
        if key.len() != KEY_BYTES {
            let found = key.len();
            return Err(format!("the key has {found} bytes instead of 32; {make}"));
        }
        let is_new = |(i, byte): &(usize, &u8)| !key.iter().take(*i).any(|other| other == *byte);
        if key.iter().enumerate().filter(is_new).count() < MIN_DIFFERENT_BYTES {
            return Err(format!("the key is not random; {make}"));
        }
        let mut hash = Context::new(&SHA256);
        hash.update(KEY_ID_LABEL);
        hash.update(key);
        let hash = hash.finish();
        let first = hash.as_ref().iter().take(8);
        let id = KeyId(first.fold(0, |id, byte| id << 8 | u64::from(*byte)));
        Ok(Self { id, bytes })
    }

    /// Derives the key of a session. Names and ids contain no zero byte, so no two sessions share a key.
    fn derive(&self, session: &SessionKey) -> Result<LessSafeKey, Unspecified> {
        let secret = Salt::new(HKDF_SHA256, &[]).extract(self.bytes.expose_secret());
        let (agent, session) = (session.agent.as_bytes(), session.session.as_bytes());
        let info = [SESSION_LABEL, agent, b"\0", session];
        let derived = secret.expand(&info, &AES_256_GCM)?;
        Ok(LessSafeKey::new(UnboundKey::from(derived)))
    }
}

/// An encrypted line. Its members beside `enc` are copies of those of the plain line, and authenticated.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct EncryptedLine<'a> {
    pub(super) timestamp: u64,
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    session_id: Cow<'a, str>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    event: Option<Cow<'a, str>>,
    #[serde(borrow)]
    enc: Encrypted<'a>,
}

/// The values of `enc`, none of which needs an escape in JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Encrypted<'a> {
    kid: &'a str,
    nonce: &'a str,
    data: &'a str,
}

impl<'a> EncryptedLine<'a> {
    /// Parses a line of a session with the id of its key, or returns `None` for a damaged one.
    pub(super) fn parse(bytes: &'a [u8], session: &str) -> Option<(Self, KeyId)> {
        let line: Self = serde_json::from_slice(bytes).ok()?;
        let id = KeyId::parse(line.enc.kid)?;
        (line.session_id == session).then_some((line, id))
    }

    pub(super) fn event(&self) -> Option<Event> {
        let event = self.event.as_deref();
        event.map(|name| Event::from_name(name).unwrap_or(Event::Unknown))
    }

    /// Returns what is authenticated beside the plain line. The id is last, because it may contain line ends. Workspace,
    /// session and key id determine the key.
    fn associated_data(&self, number: u64) -> Aad<String> {
        let event = self.event.as_deref().unwrap_or_default();
        Aad::from(format!(
            "{number}\n{}\n{event}\n{}",
            self.timestamp, self.id
        ))
    }
}

named! {
    /// How the lines of a session file are stored. All lines of a file have the same form.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum Form {
        /// As entries.
        #[default]
        Plain = "plain",
        /// Encrypted, each line by itself.
        Encrypted = "encrypted",
    }
}

/// Why a line cannot be decoded.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DecodeError {
    Damaged,
    MissingKey(KeyId),
}

/// Encodes and decodes the lines of one session file, one after the other.
pub(super) struct LineCodec {
    keys: Option<Arc<EncryptionKeys>>,
    session: SessionKey,
    form: Form,
    /// The number of lines so far.
    lines: u64,
    /// The session's key of the last line.
    current: Option<(KeyId, LessSafeKey)>,
}

impl LineCodec {
    /// Creates a codec for the lines after the first `lines` of a file.
    pub(super) fn new(
        keys: Option<Arc<EncryptionKeys>>,
        session: SessionKey,
        form: Form,
        lines: u64,
    ) -> Self {
        let current = None;
        Self {
            keys,
            session,
            form,
            lines,
            current,
        }
    }

    /// Encodes the next line, with its line end.
    ///
    /// # Errors
    /// There is no key, or the system has no random numbers.
    pub(super) fn encode<'a>(&mut self, line: &'a NewLine) -> io::Result<Cow<'a, [u8]>> {
        if self.form == Form::Plain {
            return Ok(Cow::Borrowed(&line.bytes));
        }
        let mut nonce = [0; NONCE_LEN];
        let random = SystemRandom::new().fill(&mut nonce);
        random.map_err(|_| io::Error::other("the system has no random numbers"))?;
        let encrypted = self.encrypt(line, nonce).ok_or_else(|| {
            io::Error::other("there is no key to encrypt it; set `sessions.encryption`")
        })?;
        match encrypted.len() > MAX_LINE_BYTES {
            true => Err(io::Error::other("a line is too long to be encrypted")),
            false => Ok(Cow::Owned(encrypted)),
        }
    }

    /// Encrypts the next line with this nonce.
    pub(super) fn encrypt(&mut self, line: &NewLine, nonce: [u8; NONCE_LEN]) -> Option<Vec<u8>> {
        let first = self.keys.as_ref()?.0.first()?.id;
        let mut data = line.bytes.trim_ascii_end().to_vec();
        let number = self.lines + 1;
        let (kid, base64_nonce) = (first.to_string(), URL_SAFE_NO_PAD.encode(nonce));
        let mut encrypted = EncryptedLine {
            timestamp: line.time,
            id: line.id.as_str().into(),
            session_id: self.session.session.clone().into(),
            event: line.event.map(|event| event.as_str().into()),
            enc: Encrypted {
                kid: &kid,
                nonce: &base64_nonce,
                data: "",
            },
        };
        let nonce = Nonce::assume_unique_for_key(nonce);
        let associated = encrypted.associated_data(number);
        let key = self.key(first).ok()?;
        key.seal_in_place_append_tag(nonce, associated, &mut data)
            .ok()?;
        let data = URL_SAFE_NO_PAD.encode(data);
        encrypted.enc.data = &data;
        let mut bytes = serde_json::to_vec(&encrypted).ok()?;
        bytes.push(b'\n');
        self.lines = number;
        Some(bytes)
    }

    /// Decodes the next line to its entry and its plain bytes without line end.
    pub(super) fn decode<'a>(
        &mut self,
        line: &Line<'a>,
    ) -> Result<(Entry<'static>, Cow<'a, [u8]>), DecodeError> {
        self.lines += 1;
        if self.form == Form::Plain {
            let entry = line.parse(&self.session.session);
            let entry = entry.ok_or(DecodeError::Damaged)?;
            return Ok((entry, Cow::Borrowed(line.bytes.trim_ascii())));
        }
        let encrypted = EncryptedLine::parse(line.bytes, &self.session.session);
        let (encrypted, id) = encrypted.ok_or(DecodeError::Damaged)?;
        let associated = encrypted.associated_data(self.lines);
        let key = self.key(id)?;
        let open = || {
            let nonce = URL_SAFE_NO_PAD.decode(encrypted.enc.nonce).ok()?;
            let nonce = Nonce::try_assume_unique_for_key(&nonce).ok()?;
            let mut data = URL_SAFE_NO_PAD.decode(encrypted.enc.data).ok()?;
            let length = key.open_in_place(nonce, associated, &mut data).ok()?.len();
            data.truncate(length);
            Some(data)
        };
        let bytes = open().ok_or(DecodeError::Damaged)?;
        let entry = parse_entry(&bytes, &self.session.session).filter(|entry| {
            entry.timestamp == encrypted.timestamp
                && entry.id == encrypted.id
                && entry.event == encrypted.event()
        });
        Ok((entry.ok_or(DecodeError::Damaged)?, Cow::Owned(bytes)))
    }

    fn key(&mut self, id: KeyId) -> Result<&LessSafeKey, DecodeError> {
        if self.current.as_ref().is_none_or(|(known, _)| *known != id) {
            let mut keys = self.keys.iter().flat_map(|keys| &keys.0);
            let key = keys.find(|key| key.id == id);
            let key = key.ok_or(DecodeError::MissingKey(id))?;
            let derived = key.derive(&self.session);
            self.current = Some((id, derived.map_err(|_| DecodeError::Damaged)?));
        }
        let current = self.current.as_ref().map(|(_, key)| key);
        current.ok_or(DecodeError::MissingKey(id))
    }
}

/// Returns the maximum length of a line once it is encrypted.
pub(super) fn max_encrypted_bytes(session: &str, line: &NewLine) -> usize {
    let data = line.bytes.len() + AES_256_GCM.tag_len();
    let json_bytes = |text: &str| serde_json::to_vec(text).map_or(0, |json| json.len());
    data.div_ceil(3) * 4 + json_bytes(session) + json_bytes(&line.id) + OVERHEAD_BYTES
}
