//! The caller, as the host reports it, and the delegation chain in the metadata of its message, with its limit.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base::budget::Work;
use base::json;
use gateway_bridge::delegation::{DELEGATION_KEY, Delegation};
use peer::HostSession;
use serde_json::{Map, Value};

use super::RemoteAgent;
use super::deadline::Deadline;
use super::error::{Reason, ToolError};
use super::request::Request;

/// The longest interval of updates. It bounds what is added to a time.
const MAX_UPDATE_INTERVAL: Duration = Duration::from_hours(1);

/// The caller. It comes from the host, never from the request, so a model cannot impersonate another caller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Caller {
    /// The host's agent (`agent_id`).
    pub(super) agent_id: Option<String>,
    /// The operator of the host, who calls without an agent or in the name of one (`operator`).
    pub(super) operator: Option<String>,
    /// The person for whom the agent works (`user`), whose sign-in a target may require.
    pub(super) user: Option<String>,
    /// The host's session (`session_key`).
    pub(super) session_key: Option<String>,
    /// The message that the caller works on, if it was delegated (`chain`: `{"hop", "chain"?}`).
    pub(super) chain: Option<Delegation>,
    /// The host's state directory (`state_dir`), which records what each session works on.
    pub(super) state_dir: Option<PathBuf>,
    /// The trace that the call belongs to (`traceparent`, W3C Trace Context §3.2).
    pub(super) traceparent: Option<String>,
    /// The host can wake the session later (`can_notify`).
    pub(super) can_notify: bool,
    /// The least time between two updates (`update_interval_ms`). Without it, every event is an update.
    pub(super) update_interval: Duration,
    /// A person wrote the message themselves (`by_person`): no model did.
    pub(super) by_person: bool,
    /// A listing of targets lists their tasks too (`list_tasks`), for an operator.
    pub(super) list_tasks: bool,
    /// The host cannot show a sign-in during the call (`no_sign_in`), also where it reaches a person with questions.
    pub(super) no_sign_in: bool,
}

impl Caller {
    /// Reads a caller. Ignores each invalid field, and returns a message about it for the host's log.
    pub(super) fn read(text: Option<&str>) -> (Self, Vec<String>) {
        let Some(text) = text else {
            return (Self::default(), Vec::new());
        };
        let mut map: Map<String, Value> = match json::from_str(text, json::Limits::NONE) {
            Ok(map) => map,
            Err(e) => {
                let warning = format!("the host's caller cannot be read: {e}");
                return (Self::default(), vec![warning]);
            }
        };
        let mut warnings = Vec::new();
        let chain = map.remove("chain").filter(|chain| !chain.is_null());
        let chain = chain.and_then(|chain| {
            let read = Delegation::read(&chain);
            if read.is_none() {
                warnings.push("`chain` of the host's caller is not {\"hop\": number, \"chain\": text} and is ignored".to_owned());
            }
            read
        });
        let interval = map.remove("update_interval_ms");
        let update_interval = interval.map_or(Some(0), |interval| interval.as_u64());
        if update_interval.is_none() {
            warnings.push(
                "`update_interval_ms` of the host's caller is not a number of milliseconds and is ignored"
                    .to_owned(),
            );
        }
        let update_interval =
            Duration::from_millis(update_interval.unwrap_or(0)).min(MAX_UPDATE_INTERVAL);
        let mut flag = |name: &str| map.remove(name) == Some(Value::Bool(true));
        let [can_notify, by_person, list_tasks, no_sign_in] =
            ["can_notify", "by_person", "list_tasks", "no_sign_in"].map(&mut flag);
        let mut text = |name: &str| match map.remove(name) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text),
            Some(_) => {
                warnings.push(format!(
                    "`{name}` of the host's caller is not a string and is ignored"
                ));
                None
            }
        };
        let caller = Self {
            agent_id: text("agent_id"),
            operator: text("operator"),
            user: text("user").filter(|user| !user.is_empty()),
            session_key: text("session_key"),
            chain,
            state_dir: text("state_dir").map(PathBuf::from),
            traceparent: text("traceparent"),
            can_notify,
            update_interval,
            by_person,
            list_tasks,
            no_sign_in,
        };
        (caller, warnings)
    }

    /// Returns the calling session, where the host reports it.
    pub(super) fn session(&self) -> Option<HostSession> {
        Some(HostSession {
            session_key: self.session_key.clone()?,
            state_dir: self.state_dir.clone(),
        })
    }

    /// Returns the caller's label for a log line; `None` if the host reports none.
    pub(super) fn label(&self) -> Option<String> {
        let parts = [&self.agent_id, &self.session_key];
        let known: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
        (!known.is_empty()).then(|| known.join(" in "))
    }
}

/// The position of a message in a chain of delegations.
pub(super) struct Position {
    hop: u64,
    /// The id of the chain.
    pub(super) chain: Option<String>,
    /// Whether the chain is that of the message that the caller works on. Otherwise it begins here, with a new id.
    is_received: bool,
}

impl Position {
    /// Checks the limit of the policy.
    ///
    /// # Errors
    /// The chain is too long.
    pub(super) fn check_depth(&self, most: u64) -> Result<(), ToolError> {
        if self.hop <= most {
            return Ok(());
        }
        let message = format!(
            "this would be delegation {} in a row, and the operator allows {most}; do the work yourself or answer with what you have, and do not delegate it further",
            self.hop
        );
        Err(ToolError::local(Reason::DelegationTooDeep, message))
    }

    /// Returns the work that the message belongs to, where it has a name that later messages have too.
    pub(super) fn work<'a>(&'a self, caller: &'a Caller) -> Option<Work<'a>> {
        match (&self.chain, &caller.session_key) {
            (Some(chain), _) if self.is_received => Some(Work::Chain(chain)),
            (_, session) => session.as_deref().map(Work::Session),
        }
    }
}

/// Writes the position of this message in the chain of delegations into the metadata of `request`: after the message
/// that the caller works on, which the host names in the call or records in its state directory.
///
/// # Errors
/// The call ends first.
pub(super) async fn add_delegation(
    tool: &RemoteAgent,
    request: &mut Request,
    caller: &Caller,
    deadline: &Deadline,
) -> Result<Position, ToolError> {
    deadline.check_cancelled()?;
    let incoming = match &caller.chain {
        Some(collected) => Some(collected.clone()),
        None => match caller
            .state_dir
            .as_deref()
            .zip(caller.session_key.as_deref())
        {
            Some((state_dir, session)) => {
                Box::pin(deadline.run(find_incoming(tool, state_dir, session))).await?
            }
            None => None,
        },
    };
    let is_received = incoming.as_ref().is_some_and(|known| known.chain.is_some());
    let next = Delegation::next(incoming, || tool.env.uuid());
    let metadata = request.metadata.get_or_insert_default();
    metadata.insert(DELEGATION_KEY.to_owned(), next.json());
    Ok(Position {
        hop: next.hop,
        chain: next.chain,
        is_received,
    })
}

/// Returns the message that the caller works on, as the host recorded it for the session.
async fn find_incoming(tool: &RemoteAgent, state_dir: &Path, session: &str) -> Option<Delegation> {
    let log = Arc::clone(&tool.log);
    let now = tool.env.system_time();
    tool.delegations.find(state_dir, session, now, &log).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_caller_is_ignored_and_reported() {
        assert_eq!(Caller::read(None), (Caller::default(), Vec::new()));
        for text in ["7", "null", "{", ""] {
            let (caller, warnings) = Caller::read(Some(text));
            assert_eq!(caller, Caller::default(), "{text}");
            assert!(
                warnings.len() == 1 && warnings[0].contains("caller"),
                "{warnings:?}"
            );
        }
    }

    #[test]
    fn malformed_field_leaves_the_others() {
        let text = r#"{"agent_id": "main", "session_key": 7, "chain": ["a"], "state_dir": null, "update_interval_ms": "1", "more": 1}"#;
        let (caller, warnings) = Caller::read(Some(text));
        let main = Caller {
            agent_id: Some("main".to_owned()),
            ..Caller::default()
        };
        assert_eq!(caller, main);
        assert_eq!(warnings.len(), 3, "{warnings:?}");
    }

    #[test]
    fn label_names_agent_and_session() {
        let (caller, _) = Caller::read(Some(
            r#"{"agent_id":"main","session_key":"agent:main:x","chain":{"hop":1,"chain":"c"}}"#,
        ));
        assert_eq!(caller.label().as_deref(), Some("main in agent:main:x"));
        assert_eq!(caller.chain.map(|chain| chain.hop), Some(1));
        assert_eq!(Caller::default().label(), None);
    }
}
