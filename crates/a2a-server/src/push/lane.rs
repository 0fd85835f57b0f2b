//! What waits to be delivered: a lane for each configuration, and room for so much in all of them.
//!
//! Where there is no room, a new notification takes the place of the oldest that waits in its own lane: the newest says most.
//! Where none waits there, the new one is thrown away. No other configuration loses anything by it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;

use super::letter::{Address, Letter};

/// How many notifications are under way to one origin at a time.
const AT_A_TIME: usize = 4;

/// How many bytes of bodies may wait. Webhooks of 0.3 are sent whole tasks.
const MOST_BYTES: usize = 64 << 20;

/// How much may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Room {
    pub(super) letters: usize,
    pub(super) bytes: usize,
}

impl Room {
    /// Room for so many notifications.
    pub(super) fn of(letters: usize) -> Self {
        Self {
            letters: letters.max(1),
            bytes: MOST_BYTES,
        }
    }

    /// What one origin may take of it.
    fn share(self) -> Self {
        Self {
            letters: self.letters.div_ceil(2),
            bytes: self.bytes.div_ceil(2),
        }
    }

    fn holds(self, taken: Self, bytes: usize) -> bool {
        taken.letters < self.letters && taken.bytes.saturating_add(bytes) <= self.bytes
    }
}

/// All lanes.
pub(super) struct Lanes {
    state: Mutex<State>,
    room: Room,
}

#[derive(Default)]
struct State {
    lanes: HashMap<Arc<Address>, Lane>,
    origins: HashMap<String, Origin>,
    taken: Room,
}

#[derive(Default)]
struct Lane {
    waiting: VecDeque<Letter>,
    /// The origin and the size of the one that is under way.
    under_way: Option<(String, usize)>,
}

struct Origin {
    taken: Room,
    turns: Arc<Semaphore>,
}

impl Default for Origin {
    fn default() -> Self {
        Self {
            taken: Room::default(),
            turns: Arc::new(Semaphore::new(AT_A_TIME)),
        }
    }
}

/// What became of a letter that was put in.
#[derive(Default)]
pub(super) struct Put {
    /// Its lane was empty: somebody has to work on it from now on.
    pub(super) begins: bool,
    /// What was thrown away for it, or the letter itself.
    pub(super) dropped: Vec<Letter>,
}

/// A letter to deliver now, and the turn to wait for.
pub(super) struct Next {
    pub(super) letter: Letter,
    pub(super) turns: Arc<Semaphore>,
}

impl Lanes {
    pub(super) fn new(room: Room) -> Self {
        Self {
            state: Mutex::default(),
            room,
        }
    }

    /// How many letters wait or are under way.
    pub(super) fn waiting(&self) -> usize {
        self.state().taken.letters
    }

    /// Puts a letter at the end of its lane.
    pub(super) fn put(&self, letter: Letter) -> Put {
        let mut state = self.state();
        let mut put = Put::default();
        while !state.fits(self.room, &letter) {
            let Some(oldest) = state.displace(&letter.address) else {
                put.dropped.push(letter);
                return put;
            };
            put.dropped.push(oldest);
        }
        state.count(&letter.origin, letter.body.len());
        put.begins = !state.lanes.contains_key(&letter.address);
        let lane = state.lanes.entry(Arc::clone(&letter.address)).or_default();
        lane.waiting.push_back(letter);
        put
    }

    /// The next letter of a lane; the one before is done with. `None` ends the lane.
    pub(super) fn next(&self, address: &Address) -> Option<Next> {
        let mut state = self.state();
        let lane = state.lanes.get_mut(address)?;
        let (done, next) = (lane.under_way.take(), lane.waiting.pop_front());
        if let Some(next) = &next {
            lane.under_way = Some((next.origin.clone(), next.body.len()));
        } else {
            state.lanes.remove(address);
        }
        if let Some((origin, bytes)) = done {
            state.discount(&origin, bytes);
        }
        let letter = next?;
        let turns = Arc::clone(
            &state
                .origins
                .entry(letter.origin.clone())
                .or_default()
                .turns,
        );
        Some(Next { letter, turns })
    }

    /// Puts the letter that is under way back to the head of its lane.
    pub(super) fn put_back(&self, letter: Letter) {
        let mut state = self.state();
        if let Some(lane) = state.lanes.get_mut(&letter.address) {
            lane.under_way = None;
            lane.waiting.push_front(letter);
        }
    }

    /// Everything that waits still.
    pub(super) fn empty(&self) -> Vec<Letter> {
        let state = std::mem::take(&mut *self.state());
        let lanes = state.lanes.into_values();
        lanes.flat_map(|lane| lane.waiting).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn fits(&self, room: Room, letter: &Letter) -> bool {
        let bytes = letter.body.len();
        let of_origin = self.origins.get(&letter.origin);
        let taken = of_origin.map_or_else(Room::default, |origin| origin.taken);
        room.holds(self.taken, bytes) && room.share().holds(taken, bytes)
    }

    /// Takes the oldest that waits out of a lane.
    fn displace(&mut self, address: &Address) -> Option<Letter> {
        let oldest = self.lanes.get_mut(address)?.waiting.pop_front()?;
        self.discount(&oldest.origin, oldest.body.len());
        Some(oldest)
    }

    fn count(&mut self, origin: &str, bytes: usize) {
        let origin = match self.origins.get_mut(origin) {
            Some(origin) => origin,
            None => self.origins.entry(origin.to_owned()).or_default(),
        };
        for taken in [&mut origin.taken, &mut self.taken] {
            taken.letters += 1;
            taken.bytes += bytes;
        }
    }

    fn discount(&mut self, name: &str, bytes: usize) {
        let Some(origin) = self.origins.get_mut(name) else {
            return;
        };
        for taken in [&mut origin.taken, &mut self.taken] {
            taken.letters = taken.letters.saturating_sub(1);
            taken.bytes = taken.bytes.saturating_sub(bytes);
        }
        if origin.taken.letters == 0 {
            self.origins.remove(name);
        }
    }
}

#[cfg(test)]
mod tests;
