//! `remote-agent sign-in` and `sign-out`: the sign-in of a person to a target.

use std::{
    fmt::Display,
    io::stdin,
    thread,
    time::{Duration, SystemTime},
};

use base::environment::unix_seconds;
use egress::{
    credential::StoredToken,
    sign_in::{DeviceCode, Prompt, SignedOut},
};
use openclaw_remote_agent::sign_in::{self, SignIn, SignInError, SignInState};
use serde_json::Value;
use tokio::sync::mpsc;

use super::{
    config,
    exit::{Exit, Failure},
    output::{LineWriter, note},
    target::PeerArgs,
    text,
};

const EXAMPLES: &str = "\
Examples:
  remote-agent sign-in --config agents.json desk
  remote-agent sign-in --config agents.json desk --person anna";

const SIGN_OUT_EXAMPLES: &str = "\
Examples:
  remote-agent sign-out --config agents.json desk
  remote-agent sign-out --config agents.json desk --person anna";

/// Sign in to an agent with a code or a browser
///
/// The agent's `auth` has the type `oauth2` with the grant `device_code` or `authorization_code`. Calls renew the token.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The alias of the agent [default: the only agent that needs a sign-in]
    alias: Option<String>,

    #[command(flatten)]
    peers: PeerArgs,
}

/// Remove the stored sign-in of an agent
#[derive(Debug, clap::Args)]
#[command(after_help = SIGN_OUT_EXAMPLES)]
pub(super) struct SignOutArgs {
    /// The alias of the agent [default: the only agent that needs a sign-in]
    alias: Option<String>,

    #[command(flatten)]
    peers: PeerArgs,
}

/// Signs in.
///
/// # Errors
/// The target needs no sign-in, or the sign-in failed.
pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    let sign_in = open(args.alias.as_deref(), &args.peers)?;
    let (sender, pasted) = mpsc::channel(1);
    let mut sender = Some(sender);
    let show = |prompt: Prompt| {
        let lines = LineWriter::default();
        match prompt {
            Prompt::Device(code) => show_code(&lines, &code),
            Prompt::Browser(url) => {
                lines.write(format!(
                    "Open this address in a browser of this machine:\n  {url}\nWith a browser elsewhere, sign in there and paste the address of the page at which it ends:"
                ));
                let sender = sender.take();
                thread::spawn(move || {
                    let lines = stdin().lines().map_while(Result::ok);
                    for line in lines.filter(|line| !line.trim().is_empty()) {
                        if sender
                            .as_ref()
                            .is_none_or(|sender| sender.blocking_send(line).is_err())
                        {
                            return;
                        }
                    }
                });
            }
            Prompt::PasteAgain(reason) => lines.write(format!("{reason}. Paste it again:")),
        }
    };
    let token = sign_in.run(show, pasted).await.map_err(|message| Failure {
        message,
        exit: Exit::Auth,
    })?;
    let state = described(&token, SystemTime::now());
    let alias = text::line(sign_in.alias());
    LineWriter::default().write(format!("{alias}: {state}"));
    let config = serde_json::from_str(&args.peers.config()?).unwrap_or_default();
    let unnamed = unnamed_scopes(&config, sign_in.alias(), token.scope.as_deref());
    if !unnamed.is_empty() {
        let unnamed = text::line(&unnamed.join(" "));
        note(format_args!(
            "{alias}: of the scopes in the settings, the authorization server did not name {unnamed}"
        ));
    }
    Ok(Exit::Ok)
}

/// Returns the scopes in the settings of a target that the server does not name as granted. Some servers write a granted one in
/// another way.
fn unnamed_scopes<'a>(config: &'a Value, alias: &str, granted: Option<&str>) -> Vec<&'a str> {
    let granted = granted.unwrap_or_default();
    // Some servers separate them by commas.
    let granted: Vec<&str> = granted.split([' ', ',']).collect();
    let mut targets = config["targets"].as_array().into_iter().flatten();
    let target = targets.find(|target| target["alias"].as_str().map(str::trim) == Some(alias));
    let scopes = target.and_then(|target| target["auth"]["scopes"].as_array());
    let scopes = scopes.into_iter().flatten().filter_map(Value::as_str);
    scopes.filter(|scope| !granted.contains(scope)).collect()
}

fn show_code(lines: &LineWriter, code: &DeviceCode) {
    let minutes = code.expires_in.as_secs().div_ceil(60);
    lines.write(format!(
        "Open {} and enter the code {} within {minutes} min",
        code.url,
        text::line(&code.user_code)
    ));
    if let Some(url) = &code.complete_url {
        lines.write(format!("or open {url}"));
    }
}

/// Signs out.
///
/// # Errors
/// The target needs no sign-in, or its token cannot be removed.
pub(super) async fn sign_out(args: SignOutArgs) -> Result<Exit, Failure> {
    let sign_in = open(args.alias.as_deref(), &args.peers)?;
    let state = match sign_in.sign_out().await.map_err(Failure::new)? {
        SignedOut::Revoked => "signed out; the authorization server has revoked the token",
        SignedOut::Removed => {
            "signed out; the authorization server may accept the token until it expires"
        }
        SignedOut::NotSignedIn => "there was no sign-in",
    };
    LineWriter::default().write(format!("{}: {state}", text::line(sign_in.alias())));
    Ok(Exit::Ok)
}

fn open(alias: Option<&str>, peers: &PeerArgs) -> Result<SignIn, Failure> {
    let written = peers.config()?;
    let invalid = |error: String| config::failure(error, peers.config_file().as_deref());
    let (config, _) =
        config::resolve(&written, |name| std::env::var(name).ok()).map_err(invalid)?;
    sign_in::open(&config, alias, peers.user()).map_err(|error| match error {
        SignInError::Config(error) => invalid(error.to_json()),
        SignInError::Target(message) => Failure::usage(message),
    })
}

/// Returns the state of each agent of a configuration that needs a sign-in: its alias, a sentence, and the command that signs in
/// if it is needed.
pub(super) fn states(config: &str, user: Option<&str>) -> Vec<(String, String, Option<String>)> {
    let Ok((config, _)) = config::resolve(config, |name| std::env::var(name).ok()) else {
        return Vec::new();
    };
    let now = SystemTime::now();
    let sentence = |state: SignInState| {
        let alias = state.alias;
        let (state, command) = match state.token {
            Ok(Some(token)) => {
                let is_valid = token.is_renewable()
                    || token.expires_at.is_none_or(|at| unix_seconds(now) < at);
                let command = (!is_valid).then_some(state.command);
                (described(&token, now), command)
            }
            Ok(None) => ("not signed in".to_owned(), Some(state.command)),
            Err(error) => (
                format!("cannot read the sign-in: {error}"),
                Some(state.command),
            ),
        };
        (alias, state, command)
    };
    sign_in::states(&config, user)
        .into_iter()
        .map(sentence)
        .collect()
}

/// Returns age, scopes and expiry of a token as a sentence.
fn described(token: &StoredToken, now: SystemTime) -> String {
    let now = unix_seconds(now);
    let scopes = token.scope.as_deref().filter(|scope| !scope.is_empty());
    let scopes = scopes.map(|scope| format!(", scopes {}", text::line(scope)));
    let expiry = match (token.expires_at, token.is_renewable()) {
        (_, true) => ", renewed when needed".to_owned(),
        (None, false) => String::new(),
        (Some(at), false) if at <= now => ", expired".to_owned(),
        (Some(at), false) => format!(", expires in {} and is not renewed", span(at - now)),
    };
    let age = age(token.signed_in_at);
    format!("signed in {age}{}{expiry}", scopes.unwrap_or_default())
}

/// Returns how long ago a time in seconds since 1970 was.
pub(super) fn age(at: u64) -> String {
    match unix_seconds(SystemTime::now()).saturating_sub(at) {
        0..60 => "now".to_owned(),
        age => format!("{} ago", span(age)),
    }
}

/// Returns a time without the units that are too small to matter.
fn span(seconds: u64) -> impl Display {
    let unit = match seconds {
        0..3600 => 60,
        3600..86_400 => 3600,
        _ => 86_400,
    };
    humantime::format_duration(Duration::from_secs((seconds / unit).max(1) * unit))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scopes_that_the_server_does_not_name_are_shown() {
        let auth = json!({"scopes": ["read", "write", "offline_access"]});
        let config = json!({"targets": [{"alias": "desk", "auth": auth}]});
        for (granted, unnamed) in [
            (Some("read"), &["write", "offline_access"][..]),
            (Some("read,write,offline_access"), &[]),
        ] {
            assert_eq!(unnamed_scopes(&config, "desk", granted), unnamed);
        }
    }
}
