//! The key with which a client of a gateway signs its messages (docs/reference/a2a-v1.md, "Signatures").

use std::sync::Arc;

use base::jws::SigningKey;
use base::key_source::KeySource;
use collective::signature::{self, SIGNATURE_STATUS};
use collective::{Envelope, Kind};
use serde_json::{Value, json};

/// The types of messages that a gateway delivers. It keeps the others, so their signature would have no reader.
const DELIVERED: [Kind; 8] = [
    Kind::Message,
    Kind::Status,
    Kind::Error,
    Kind::Proposal,
    Kind::Vote,
    Kind::Request,
    Kind::Response,
    Kind::Broadcast,
];

/// The name and the key of a client that signs its messages. `Debug` omits the key.
#[derive(Debug, Clone)]
pub struct Signer {
    name: String,
    key: Arc<SigningKey>,
}

impl Signer {
    /// Reads the key of the client that a gateway knows as `name` (PEM: Ed25519 or ECDSA on P-256). `variable` returns the value
    /// of an environment variable.
    ///
    /// # Errors
    /// There is no such key, or other users can read its file; a sentence without a full stop.
    pub fn read(
        name: &str,
        source: &KeySource,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        Ok(Self {
            name: name.to_owned(),
            key: Arc::new(SigningKey::read_for_messages(source, variable)?),
        })
    }

    /// Returns the name as which a gateway knows the client.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Signs a message with `id` and `timestamp`, if a gateway delivers its type.
    ///
    /// # Errors
    /// The message cannot be signed; a clause about the message.
    pub(crate) fn sign(&self, envelope: Envelope) -> Result<Envelope, String> {
        match DELIVERED.contains(&envelope.kind()) {
            true => signature::sign(envelope.with("from", &*self.name), &self.key),
            false => Ok(envelope),
        }
    }

    /// Returns the public keys for a handshake.
    pub(crate) fn public_keys(&self) -> Value {
        json!([self.key.public_key()])
    }
}

/// Returns whether a gateway sets the status of signatures itself. Otherwise the status is a text of the sender.
pub(crate) fn marks_signatures(acknowledgement: &Envelope) -> bool {
    acknowledgement.content_str("signing").is_some()
}

/// Removes a status that the gateway did not set.
pub(crate) fn without_foreign_mark(envelope: Envelope, marks: bool) -> Envelope {
    match !marks && envelope.metadata(SIGNATURE_STATUS).is_some() {
        true => envelope.with_metadata(SIGNATURE_STATUS, Value::Null),
        false => envelope,
    }
}
