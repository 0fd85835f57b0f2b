//! A budget of bytes in memory, with a total and a share for each client.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

use crate::rate_limit::RateLimitKey;

/// Limits the bytes in memory, for all clients together and for each client.
#[derive(Debug)]
pub struct ByteBudget {
    taken: Mutex<UsedBytes>,
    total: usize,
    per_client: usize,
}

#[derive(Debug, Default)]
struct UsedBytes {
    all: usize,
    clients: HashMap<RateLimitKey, usize>,
}

/// An error of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetError {
    /// The reservation would exceed the client's share, which is this many bytes.
    Client(usize),
    /// The reservation would exceed the total of all clients.
    Total,
}

impl ByteBudget {
    /// Creates a budget of `total` bytes, of which each client may use `per_client` bytes.
    pub fn new(total: usize, per_client: usize) -> Arc<Self> {
        Arc::new(Self {
            taken: Mutex::default(),
            total,
            per_client: per_client.min(total),
        })
    }

    /// Returns a reservation of zero bytes, which can grow.
    pub fn empty(self: &Arc<Self>, client: RateLimitKey) -> Reservation {
        Reservation {
            budget: Arc::clone(self),
            client,
            bytes: 0,
        }
    }

    /// Reserves `bytes` that are already in memory. The first reservation of a client and the first of all clients
    /// always succeed, whatever their size. Otherwise a body larger than the budget could never be sent.
    ///
    /// # Errors
    /// The bytes exceed the share of the client or the total.
    pub fn reserve(
        self: &Arc<Self>,
        client: RateLimitKey,
        bytes: usize,
    ) -> Result<Reservation, BudgetError> {
        let mut reservation = self.empty(client);
        let is_first = |taken: usize| taken == 0;
        reservation.add(bytes, is_first)?;
        Ok(reservation)
    }

    /// Returns the number of reserved bytes.
    #[cfg(test)]
    pub(crate) fn reserved(&self) -> usize {
        self.taken.lock().all
    }
}

/// Reserved bytes. Dropping it releases them.
#[derive(Debug)]
pub struct Reservation {
    budget: Arc<ByteBudget>,
    client: RateLimitKey,
    bytes: usize,
}

impl Reservation {
    /// Grows the reservation to `bytes`.
    ///
    /// # Errors
    /// The bytes exceed the share of the client or the total. The reservation is then unchanged.
    pub fn grow(&mut self, bytes: usize) -> Result<(), BudgetError> {
        self.add(bytes.saturating_sub(self.bytes), |_| false)
    }

    /// Returns a reservation of `bytes`. Splits it off from this one if this one is large enough. Otherwise creates a
    /// new reservation for the same client.
    ///
    /// # Errors
    /// The same errors as [`ByteBudget::reserve`].
    pub fn split_off_or_reserve(&mut self, bytes: usize) -> Result<Self, BudgetError> {
        if bytes > self.bytes {
            return self.budget.reserve(self.client.clone(), bytes);
        }
        self.bytes -= bytes;
        Ok(Self {
            budget: Arc::clone(&self.budget),
            client: self.client.clone(),
            bytes,
        })
    }

    /// Adds `more` bytes. `always_fit` receives the number of reserved bytes and returns whether to ignore the limit.
    fn add(&mut self, more: usize, always_fit: impl Fn(usize) -> bool) -> Result<(), BudgetError> {
        let budget = &self.budget;
        let mut taken = budget.taken.lock();
        let of_client = taken.clients.get(&self.client).copied().unwrap_or(0);
        let exceeds =
            |taken: usize, limit| !always_fit(taken) && taken.saturating_add(more) > limit;
        if exceeds(of_client, budget.per_client) {
            return Err(BudgetError::Client(budget.per_client));
        }
        if exceeds(taken.all, budget.total) {
            return Err(BudgetError::Total);
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
        let mut taken = self.budget.taken.lock();
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
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn client(name: &str) -> RateLimitKey {
        RateLimitKey::Client(name.into())
    }

    #[test]
    fn rejects_beyond_share_and_total() {
        let budget = ByteBudget::new(50, 40);
        let mut ada = budget.empty(client("ada"));
        assert_eq!(ada.grow(40), Ok(()));
        assert_eq!(ada.grow(41), Err(BudgetError::Client(40)));
        let mut bob = budget.empty(client("bob"));
        assert_eq!(bob.grow(11), Err(BudgetError::Total));
        assert_eq!(bob.grow(10), Ok(()));
        drop((ada, bob));
        assert_eq!(budget.taken.lock().all, 0);
        assert!(budget.taken.lock().clients.is_empty());
    }

    #[test]
    fn first_reservation_always_fits() {
        let budget = ByteBudget::new(50, 40);
        let large = budget.reserve(client("ada"), 100);
        assert!(large.is_ok());
        assert_eq!(
            budget.reserve(client("ada"), 1).err(),
            Some(BudgetError::Client(40))
        );
        assert_eq!(
            budget.reserve(client("bob"), 1).err(),
            Some(BudgetError::Total)
        );
        drop(large);
        assert!(budget.reserve(client("bob"), 1).is_ok());
    }

    #[test]
    fn split_reservation_releases_each_part() {
        let budget = ByteBudget::new(50, 50);
        let mut all = budget.reserve(client("ada"), 30).unwrap();
        let part = all.split_off_or_reserve(20).unwrap();
        let more = all.split_off_or_reserve(15).unwrap();
        assert_eq!(budget.taken.lock().all, 45);
        drop(all);
        assert_eq!(budget.taken.lock().all, 35);
        drop((part, more));
        assert_eq!(budget.taken.lock().all, 0);
    }
}
