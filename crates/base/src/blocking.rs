//! Work that takes long because of its size.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

/// The size from which work counts as large, in bytes. JSON of this size takes a few milliseconds.
const LARGE_BYTES: usize = 256 * 1024;

/// Runs `work`, which reads or writes `bytes` bytes. While it does large work, another thread of a multi-thread runtime runs
/// the other tasks.
pub fn run_if_large<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let has_threads = || {
        Handle::try_current()
            .is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
    };
    match bytes >= LARGE_BYTES && has_threads() {
        true => block_in_place(work),
        false => work(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::mpsc;
    use std::time::Duration;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn large_work_lets_other_tasks_run() {
        let (sender, receiver) = mpsc::channel();
        let large = tokio::spawn(async move {
            tokio::spawn(async move { sender.send(()) });
            run_if_large(LARGE_BYTES, || {
                receiver.recv_timeout(Duration::from_secs(10))
            })
        });
        assert_eq!(large.await.unwrap(), Ok(()));
    }

    #[tokio::test]
    async fn large_work_runs_on_a_runtime_with_one_thread() {
        assert_eq!(run_if_large(LARGE_BYTES, || 7), 7);
    }
}
