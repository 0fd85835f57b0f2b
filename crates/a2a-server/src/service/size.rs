//! The size of values as JSON.

use std::io;

use serde::Serialize;

/// Returns the length of a value as JSON, in bytes.
pub(crate) fn json_bytes(value: &impl Serialize) -> usize {
    let mut counted = ByteCounter(0);
    // A value that JSON cannot express counts only in part. The store rejects it later.
    let _ = serde_json::to_writer(&mut counted, value);
    counted.0
}

struct ByteCounter(usize);

impl io::Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
