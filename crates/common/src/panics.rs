//! Panics, kept inside the library: caught, named by their place, never printed.

use std::{
    any::Any,
    cell::RefCell,
    fmt,
    future::Future,
    panic::{self, AssertUnwindSafe},
    sync::Once,
};

use futures_util::FutureExt;

thread_local! {
    /// The place of the last panic of this thread. The hook runs before the stack unwinds, on the thread that catches.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// A panic that was caught.
#[derive(Debug, PartialEq, Eq)]
pub struct Panicked {
    place: Option<String>,
    text: Option<&'static str>,
}

/// Replaces the panic hook of this copy of the standard library, so that a panic is remembered and not printed.
///
/// Called by the doors: a shared library has its own copy, so the host's hook is left alone. The command and the tests, which share theirs with
/// this code, never call it.
pub fn silence() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        panic::set_hook(Box::new(|info| {
            let place = info.location().map(ToString::to_string);
            // A thread that is ending has no such variable any more.
            let _ = PLACE.try_with(|last| last.replace(place));
        }));
    });
}

/// Runs `work` and hands back its panic, if it panics, as an error.
///
/// # Errors
/// `work` panicked.
pub fn catch<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    panic::catch_unwind(AssertUnwindSafe(work)).map_err(|payload| Panicked::new(&*payload))
}

/// Catches panics like [`catch`], in a future.
///
/// # Errors
/// `work` panicked while it was polled.
pub async fn catch_async<T>(work: impl Future<Output = T>) -> Result<T, Panicked> {
    let outcome = AssertUnwindSafe(work).catch_unwind().await;
    outcome.map_err(|payload| Panicked::new(&*payload))
}

impl Panicked {
    fn new(payload: &(dyn Any + Send)) -> Self {
        Self {
            place: PLACE.try_with(RefCell::take).ok().flatten(),
            // A formatted text may quote what the code was working on, a peer's answer or a credential. A literal cannot.
            text: payload.downcast_ref::<&'static str>().copied(),
        }
    }
}

/// `at src/file.rs:1:2: text`, as much of it as is known.
impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "at {place}")?,
            None => f.write_str("at an unknown place")?,
        }
        match self.text {
            Some(text) => write!(f, ": {text}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)]

    use super::*;

    #[tokio::test]
    async fn a_panic_in_a_future_becomes_an_error() {
        let outcome = catch_async(async {
            tokio::task::yield_now().await;
            panic!("a literal");
        })
        .await;
        assert_eq!(
            outcome.map_err(|panicked| panicked.text),
            Err::<(), _>(Some("a literal"))
        );
    }

    #[test]
    fn a_formatted_text_is_not_repeated() {
        let secret = String::from("hunter2");
        let outcome = catch(|| panic!("cannot use {secret}"));
        let message = outcome.err().map(|panicked| panicked.to_string());
        assert_eq!(message.as_deref(), Some("at an unknown place"));
    }
}
