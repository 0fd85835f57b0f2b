//! Budgets of targets, of chains of delegations and of all targets: a message that does not fit is refused before it is sent,
//! and what its call used is recorded after it.

use std::path::PathBuf;
use std::time::Instant;

use base::budget::{BY_URL, BudgetError, Ledger, Level, Reservation, Scope, Settlement, Unit};
use base::config::default_state_dir;
use base::log::Level as LogLevel;
use peer::Delivered;
use serde_json::{Map, Value};
use tokio::task::spawn_blocking;

use super::Call;
use crate::remote_agent::RemoteAgent;
use crate::remote_agent::caller::Caller;
use crate::remote_agent::error::{Reason, ToolError};
use crate::remote_agent::request::{Action, Request};
use crate::targets::Target;

/// The metadata key of what is left of the budgets, for targets with `sendRemainder`.
const METADATA_KEY: &str = "openclaw-remote-agent/budget";

/// The file below the host's state directory.
const HOST_FILE: &str = "remote-agent/budget.json";

/// The part of a call in the record of budgets.
pub(in crate::remote_agent) struct Account {
    ledger: Ledger,
    scopes: Vec<Scope>,
    target: String,
    began: Instant,
    reservation: Option<Reservation>,
}

impl Account {
    /// Returns the account of a call to `target` in `chain`; `None` if nothing limits it.
    pub(in crate::remote_agent) fn open(
        tool: &RemoteAgent,
        target: &Target,
        caller: &Caller,
        chain: Option<&str>,
    ) -> Option<Self> {
        let name = target.alias.as_deref().unwrap_or(BY_URL);
        let own = target.budget.as_ref().map(|own| &own.budget);
        let scopes = tool.budgets.scopes(name, own, chain);
        if scopes.is_empty() {
            return None;
        }
        let of_host = || Some(caller.state_dir.as_ref()?.join(HOST_FILE));
        let default = || default_state_dir("budget.json", |name| std::env::var_os(name));
        let path: Option<PathBuf> = tool.budgets.path.clone().or_else(of_host);
        Some(Self {
            ledger: Ledger::new(path.unwrap_or_else(default)),
            scopes,
            target: name.to_owned(),
            began: tool.env.now(),
            reservation: None,
        })
    }
}

impl Call<'_> {
    /// Reserves the message of `request`, where budgets limit it. Tells the peer what is left if the operator wants that.
    ///
    /// # Errors
    /// A budget does not suffice, or the record cannot be used. Nothing has been sent.
    pub(in crate::remote_agent) async fn reserve_budget(
        &mut self,
        request: &mut Request,
    ) -> Result<(), ToolError> {
        let Some(account) = &mut self.account else {
            return Ok(());
        };
        let (ledger, scopes) = (account.ledger.clone(), account.scopes.clone());
        let now = self.tool.env.system_time();
        let reserved = spawn_blocking(move || ledger.reserve(&scopes, now));
        let reserved = self.deadline.run(reserved).await;
        let reserved = reserved.map_err(|error| error.delivered(Delivered::No).for_send())?;
        let reserved = reserved.unwrap_or_else(|error| {
            Err(BudgetError::Unusable(format!(
                "the budget cannot be reserved: {error}"
            )))
        });
        let reservation = reserved.map_err(|error| {
            if let BudgetError::Unusable(message) = &error {
                log_with_path(self.tool, message, &account.ledger);
            }
            refusal(error, &account.target)
        })?;
        if self
            .target
            .budget
            .as_ref()
            .is_some_and(|own| own.send_remainder)
        {
            let metadata = request.metadata.get_or_insert_default();
            metadata.insert(METADATA_KEY.to_owned(), remainder(&reservation));
        }
        account.reservation = Some(reservation);
        Ok(())
    }

    /// Records what the call used, and notes a budget that is nearly used up. A call that is dropped before keeps its
    /// reservation.
    pub(in crate::remote_agent) async fn settle_budget(&mut self, error: Option<&ToolError>) {
        let Some(account) = self.account.take() else {
            return;
        };
        let usage = self.metrics.usage();
        let waits = matches!(self.action, Action::Send | Action::Watch);
        if account.reservation.is_none() && usage.is_none() && !waits {
            return;
        }
        let usage = usage.unwrap_or_default();
        let elapsed = self.tool.env.now().saturating_duration_since(account.began);
        let elapsed = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        let task = self.collected.task_id.as_ref().or(self.task_id.as_ref());
        let end = Settlement {
            reserved: account
                .reservation
                .map(|reservation| reservation.amounts)
                .unwrap_or_default(),
            unsent: error.is_some_and(|error| error.delivered == Delivered::No),
            task: task.map(|task| format!("{} {task}", account.target)),
            elapsed: if waits { elapsed } else { 0 },
            tokens: usage.tokens.total,
            usd_micros: usage.usd_micros,
        };
        let now = self.tool.env.system_time();
        let (ledger, scopes) = (account.ledger.clone(), account.scopes);
        let settled = spawn_blocking(move || ledger.settle(&scopes, &end, now)).await;
        match settled {
            Ok(Ok(level)) => self.budget_warning = level,
            Ok(Err(BudgetError::Unusable(message))) => {
                log_with_path(self.tool, &message, &account.ledger);
            }
            Ok(Err(BudgetError::Exceeded(_))) | Err(_) => {}
        }
    }
}

/// Logs why the record cannot be used, with its path.
fn log_with_path(tool: &RemoteAgent, message: &str, ledger: &Ledger) {
    let path = ledger.path().display();
    tool.log
        .log(LogLevel::Warn, &format!("{message} (`{path}`)"));
}

fn remainder(reservation: &Reservation) -> Value {
    let left = Unit::ALL.into_iter().zip(reservation.left);
    let left = left.filter_map(|(unit, left)| Some((unit.name().to_owned(), unit.shown(left?))));
    Value::Object(left.collect::<Map<_, _>>())
}

/// Returns the error of a message that may not be sent.
fn refusal(error: BudgetError, target: &str) -> ToolError {
    let error = match error {
        BudgetError::Exceeded(level) => exceeded(*level, target),
        BudgetError::Unusable(message) => ToolError::local(Reason::BudgetUnusable, message),
    };
    error.delivered(Delivered::No).for_send()
}

fn exceeded(level: Level, target: &str) -> ToolError {
    let whose = match &*level.scope {
        "target" => format!("of the target `{target}`"),
        "chain" => "of this chain of delegations".to_owned(),
        _ => "of all targets".to_owned(),
    };
    let Level {
        unit,
        limit,
        used,
        resets,
        scope,
    } = level;
    let anew = resets
        .as_ref()
        .map(|at| format!("; it starts anew at {at}"));
    let message = format!(
        "the budget {whose} does not suffice for another message: {used} of {limit} {unit} are used{}",
        anew.unwrap_or_default()
    );
    let error = ToolError::local(Reason::BudgetExceeded, message)
        .with("scope", scope)
        .with("unit", unit)
        .with("limit", limit)
        .with("used", used);
    match resets {
        Some(resets) => error.with("resets", resets),
        None => error,
    }
}
