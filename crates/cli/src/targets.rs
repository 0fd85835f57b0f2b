//! `remote-agent targets` and `card`: list the known agents, and print the card of one.

use openclaw_remote_agent::remote_agent::Reason;
use openclaw_remote_agent_interface::CallOptions;
use serde_json::{Value, json};

use super::{
    config::UnsetVariables,
    exit::{Exit, Failure},
    hints::{self, About, print_call_error},
    instance::{Instance, Library},
    output::{LineWriter, note},
    pin, sign_in,
    target::{PeerArgs, no_agents},
    tasks,
    text::{self, Table, field, terminal_width, wrap},
};

/// The id of a task that no agent has.
const CHECK_TASK: &str = "openclaw-remote-agent-check";

/// The maximum number of skills to name. For more skills the table only gives their number.
const MAX_NAMED_SKILLS: usize = 4;

const EXAMPLES: &str = "\
Examples:
  remote-agent targets --config agents.json
  remote-agent targets --url https://desk.example
  remote-agent targets --gateway ws://127.0.0.1:18789 \\
    --gateway-token-env OPENCLAW_GATEWAY_TOKEN
  remote-agent targets --gateway embedded --gateway-agent alpha=approve";

/// List the agents with the data of their cards
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
pub(super) async fn run(mut args: Args, verbose: bool) -> Result<Exit, Failure> {
    let library = Library::open(verbose)?;
    let _gateway = args.peers.local.embed().await?;
    let config = args.peers.config()?;
    let instance = library.interactive_instance(&config, args.peers.config_file().as_deref())?;
    let caller = args.peers.caller(false);
    let (text, envelope) = instance.list_targets(caller).await;
    let targets = envelope["summary"]["targets"].as_array().map(Vec::as_slice);
    let exit = match targets {
        Some(targets) => Exit::from_targets(targets),
        None => Exit::from_envelope(&envelope),
    };
    let lines = LineWriter::default();
    let missing = instance.unset_variables();
    match targets {
        _ if args.json => {
            missing.warn_if_unresolved(&text);
            lines.write(text);
        }
        None => print_call_error(&envelope, &args.peers, missing, About::default()),
        Some([]) => {}
        Some(targets) => {
            let gateway = &envelope["summary"]["gateway"];
            show(targets, gateway, &lines, &args.peers, missing);
            for target in targets {
                if let Some((state, _)) = pin::state(target) {
                    let state = format!("{}: {state}", alias(target));
                    lines.write(args.peers.with_source(&state));
                }
                if let Some(place) = card_place(target) {
                    lines.write(format!("{}: {place}", alias(target)));
                }
            }
            for (alias, state, _) in sign_in::states(&config, args.peers.user()) {
                lines.write(format!("{}: {state}", text::line(&alias)));
            }
            tasks::show_usage(&args.peers, targets);
            for hidden in args.peers.restricted(targets) {
                note(hidden);
            }
        }
    }
    if targets.is_some_and(<[Value]>::is_empty) {
        if !args.peers.aliases().is_empty() {
            return Err(Failure::usage(
                "every target allows only some agents (targets[].allowedAgents); name the calling agent with `--agent NAME`",
            ));
        }
        return Err(Failure::usage(no_agents(
            args.peers.config_file().as_deref(),
        )));
    }
    Ok(exit)
}

/// Checks the only target of an instance in the same way as `openclaw remote-agent add`. Returns the name in its card, and the
/// error; null if there is none.
pub(super) async fn check(instance: &Instance, alias: &str) -> (String, Value) {
    let (_, listed) = instance.list_targets(None).await;
    let seen = &listed["summary"]["targets"][0];
    let name = seen["target_name"].as_str().unwrap_or_default().to_owned();
    let error = match listed["ok"] == true {
        true => &seen["last_refresh_error"],
        false => &listed["error"],
    };
    if !error.is_null() {
        return (name, error.clone());
    }
    if let Some(place) = card_place(seen) {
        note(place);
    }
    // Uses the address, the transport and the credential of a message, and changes nothing at the agent.
    let request =
        json!({"action": "status", "target_alias": alias, "task_id": CHECK_TASK}).to_string();
    let status = instance.call(&request, CallOptions::default()).await;
    let status: Value = serde_json::from_str(&status).unwrap_or_default();
    let error = &status["error"];
    let is_answer = error.is_null() || hints::is_answer(error);
    (
        name,
        if is_answer {
            Value::Null
        } else {
            error.clone()
        },
    )
}

/// Returns a sentence about a card at the origin of a target with a path, which may be that of another agent.
pub(super) fn card_place(target: &Value) -> Option<String> {
    let place = text::line(target["card_url"].as_str()?);
    let below = field(target, "target_url");
    Some(format!(
        "card found at {place}, not under {below}; check the path, if another agent was meant"
    ))
}

fn show(
    targets: &[Value],
    gateway: &Value,
    lines: &LineWriter,
    peers: &PeerArgs,
    missing: &UnsetVariables,
) {
    let (local, remote): (Vec<&Value>, Vec<&Value>) = targets.iter().partition(|one| is_local(one));
    if !remote.is_empty() {
        let mut table = Table::new(["ALIAS", "NAME", "ADDRESS", "STREAMING", "CARD", "SKILLS"]);
        for target in &remote {
            table.add_row(remote_row(target));
        }
        lines.write(table.render());
    }
    if gateway.is_object() {
        let gap = if remote.is_empty() { "" } else { "\n" };
        lines.write(format!("{gap}{}", connection(gateway)));
    }
    if !local.is_empty() {
        let mut table = Table::new(["ALIAS", "STATUS", "STREAMING", "CARD", "ROLE"]);
        for target in &local {
            table.add_row(local_row(target));
        }
        lines.write(table.render());
    }
    let mut reported = false;
    for target in targets {
        // If the gateway is unreachable, all of its agents are.
        let of_gateway = is_local(target) && has_gateway_error(target, gateway);
        if of_gateway && std::mem::replace(&mut reported, true) {
            continue;
        }
        let name_override = if of_gateway { "gateway" } else { "" };
        if let Some(card_problem) = card_problem(target, name_override, peers, missing) {
            lines.write(card_problem);
        }
    }
}

fn remote_row(target: &Value) -> [String; 6] {
    let field = |name: &str| target[name].as_str().map(text::line);
    [
        alias(target),
        field("target_name").unwrap_or_else(|| "?".to_owned()),
        field("target_url").unwrap_or_default(),
        streaming(target).to_owned(),
        card(target),
        skills(&target["peer_card"]["skills"]),
    ]
}

fn local_row(target: &Value) -> [String; 5] {
    let [status, role] = status_and_role(target);
    let (alias, streaming) = (alias(target), streaming(target).to_owned());
    let is_away = matches!(&*status, "offline" | "error" | "unknown");
    // The gateway describes an agent that does not answer, so its card says nothing about a call.
    let card = match is_away && target["last_refresh_error"].is_null() {
        true => "-".to_owned(),
        false => card(target),
    };
    [alias, status, streaming, card, role]
}

fn alias(target: &Value) -> String {
    let alias = target["target_alias"].as_str().map(text::line);
    let default = match target["default"] == true {
        true => " (default)",
        false => "",
    };
    format!("{}{default}", alias.unwrap_or_default())
}

fn streaming(target: &Value) -> &'static str {
    match target["streaming_supported"].as_bool() {
        Some(true) => "yes",
        Some(false) => "no",
        None => "?",
    }
}

fn is_local(target: &Value) -> bool {
    target["status"].is_string()
}

/// Returns the state and the role of an agent of the gateway. For the triad, returns the members with their states.
fn status_and_role(target: &Value) -> [String; 2] {
    let field = |name: &str| target[name].as_str().map(text::line);
    let members = target["members"].as_array().into_iter().flatten();
    let member = |member: &Value| {
        let [name, status] = ["name", "status"].map(|name| member[name].as_str());
        Some(text::line(&format!("{} {}", name?, status?)))
    };
    let members: Vec<String> = members.filter_map(member).collect();
    let role = field("role")
        .into_iter()
        .chain((!members.is_empty()).then(|| members.join(", ")));
    [
        field("status").unwrap_or_default(),
        role.collect::<Vec<_>>().join(": "),
    ]
}

/// Returns the gateway connection and its parameters on one line.
fn connection(gateway: &Value) -> String {
    let field = |name: &str| field(gateway, name);
    let number = |name: &str| gateway[name].as_u64().unwrap_or_default();
    let dialect = gateway["dialect"].as_str().map(text::line);
    format!(
        "gateway {}: {} ({}), {}, subprotocol {}, timeout {} ms, heartbeat {} ms",
        field("url"),
        field("state"),
        number("state_code"),
        dialect.as_deref().unwrap_or("dialect not known"),
        field("protocol"),
        number("timeout_ms"),
        number("heartbeat_ms"),
    )
}

fn skills(skills: &Value) -> String {
    let all = skills.as_array().map_or(&[][..], Vec::as_slice);
    let name = |skill: &Value| {
        let name = skill["name"].as_str().or(skill["id"].as_str());
        name.map(text::line)
    };
    let mut named: Vec<String> = all.iter().take(MAX_NAMED_SKILLS).filter_map(name).collect();
    if all.len() > MAX_NAMED_SKILLS {
        named.push(format!("{} more", all.len() - MAX_NAMED_SKILLS));
    }
    named.join(", ")
}

/// Returns `ok`, or the reason for a missing card. A stale card still has a name.
fn card(target: &Value) -> String {
    let reason = target["last_refresh_error"]["reason"].as_str();
    match reason {
        None => "ok".to_owned(),
        Some(reason) if target["target_name"].is_string() => format!("old ({reason})"),
        Some(reason) => reason.to_owned(),
    }
}

/// Returns whether the agent has the same error as its gateway.
fn has_gateway_error(target: &Value, gateway: &Value) -> bool {
    let message = target["last_refresh_error"]["message"].as_str();
    message.is_some() && message == gateway["last_error"].as_str()
}

/// Returns the error of a card or of its configuration, with a hint.
fn card_problem(
    target: &Value,
    name_override: &str,
    peers: &PeerArgs,
    missing: &UnsetVariables,
) -> Option<String> {
    let error = target.get("last_refresh_error")?;
    let alias = match name_override {
        "" => field(target, "target_alias"),
        other => other.to_owned(),
    };
    let message = peers.with_source(&field(error, "message"));
    if Reason::in_error(error) == Some(Reason::CredentialUnresolved)
        && let Some(sentence) = peers.unset_sentence(missing, &message)
    {
        return Some(paragraphs(&[format!("{alias}: {sentence}")]));
    }
    let hint = hints::agent_hint(error, &alias, peers, is_local(target));
    let mut texts = vec![format!("{alias}: {message}")];
    if !hint.is_empty() {
        texts.push(format!("what to do: {hint}"));
    }
    Some(paragraphs(&texts))
}

/// Returns an empty line and the paragraphs, wrapped to the width of the terminal.
fn paragraphs(texts: &[String]) -> String {
    let width = terminal_width();
    let wrapped = texts.iter().map(|text| match width {
        Some(width) => wrap(text, width),
        None => text.clone(),
    });
    let lines: Vec<String> = wrapped.collect();
    format!("\n{}", lines.join("\n"))
}

const CARD_EXAMPLES: &str = "\
Examples:
  remote-agent card --url https://desk.example
  remote-agent card --config agents.json desk";

/// Print the card of an agent as JSON, with the settings of its target
#[derive(Debug, clap::Args)]
#[command(after_help = CARD_EXAMPLES)]
pub(super) struct CardArgs {
    /// The alias of the agent [default: the default of the configuration, else the first agent]
    alias: Option<String>,

    #[command(flatten)]
    peers: PeerArgs,

    /// Print one line
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// Runs the subcommand.
///
/// # Errors
/// The library or the configuration cannot be used, or no agent has the alias.
pub(super) async fn run_card(mut args: CardArgs, verbose: bool) -> Result<Exit, Failure> {
    let library = Library::open(verbose)?;
    let _gateway = args.peers.local.embed().await?;
    let instance =
        library.interactive_instance(&args.peers.config()?, args.peers.config_file().as_deref())?;
    let caller = args.peers.caller(false);
    let (_, envelope) = instance.list_targets(caller).await;
    let missing = instance.unset_variables();
    let Some(targets) = envelope["summary"]["targets"].as_array() else {
        print_call_error(&envelope, &args.peers, missing, About::default());
        return Ok(Exit::from_envelope(&envelope));
    };
    let chosen = match &args.alias {
        Some(alias) => targets
            .iter()
            .find(|target| target["target_alias"] == alias.as_str()),
        None => targets
            .iter()
            .find(|target| target["default"] == true)
            .or(targets.first()),
    };
    let Some(target) = chosen else {
        let name = args.alias.as_deref().map(text::line).unwrap_or_default();
        return Err(Failure::usage(format!(
            "no agent is called `{name}`; `remote-agent targets{}` lists the agents",
            args.peers.options()
        )));
    };
    if let Some(error) = target.get("last_refresh_error") {
        let failed = json!({"ok": false, "action": "list_targets", "error": error});
        print_call_error(&failed, &args.peers, missing, About::default());
        return Ok(Exit::from_error(error));
    }
    let card = match args.json {
        true => target.to_string(),
        false => format!("{target:#}"),
    };
    LineWriter::default().write(text::block(&card).into_owned());
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn many_skills_are_counted() {
        let all: Vec<_> = (1..=6).map(|n| json!({"id": n.to_string()})).collect();
        assert_eq!(skills(&json!(all)), "1, 2, 3, 4, 2 more");
    }

    #[test]
    fn stale_card_is_marked_old() {
        let target = json!({"target_name": "Desk", "last_refresh_error": {"reason": "timeout"}});
        assert_eq!(card(&target), "old (timeout)");
    }
}
