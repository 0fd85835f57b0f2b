//! Reads bodies within a budget of bytes: a total, and a share of each client.
//!
//! A body counts for the room it takes: the count grows as bytes arrive, and falls when the bytes are dropped, which is once
//! they are parsed. A body that is announced and does not arrive counts for nothing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::{Body, Bytes};
use http_body_util::BodyExt as _;

use super::rate::Payer;
use crate::refusal::{A2aError, ErrorReason};

/// The room that a body begins with, in bytes; it doubles from there.
const FIRST_CAPACITY: usize = 8 << 10;

/// After so many seconds a client may try again.
const RETRY_AFTER_S: u64 = 1;

/// The room that all bodies take.
#[derive(Debug)]
pub(super) struct BodyBudget {
    taken: Mutex<Taken>,
    total: usize,
    per_client: usize,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    clients: HashMap<Payer, usize>,
}

impl BodyBudget {
    /// Room for `total` bytes, and for `per_client` bytes of one client.
    pub(super) fn new(total: usize, per_client: usize) -> Arc<Self> {
        Arc::new(Self {
            taken: Mutex::default(),
            total,
            per_client: per_client.min(total),
        })
    }

    /// Reads a body of at most `limit` bytes. The bytes keep their room until they are dropped.
    ///
    /// # Errors
    /// It is larger, there is no room for it, or it does not arrive whole.
    pub(super) async fn read(
        self: &Arc<Self>,
        client: Payer,
        mut body: Body,
        limit: usize,
    ) -> Result<Bytes, A2aError> {
        let mut read = BudgetedBytes {
            bytes: Vec::new(),
            reservation: Reservation {
                budget: Arc::clone(self),
                client,
                bytes: 0,
            },
        };
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| {
                let text = "the body did not arrive whole; send it again";
                A2aError::new(ErrorReason::InvalidRequest, text)
            })?;
            if let Some(data) = frame.data_ref() {
                read.extend(data, limit)?;
            }
        }
        Ok(Bytes::from_owner(read))
    }

    fn locked(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What has been read of a body, and its room.
struct BudgetedBytes {
    bytes: Vec<u8>,
    reservation: Reservation,
}

impl BudgetedBytes {
    fn extend(&mut self, data: &[u8], limit: usize) -> Result<(), A2aError> {
        let length = self.bytes.len() + data.len();
        if length > limit {
            return Err(too_large(limit));
        }
        let capacity = self.bytes.capacity();
        if length > capacity {
            let wanted = length.max(2 * capacity).max(FIRST_CAPACITY).min(limit);
            self.reservation.grow(wanted)?;
            self.bytes.reserve_exact(wanted - self.bytes.len());
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }
}

impl AsRef<[u8]> for BudgetedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A body is larger than it may be.
pub(super) fn too_large(limit: usize) -> A2aError {
    let text = format!("the body is larger than {limit} bytes; send less");
    A2aError::new(ErrorReason::PayloadTooLarge, text)
}

/// Room that a body has. Dropping it gives the room back.
struct Reservation {
    budget: Arc<BodyBudget>,
    client: Payer,
    bytes: usize,
}

impl Reservation {
    fn grow(&mut self, bytes: usize) -> Result<(), A2aError> {
        let budget = &self.budget;
        let more = bytes.saturating_sub(self.bytes);
        let mut taken = budget.locked();
        let of_client = taken.clients.get(&self.client).copied().unwrap_or(0);
        let refused = |reason, text| {
            let mut refusal = A2aError::new(reason, text);
            refusal.retry_after_s = Some(RETRY_AFTER_S);
            Err(refusal)
        };
        if of_client + more > budget.per_client {
            let text = format!(
                "the bodies of your requests have the {} bytes that one client may have at a time; send fewer at a time",
                budget.per_client
            );
            return refused(ErrorReason::ResourceExhausted, text);
        }
        if taken.all + more > budget.total {
            let text = "the server reads as many bodies as it has room for; ask again in a moment";
            return refused(ErrorReason::Unavailable, text.to_owned());
        }
        taken.all += more;
        taken.clients.insert(self.client.clone(), of_client + more);
        self.bytes += more;
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut taken = self.budget.locked();
        taken.all -= self.bytes;
        if let Some(of_client) = taken.clients.get_mut(&self.client) {
            *of_client -= self.bytes;
            if *of_client == 0 {
                taken.clients.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests;
