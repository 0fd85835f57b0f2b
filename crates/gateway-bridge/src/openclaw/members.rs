//! The agents behind the gateway.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use crate::ListPurpose;
use crate::dial::failed;
use a2a::{Capabilities, Card, CardView, Interface, Security};
use collective::ErrorCode;
use peer::{Member, MemberStatus};

use super::OpenClaw;
use super::protocol::RequestError;

/// The timeout of the list of busy sessions. After it, all agents count as online.
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// The media types that agents accept (see `message.rs`).
const INPUT_MODES: [&str; 6] = [
    "text/plain",
    "application/json",
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
];

/// The size of a page of busy sessions.
const SESSION_PAGE_LEN: u64 = 200;

impl OpenClaw {
    /// Returns the gateway's agents. For [`ListPurpose::List`], includes whether each agent is busy.
    pub(super) async fn list_agents(&self, wait: ListPurpose) -> Result<Vec<Member>, RequestError> {
        let params = json!({});
        let request = self
            .connection
            .request("agents.list", &params, Duration::ZERO);
        let (listed, busy) = match wait {
            ListPurpose::List => (request.await?, self.busy_agents().await),
            ListPurpose::Send => {
                let listed = timeout(self.settings.list_wait(), request).await;
                (listed.unwrap_or_else(|_| Err(self.list_timeout()))?, None)
            }
        };
        let agents = listed["agents"].as_array().map_or(&[][..], Vec::as_slice);
        let mut agents: Vec<_> = agents.iter().collect();
        // The gateway's default agent comes first.
        agents.sort_by_key(|agent| agent["id"] != listed["defaultId"]);
        Ok(agents
            .into_iter()
            .filter(|agent| agent["kind"] != "system")
            .filter_map(|agent| member(agent, busy.as_ref()))
            .collect())
    }

    fn list_timeout(&self) -> RequestError {
        let message = format!(
            "the gateway at `{}` does not list its agents",
            self.settings.display_url()
        );
        RequestError::Connection(failed(ErrorCode::ConnectionTimeout, message))
    }

    /// Returns the agents with a running session, if the gateway answers in time.
    async fn busy_agents(&self) -> Option<HashSet<String>> {
        let params = json!({ "activeOnly": true, "limit": SESSION_PAGE_LEN });
        let request = self
            .connection
            .request("sessions.list", &params, Duration::ZERO);
        let listed = timeout(BUSY_TIMEOUT, request).await.ok()?.ok()?;
        let sessions = listed["sessions"].as_array()?.iter();
        Some(
            sessions
                .filter_map(|session| session["agentId"].as_str().map(str::to_owned))
                .collect(),
        )
    }
}

/// Reads an agent of the list, without its workspace and model, which are private.
fn member(agent: &Value, busy: Option<&HashSet<String>>) -> Option<Member> {
    let text = |pointer: &str| {
        let text = agent.pointer(pointer).and_then(Value::as_str);
        text.filter(|text| !text.trim().is_empty())
            .map(str::to_owned)
    };
    let name = text("/id")?;
    let role = text("/identity/theme");
    let status = match busy {
        _ if agent["status"] == "degraded" => MemberStatus::Error,
        Some(busy) if busy.contains(&name) => MemberStatus::Busy,
        Some(_) => MemberStatus::Idle,
        None => MemberStatus::Online,
    };
    let card = Card {
        interfaces: vec![Interface::new("GATEWAY", format!("/agents/{name}"))],
        streaming: Some(true),
        has_extended_card: false,
        required_extensions: Vec::new(),
        security: Security::default(),
        view: Ok(CardView {
            name: text("/identity/name")
                .or_else(|| text("/name"))
                .or_else(|| Some(name.clone())),
            description: role.clone(),
            preferred_transport: Some("GATEWAY".into()),
            capabilities: Capabilities {
                streaming: Some(true),
                push_notifications: Some(false),
                ..Capabilities::default()
            },
            default_input_modes: INPUT_MODES.map(str::to_owned).into(),
            default_output_modes: vec!["text/plain".into()],
            ..CardView::default()
        }),
    };
    Some(Member {
        name,
        role,
        status,
        members: Vec::new(),
        card,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn agent() -> Value {
        json!({"id": "alpha", "name": "Alpha the careful", "identity": {"name": "Alpha", "theme": "steward of safety"},
            "workspace": "/home/user1/alpha", "model": {"primary": "fake/scripted"}})
    }

    #[test]
    fn agent_has_name_and_role_without_paths() {
        let member = member(&agent(), None).unwrap();
        assert_eq!(
            (member.name.as_str(), member.role.as_deref()),
            ("alpha", Some("steward of safety"))
        );
        assert_eq!(
            member.card.view.as_ref().unwrap().name.as_deref(),
            Some("Alpha")
        );
        let all = format!("{member:?}");
        assert!(!all.contains("user1") && !all.contains("scripted"), "{all}");
    }

    #[test]
    fn agent_with_running_session_is_busy() {
        let busy: HashSet<String> = ["alpha".to_owned()].into();
        let status = |busy: Option<&HashSet<String>>| member(&agent(), busy).unwrap().status;
        assert_eq!(status(Some(&busy)), MemberStatus::Busy);
        assert_eq!(status(Some(&HashSet::new())), MemberStatus::Idle);
        assert_eq!(status(None), MemberStatus::Online);
    }

    #[test]
    fn degraded_agent_has_error_status() {
        let mut agent = agent();
        agent["status"] = "degraded".into();
        assert_eq!(
            member(&agent, Some(&HashSet::new())).unwrap().status,
            MemberStatus::Error
        );
    }
}
