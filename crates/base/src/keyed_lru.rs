//! A cache of the least recently used kind, with a capacity and a share for each owner of entries.

use std::hash::Hash;
use std::num::NonZeroUsize;

use lru::LruCache;

/// A cache that evicts the least recently used entry. An owner that has its share of the entries evicts its own ones only, so
/// that one owner cannot displace the entries of all others.
///
/// # Examples
///
/// ```
/// use std::num::NonZeroUsize;
///
/// use openclaw_remote_agent_base::keyed_lru::KeyedLru;
///
/// let mut cache = KeyedLru::new(NonZeroUsize::new(4).unwrap(), 2);
/// cache.put("ada", 1, "first");
/// for key in 2..10 {
///     cache.put("eve", key, "flood");
/// }
/// assert_eq!(cache.get(&1), Some(&mut "first"));
/// assert_eq!(cache.get(&7), None);
/// ```
#[derive(Debug)]
pub struct KeyedLru<O, K: Hash + Eq, V> {
    entries: LruCache<K, (O, V)>,
    share: usize,
}

impl<O: PartialEq, K: Clone + Hash + Eq, V> KeyedLru<O, K, V> {
    /// Creates a cache of at most `capacity` entries, of which one owner has at most `share`.
    pub fn new(capacity: NonZeroUsize, share: usize) -> Self {
        Self {
            entries: LruCache::new(capacity),
            share: share.max(1),
        }
    }

    /// Returns whether the cache has an entry. Does not mark it as used.
    pub fn contains<Q: ?Sized + Hash + Eq>(&self, key: &Q) -> bool
    where
        K: std::borrow::Borrow<Q>,
    {
        self.entries.contains(key)
    }

    /// Returns the value of an entry, and marks it as used.
    pub fn get<Q: ?Sized + Hash + Eq>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: std::borrow::Borrow<Q>,
    {
        self.entries.get_mut(key).map(|(_, value)| value)
    }

    /// Inserts or replaces an entry.
    pub fn put(&mut self, owner: O, key: K, value: V) {
        self.entries.pop(&key);
        self.make_room(&owner);
        self.entries.put(key, (owner, value));
    }

    /// Returns the value of an entry, and marks it as used. Inserts an entry of `owner` if there is none.
    pub fn get_or_insert_with(&mut self, owner: O, key: K, value: impl FnOnce() -> V) -> &mut V {
        if !self.entries.contains(&key) {
            self.make_room(&owner);
        }
        let entry = self.entries.get_or_insert_mut(key, || (owner, value()));
        &mut entry.1
    }

    /// Evicts the least recently used entry of an owner that has its share.
    fn make_room(&mut self, owner: &O) {
        let own = || self.entries.iter().filter(|(_, (other, _))| other == owner);
        if own().count() >= self.share
            && let Some(oldest) = own().next_back().map(|(key, _)| key.clone())
        {
            self.entries.pop(&oldest);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn cache() -> KeyedLru<&'static str, u32, u32> {
        KeyedLru::new(NonZeroUsize::new(4).unwrap(), 2)
    }

    fn keys(cache: &KeyedLru<&'static str, u32, u32>) -> Vec<u32> {
        (0..10).filter(|key| cache.contains(key)).collect()
    }

    #[test]
    fn owner_evicts_its_own_entries() {
        let mut cache = cache();
        cache.put("ada", 0, 0);
        for key in 1..4 {
            cache.put("eve", key, 0);
        }
        cache.get(&2);
        *cache.get_or_insert_with("eve", 4, || 7) += 1;
        assert_eq!(keys(&cache), [0, 2, 4]);
        assert_eq!(cache.get(&4), Some(&mut 8));
    }

    #[test]
    fn full_cache_evicts_the_least_recently_used_entry() {
        let mut cache = cache();
        for (key, owner) in ["ada", "ada", "bob", "bob", "eve"].into_iter().enumerate() {
            cache.put(owner, u32::try_from(key).unwrap(), 0);
        }
        assert_eq!(keys(&cache), [1, 2, 3, 4]);
    }

    #[test]
    fn replaced_entry_takes_no_further_room() {
        let mut cache = cache();
        for value in 0..2 {
            cache.put("ada", 0, value);
            cache.put("ada", 1, value);
        }
        cache.get_or_insert_with("ada", 1, || 9);
        assert_eq!((keys(&cache), cache.get(&1)), (vec![0, 1], Some(&mut 1)));
    }
}
