//! Applies changes of the client file while the server runs.

use std::time::{Duration, SystemTime};

use super::ClientFile;
use crate::config::ClientConfig;

/// The interval between checks of the file. The requests of a removed client thus end within a second.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Detects changes of the client file.
#[derive(Debug)]
pub struct ClientFileWatch {
    file: ClientFile,
    /// The version that the server has applied.
    last: Option<FileVersion>,
    /// The last version that could not be applied. Its error has been logged.
    failed: Option<Option<FileVersion>>,
}

/// A version of the file. Two versions may have the same time and length, but a replaced file has another inode.
#[derive(Debug, PartialEq, Eq)]
struct FileVersion {
    modified: SystemTime,
    length: u64,
    inode: u64,
}

#[cfg(unix)]
fn inode(facts: &std::fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(facts)
}

#[cfg(not(unix))]
fn inode(_: &std::fs::Metadata) -> u64 {
    0
}

impl ClientFileWatch {
    /// Creates a watch that detects every change after this call.
    #[must_use]
    pub fn new(file: &ClientFile) -> Self {
        let mut watch = Self {
            file: file.clone(),
            last: None,
            failed: None,
        };
        watch.last = watch.version();
        watch
    }

    /// Returns the current version of the file; `None` if the file does not exist.
    fn version(&self) -> Option<FileVersion> {
        let facts = std::fs::metadata(self.file.path());
        facts
            .and_then(|facts| {
                Ok(FileVersion {
                    modified: facts.modified()?,
                    length: facts.len(),
                    inode: inode(&facts),
                })
            })
            .ok()
    }

    /// Calls `apply` with the clients after each change, while the future is polled. `apply` returns the total number
    /// of clients, or an error if it rejects them.
    pub async fn run(mut self, mut apply: impl FnMut(Vec<ClientConfig>) -> Result<usize, String>) {
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            let version = self.version();
            if version == self.last {
                continue;
            }
            let read = self.file.read().map_err(|error| error.to_string());
            match read.and_then(&mut apply) {
                Ok(count) => {
                    (self.last, self.failed) = (version, None);
                    tracing::info!("reloaded the clients: {count}");
                }
                // A failed change is retried at each check, but logged only once.
                Err(error) => {
                    if self.failed.as_ref() != Some(&version) {
                        tracing::warn!("kept the previous clients: {error}");
                    }
                    self.failed = Some(version);
                }
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn change_before_the_start_is_reported_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = ClientFile::in_directory(folder.path());
        let mut watch = ClientFileWatch::new(&file);
        file.add("ada", false).unwrap();
        assert_ne!(watch.version(), watch.last);
        watch.last = watch.version();
        assert_eq!(watch.version(), watch.last);
    }

    #[test]
    fn change_with_equal_modification_time_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let file = ClientFile::in_directory(folder.path());
        file.add("ada", false).unwrap();
        let before = std::fs::metadata(file.path()).unwrap().modified().unwrap();
        let watch = ClientFileWatch::new(&file);
        file.remove("ada").unwrap();
        let after = std::fs::File::options().write(true).open(file.path());
        after.unwrap().set_modified(before).unwrap();
        assert_ne!(watch.version(), watch.last);
    }

    #[test]
    fn replaced_file_of_equal_time_and_length_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let file = ClientFile::in_directory(folder.path());
        file.add("ada", false).unwrap();
        let before = std::fs::metadata(file.path()).unwrap().modified().unwrap();
        let watch = ClientFileWatch::new(&file);
        let text = std::fs::read(file.path()).unwrap();
        let copy = folder.path().join("copy");
        std::fs::write(&copy, text).unwrap();
        let copied = std::fs::File::options().write(true).open(&copy).unwrap();
        copied.set_modified(before).unwrap();
        std::fs::rename(&copy, file.path()).unwrap();
        assert_ne!(watch.version(), watch.last);
    }

    #[test]
    fn unchanged_file_has_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let file = ClientFile::in_directory(folder.path());
        file.add("ada", false).unwrap();
        let watch = ClientFileWatch::new(&file);
        assert_eq!(watch.version(), watch.last);
    }
}
