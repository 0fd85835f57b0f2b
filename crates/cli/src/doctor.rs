//! `remote-agent doctor`: prints one line per check, and a fix for each problem.

use std::time::{Duration, SystemTime};

use base::environment::unix_seconds;
use base::redact::is_credential_header;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use openclaw_remote_agent::{remote_agent::Reason, sign_in::issuer_faults};
use serde_json::{Value, json};

use super::{
    config,
    exit::{Exit, Failure},
    hints,
    instance::{self, Library},
    openclaw::{is_secret_place, visit},
    output::Findings,
    pin, sign_in,
    target::{PeerArgs, name_an_agent},
    targets,
    text::{field, line},
};

const EXAMPLES: &str = "\
Examples:
  remote-agent doctor --config agents.json
  remote-agent doctor --url https://desk.example --bearer-env DESK_TOKEN
  remote-agent doctor --gateway ws://127.0.0.1:18789 \\
    --gateway-token-env OPENCLAW_GATEWAY_TOKEN

`openclaw remote-agent doctor` checks the settings inside OpenClaw, too.";

/// The library redacts no shorter secret, because words of that length occur in every text.
const MIN_REDACTED_BYTES: usize = 6;

/// The fix for clocks that differ.
const CLOCK_REPAIR: &str = "Synchronize the clock of this machine, for example with `timedatectl set-ntp true`; if it is right, the agent's operator has to. Tokens with an expiry fail until then.";

/// How long an authorization server may take to answer with its metadata.
const ISSUER_TIMEOUT: Duration = Duration::from_secs(10);

/// The fix for metadata that cannot be used.
const ISSUER_REPAIR: &str =
    "Correct `auth` of the target: no person can sign in, and no token is renewed, until then.";

/// The fix for a card that is not the accepted one.
const PIN_REPAIR: &str = "Look at the changes, and accept them with `--accept` if they are those of the agent's operator.";

/// The fix for an invalid configuration.
const SETTING_REPAIR: &str = "Correct the setting; docs/reference/settings.md lists all of them.";

/// Check the library, the configuration and the agents, with a repair for each fault
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    peers: PeerArgs,

    /// Print the findings as a line of JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// Runs the subcommand.
///
/// # Errors
/// The options cannot be used together, or a file cannot be read.
pub(super) async fn run(mut args: Args, verbose: bool) -> Result<Exit, Failure> {
    let mut findings = Findings::default();
    let now = unix_seconds(SystemTime::now());
    let exit = check(&mut args.peers, verbose, now, &mut findings).await?;
    findings.print(args.json);
    Ok(exit)
}

async fn check(
    peers: &mut PeerArgs,
    verbose: bool,
    now: u64,
    findings: &mut Findings,
) -> Result<Exit, Failure> {
    let library =
        match instance::find_library().and_then(|path| Ok((path, Library::open(verbose)?))) {
            Ok((path, library)) => {
                findings.ok("library", format!("{}", path.display()));
                library
            }
            Err(failure) => {
                let repair =
                    "Build command and library from the same sources with `cargo build --release`.";
                findings.error("library", failure.message, repair);
                return Ok(Exit::Failed);
            }
        };
    if !peers.is_known()? {
        let message = "no agent is configured".to_owned();
        let repair = format!("N{}.", &name_an_agent()[1..]);
        findings.error("agents", message, &repair);
        return Ok(Exit::Usage);
    }
    let _gateway = peers.local.embed().await?;
    let loaded = peers.load()?;
    let config = loaded.resolved;
    let resolved = match config::resolve(&config, |name| std::env::var(name).ok()) {
        Ok((resolved, _)) => resolved,
        Err(error) => {
            findings.error(
                "configuration",
                config::sentence(&error, peers.config_file().as_deref()),
                SETTING_REPAIR,
            );
            return Ok(Exit::Usage);
        }
    };
    for (place, token) in secrets(&resolved) {
        if expiry(&token).is_some_and(|at| at <= now) {
            let message = format!("the token at `{place}` has expired");
            findings.error("secrets", message, "Get a new token.");
        }
        if (1..MIN_REDACTED_BYTES).contains(&token.len()) {
            let message = format!(
                "`{place}` has less than {MIN_REDACTED_BYTES} bytes, and answers that repeat it show it"
            );
            findings.warn("secrets", message, "Use a longer secret.");
        }
    }
    for (place, _) in secrets(&loaded.written) {
        let message = format!("`{place}` is a secret in plain text");
        let repair = "Put it into an environment variable and refer to it: {\"source\": \"env\", \"id\": \"NAME\"}.";
        findings.warn("secrets", message, repair);
    }
    let instance = match library.instance(&config) {
        Ok(instance) => instance,
        Err(error) => {
            let message = config::sentence(&error, peers.config_file().as_deref());
            findings.error("configuration", message, SETTING_REPAIR);
            return Ok(Exit::Usage);
        }
    };
    let message = match &loaded.openclaw {
        Some(files) => format!("the settings in `{}` are valid", files.config.display()),
        None => "the settings are valid".to_owned(),
    };
    findings.ok("configuration", message);
    let unset = instance.unset_variables();
    let env_file = loaded.openclaw.as_ref();
    let env_file = env_file.map(|files| files.environment.file());
    for variable in unset.iter() {
        findings.error("secrets", variable.fault(), &variable.repair(env_file));
    }
    let caller = json!({"agent_id": peers.agent(), "user": peers.user(), "list_tasks": true});
    let caller = caller.to_string();
    let (_, listing) = instance.list_targets(Some(caller)).await;
    let Some(targets) = listing["summary"]["targets"].as_array() else {
        let error = &listing["error"];
        let hint = field(&error["details"], "hint");
        findings.error("agents", field(error, "message"), &hint);
        return Ok(Exit::from_envelope(&listing));
    };
    if listing["summary"]["budget_error"].is_string() {
        let message = peers.with_source(&field(&listing["summary"], "budget_error"));
        let repair =
            "Do what the message says; no message goes to a target with a budget until then.";
        findings.error("budget", message, repair);
    }
    for (alias, fault) in issuer_faults(&resolved, ISSUER_TIMEOUT).await {
        let is_of_agent = |target: &Value| {
            let message = failure(target).map(|error| field(error, "message"));
            target["target_alias"] == *alias && message.is_some_and(|all| all.contains(&fault))
        };
        // The finding about the agent says it too.
        if !targets.iter().any(is_of_agent) {
            let message = format!("{}: {fault}", line(&alias));
            findings.error("issuer", message, ISSUER_REPAIR);
        }
    }
    // After the listing, which renews a token or learns that its sign-in is over.
    let mut signed_out = Vec::new();
    for (alias, state, command) in sign_in::states(&config, peers.user()) {
        let message = format!("{}: {state}", line(&alias));
        match command {
            None => findings.ok("sign-in", message),
            Some(command) => {
                let repair = format!("Sign in with `{}`.", peers.with_source(&command));
                findings.error("sign-in", message, &repair);
                signed_out.push(alias);
            }
        }
    }
    for target in targets {
        let is_signed_out = signed_out
            .iter()
            .any(|alias| target["target_alias"] == **alias);
        let lacks_variable = |error: &Value| {
            Reason::in_error(error) == Some(Reason::CredentialUnresolved)
                && unset.named_in(&field(error, "message")).next().is_some()
        };
        let is_same =
            |error| (is_signed_out && hints::names_sign_in(error)) || lacks_variable(error);
        if failure(target).is_some_and(is_same) {
            // The finding above is the same.
            continue;
        }
        check_agent(target, peers, findings);
    }
    for hidden in peers.restricted(targets) {
        findings.ok("agent", format!("{hidden} to check it"));
    }
    let settings: Value = serde_json::from_str(&config).unwrap_or_default();
    let configured = settings["targets"].as_array().into_iter().flatten();
    for target in configured.filter(|target| !target["card"].is_null()) {
        let alias = field(target, "alias");
        let message = format!("{alias}: its card is in the settings, and not read from the agent");
        findings.ok("agent", message);
    }
    if targets.is_empty() && peers.aliases().is_empty() {
        let place = peers.config_file();
        let place = place.map(|file| format!(" in `{}`", file.display()));
        let message = format!("no agents are configured{}", place.unwrap_or_default());
        let repair = format!("Add one to `targets`, or {}.", name_an_agent());
        findings.error("agents", message, &repair);
        return Ok(Exit::Usage);
    }
    if targets.is_empty() {
        let message = "no target allows the calling agent".to_owned();
        let repair = "Add one to `targets`, or name the caller with `--agent NAME`.";
        findings.error("agents", message, repair);
        return Ok(Exit::Usage);
    }
    let failed = findings.has_error();
    Ok(match Exit::from_targets(targets) {
        Exit::Ok if failed => Exit::Failed,
        exit => exit,
    })
}

/// Returns why an agent cannot be called.
fn failure(target: &Value) -> Option<&Value> {
    // Task lists are optional.
    let refusal = target
        .get("tasks_error")
        .filter(|error| !hints::is_answer(error));
    target.get("last_refresh_error").or(refusal)
}

fn check_agent(target: &Value, peers: &PeerArgs, findings: &mut Findings) {
    let (alias, url) = (field(target, "target_alias"), field(target, "target_url"));
    let Some(error) = failure(target) else {
        if target["status"] == "offline" {
            let repair = "Start the agent and connect it to the gateway.";
            let message = format!("{alias}: the agent is offline");
            findings.warn("agent", message, repair);
            return;
        }
        let version = field(target, "protocol_version");
        let name = field(target, "target_name");
        let message = format!("{alias}: {name} answers at {url} {version}");
        findings.ok("agent", message.trim_end().to_owned());
        if let Some((state, has_changed)) = pin::state(target) {
            let message = format!("{alias}: {state}");
            match has_changed {
                true => findings.warn("card", peers.with_source(&message), PIN_REPAIR),
                false => findings.ok("card", message),
            }
        }
        if let Some(place) = targets::card_place(target) {
            findings.ok("card", format!("{alias}: {place}"));
        }
        if let Some(seconds) = target["clock_skew_seconds"].as_i64() {
            let side = if seconds > 0 { "ahead of" } else { "behind" };
            let message = format!(
                "{alias}: its clock is {} s {side} the clock of this machine",
                seconds.unsigned_abs()
            );
            findings.warn("clock", message, CLOCK_REPAIR);
        }
        return;
    };
    let is_local = target["status"].is_string();
    let hint = hints::agent_hint(error, &alias, peers, is_local);
    let message = format!("{alias}: {}", peers.with_source(&field(error, "message")));
    findings.error("agent", message, &hint);
}

/// Returns the time at which a JSON Web Token expires, in seconds since 1970; `None` for other tokens (RFC 7519 §4.1.4).
fn expiry(token: &str) -> Option<u64> {
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    serde_json::from_slice::<Value>(&claims).ok()?["exp"].as_u64()
}

/// Returns the secrets that the configuration contains as text, with their places. Of the headers, these are the ones from a
/// resolved reference and the ones that look like a credential.
fn secrets(config: &str) -> Vec<(String, String)> {
    let mut config: Value = serde_json::from_str(config).unwrap_or_default();
    let mut secrets = Vec::new();
    visit(&mut config, &mut String::new(), &mut |value, path| {
        if !is_secret_place(path) {
            return;
        }
        let is_header = path.contains("/headers/") || path.contains("/serviceParameters/");
        let name = path.rsplit('/').next().unwrap_or_default();
        let secret = match &*value {
            Value::String(text) if !is_header || is_credential_header(name, text) => Some(text),
            reference if reference["source"] == "resolved" => match &reference["id"] {
                Value::String(id) => Some(id),
                _ => None,
            },
            _ => None,
        };
        secrets.extend(secret.map(|text| (path.to_owned(), text.clone())));
    });
    secrets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plaintext_secrets_are_found_by_place() {
        let config = r#"{"defaults": {"serviceParameters": {"X-Api-Key": "x", "X-Room": "x"}}, "gateway": {"token": "x"}, "targets": [
            {"auth": {"type": "bearer", "token": {"source": "env", "id": "A"}}},
            {"auth": {"type": "basic", "username": "me", "password": "x"}, "headers": {"Authorization": "x", "X-Key": "x", "X-Team": "x", "X-Unit": {"source": "resolved", "id": "x"}}},
            {"auth": {"type": "apiKey", "in": "header", "name": "X-Key", "value": "x"}}]}"#;
        let places: Vec<_> = secrets(config)
            .into_iter()
            .map(|(place, _)| place)
            .collect();
        assert_eq!(
            places,
            [
                "/defaults/serviceParameters/X-Api-Key",
                "/gateway/token",
                "/targets/1/auth/password",
                "/targets/1/headers/Authorization",
                "/targets/1/headers/X-Key",
                "/targets/1/headers/X-Unit",
                "/targets/2/auth/value",
            ]
        );
    }

    #[test]
    fn only_json_web_tokens_expire() {
        let token = format!(
            "e30.{}.sig",
            URL_SAFE_NO_PAD.encode(r#"{"exp": 1700000000}"#)
        );
        assert_eq!(expiry(&token), Some(1_700_000_000));
        assert_eq!(expiry("opaque"), None);
        assert_eq!(expiry("a.b.c"), None);
    }
}
