//! Records the delegation depth of a message before the agent starts its turn.
//!
//! The tool `remote_agent` of the OpenClaw reads the record by session key and rejects delegations beyond the maximum
//! depth.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use a2a_server::executor::Outcome;
use serde_json::Value;

use base::environment::Environment;
use base::log::Log;
use gateway_bridge::delegation::{DELEGATION_KEY, Delegation, DelegationFile, DelegationLookup};

/// Writes the delegation file of an OpenClaw.
pub(super) struct DelegationWriter {
    /// The state directory of OpenClaw; `None` disables the recording.
    state_dir: Option<PathBuf>,
    lookup: DelegationLookup,
    env: Arc<dyn Environment>,
    log: Arc<dyn Log>,
}

impl DelegationWriter {
    pub(super) fn new(
        state_dir: Option<PathBuf>,
        env: Arc<dyn Environment>,
        log: Arc<dyn Log>,
    ) -> Self {
        Self {
            state_dir,
            lookup: DelegationLookup::default(),
            env,
            log,
        }
    }

    /// Returns whether delegations are recorded, because a state directory is set.
    pub(super) fn is_enabled(&self) -> bool {
        self.state_dir.is_some()
    }

    /// Records `delegation` for the session of `key`. A message without a delegation clears the record of the
    /// previous message.
    ///
    /// # Errors
    /// The delegation is malformed, or the record could not be written. The caller must not start the run, because
    /// agents without a record could delegate endlessly.
    pub(super) async fn record(
        &self,
        key: &str,
        delegation: Option<&Value>,
    ) -> Result<(), Outcome> {
        let record =
            delegation.map(|delegation| Delegation::read(delegation).ok_or_else(malformed));
        let record = record.transpose()?;
        let Some(state_dir) = &self.state_dir else {
            return Ok(());
        };
        let record = match record {
            Some(record) => record,
            None if self.is_deep(state_dir, key).await => Delegation {
                hop: 0,
                chain: None,
            },
            None => return Ok(()),
        };
        let (file, key, log) = (state_dir.clone(), key.to_owned(), Arc::clone(&self.log));
        let written = tokio::task::spawn_blocking(move || {
            if !file.is_dir() {
                return Err(std::io::ErrorKind::NotFound.into());
            }
            DelegationFile::of_host(&file).record(&key, &record, &*log)
        });
        let cause = match written.await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        Err(Outcome::Failed {
            reason: "delegation_not_recorded",
            text: format!(
                "cannot record the delegation depth for OpenClaw ({cause}), so the run did not start. The operator must \
                 configure the state directory of this OpenClaw"
            ),
        })
    }

    async fn is_deep(&self, state_dir: &Path, key: &str) -> bool {
        let known = self
            .lookup
            .find(state_dir, key, self.env.system_time(), &self.log);
        known.await.is_some_and(|record| record.hop > 0)
    }
}

fn malformed() -> Outcome {
    Outcome::Failed {
        reason: "delegation_malformed",
        text: format!(
            "the metadata `{DELEGATION_KEY}` is not {{\"hop\": number, \"chain\": text}}, so the run did not start. Pass it on as \
             you received it, or leave it out"
        ),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;
    use base::environment::SystemEnvironment;
    use base::log::Silent;

    fn over(state: &Path) -> DelegationWriter {
        DelegationWriter::new(
            Some(state.to_owned()),
            Arc::new(SystemEnvironment),
            Arc::new(Silent),
        )
    }

    #[tokio::test]
    async fn delegation_is_recorded_before_the_run() {
        let state = tempfile::tempdir().unwrap();
        let delegation = json!({"hop": 2, "chain": "c"});
        over(state.path())
            .record("agent:main:a2a-x", Some(&delegation))
            .await
            .unwrap();
        let found = DelegationFile::of_host(state.path())
            .find("agent:main:a2a-x")
            .unwrap();
        assert_eq!(found.unwrap().json(), delegation);
    }

    #[tokio::test]
    async fn undelegated_message_resets_the_chain() {
        let state = tempfile::tempdir().unwrap();
        let delegated = over(state.path());
        delegated
            .record("s", Some(&json!({"hop": 3})))
            .await
            .unwrap();
        delegated.record("s", None).await.unwrap();
        let found = DelegationFile::of_host(state.path()).find("s").unwrap();
        assert_eq!(found.unwrap().hop, 0);
    }

    #[tokio::test]
    async fn undelegated_message_writes_no_file() {
        let state = tempfile::tempdir().unwrap();
        over(state.path()).record("s", None).await.unwrap();
        assert!(!DelegationFile::of_host(state.path()).path().exists());
    }

    #[tokio::test]
    async fn run_does_not_start_without_delegation_record() {
        let state = tempfile::tempdir().unwrap();
        let gone = state.path().join("gone");
        let refused = over(&gone).record("s", Some(&json!({"hop": 1}))).await;
        let Err(Outcome::Failed { reason, .. }) = refused else {
            unreachable!("{refused:?}")
        };
        assert_eq!((reason, gone.exists()), ("delegation_not_recorded", false));
    }

    #[tokio::test]
    async fn malformed_delegation_keeps_the_recorded_depth() {
        let state = tempfile::tempdir().unwrap();
        let delegated = over(state.path());
        delegated
            .record("s", Some(&json!({"hop": 3})))
            .await
            .unwrap();
        let refused = delegated.record("s", Some(&json!({"hop": "3"}))).await;
        let Err(Outcome::Failed { reason, .. }) = refused else {
            unreachable!("{refused:?}")
        };
        assert_eq!(reason, "delegation_malformed");
        let found = DelegationFile::of_host(state.path()).find("s").unwrap();
        assert_eq!(found.unwrap().hop, 3);
    }
}
