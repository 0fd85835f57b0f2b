//! `remote-agent pin`: shows what was accepted of an agent's card and what differs, and accepts the card that the agent has now.

use std::{env, time::UNIX_EPOCH};

use a2a::card_fields::{CardSigner, FieldClass};
use openclaw_remote_agent::{
    pin::{self, PinReview, PinReviewError},
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
    let review = open(&args.peers, args.target.as_deref()).await?;
    let lines = LineWriter::default();
    if args.accept {
        let aside = review.accept(&operator()).map_err(Failure::new)?;
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
    Ok(match stops && !args.accept {
        true => Exit::Failed,
        false => Exit::Ok,
    })
}

async fn open(peers: &PeerArgs, alias: Option<&str>) -> Result<PinReview, Failure> {
    let written = peers.config()?;
    let (config, _) = config::resolve(&written, |name| env::var(name).ok())
        .map_err(|error| Failure::usage(config::sentence(&error)))?;
    let review = PinReview::open(&config, alias, peers.user()).await;
    review.map_err(|error| match error {
        PinReviewError::Config(error) => Failure::usage(config::sentence(&error.to_json())),
        PinReviewError::Target(message) => Failure::usage(message),
        PinReviewError::Card(error) => Failure {
            exit: Exit::from_reason(error.reason),
            message: peers.with_source(&error.message),
        },
    })
}

/// Accepts the card of a target of `settings` that a person has just added. Only says if that fails: the first call accepts it
/// then.
pub(super) async fn accept_added(settings: &Value, alias: &str) {
    let written = settings.to_string();
    let Ok((config, _)) = config::resolve(&written, |name| env::var(name).ok()) else {
        return;
    };
    let cause = match pin::accept(&config, alias, &operator()).await {
        Ok(_) => return,
        Err(PinReviewError::Config(error)) => error.to_string(),
        Err(PinReviewError::Target(message)) => message,
        Err(PinReviewError::Card(error)) => error.message,
    };
    note(format_args!(
        "warn: the card is not accepted yet: {cause}; see `remote-agent pin`"
    ));
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
    if let Some(problem) = state.problem.as_deref().filter(|_| !args.accept) {
        note(args.peers.with_source(problem));
    }
    let changes = &state.changes;
    if args.accept && changes.is_empty() {
        lines.write(format!("{alias}: accepted the card"));
    } else if args.accept {
        lines.write(format!("{alias}: accepted the card with these changes"));
        lines.write(table(changes));
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
    for signer in review.signers() {
        lines.write(signed(signer));
    }
    if !args.accept {
        match args.diff {
            _ if changes.is_empty() => {}
            true => lines.write(table(changes)),
            false => lines.write(counted(changes)),
        }
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
