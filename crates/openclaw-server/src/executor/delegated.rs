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
        let env = Arc::new(SystemEnvironment);
        DelegationWriter::new(Some(state.to_owned()), env, Arc::new(Silent))
    }

    /// Records delegations in turn, and returns the last outcome and what is on record.
    async fn recorded(delegations: &[Option<Value>]) -> (Result<(), Outcome>, Option<Value>) {
        let state = tempfile::tempdir().unwrap();
        let (writer, mut outcome) = (over(state.path()), Ok(()));
        for delegation in delegations {
            outcome = writer.record("agent:main:a2a-x", delegation.as_ref()).await;
        }
        let file = DelegationFile::of_host(state.path());
        let found = file.find("agent:main:a2a-x").unwrap();
        assert_eq!(file.path().exists(), found.is_some());
        (outcome, found.map(|found| found.json()))
    }

    fn reason(outcome: &Result<(), Outcome>) -> &'static str {
        match outcome {
            Ok(()) => "",
            Err(Outcome::Failed { reason, .. }) => reason,
            Err(other) => unreachable!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn delegation_is_on_record_until_a_message_without_one() {
        let deep = || Some(json!({"hop": 2, "chain": "c"}));
        let malformed = || Some(json!({"hop": "3"}));
        for (delegations, refusal, found) in [
            (vec![deep()], "", deep()),
            (vec![deep(), None], "", Some(json!({"hop": 0}))),
            (vec![None], "", None),
            (vec![deep(), malformed()], "delegation_malformed", deep()),
        ] {
            let (outcome, on_record) = recorded(&delegations).await;
            assert_eq!((reason(&outcome), on_record), (refusal, found));
        }
    }

    #[tokio::test]
    async fn run_does_not_start_without_delegation_record() {
        let state = tempfile::tempdir().unwrap();
        let gone = state.path().join("gone");
        let refused = over(&gone).record("s", Some(&json!({"hop": 1}))).await;
        assert_eq!(reason(&refused), "delegation_not_recorded");
        assert!(!gone.exists());
    }
}
