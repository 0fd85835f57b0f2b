//! Hints in terms of this command. The library's own hints refer to request fields and settings.

use a2a::ErrorReason;
use openclaw_remote_agent::remote_agent::Reason;
use serde_json::Value;

use super::{
    config::UnsetVariables,
    output::{note, print_error},
    target::{PeerArgs, no_agents},
    text,
};

/// The maximum number of agents that a hint names. For more agents it only gives their number.
const MAX_NAMED_AGENTS: usize = 5;

/// The hint to name an agent of a gateway that runs on after the command.
const NAME_LISTED: &str =
    "Name an agent of the gateway with `--target NAME`; `remote-agent targets` shows them.";

/// What a call was about.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct About<'a> {
    /// The alias of `--target`.
    pub(super) alias: Option<&'a str>,
    /// Each `--target`.
    pub(super) group: &'a [String],
    /// The URL of the agent in the continuation file.
    pub(super) continued_url: Option<&'a str>,
    /// The options that name the task of the command, with their agent.
    pub(super) task_options: Option<&'a str>,
}

/// Prints an error with its cause and a hint.
pub(super) fn print_call_error(
    envelope: &Value,
    peers: &PeerArgs,
    missing: &UnsetVariables,
    about: About<'_>,
) {
    let (message, hint) = call_error(envelope, peers, missing, about);
    print_error(&message);
    if let Some(hint) = hint {
        note(format_args!("what to do: {hint}"));
    }
}

/// Returns the error of a call with its cause, and a hint.
pub(super) fn call_error(
    envelope: &Value,
    peers: &PeerArgs,
    missing: &UnsetVariables,
    about: About<'_>,
) -> (String, Option<String>) {
    let error = &envelope["error"];
    let message = error["message"]
        .as_str()
        .unwrap_or("the library's answer is not one of its results; this is a bug of the plugin");
    let reason = Reason::in_error(error);
    if reason == Some(Reason::CredentialUnresolved)
        && let Some(sentence) = peers.unset_sentence(missing, message)
    {
        return (sentence, None);
    }
    let details = &error["details"];
    if lacks_target(details) && about.alias.is_none() && peers.aliases().is_empty() {
        return (no_agents(peers.config_file().as_deref()), None);
    }
    let alias = group_place(details).map_or(about.alias, |place| {
        about.group.get(place).map(String::as_str)
    });
    let invalid = match reason {
        Some(Reason::InvalidRequest) => invalid_arguments(details, alias),
        _ => None,
    };
    let message = invalid.unwrap_or_else(|| peers.with_source(&text::line(message)));
    let message = text::with_error_data(message, &details["rpcData"]);
    (message, hint(envelope, peers, about))
}

/// Returns a hint for a failed call. The commands in it have the options of this one, so that a user can paste them.
pub(super) fn hint(envelope: &Value, peers: &PeerArgs, about: About<'_>) -> Option<String> {
    let mut hint = general_hint(envelope, peers, about)?;
    let of_agents = peers.options();
    let of_task = about.task_options.unwrap_or_default();
    for (command, options) in [
        ("targets", &*of_agents),
        ("status", of_task),
        ("watch", of_task),
    ] {
        let command = format!("`remote-agent {command}");
        hint = hint.replace(&format!("{command}`"), &format!("{command}{options}`"));
    }
    Some(hint)
}

fn general_hint(envelope: &Value, peers: &PeerArgs, about: About<'_>) -> Option<String> {
    let error = &envelope["error"];
    let details = &error["details"];
    let of_gateway = peers.uses_gateway() || details["gateway_code"].is_number();
    let is_delivered = matches!(details["delivered"].as_str(), Some("unknown" | "yes"));
    let of_library = || details["hint"].as_str().map(for_command);
    let Some(reason) = Reason::in_error(error) else {
        return of_library();
    };
    if let Some(hint) = sign_in_hint(error) {
        return Some(hint.to_owned()).filter(|hint| !hint.is_empty());
    }
    let hint_text = match reason {
        Reason::InvalidRequest if lacks_target(details) && peers.local.uses_embedded() => {
            "Name an agent of the gateway with `--target NAME`."
        }
        Reason::InvalidRequest if lacks_target(details) && peers.uses_gateway() => NAME_LISTED,
        Reason::InvalidRequest if lacks_target(details) && !peers.aliases().is_empty() => {
            let known = alias_list(&peers.aliases());
            let is_named = is_at(details, "/target_alias") || group_place(details).is_some();
            return Some(match is_named {
                true => format!(
                    "Name a configured agent with `--target ALIAS` ({known}); `remote-agent targets` lists them."
                ),
                false => format!(
                    "Add `--target ALIAS` ({known}), or mark one agent of the configuration with `\"default\": true`."
                ),
            });
        }
        Reason::InvalidRequest if is_at(details, "/parts") => {
            "Write the message as TEXT, or add `--attach` or `--data`."
        }
        Reason::InvalidRequest if is_at(details, "/timeout_ms") => {
            "Set a timeout of at least a millisecond: `--timeout 5s`."
        }
        Reason::RpcError if details["rpcCode"] == ErrorReason::TaskNotFound.code() => {
            "Check the task id and the agent. `remote-agent send` starts a new task."
        }
        Reason::RpcError if details["rpcCode"] == ErrorReason::UnsupportedOperation.code() => {
            "The agent does not do this, or not in the state of the task. A task that works may take no message: `remote-agent watch` waits until it ends or asks; send again then."
        }
        Reason::RpcError if details["rpcCode"] == ErrorReason::TaskNotCancelable.code() => {
            "The task has ended. `remote-agent status` shows how."
        }
        Reason::HttpStatus => match details["http_status"].as_u64() {
            Some(429) if details["latest_event_summary"].is_null() => {
                "The agent, or a server before it, takes only so many requests in a time: wait, as long as the message says if it does, and then try again."
            }
            Some(429 | 500..) if is_delivered => {
                "The agent may have received the message: check before you send it again. The log of the agent's server has the cause."
            }
            Some(429 | 500..) => {
                "Try again later; if the error persists, the log of the agent's server has the cause."
            }
            _ => "Check the address of the agent: the server there does not accept this request.",
        },
        Reason::CardUnavailable if peers.is_agent_url() => {
            "The server has no agent of that name. `remote-agent targets --url URL` with the server's own address shows its card."
        }
        Reason::InvalidRequest => {
            let action = envelope["action"].as_str().unwrap_or_default();
            let action = action.replace("list_targets", "targets");
            return Some(format!("See `remote-agent help {action}`."));
        }
        Reason::TargetNotAllowed
            if let Some(url) = about.continued_url.filter(|_| peers.url.is_some()) =>
        {
            return Some(format!(
                "The continuation is of the agent at another URL: use `--url {}`.",
                text::shell(url)
            ));
        }
        Reason::TargetNotAllowed | Reason::AmbiguousTarget if peers.is_empty() => {
            "Name the agent again: with `--url URL`, or by its configuration with `--config FILE`."
        }
        Reason::TargetNotAllowed | Reason::AmbiguousTarget => {
            "Name an agent with `--target ALIAS`; `remote-agent targets` lists the known agents."
        }
        Reason::AgentNotAllowed => {
            "Name the calling agent with `--agent NAME`: one of the allowedAgents of this target in the configuration."
        }
        Reason::AgentNotFound if peers.local.uses_embedded() => {
            "Add the agent with `--gateway-agent NAME=approve`, or name another with `--target NAME`."
        }
        Reason::AgentNotFound => NAME_LISTED,
        Reason::AgentOffline if peers.local.uses_embedded() => {
            "Add the agent with `--gateway-agent NAME=approve`; a triad needs alpha, beta and charlie."
        }
        Reason::AgentOffline if peers.uses_gateway() => {
            "Start the agent (`remote-agent gateway agent --name NAME` starts a scripted one), or name one that `remote-agent targets` shows as online."
        }
        Reason::SessionNotFound | Reason::SessionExpired if !is_delivered => {
            "Omit `--context` and `--continuation` to start a new session."
        }
        Reason::MessageReturned => {
            "The output has the agent's answer. The agent answers without a task: omit `--task-required` in later messages."
        }
        Reason::StreamCut => "Show the task later with `remote-agent status`.",
        Reason::Timeout if details["latest_event_summary"]["continuation"]["task"].is_object() => {
            "The task continues: show it with `remote-agent status`. `--timeout 10m` waits longer."
        }
        Reason::Timeout if is_delivered => {
            "The agent may have received the message: check before you send it again. \
             A larger `--timeout` waits longer; `--task-required` returns a task at once."
        }
        Reason::Timeout => "Try again with a larger `--timeout`.",
        Reason::PersonRequired => {
            let task = about.task_options.unwrap_or_default();
            return Some(format!(
                "Nothing was sent: only a person at a terminal may answer this task, without a pipe and without `--json`. \
                 Run `remote-agent watch{task} --ask` in a terminal, which asks you; `remote-agent cancel{task}` gives the task up."
            ));
        }
        Reason::BudgetExceeded => {
            let alias = details["target_alias"].as_str().or(about.alias);
            return Some(budget_hint(details, alias, peers));
        }
        Reason::Busy => "Nothing was sent. Try again later, or with a larger `--timeout`.",
        reason => {
            let alias = details["target_alias"].as_str().or(about.alias);
            let hint_text = target_hint(reason, alias, peers, of_gateway);
            return hint_text.or_else(of_library);
        }
    };
    Some(hint_text.to_owned())
}

/// Returns the command that raises the budget which did not suffice.
fn budget_hint(details: &Value, alias: Option<&str>, peers: &PeerArgs) -> String {
    let whose = match details["scope"].as_str() {
        Some("target") => format!(
            " {}",
            alias.map_or_else(|| "TARGET".to_owned(), text::shell)
        ),
        Some("chain") => " --chain ID".to_owned(),
        _ => String::new(),
    };
    let amount = match details["unit"].as_str() {
        Some("calls") | None => "calls=1",
        Some("seconds") => "seconds=60",
        Some("tokens") => "tokens=1000",
        Some(_) => "usd=1",
    };
    let source = peers.source();
    format!(
        "Nothing was sent. `remote-agent budget{whose}{source} --add {amount}` raises the budget, and `remote-agent budget{source}` shows it."
    )
}

/// Returns the hint of an error about a person's sign-in: empty where its message has the command.
fn sign_in_hint(error: &Value) -> Option<&'static str> {
    if names_sign_in(error) {
        return Some("");
    }
    let message = error["message"].as_str()?;
    let is_nameless = message.contains(egress::sign_in::NAMELESS);
    is_nameless.then_some("Name the person with `--person NAME`.")
}

/// Returns whether the error names the command that mends it, so that a hint would only repeat it.
pub(super) fn names_sign_in(error: &Value) -> bool {
    let message = error["message"].as_str().unwrap_or_default();
    message.contains("`remote-agent sign-in ")
}

/// Returns whether a working agent answers with this error, to a request that it does not support or for an unknown task.
pub(super) fn is_answer(error: &Value) -> bool {
    use Reason as R;
    let reason = Reason::in_error(error);
    matches!(
        reason,
        Some(R::RpcError | R::HttpStatus | R::InvalidResponse | R::TooLarge)
    )
}

/// Returns the hint for the agent `alias` that cannot be called, from its error or from the library. `of_gateway` means that
/// the agent is behind the local gateway.
pub(super) fn agent_hint(error: &Value, alias: &str, peers: &PeerArgs, of_gateway: bool) -> String {
    if let Some(hint) = sign_in_hint(error) {
        return hint.to_owned();
    }
    Reason::in_error(error)
        .and_then(|reason| target_hint(reason, Some(alias), peers, of_gateway))
        .or_else(|| error["details"]["hint"].as_str().map(for_command))
        .unwrap_or_default()
}

fn target_hint(
    reason: Reason,
    alias: Option<&str>,
    peers: &PeerArgs,
    of_gateway: bool,
) -> Option<String> {
    let configured = peers.secret_variable(alias);
    match (reason, peers.token_variable().or(configured.as_deref())) {
        (Reason::AuthRequired | Reason::AuthFailed | Reason::TokenExpired, Some(variable)) if peers.uses_gateway() => Some(format!(
            "Check the token in the environment variable `{variable}`: the gateway refused it."
        )),
        (Reason::AuthRequired | Reason::AuthFailed | Reason::TokenExpired, None) if peers.uses_gateway() => Some(
            "Name the environment variable with the gateway's token with `--gateway-token-env VAR`.".to_owned(),
        ),
        (Reason::ConnectionRefused, _) if peers.uses_gateway() => Some(
            "Start the gateway (`remote-agent gateway` runs one of a2a-v1), or check the address of `--gateway`."
                .to_owned(),
        ),
        (Reason::ProtocolError, _) if peers.uses_gateway() => Some(
            "Check the address of `--gateway` and the value of `--gateway-dialect`: the message names the server that answers."
                .to_owned(),
        ),
        (Reason::Dns | Reason::Unreachable | Reason::Tls | Reason::RedirectRefused | Reason::InvalidResponse, _) if peers.uses_gateway() => Some(
            "Check that the gateway runs, its certificate, and the address of `--gateway`: another program may answer there.".to_owned(),
        ),
        (Reason::AddressRefused, _) if peers.uses_gateway() => Some(
            "A gateway on another machine needs an address that begins with `wss:`.".to_owned(),
        ),
        // The library's own hint covers the settings of the gateway.
        (Reason::AuthRequired | Reason::AddressRefused, _) if of_gateway => None,
        (Reason::AuthRequired, Some(variable)) => Some(format!(
            "Check the secret in the environment variable `{variable}`: the agent refused it."
        )),
        (Reason::AuthRequired, None) if peers.reads_config() => {
            Some("Check targets[].auth of this agent in the configuration: the agent requires a credential, or refused the configured one.".to_owned())
        }
        (Reason::AuthRequired, None) => Some(
            "Name the agent with `--url URL` and its token with `--bearer-env VAR`, or set targets[].auth in a configuration."
                .to_owned(),
        ),
        (Reason::AddressRefused, _) if peers.reads_config() => Some(
            "If the agent may be at such an address, set targets[].allowPrivateNetwork in the configuration."
                .to_owned(),
        ),
        (Reason::AddressRefused, _) => Some(
            "If the agent may be at such an address, name it with `--url URL` and add `--allow-private`."
                .to_owned(),
        ),
        (Reason::CredentialUnresolved, _) if peers.openclaw().is_some() => {
            Some("Only OpenClaw reads this secret: use `openclaw remote-agent` for this agent, with the same arguments. This command reads the sources `env` and `file`.".to_owned())
        }
        (Reason::Tls, _) if peers.url.is_some() => Some(
            "Check that the address begins with the right scheme. `--ca-file FILE` trusts the certificates in a file, as tls.caFile does in a configuration."
                .to_owned(),
        ),
        (Reason::Tls, _) if !of_gateway => Some(
            "Check that the address begins with the right scheme. Set targets[].tls.caFile to a file with the certificates to trust."
                .to_owned(),
        ),
        (Reason::CredentialUnresolved, _) => {
            Some("The command resolves references with the source `env` only: set the secret in an environment variable and refer to it with `{\"source\": \"env\", \"id\": \"NAME\"}`.".to_owned())
        }
        _ => None,
    }
}

/// What the library's hints say to the caller of the tool, and the words of this command for it.
const WORDS: [(&str, &str); 21] = [
    (
        "With follow_updates or task_requirement: required there is a task to ask about.",
        "With `--follow` or `--task-required` there is a task to ask about.",
    ),
    (
        "With task_requirement: required there is a task to ask about.",
        "With `--task-required` there is a task to ask about.",
    ),
    (
        "call status or watch with details.latest_event_summary.continuation",
        "show it with `remote-agent status`, or follow it with `remote-agent watch`",
    ),
    (
        "Call status for the current state of the task, or ask the operator to raise limits.eventBytes",
        "Show the task with `remote-agent status`, or raise limits.eventBytes in the configuration",
    ),
    (
        "Ask the user first, or the operator about the cause.",
        "Look for the cause first.",
    ),
    (
        "Ask the operator to set the secret, and use the tool through a running gateway.",
        "Set the secret.",
    ),
    (
        "Ask the agent for fewer artifacts, or the operator to raise",
        "Ask the agent for fewer artifacts, or raise",
    ),
    (
        "Ask the agent for less, or the operator to raise",
        "Ask the agent for less, or raise",
    ),
    (
        "Ask for less (history_length), or ask the operator to raise limits.",
        "Raise `limits` in the configuration.",
    ),
    (
        "else ask the operator to correct targets[].auth, or to mend what the message says",
        "else correct targets[].auth in the configuration, or what the message says",
    ),
    (
        "Call again after details.retry_after_ms, or use another agent.",
        "Try again later, or use another agent.",
    ),
    (
        "Use another agent, or ask the operator to list",
        "Use another agent, or list",
    ),
    (
        "Use another agent, or ask the operator for",
        "Use another agent, or get",
    ),
    (
        "Call list_targets and use one of the gateway's agents it shows",
        "`remote-agent targets` shows the agents of the gateway",
    ),
    (
        "or use another one that list_targets shows as online",
        "or use another one that `remote-agent targets` shows as online",
    ),
    ("Send without context_id", "Send without `--context`"),
    ("send without context_id", "send without `--context`"),
    ("Leave out context_id", "Leave out `--context`"),
    ("Call again", "Try again"),
    ("call again", "try again"),
    (
        "Use JSONRPC or HTTP+JSON, where",
        "Use `--transport JSONRPC` or `--transport HTTP+JSON`, where",
    ),
];

/// Returns a hint of the library on one line, in the words of this command. Its user is also the operator.
fn for_command(hint: &str) -> String {
    let mut hint = text::line(hint);
    for (tool, command) in WORDS {
        hint = hint.replace(tool, command);
    }
    let Some(rest) = hint.strip_prefix("Ask the operator to ") else {
        return hint;
    };
    let mut letters = rest.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// Returns why the arguments make no request, from the violations of the request. `named` is the alias of `--target`.
pub(super) fn invalid_arguments(details: &Value, named: Option<&str>) -> Option<String> {
    let first = &details["errors"][0];
    let message = first["message"].as_str()?;
    let place = match group_place(details) {
        Some(_) => "/target_alias",
        None => first["instancePath"].as_str()?,
    };
    Some(match (place, first["keyword"].as_str()?) {
        ("/target_alias", "enum" | "anyOf" | "pattern") => match named {
            Some(alias) => format!("no agent is called `{}`", text::line(alias)),
            None => "no agent has this name".to_owned(),
        },
        ("", "anyOf") => "no agent is named, and none is the default".to_owned(),
        ("", _) => text::line(message),
        (place, keyword) => {
            let option = match place.split('/').nth(1)? {
                "context_id" => "`--context`",
                "task_id" => "`--task`",
                "timeout_ms" => "`--timeout`",
                "continuation" => "`--continuation`",
                "target_alias" | "target_aliases" => "`--target`",
                "mode" => "`--mode`",
                "quorum" => "`--quorum`",
                "choices" => "`--choice`",
                "choice_pointer" => "`--choice-pointer`",
                "target_url" => "`--url`",
                "parts" => "the message",
                _ => return Some(text::line(&format!("{place} {message}"))),
            };
            let message = match keyword {
                "minLength" | "minItems" => "it is empty".to_owned(),
                _ => text::line(message),
            };
            format!("cannot use {option}: {message}")
        }
    })
}

/// Returns whether the request named no agent and there is no default, or named an unknown agent.
pub(super) fn lacks_target(details: &Value) -> bool {
    let errors = details["errors"].as_array().map_or(&[][..], Vec::as_slice);
    errors.iter().any(|error| {
        let (place, keyword) = (&error["instancePath"], &error["keyword"]);
        let is_alias = place == "/target_alias" || group_place(details).is_some();
        (place == "" && keyword == "anyOf") || (is_alias && keyword == "enum")
    })
}

/// Returns which agent of a group the first error of the request is about.
fn group_place(details: &Value) -> Option<usize> {
    let place = details["errors"][0]["instancePath"].as_str()?;
    place.strip_prefix("/target_aliases/")?.parse().ok()
}

/// Returns whether the first error of the request is at this JSON Pointer.
fn is_at(details: &Value, place: &str) -> bool {
    details["errors"][0]["instancePath"] == place
}

fn alias_list(aliases: &[String]) -> String {
    let shown = aliases.iter().take(MAX_NAMED_AGENTS);
    let mut shown: Vec<_> = shown
        .map(|alias| format!("`{}`", text::line(alias)))
        .collect();
    if aliases.len() > MAX_NAMED_AGENTS {
        shown.push(format!("{} more", aliases.len() - MAX_NAMED_AGENTS));
    }
    shown.join(", ")
}

#[cfg(test)]
mod tests;
