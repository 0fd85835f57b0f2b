//! `remote-agent budget`: shows what is used of the budgets, and raises them for the day.

use std::{
    env,
    io::ErrorKind,
    path::{Path, PathBuf},
    time::SystemTime,
};

use base::budget::{Amounts, BY_URL, Budget, BudgetError, Budgets, Ledger, Level, Unit, Work};
use base::files::open_regular;
use serde_json::{Value, json};

use super::{
    exit::{Exit, Failure},
    instance::Library,
    output::{LineWriter, note},
    target::PeerArgs,
    text::{self, Table},
};

const EXAMPLES: &str = "\
Examples:
  remote-agent budget --config agents.json
  remote-agent budget --config agents.json support --add usd=5 --add calls=100
  remote-agent budget --config agents.json --reset

Budgets are settings: `targets[].budget` and `budget`. Without TARGET and --chain, --add and --reset change the budget of all targets together.";

/// How many budgets an error names.
const MAX_NAMES: usize = 5;

/// Show what is used of the budgets, or raise them
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The alias of the agent
    #[arg(value_name = "TARGET")]
    target: Option<String>,

    /// A chain of delegations, by its id, or `session KEY`
    #[arg(long, value_name = "ID", conflicts_with = "target")]
    chain: Option<String>,

    /// Add to a limit until it starts anew, as calls=10, seconds=60, tokens=1000 or usd=2.5
    #[arg(long, value_name = "UNIT=AMOUNT", value_parser = addition)]
    add: Vec<(Unit, Amounts)>,

    /// Let the use start from zero now
    #[arg(long)]
    reset: bool,

    /// Put a damaged record aside, so that a new one begins
    #[arg(long, conflicts_with_all = ["target", "chain", "add", "reset"])]
    repair: bool,

    #[command(flatten)]
    peers: PeerArgs,

    /// Print the budgets as a line of JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

fn addition(text: &str) -> Result<(Unit, Amounts), String> {
    let form =
        || "give a unit and an amount: calls=10, seconds=60, tokens=1000 or usd=2.5".to_owned();
    let (name, amount) = text.split_once('=').ok_or_else(form)?;
    let unit = Unit::from_name(name).ok_or_else(form)?;
    let whole = || amount.parse::<u64>().map(Value::from).map_err(|_| form());
    let amount = match unit {
        Unit::Usd => amount
            .parse()
            .ok()
            .filter(|usd: &f64| usd.is_finite() && *usd >= 0.0)
            .map(Value::from)
            .ok_or_else(form)?,
        _ => whole()?,
    };
    let budget: Budget = serde_json::from_value(json!({ name: amount })).map_err(|_| form())?;
    Ok((unit, budget.amounts()))
}

/// Runs the subcommand.
///
/// # Errors
/// The configuration or the record cannot be used, or a limit to add to is not set.
pub(super) async fn run(args: Args, verbose: bool) -> Result<Exit, Failure> {
    let text = args.peers.config()?;
    // The library checks the settings.
    let file = args.peers.config_file();
    drop(Library::open(verbose)?.interactive_instance(&text, file.as_deref())?);
    let config: Value = serde_json::from_str(&text).unwrap_or_default();
    let budgets: Budgets = match &config["budget"] {
        Value::Null => Budgets::default(),
        budgets => read(budgets)?,
    };
    let state_dir = config["stateDir"].as_str().map(Path::new);
    let ledger = Ledger::new(path(&budgets, state_dir)?);
    // Unlike a call, the command has no deadline, and a pipe may never answer.
    if let Err(error) = open_regular(ledger.path())
        && error.kind() == ErrorKind::Other
    {
        let path = ledger.path().display();
        let message = format!("cannot use the record of budgets `{path}`: {error}");
        return Err(Failure::new(message));
    }
    if args.repair {
        match ledger
            .repair()
            .map_err(|error| failure(error, &ledger, &args.peers))?
        {
            Some(aside) => note(format_args!(
                "the damaged record is now `{}`",
                aside.display()
            )),
            None => note("the record is not damaged"),
        }
        return Ok(Exit::Ok);
    }
    let now = SystemTime::now();
    let chosen = match (&args.target, &args.chain) {
        (Some(alias), _) => Some(format!("target {alias}")),
        (None, Some(chain)) => Some(match chain.strip_prefix("session ") {
            Some(key) => Work::Session(key).scope_name(),
            None => Work::Chain(chain).scope_name(),
        }),
        (None, None) => None,
    };
    let mut scopes = Vec::new();
    for target in config["targets"].as_array().into_iter().flatten() {
        let own = target.get("budget").map(read::<Budget>).transpose()?;
        let alias = target["alias"].as_str().unwrap_or_default().trim();
        scopes.extend(budgets.scopes(alias, own.as_ref(), None));
    }
    // Agents of the gateway, and agents that are named by URL, have no settings of their own.
    let other = args
        .target
        .as_deref()
        .filter(|alias| alias.starts_with("gateway:"));
    scopes.extend(budgets.scopes(other.unwrap_or(BY_URL), None, None));
    // Each target has brought those that all of them share.
    scopes.sort_by_key(|scope| scope.name == "total");
    scopes.dedup_by(|a, b| a.name == b.name);
    let levels = || {
        ledger
            .levels(scopes.clone(), &budgets, now)
            .map_err(|error| failure(error, &ledger, &args.peers))
    };
    let known = levels()?;
    let changed = chosen.clone().unwrap_or_else(|| "total".to_owned());
    let changes = args.reset || !args.add.is_empty();
    if (changes || chosen.is_some()) && !known.iter().any(|(name, _)| *name == changed) {
        let whose = text::line(&changed);
        if chosen.is_none() {
            return Err(Failure::usage(
                "there is no budget of all targets together (`budget.total`); name the TARGET or the `--chain` whose budget changes",
            ));
        }
        let names: Vec<_> = known
            .iter()
            .map(|(name, _)| format!("`{}`", text::line(name)))
            .collect();
        let names = match names.is_empty() {
            true => String::new(),
            false => format!(" (there are budgets for {})", distinct(names).join(", ")),
        };
        return Err(Failure::usage(format!(
            "there is no budget for `{whose}`{names}; set one in `targets[].budget` or `budget`"
        )));
    }
    for (unit, _) in &args.add {
        let is_limited =
            |(name, level): &(String, Level)| *name == changed && level.unit == unit.as_str();
        if !known.iter().any(is_limited) {
            return Err(Failure::usage(format!(
                "the budget for `{}` does not limit {}",
                text::line(&changed),
                unit.as_str()
            )));
        }
    }
    if changes {
        let change = ledger.change(&changed, now, |entry| {
            if args.reset {
                entry.used = Amounts::default();
            }
            for (_, amounts) in &args.add {
                entry.added = entry.added.plus(*amounts);
            }
        });
        change.map_err(|error| failure(error, &ledger, &args.peers))?;
    }
    let shown = levels()?.into_iter();
    let shown = shown.filter(|(name, _)| chosen.as_ref().is_none_or(|chosen| chosen == name));
    show(shown.collect(), args.json, &ledger);
    Ok(Exit::Ok)
}

/// Returns the first [`MAX_NAMES`] names, each once: a budget has a level for each unit.
fn distinct(mut names: Vec<String>) -> Vec<String> {
    names.dedup();
    names.truncate(MAX_NAMES);
    names
}

fn read<T: serde::de::DeserializeOwned>(value: &Value) -> Result<T, Failure> {
    serde_json::from_value(value.clone())
        .map_err(|error| Failure::usage(format!("cannot read the budgets: {error}")))
}

/// Returns the file of what was used.
fn path(budgets: &Budgets, state_dir: Option<&Path>) -> Result<PathBuf, Failure> {
    let path = budgets.file(state_dir, None, |name| env::var_os(name));
    if path.is_relative() {
        return Err(Failure::usage(
            "cannot find the record of budgets: neither `HOME` nor `XDG_STATE_HOME` is an absolute path; set `budget.path`",
        ));
    }
    Ok(path)
}

fn failure(error: BudgetError, ledger: &Ledger, peers: &PeerArgs) -> Failure {
    match error {
        BudgetError::Unusable(message) => {
            let message = peers.with_source(&message);
            Failure::new(format!("{message} (`{}`)", ledger.path().display()))
        }
        BudgetError::Exceeded(_) => Failure::new("the budget does not suffice"),
    }
}

fn show(levels: Vec<(String, Level)>, as_json: bool, ledger: &Ledger) {
    let lines = LineWriter::default();
    if as_json {
        let budgets = levels.into_iter().map(|(name, level)| {
            let mut budget = json!(level);
            budget["scope"] = name.into();
            budget
        });
        let budgets: Vec<Value> = budgets.collect();
        let path = ledger.path().display().to_string();
        lines.write(json!({"path": path, "budgets": budgets}).to_string());
        return;
    }
    if levels.is_empty() {
        note("no budget is set; set one in `targets[].budget` or `budget`");
        return;
    }
    let mut table = Table::new(["BUDGET", "UNIT", "USED", "LIMIT", "RESETS"]);
    for (name, level) in levels {
        table.add_row([
            text::line(&name),
            level.unit.to_owned(),
            level.used.to_string(),
            level.limit.to_string(),
            level.resets.unwrap_or_else(|| "-".to_owned()),
        ]);
    }
    lines.write(table.render());
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn addition_is_a_unit_and_an_amount() {
        for (text, expected) in [
            ("calls=10", [10, 0, 0, 0]),
            ("seconds=60", [0, 60_000, 0, 0]),
            ("tokens=1000", [0, 0, 1000, 0]),
            ("usd=2.5", [0, 0, 0, 2_500_000]),
        ] {
            assert_eq!(addition(text).unwrap().1, Amounts(expected), "{text}");
        }
        for text in [
            "",
            "calls",
            "calls=",
            "calls=-1",
            "calls=1.5",
            "usd=-1",
            "usd=NaN",
            "usd=inf",
            "eur=1",
            "=1",
        ] {
            assert!(addition(text).unwrap_err().contains("usd=2.5"), "{text}");
        }
    }
}
