//! Parses the output of `openclaw agents list --json`: a list of `{id, identityName, isDefault}`.

use a2a_server::executor::Agent;
use serde_json::Value;

use base::process::Finished;

use super::answer::{error, find_json};
use super::error::CommandError;

/// Returns the agents, the default agent first.
pub(super) fn read(finished: &Finished) -> Result<Vec<Agent>, CommandError> {
    let printed = String::from_utf8_lossy(&finished.out);
    let is_list = |value: &Value| {
        error(value).is_some() || value.as_array().is_some_and(|all| all.iter().all(is_agent))
    };
    let list =
        find_json(&printed, is_list).ok_or_else(|| CommandError::without_answer(finished))?;
    if let Some(message) = error(&list) {
        return Err(CommandError::reported(message));
    }
    let mut listed: Vec<_> = list
        .as_array()
        .map_or(&[][..], Vec::as_slice)
        .iter()
        .collect();
    listed.sort_by_key(|agent| agent["isDefault"] != true);
    Ok(listed.into_iter().filter_map(agent).collect())
}

fn is_agent(value: &Value) -> bool {
    value["id"].is_string()
}

fn agent(listed: &Value) -> Option<Agent> {
    let name = listed["id"].as_str()?;
    let title = listed["identityName"].as_str().or(listed["name"].as_str());
    Some(Agent {
        name: name.to_owned(),
        title: title.filter(|title| *title != name).map(str::to_owned),
        description: None,
        skills: Vec::new(),
    })
}
