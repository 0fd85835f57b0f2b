//! Who calls, by the host's word.

use std::path::PathBuf;

use serde_json::{Map, Value};

use gateway_bridge::delegation::Delegation;
use peer::HostSession;

/// Who calls. It comes from the host, never from the request, so a model cannot pretend to be somebody else.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Caller {
    /// The host's agent (`agent_id`).
    pub(super) agent_id: Option<String>,
    /// The host's session (`session_key`).
    pub(super) session_key: Option<String>,
    /// The message that the caller works on, where that was delegated to it (`chain`: `{"hop", "chain"?}`).
    pub(super) chain: Option<Delegation>,
    /// Where the host keeps its state (`state_dir`), and with it what each session works on.
    pub(super) state_dir: Option<PathBuf>,
    /// The trace that the call belongs to (`traceparent`, W3C Trace Context §3.2).
    pub(super) traceparent: Option<String>,
}

impl Caller {
    /// Reads a caller. What a host says in another shape counts as nothing said, field by field; the texts are for its
    /// log.
    pub(super) fn read(json: Option<&str>) -> (Self, Vec<String>) {
        let Some(json) = json else {
            return (Self::default(), Vec::new());
        };
        let mut map: Map<String, Value> = match serde_json::from_str(json) {
            Ok(map) => map,
            Err(e) => {
                let wrong = format!("the host's caller cannot be read: {e}");
                return (Self::default(), vec![wrong]);
            }
        };
        let mut wrong = Vec::new();
        let chain = map.remove("chain").filter(|chain| !chain.is_null());
        let chain = chain.and_then(|chain| {
            let read = Delegation::read(&chain);
            if read.is_none() {
                wrong.push("`chain` of the host's caller is not {\"hop\": number, \"chain\": text}, so it counts for nothing".to_owned());
            }
            read
        });
        let mut text = |name: &str| match map.remove(name) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text),
            Some(_) => {
                wrong.push(format!(
                    "`{name}` of the host's caller is no text, so it counts for nothing"
                ));
                None
            }
        };
        let caller = Self {
            agent_id: text("agent_id"),
            session_key: text("session_key"),
            chain,
            state_dir: text("state_dir").map(PathBuf::from),
            traceparent: text("traceparent"),
        };
        (caller, wrong)
    }

    /// The session that calls, where the host says which.
    pub(super) fn session(&self) -> Option<HostSession> {
        Some(HostSession {
            session_key: self.session_key.clone()?,
            state_dir: self.state_dir.clone(),
        })
    }

    /// Whose call it is, for a log line; `None` where the host does not say.
    pub(super) fn label(&self) -> Option<String> {
        let parts = [&self.agent_id, &self.session_key];
        let known: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
        (!known.is_empty()).then(|| known.join(" in "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_in_another_shape_is_nobody_and_told_about() {
        assert_eq!(Caller::read(None), (Caller::default(), Vec::new()));
        for text in ["7", "null", "{", ""] {
            let (caller, wrong) = Caller::read(Some(text));
            assert_eq!(caller, Caller::default(), "{text}");
            assert!(wrong.len() == 1 && wrong[0].contains("caller"), "{wrong:?}");
        }
    }

    #[test]
    fn a_field_in_another_shape_costs_no_other() {
        let text = r#"{"agent_id": "main", "session_key": 7, "chain": ["a"], "state_dir": null, "more": 1}"#;
        let (caller, wrong) = Caller::read(Some(text));
        let main = Caller {
            agent_id: Some("main".to_owned()),
            ..Caller::default()
        };
        assert_eq!(caller, main);
        assert_eq!(wrong.len(), 2, "{wrong:?}");
    }

    #[test]
    fn a_caller_is_told_by_agent_and_session() {
        let (caller, _) = Caller::read(Some(
            r#"{"agent_id":"main","session_key":"agent:main:x","chain":{"hop":1,"chain":"c"}}"#,
        ));
        assert_eq!(caller.label().as_deref(), Some("main in agent:main:x"));
        assert_eq!(caller.chain.map(|chain| chain.hop), Some(1));
        assert_eq!(Caller::default().label(), None);
    }
}
