//! What tests make.

use std::path::Path;
use std::process::Command;

/// Makes a pipe at `path`, in the place of a file that must not be read.
///
/// # Panics
/// The system has no `mkfifo`, or the path cannot be written.
#[allow(clippy::expect_used, reason = "used only in tests")]
pub fn make_pipe(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status();
    assert!(made.expect("`mkfifo` runs").success(), "{}", path.display());
}
