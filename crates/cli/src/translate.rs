//! `remote-agent translate`: converts envelopes of `a2a-v1`, FIPA ACL and A2A, one per line.

use clap::ValueEnum;
use serde_json::Value;

use super::{
    exit::{Exit, Failure},
    output::{LineWriter, closed_failure, note},
};
use base::environment::{Environment, SystemEnvironment};
use base::json;
use base::lines::{Line, LineReader};
use collective::{
    Envelope, EnvelopeError, ErrorCode, FRAME_LIMITS,
    translate::{TranslationContext, from_a2a, from_fipa, to_a2a, to_fipa},
};

const EXAMPLES: &str = "\
Examples:
  remote-agent translate --from a2a-v1 --to fipa < envelopes.jsonl
  remote-agent translate --from a2a --to a2a-v1 --agent alpha < messages.jsonl
  remote-agent translate --from fipa --to a2a-v1 < acl.jsonl

Each line of standard input is one JSON object and becomes one line of standard output; an ACL message with several \
receivers becomes one for each. The command reports a line that it cannot translate on standard error, and continues with the next.
It does not translate messages of the type `auth`, because they contain a credential.

Exit codes: 0 every line translated, 1 some not, 2 wrong usage.";

/// The maximum length of a line, in bytes.
const MAX_LINE_BYTES: usize = 16 << 20;

/// The maximum length of the lines for all receivers of an ACL message together, and of the memory of their values, in bytes.
const MAX_COPIED_BYTES: usize = 64 << 20;

/// Translate messages of a local collective: a2a-v1, FIPA ACL, A2A 0.3, as JSON Lines
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The format of standard input
    #[arg(long, value_enum)]
    from: Format,

    /// The format of standard output
    #[arg(long, value_enum)]
    to: Format,

    /// The recipient of A2A messages, which name none; `triad` makes them proposals
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Envelopes of a2a-v1
    #[value(name = "a2a-v1")]
    Envelope,
    /// FIPA ACL as JSON
    Fipa,
    /// A2A messages, tasks and updates, as JSON of 0.3
    A2a,
}

/// Runs the subcommand.
///
/// # Errors
/// The command line is invalid, standard input cannot be read, or a line cannot be converted.
pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    if args.from == args.to {
        return Err(Failure::usage(
            "`--from` and `--to` are the same; to check envelopes use `remote-agent gateway validate`",
        ));
    }
    let lines = LineWriter::default();
    let mut input = LineReader::new(tokio::io::stdin(), MAX_LINE_BYTES);
    let mut failed = 0_u64;
    let unreadable = |error| Failure::usage(format!("cannot read standard input: {error}"));
    while let Some(line) = input.next_line().await.map_err(unreadable)? {
        match text(&line).and_then(|line| translate(line, &args, &SystemEnvironment)) {
            Ok(all) => all.iter().for_each(|one| lines.write(one.to_string())),
            Err(malformed) => {
                failed += 1;
                note(format_args!(
                    "error: line {}: {}: {}{}",
                    input.number(),
                    malformed.code,
                    malformed.message,
                    hint(&malformed, &args)
                ));
            }
        }
        if lines.closed().is_cancelled() {
            return Err(closed_failure());
        }
    }
    match failed {
        0 => Ok(Exit::Ok),
        1 => Err(Failure::new("1 line was not translated")),
        failed => Err(Failure::new(format!("{failed} lines were not translated"))),
    }
}

fn text(line: &Line) -> Result<&str, EnvelopeError> {
    match line {
        Line::TooLong => Err(refusal(
            ErrorCode::InvalidContent,
            format!("the line exceeds {MAX_LINE_BYTES} bytes"),
        )),
        Line::Bytes(bytes) => std::str::from_utf8(bytes).map_err(|error| {
            refusal(
                ErrorCode::InvalidJson,
                format!("the line is not UTF-8: {error}"),
            )
        }),
    }
}

fn translate(line: &str, args: &Args, env: &dyn Environment) -> Result<Vec<Value>, EnvelopeError> {
    let now = env.unix_millis();
    let mut new_id = || format!("msg-{}", env.uuid());
    let mut fill = TranslationContext {
        now,
        new_id: &mut new_id,
        agent: args.agent.as_deref(),
    };
    let envelopes = match args.from {
        Format::Envelope => vec![Envelope::parse(line)?],
        Format::Fipa => {
            let acl = json(line)?;
            let receivers = acl["receiver"].as_array().map_or(1, Vec::len);
            // The list of receivers itself is not copied.
            let values = json::memory(&acl).saturating_sub(json::memory(&acl["receiver"]));
            if receivers.saturating_mul(line.len().max(values)) > MAX_COPIED_BYTES {
                return Err(refusal(
                    ErrorCode::InvalidContent,
                    format!(
                        "{receivers} receivers are too many for a message of this size; send it to some at a time"
                    ),
                ));
            }
            from_fipa(&acl, now)?
        }
        Format::A2a => vec![from_a2a(&json(line)?, &mut fill)?],
    };
    envelopes
        .iter()
        .map(|envelope| match args.to {
            Format::Envelope => Ok(envelope.clone().into_json()),
            Format::Fipa => to_fipa(envelope),
            Format::A2a => to_a2a(envelope, &mut fill),
        })
        .collect()
}

fn json(line: &str) -> Result<Value, EnvelopeError> {
    json::from_str(line, FRAME_LIMITS).map_err(|error| {
        refusal(
            ErrorCode::InvalidJson,
            format!("the line is not JSON: {error}"),
        )
    })
}

fn refusal(code: ErrorCode, message: String) -> EnvelopeError {
    EnvelopeError {
        code,
        message,
        correlation_id: None,
        id: None,
    }
}

/// Returns a hint, if there is one.
fn hint(malformed: &EnvelopeError, args: &Args) -> &'static str {
    let nameless =
        malformed.code == ErrorCode::MissingField && malformed.message.contains("`agent`");
    match nameless && args.from == Format::A2a && args.agent.is_none() {
        true => "; name the agent with `--agent NAME`",
        false => "",
    }
}
