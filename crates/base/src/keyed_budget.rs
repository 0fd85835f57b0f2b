//! A budget with a total and a share for each key, such as the bytes in memory of each client.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;

/// Limits an amount, for all keys together and for each key.
#[derive(Debug)]
pub struct KeyedBudget<K> {
    reserved: Mutex<Reserved<K>>,
    total: usize,
    share: usize,
}

#[derive(Debug)]
struct Reserved<K> {
    all: usize,
    by_key: HashMap<K, usize>,
}

/// An error of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetError {
    /// The reservation would exceed the share of its key, which is this amount.
    Share(usize),
    /// The reservation would exceed the total.
    Total,
}

impl<K: Clone + Eq + Hash> KeyedBudget<K> {
    /// Creates a budget of `total`, of which each key may use `share`.
    pub fn new(total: usize, share: usize) -> Arc<Self> {
        Arc::new(Self {
            reserved: Mutex::new(Reserved {
                all: 0,
                by_key: HashMap::new(),
            }),
            total,
            share: share.min(total),
        })
    }

    /// Returns a reservation of zero, which can grow.
    pub fn empty(self: &Arc<Self>, key: K) -> Reservation<K> {
        Reservation {
            budget: Arc::clone(self),
            key,
            amount: 0,
        }
    }

    /// Reserves `amount`.
    ///
    /// # Errors
    /// The amount exceeds the share of the key or the total.
    pub fn try_reserve(
        self: &Arc<Self>,
        key: K,
        amount: usize,
    ) -> Result<Reservation<K>, BudgetError> {
        let mut reservation = self.empty(key);
        reservation.grow(amount)?;
        Ok(reservation)
    }

    /// Reserves an `amount` that is already in use. The first reservation of a key and the first of all keys always
    /// succeed, whatever the amount. Otherwise a body larger than the budget could never be sent.
    ///
    /// # Errors
    /// The amount exceeds the share of the key or the total.
    pub fn reserve(self: &Arc<Self>, key: K, amount: usize) -> Result<Reservation<K>, BudgetError> {
        let mut reservation = self.empty(key);
        reservation.add(amount, |reserved| reserved == 0)?;
        Ok(reservation)
    }

    /// Returns the amount that each key may reserve.
    pub fn share(&self) -> usize {
        self.share
    }

    /// Returns the reserved amount of all keys.
    pub fn reserved(&self) -> usize {
        self.reserved.lock().all
    }
}

/// A reserved amount. Dropping it releases the amount.
#[derive(Debug)]
pub struct Reservation<K: Eq + Hash> {
    budget: Arc<KeyedBudget<K>>,
    key: K,
    amount: usize,
}

impl<K: Clone + Eq + Hash> Reservation<K> {
    /// Grows the reservation to `amount`.
    ///
    /// # Errors
    /// The amount exceeds the share of the key or the total. The reservation is then unchanged.
    pub fn grow(&mut self, amount: usize) -> Result<(), BudgetError> {
        self.add(amount.saturating_sub(self.amount), |_| false)
    }

    /// Returns a reservation of `amount`. Splits it off from this one if this one is large enough. Otherwise creates a
    /// new reservation for the same key.
    ///
    /// # Errors
    /// The same errors as [`KeyedBudget::reserve`].
    pub fn split_off_or_reserve(&mut self, amount: usize) -> Result<Self, BudgetError> {
        if amount > self.amount {
            return self.budget.reserve(self.key.clone(), amount);
        }
        self.amount -= amount;
        Ok(Self {
            budget: Arc::clone(&self.budget),
            key: self.key.clone(),
            amount,
        })
    }

    /// Adds `more`. `always_fits` receives the reserved amount and returns whether to ignore the limit.
    fn add(&mut self, more: usize, always_fits: impl Fn(usize) -> bool) -> Result<(), BudgetError> {
        let budget = &self.budget;
        let Reserved { all, by_key } = &mut *budget.reserved.lock();
        let entry = by_key.entry(self.key.clone());
        let of_key = match &entry {
            Entry::Occupied(of_key) => *of_key.get(),
            Entry::Vacant(_) => 0,
        };
        let exceeds = |reserved: usize, limit| {
            !always_fits(reserved) && reserved.saturating_add(more) > limit
        };
        if exceeds(of_key, budget.share) {
            return Err(BudgetError::Share(budget.share));
        }
        if exceeds(*all, budget.total) {
            return Err(BudgetError::Total);
        }
        *all += more;
        *entry.or_default() += more;
        self.amount += more;
        Ok(())
    }
}

impl<K: Eq + Hash> Drop for Reservation<K> {
    fn drop(&mut self) {
        if self.amount == 0 {
            return;
        }
        let mut reserved = self.budget.reserved.lock();
        reserved.all -= self.amount;
        if let Some(of_key) = reserved.by_key.get_mut(&self.key) {
            *of_key -= self.amount;
            if *of_key == 0 {
                reserved.by_key.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn rejects_beyond_share_and_total() {
        let budget = KeyedBudget::new(50, 40);
        let mut ada = budget.empty("ada");
        assert_eq!(ada.grow(40), Ok(()));
        assert_eq!(ada.grow(41), Err(BudgetError::Share(40)));
        let mut bob = budget.empty("bob");
        assert_eq!(bob.grow(11), Err(BudgetError::Total));
        assert_eq!(bob.grow(10), Ok(()));
        drop((ada, bob));
        assert_eq!(budget.reserved(), 0);
        assert!(budget.reserved.lock().by_key.is_empty());
    }

    #[test]
    fn first_reservation_always_fits() {
        let budget = KeyedBudget::new(50, 40);
        assert_eq!(
            budget.try_reserve("ada", 100).err(),
            Some(BudgetError::Share(40))
        );
        let large = budget.reserve("ada", 100);
        assert!(large.is_ok());
        assert_eq!(budget.reserve("ada", 1).err(), Some(BudgetError::Share(40)));
        assert_eq!(budget.reserve("bob", 1).err(), Some(BudgetError::Total));
        drop(large);
        assert!(budget.reserve("bob", 1).is_ok());
    }

    #[test]
    fn split_reservation_releases_each_part() {
        let budget = KeyedBudget::new(50, 50);
        let mut all = budget.reserve("ada", 30).unwrap();
        let part = all.split_off_or_reserve(20).unwrap();
        let more = all.split_off_or_reserve(15).unwrap();
        assert_eq!(budget.reserved(), 45);
        drop(all);
        assert_eq!(budget.reserved(), 35);
        drop((part, more));
        assert_eq!(budget.reserved(), 0);
    }

    #[test]
    fn dropped_reservation_frees_its_slot() {
        let budget = KeyedBudget::new(usize::MAX, 2);
        let (first, second) = (budget.try_reserve("ada", 1), budget.try_reserve("ada", 1));
        assert!(first.is_ok() && second.is_ok());
        assert!(budget.try_reserve("ada", 1).is_err());
        assert!(budget.try_reserve("bob", 1).is_ok());
        drop(second);
        assert!(budget.try_reserve("ada", 1).is_ok());
    }
}
