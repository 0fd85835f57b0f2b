//! `remote-agent targets`.

use std::io::IsTerminal;

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::{Value, json};

use super::{
    config::Missing,
    door::Door,
    exit::{Exit, Failure},
    hints::{self, NAME_ONE},
    outcome::tell_error,
    output::Lines,
    target::PeerArgs,
    text,
};

/// More skills than these are counted, not named.
const SKILLS: usize = 4;

const EXAMPLES: &str = "\
Examples:
  remote-agent targets --config agents.json
  remote-agent targets --url https://desk.example";

/// Show the agents that can be called, with what their cards say
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    peers: PeerArgs,

    /// Print the envelope as a line of JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// Runs the subcommand.
///
/// # Errors
/// The library or the configuration cannot be used.
pub(super) async fn run(args: Args, verbose: bool) -> Result<Exit, Failure> {
    let door = Door::open(verbose)?;
    let instance = door.instance_for_people(&args.peers.config()?)?;
    let request = json!({"action": "list_targets"}).to_string();
    let caller = args.peers.caller();
    let text = instance
        .call(&request, caller.as_deref(), None::<fn(&str)>)
        .await;
    let envelope: Value = serde_json::from_str(&text).unwrap_or_default();
    let targets = envelope["summary"]["targets"].as_array().map(Vec::as_slice);
    let exit = match targets {
        Some(targets) => Exit::of_targets(targets),
        None => Exit::of_envelope(&text),
    };
    let lines = Lines::default();
    let missing = instance.missing();
    match targets {
        _ if args.json => {
            missing.warn_about(&text);
            lines.write(text);
        }
        None => tell_error(&envelope, &args.peers, missing),
        Some([]) => {}
        Some(targets) => show(targets, &lines, &args.peers, missing),
    }
    if targets.is_some_and(<[Value]>::is_empty) {
        if !args.peers.aliases().is_empty() {
            return Err(Failure::usage(
                "every configured agent is for some agents only (targets[].allowedAgents); name the one that calls with `--agent NAME`",
            ));
        }
        return Err(Failure::usage(format!(
            "no agents are configured; add one to `targets` of the configuration, or {NAME_ONE}"
        )));
    }
    Ok(exit)
}

fn show(targets: &[Value], lines: &Lines, peers: &PeerArgs, missing: &Missing) {
    let mut table = Table::new();
    if std::io::stdout().is_terminal() {
        table
            .load_preset(presets::UTF8_FULL_CONDENSED)
            .set_content_arrangement(ContentArrangement::Dynamic);
    } else {
        table.load_preset(presets::NOTHING);
    }
    table.set_header(["ALIAS", "NAME", "ADDRESS", "STREAMING", "SKILLS", "CARD"]);
    for target in targets {
        table.add_row(row(target));
    }
    lines.write(table.trim_fmt());
    for target in targets {
        if let Some(problem) = problem(target, peers, missing) {
            lines.write(problem);
        }
    }
}

fn row(target: &Value) -> [String; 6] {
    let field = |name: &str| target[name].as_str().map(text::line);
    let default = if target["default"] == true {
        " (default)"
    } else {
        ""
    };
    let streaming = match target["streaming_supported"].as_bool() {
        Some(true) => "yes",
        Some(false) => "no",
        None => "?",
    };
    [
        format!("{}{default}", field("target_alias").unwrap_or_default()),
        field("target_name").unwrap_or_else(|| "?".to_owned()),
        field("target_url").unwrap_or_default(),
        streaming.to_owned(),
        skills(&target["peer_card"]["skills"]),
        card(target).to_owned(),
    ]
}

fn skills(skills: &Value) -> String {
    let all = skills.as_array().map_or(&[][..], Vec::as_slice);
    let name = |skill: &Value| {
        let name = skill["name"].as_str().or(skill["id"].as_str());
        name.map(text::line)
    };
    let mut named: Vec<String> = all.iter().take(SKILLS).filter_map(name).collect();
    if all.len() > SKILLS {
        named.push(format!("{} more", all.len() - SKILLS));
    }
    named.join(", ")
}

/// `ok`, or why there is no card; a card that could not be refreshed still has its name.
fn card(target: &Value) -> String {
    let reason = target["last_refresh_error"]["reason"].as_str();
    match reason {
        None => "ok".to_owned(),
        Some(reason) if target["target_name"].is_string() => format!("old ({reason})"),
        Some(reason) => reason.to_owned(),
    }
}

/// What is wrong with the card, and what to do about it.
fn problem(target: &Value, peers: &PeerArgs, missing: &Missing) -> Option<String> {
    let error = target.get("last_refresh_error")?;
    let part = |value: &Value| value.as_str().map(text::line).unwrap_or_default();
    let alias = part(&target["target_alias"]);
    let message = part(&error["message"]);
    let reason = part(&error["reason"]);
    if reason == "credential_unresolved"
        && let Some(unset) = missing.behind(&message).next()
    {
        return Some(format!("\n{alias}: {}", unset.sentence()));
    }
    let hint = hints::of_target(&reason, peers);
    let hint = hint.unwrap_or_else(|| part(&error["details"]["hint"]));
    Some(format!("\n{alias}: {message}\nwhat to do: {hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_skills_are_counted() {
        let all: Vec<_> = (1..=6).map(|n| json!({"id": n.to_string()})).collect();
        assert_eq!(skills(&json!(all)), "1, 2, 3, 4, 2 more");
    }

    #[test]
    fn a_card_that_could_not_be_refreshed_is_old() {
        let target = json!({"target_name": "Desk", "last_refresh_error": {"reason": "timeout"}});
        assert_eq!(card(&target), "old (timeout)");
    }
}
