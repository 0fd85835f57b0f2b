//! The delays between connection attempts.

use std::time::Duration;

use common::environment::Environment;

/// The maximum number of attempts of a call.
const MAX_ATTEMPTS: u32 = 5;

const MIN_DELAY: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_secs(30);

/// The connection attempts of one call. A call that is still waiting after the last one makes one more, after the longest
/// pause.
#[derive(Debug, Default)]
pub(super) struct ConnectAttempts(u32);

impl ConnectAttempts {
    /// Returns the pause before the next attempt, or `None` after the last one. The first attempt has no pause.
    pub(super) fn next(&mut self, env: &dyn Environment) -> Option<Duration> {
        let before = self.0;
        if before == MAX_ATTEMPTS {
            self.0 -= 1;
            return None;
        }
        self.0 += 1;
        Some(match before {
            0 => Duration::ZERO,
            failed => pause(failed, jitter(env)),
        })
    }
}

/// Returns the pause after `failed` failed attempts. It doubles each time. `jitter` scales half of it, so that clients of
/// the same gateway do not all reconnect at the same time.
fn pause(failed: u32, jitter: f64) -> Duration {
    let whole = MIN_DELAY * 2u32.saturating_pow(failed);
    whole
        .mul_f64(0.5 + jitter / 2.0)
        .clamp(MIN_DELAY, MAX_DELAY)
}

/// Returns a number from 0 to 1.
fn jitter(env: &dyn Environment) -> f64 {
    let (high, _) = env.uuid().as_u64_pair();
    // The upper 32 bits of a random UUID are all random.
    f64::from(u32::try_from(high >> 32).unwrap_or_default()) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use common::environment::SystemEnvironment;

    #[test]
    fn h_47_call_tries_five_times_first_at_once() {
        let mut tries = ConnectAttempts::default();
        let pauses: Vec<_> = std::iter::from_fn(|| tries.next(&SystemEnvironment)).collect();
        assert_eq!((pauses.len(), pauses[0]), (5, Duration::ZERO));
        assert!(
            pauses[1..]
                .iter()
                .all(|pause| (MIN_DELAY..=MAX_DELAY).contains(pause)),
            "{pauses:?}"
        );
    }

    #[test]
    fn each_call_after_exhausted_retries_tries_once() {
        let mut tries = ConnectAttempts::default();
        while tries.next(&SystemEnvironment).is_some() {}
        for _ in 0..3 {
            let pause = tries.next(&SystemEnvironment).unwrap();
            assert!(pause >= Duration::from_secs(8), "{pause:?}");
            assert_eq!(tries.next(&SystemEnvironment), None);
        }
    }

    #[test]
    fn h_47_delays_double_to_thirty_seconds_with_jitter() {
        let whole: Vec<_> = (1..=6).map(|failed| pause(failed, 1.0).as_secs()).collect();
        assert_eq!(whole, [2, 4, 8, 16, 30, 30]);
        let least: Vec<_> = (1..=6).map(|failed| pause(failed, 0.0).as_secs()).collect();
        assert_eq!(least, [1, 2, 4, 8, 16, 30]);
    }

    #[test]
    fn h_47_jitter_comes_from_the_environment() {
        let numbers: Vec<_> = (0..20).map(|_| jitter(&SystemEnvironment)).collect();
        assert!(numbers.iter().all(|number| (0.0..=1.0).contains(number)));
        assert!(numbers.windows(2).any(|pair| pair[0] < pair[1]));
    }
}
