//! Takes up what becomes of the file of peers while a server runs.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use a2a_server::http::peers::Peers;
use a2a_server::service::Service;

use crate::config::ServeConfig;
use crate::peers::{PeerFile, known};

/// How often the file of peers is looked at: what a removed client has begun is to end within a second.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The file of peers, and when it was last changed as far as is known.
#[derive(Debug)]
pub(super) struct Watch {
    file: PeerFile,
    /// When it was changed, and its length: two changes may have the same time.
    last: Option<(SystemTime, u64)>,
}

impl Watch {
    /// Notices every change from now on.
    pub(super) fn of(file: &PeerFile) -> Self {
        let mut watch = Self {
            file: file.clone(),
            last: None,
        };
        watch.changed();
        watch
    }

    /// Whether the file has changed since this was asked before.
    fn changed(&mut self) -> bool {
        let facts = std::fs::metadata(self.file.path());
        let now = facts
            .and_then(|facts| Ok((facts.modified()?, facts.len())))
            .ok();
        let changed = now != self.last;
        self.last = now;
        changed
    }

    /// Keeps `peers` to those of the configuration and of the file, for as long as this is polled, and ends what others
    /// have begun.
    pub(super) async fn run(mut self, config: ServeConfig, peers: Arc<Peers>, service: Service) {
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            if !self.changed() {
                continue;
            }
            let mut all = config.peers.clone();
            match self.file.read() {
                Ok(added) => all.extend(added),
                Err(error) => {
                    tracing::warn!("the peers stay as they were: {error}");
                    continue;
                }
            }
            match config.check(&all) {
                Err(error) if !all.is_empty() => {
                    tracing::warn!("the peers stay as they were: {error}");
                }
                _ => {
                    tracing::info!("there are {} peers now", all.len());
                    peers.replace(known(&all));
                    service.retain_clients(peers.names());
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
    fn a_change_before_the_server_runs_is_noticed_and_noticed_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = PeerFile::of(folder.path());
        let mut watch = Watch::of(&file);
        file.add("ada", false).unwrap();
        assert!(watch.changed());
        assert!(!watch.changed());
    }

    #[test]
    fn a_change_at_the_time_of_the_last_one_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let file = PeerFile::of(folder.path());
        file.add("ada", false).unwrap();
        let before = std::fs::metadata(file.path()).unwrap().modified().unwrap();
        let mut watch = Watch::of(&file);
        file.remove("ada").unwrap();
        let after = std::fs::File::options().write(true).open(file.path());
        after.unwrap().set_modified(before).unwrap();
        assert!(watch.changed());
    }

    #[test]
    fn a_file_that_is_left_alone_has_not_changed() {
        let folder = tempfile::tempdir().unwrap();
        let file = PeerFile::of(folder.path());
        file.add("ada", false).unwrap();
        assert!(!Watch::of(&file).changed());
    }
}
