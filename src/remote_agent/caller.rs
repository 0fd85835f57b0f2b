//! Who calls, by the host's word.

use serde::Deserialize;

/// Who calls. It comes from the host, never from the request, so a model cannot pretend to be somebody else.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Caller {
    /// The host's agent.
    pub(super) agent_id: Option<String>,
    /// The host's session.
    pub(super) session_key: Option<String>,
}

impl Caller {
    /// Reads a caller. What a host says in another shape counts as nothing said; the text is for its log.
    pub(super) fn read(json: Option<&str>) -> (Self, Option<String>) {
        match json.map(serde_json::from_str) {
            None => (Self::default(), None),
            Some(Ok(caller)) => (caller, None),
            Some(Err(e)) => (
                Self::default(),
                Some(format!("the host's caller cannot be read: {e}")),
            ),
        }
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
        assert_eq!(Caller::read(None), (Caller::default(), None));
        let (caller, wrong) = Caller::read(Some("7"));
        assert_eq!(caller, Caller::default());
        assert!(wrong.is_some_and(|text| text.contains("caller")));
    }

    #[test]
    fn a_caller_is_told_by_agent_and_session() {
        let (caller, _) = Caller::read(Some(
            r#"{"agent_id":"main","session_key":"agent:main:x","chain":["a"]}"#,
        ));
        assert_eq!(caller.label().as_deref(), Some("main in agent:main:x"));
        assert_eq!(Caller::default().label(), None);
    }
}
