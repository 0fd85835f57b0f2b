//! `remote-agent pin`: shows what was accepted of an agent's card and what differs, and accepts the card that the agent has now.

use std::{env, time::UNIX_EPOCH};

use a2a::card_fields::{CardSigner, FieldClass};
use openclaw_remote_agent::{
    pin::{PinReview, PinReviewError},
    targets::CardChange,
};
use serde_json::{Value, json};

use super::{
    config,
    exit::{Exit, Failure},
    output::{LineWriter, note},
    sign_in::age,
    target::PeerArgs,
    text::{self, Table, field, shell},
};

const EXAMPLES: &str = "\
Examples:
  remote-agent pin --config agents.json desk
  remote-agent pin --config agents.json desk --diff
  remote-agent pin --config agents.json desk --accept
  remote-agent pin --config agents.json desk --accept \\
    --fingerprint 0123456789abcdef0123456789abcdef

Exit code 1 means that a change stops calls where `pins` is `enforce`.";

/// Show what was accepted of an agent's card, and accept the one that it has now
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The alias of the agent [default: the only agent with pins]
    #[arg(value_name = "TARGET")]
    target: Option<String>,

    /// Show the old and the new value of each change
    #[arg(long)]
    diff: bool,

    /// Accept the card that the agent has now, with all changes
    #[arg(long)]
    accept: bool,

    /// Accept no card but the one with this fingerprint, which this command shows
    #[arg(long, value_name = "TEXT", requires = "accept")]
    fingerprint: Option<String>,

    #[command(flatten)]
    peers: PeerArgs,

    /// Print the pins as a line of JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// Runs the subcommand.
///
/// # Errors
/// The target has no pins, its card cannot be read, or the file cannot be written.
pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    let mut review = open(&args.peers, args.target.as_deref()).await?;
    let lines = LineWriter::default();
    if args.accept {
        let accepted = review.accept(&operator(), args.fingerprint.as_deref());
        let aside = accepted.map_err(|error| failure(&args.peers, error))?;
        if let Some(aside) = aside {
            note(format_args!(
                "the damaged file is now `{}`",
                aside.display()
            ));
        }
    }
    if args.json {
        let mut shown = review.to_json();
        shown["accepted"] = json!(args.accept);
        lines.write(shown.to_string());
    } else {
        show(&args, &review, &lines);
    }
    let stops = review.state.stops() || review.state.problem.is_some();
    Ok(Exit::from_success(!stops))
}

async fn open(peers: &PeerArgs, alias: Option<&str>) -> Result<PinReview, Failure> {
    let written = peers.config()?;
    let (config, _) = config::resolve(&written, |name| env::var(name).ok())
        .map_err(|error| config::failure(error, peers.config_file().as_deref()))?;
    let review = PinReview::open(&config, alias, peers.user()).await;
    review.map_err(|error| failure(peers, error))
}

fn failure(peers: &PeerArgs, error: PinReviewError) -> Failure {
    match error {
        PinReviewError::Config(error) => {
            config::failure(error.to_json(), peers.config_file().as_deref())
        }
        PinReviewError::Target(message) | PinReviewError::Unpinned(message) => {
            Failure::usage(message)
        }
        PinReviewError::Refused(message) => Failure::new(message),
        PinReviewError::Card(error) => Failure {
            exit: Exit::from_reason(error.reason),
            message: peers.with_source(&error.message),
        },
    }
}

/// Reads the card of a target of `settings` before it is added, so that no other card is accepted once it is. Returns nothing for
/// settings that are refused anyway.
pub(super) async fn review_new(
    settings: &Value,
    alias: &str,
) -> Option<Result<PinReview, PinReviewError>> {
    let written = settings.to_string();
    let (config, _) = config::resolve(&written, |name| env::var(name).ok()).ok()?;
    Some(PinReview::open(&config, Some(alias), None).await)
}

/// Accepts the card of a target that is added, if it has pins.
///
/// # Errors
/// The card could not be read, or the file of the pins cannot be written.
pub(super) fn accept_new(reviewed: Result<PinReview, PinReviewError>) -> Result<(), String> {
    match reviewed.and_then(|mut review| review.accept(&operator(), None)) {
        Ok(_) | Err(PinReviewError::Unpinned(_)) => Ok(()),
        Err(PinReviewError::Config(error)) => Err(error.to_string()),
        Err(PinReviewError::Target(message) | PinReviewError::Refused(message)) => Err(message),
        Err(PinReviewError::Card(error)) => Err(error.message),
    }
}

/// Returns the name of the user of this process, for the record.
fn operator() -> String {
    let name = ["USER", "LOGNAME", "USERNAME"]
        .into_iter()
        .find_map(|name| env::var(name).ok());
    format!("operator {}", name.unwrap_or_default())
        .trim_end()
        .to_owned()
}

fn show(args: &Args, review: &PinReview, lines: &LineWriter) {
    let (state, alias) = (&review.state, text::line(&review.alias));
    if let Some(problem) = &state.problem {
        note(args.peers.with_source(problem));
    }
    let changes = &state.changes;
    if let Some(accepted) = &review.accepted {
        if accepted.is_empty() {
            lines.write(format!("{alias}: accepted the card"));
        } else {
            lines.write(format!("{alias}: accepted the card with these changes"));
            lines.write(table(accepted));
        }
    } else if let Some(at) = state.accepted_at {
        lines.write(format!(
            "{alias}: accepted {} ({})",
            age(at),
            text::line(&state.accepted_by)
        ));
    } else if state.problem.is_none() {
        lines.write(format!(
            "{alias}: nothing is accepted yet; the first call accepts what the agent has then"
        ));
    }
    lines.write(format!(
        "its card has the fingerprint {}",
        review.fingerprint()
    ));
    for signer in review.signers() {
        lines.write(signed(signer));
    }
    match args.diff {
        _ if changes.is_empty() => {}
        true => lines.write(table(changes)),
        false => lines.write(counted(changes)),
    }
}

/// Returns what a listed target has of its pins as a sentence, and whether an operator should look; `None` without pins.
pub(super) fn state(target: &Value) -> Option<(String, bool)> {
    let pin = target.get("card_pin")?;
    if let Some(problem) = pin["problem"].as_str() {
        return Some((text::line(problem), true));
    }
    let at = humantime::parse_rfc3339(pin["accepted_at"].as_str()?).ok()?;
    let at = at.duration_since(UNIX_EPOCH).ok()?.as_secs();
    let accepted = format!("card accepted {} ({})", age(at), field(pin, "accepted_by"));
    let changes = pin["changes"].as_array().into_iter().flatten();
    let matters = changes.filter(|change| change["class"] != "note").count();
    if matters == 0 {
        return Some((accepted, false));
    }
    let more = pin["more_changes"].as_u64().map_or("", |_| " or more");
    let alias = shell(&field(target, "target_alias"));
    let state =
        format!("{accepted}, {matters}{more} changed since: `remote-agent pin {alias} --diff`");
    Some((state, true))
}

/// Returns what a signature proves.
fn signed(signer: &CardSigner) -> String {
    let name = text::line(&format!("signed with {}, key {}", signer.alg, signer.kid));
    match &signer.thumbprint {
        Some(thumbprint) if signer.configured => {
            format!("{name}, thumbprint {thumbprint}, which is in your jwksFile")
        }
        Some(thumbprint) => format!(
            "{name}, thumbprint {thumbprint}: the agent's own host has the key, so it proves only who has the host"
        ),
        None => format!("{name}, not verified: set `requireSignedCard`"),
    }
}

fn counted(changes: &[CardChange]) -> String {
    let count = |class| {
        changes
            .iter()
            .filter(|change| change.class == class)
            .count()
    };
    let [stop, report, other] = [FieldClass::Stop, FieldClass::Report, FieldClass::Note].map(count);
    format!(
        "changes: {stop} that stop calls where pins are enforced, {report} that are reported, {other} others; --diff shows them"
    )
}

fn table(changes: &[CardChange]) -> String {
    let mut table = Table::new(["CLASS", "FIELD", "ACCEPTED", "NOW"]);
    for change in changes {
        let shown = change.to_json();
        let cell = |name: &str| {
            shown[name]
                .as_str()
                .map_or_else(|| "-".to_owned(), text::line)
        };
        table.add_row([cell("class"), cell("path"), cell("old"), cell("new")]);
    }
    table.render()
}
