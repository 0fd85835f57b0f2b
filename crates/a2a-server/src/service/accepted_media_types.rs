//! The media types that a client accepts in answers (A2A 1.0 §3.2.2).

use super::SendMessage;
use super::core::Core;
use crate::executor::{Agent, OUTPUT_MODES};
use a2a::{A2aError, ErrorReason};

impl Core {
    /// Checks that the agent can answer in one of the accepted types. The answer may also contain parts of other types:
    /// the server does not remove them.
    pub(super) async fn check_output_modes(
        &self,
        send: &SendMessage,
        agent: Option<&str>,
    ) -> Result<(), A2aError> {
        let configuration = send.request.configuration.as_ref();
        let accepted =
            configuration.and_then(|configuration| configuration.accepted_output_modes.as_deref());
        let Some(accepted) = accepted.filter(|accepted| !accepted.is_empty()) else {
            return Ok(());
        };
        if OUTPUT_MODES.iter().any(|mode| accepts(accepted, mode)) {
            return Ok(());
        }
        let agents = self.agents().await?.agents;
        let agent = agent.or(self.settings.agent_id.as_deref());
        let agent = match agent {
            Some(name) => agents.iter().find(|agent| agent.name == name),
            None => agents.first(),
        };
        let own = agent.map(skill_modes).unwrap_or_default();
        if own.iter().any(|mode| accepts(accepted, mode)) {
            return Ok(());
        }
        let modes: Vec<&str> = OUTPUT_MODES.into_iter().chain(own).collect();
        Err(A2aError::new(
            ErrorReason::ContentTypeNotSupported,
            format!(
                "the agent supports none of the types in `acceptedOutputModes`; it returns {}",
                modes.join(", ")
            ),
        )
        .at("configuration.acceptedOutputModes"))
    }
}

/// Returns the output types of an agent's skills.
fn skill_modes(agent: &Agent) -> Vec<&str> {
    let skills = agent.skills.iter();
    let modes = skills.flat_map(|skill| skill.output_modes.iter().flatten());
    modes.map(String::as_str).collect()
}

/// Returns whether `accepted` includes `mode`. Older clients send `text` without a subtype. All text types count as
/// equal, because an agent's plain text is also readable as Markdown.
fn accepts(accepted: &[String], mode: &str) -> bool {
    let (family, _) = split(mode);
    accepted.iter().any(|accepted_mode| {
        let accepted_mode = accepted_mode.split(';').next().unwrap_or_default().trim();
        let (kind, subtype) = split(accepted_mode);
        let any = matches!(kind, "*" | "");
        let same = kind.eq_ignore_ascii_case(family)
            && (matches!(subtype, "*" | "") || kind.eq_ignore_ascii_case("text"));
        any || same || accepted_mode.eq_ignore_ascii_case(mode)
    })
}

fn split(media_type: &str) -> (&str, &str) {
    media_type.split_once('/').unwrap_or((media_type, ""))
}
