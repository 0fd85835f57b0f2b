//! Catches panics inside the library and reports their place.

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

/// A caught panic.
#[derive(Debug, PartialEq, Eq)]
pub struct Panicked {
    place: Option<String>,
    text: Option<&'static str>,
}

/// Replaces the panic hook of this copy of the standard library by one that records the place of a panic and prints
/// nothing.
///
/// Only the host interfaces call it: a shared library has its own copy of the standard library, so the hook of the host
/// stays. The command and the tests share their copy with this code, and never call it.
pub fn silence() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        panic::set_hook(Box::new(|info| {
            let place = info.location().map(ToString::to_string);
            // The variable of an ending thread may be destroyed already.
            let _ = PLACE.try_with(|last| last.replace(place));
        }));
    });
}

/// Runs `work` and returns a panic as an error.
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
            // A formatted text may quote a response of a peer or a credential. A literal cannot.
            text: payload.downcast_ref::<&'static str>().copied(),
        }
    }
}

/// Writes the known parts of `at src/file.rs:1:2: text`.
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
    async fn panic_in_a_future_becomes_an_error() {
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
    fn formatted_panic_text_is_omitted() {
        let secret = String::from("hunter2");
        let outcome = catch(|| panic!("cannot use {secret}"));
        let message = outcome.err().map(|panicked| panicked.to_string());
        assert_eq!(message.as_deref(), Some("at an unknown place"));
    }
}
