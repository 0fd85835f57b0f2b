//! Parsers that need no connection.

use std::time::Duration;

use base::jws::{KeySet, Signature};
use collective::{Envelope, validate};
use openclaw_remote_agent::http_api::{ApiRequest, Route};
use serde_json::Value;

/// Parses a frame of `a2a-v1`. A valid frame must survive serialization and another parse.
pub(crate) fn collective_frame(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(envelope) = Envelope::parse(text) else {
        return;
    };
    let _ = validate(&envelope);
    let written = envelope.to_text();
    let again = Envelope::parse(&written).expect("what was written parses");
    assert_eq!(again.to_text(), written);
}

/// Verifies a signature. The input is three lines: a key set, a signature and the signed payload.
pub(crate) fn jws(data: &[u8]) {
    let mut parts = data.splitn(3, |byte| *byte == b'\n');
    let keys = KeySet::parse(parts.next().unwrap_or_default());
    let signature = serde_json::from_slice::<Value>(parts.next().unwrap_or_default());
    let (Ok(keys), Ok(signature)) = (keys, signature) else {
        return;
    };
    if let Ok(signature) = Signature::read(&signature) {
        let _ = signature.key_id();
        let _ = signature.keys_url();
        let _ = signature.verify(&keys, parts.next().unwrap_or_default());
    }
}

/// Parses a request body of the HTTP API, on both routes: no panic. The type of an error admits the known codes only.
pub(crate) fn api_request(data: &[u8]) {
    for route in [Route::Read, Route::Write] {
        let _ = ApiRequest::parse(route, data, Duration::from_secs(1));
    }
}
