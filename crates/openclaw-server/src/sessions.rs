//! Maps A2A contexts to sessions of OpenClaw.

use a2a_server::service::SessionMapper;

use gateway_bridge::session_key;

/// The mapping of `session_key.rs`. It has no state, so all servers of one OpenClaw compute the same mapping.
#[derive(Debug, Clone, Copy, Default)]
pub struct SessionKeys;

impl SessionMapper for SessionKeys {
    fn session_id(&self, client: Option<&str>, context_id: &str) -> String {
        match client {
            Some(client) => session_key::session_id_of_client(client, context_id),
            None => session_key::session_id(context_id),
        }
    }

    fn context_id(&self, session_id: &str) -> Option<String> {
        let tidy = session_id.strip_prefix(session_key::PREFIX)?;
        (session_key::session_id(tidy) == session_id).then(|| tidy.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_key_round_trips_through_the_context_id() {
        for context in ["user:123/session:456", "My context", "…", "a"] {
            let session = SessionKeys.session_id(None, context);
            let found = SessionKeys.context_id(&session);
            let again = found.map(|context| SessionKeys.session_id(None, &context));
            assert_eq!(again, Some(session));
        }
    }

    #[test]
    fn foreign_session_has_no_context_id() {
        for session in ["main", "my-session", "a2a-", "a2a-Two Words"] {
            assert_eq!(SessionKeys.context_id(session), None, "{session}");
        }
    }

    #[test]
    fn context_of_two_clients_is_two_sessions() {
        let of = |client| SessionKeys.session_id(client, "talk");
        assert_ne!(of(Some("alice")), of(Some("bob")));
        assert_ne!(of(Some("alice")), of(None));
    }
}
