//! Budgets of targets, of chains of delegations and of all targets: a message that does not fit is refused before it is sent,
//! and what its call used is recorded after it.

use std::collections::HashMap;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use base::budget::{
    BY_URL, BudgetError, Ledger, Level, Reservation, Scope, Settled, Settlement, Unit,
};
use base::log::{Level as LogLevel, Log};
use parking_lot::Mutex;
use peer::Delivered;
use serde_json::{Map, Value};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use super::Call;
use crate::remote_agent::RemoteAgent;
use crate::remote_agent::caller::{Caller, Position};
use crate::remote_agent::deadline::Deadline;
use crate::remote_agent::error::{Reason, ToolError};
use crate::remote_agent::request::Action;
use crate::targets::Target;

/// The metadata key of what is left of the budgets, for targets with `sendRemainder`.
const METADATA_KEY: &str = "openclaw-remote-agent/budget";

/// How long a call waits at most for the check before a question.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a call waits at most until what it used is recorded, and at least after its end. Beyond that it is recorded while
/// the result is on its way.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(5);
const SETTLE_TIMEOUT_AFTER_END: Duration = Duration::from_secs(1);

/// How many ends of calls wait for a record. Those beyond it keep their reservations.
const MAX_WAITING: usize = 256;

/// The turns of this instance's calls at each record. The lock of the file is for other processes: waiting for it is polling,
/// which does not last long.
#[derive(Default)]
pub(in crate::remote_agent) struct LedgerLocks(Mutex<HashMap<PathBuf, Turn>>);

#[derive(Clone, Default)]
struct Turn {
    alone: Arc<tokio::sync::Mutex<()>>,
    /// The ends of calls that the next turn records: however long another process has the file, they take one turn.
    waiting: Arc<Mutex<Vec<Ended>>>,
}

/// The end of a call, and who waits until it is recorded.
struct Ended {
    scopes: Vec<Scope>,
    end: Settlement,
    settled: oneshot::Sender<Settled>,
}

impl LedgerLocks {
    fn of(&self, path: &Path) -> Turn {
        let mut turns = self.0.lock();
        // The paths are those of hosts, of which one instance may have several.
        turns.retain(|known, turn| known == path || Arc::strong_count(&turn.alone) > 1);
        turns.entry(path.to_owned()).or_default().clone()
    }
}

/// The part of a call in the record of budgets.
pub(in crate::remote_agent) struct Account {
    ledger: Ledger,
    turn: Turn,
    scopes: Vec<Scope>,
    target: String,
    began: Instant,
    reservation: Option<Reservation>,
}

impl Account {
    /// Returns the account of a call to `target` with messages at `position`; `None` if nothing limits it.
    pub(in crate::remote_agent) fn open(
        tool: &RemoteAgent,
        target: &Target,
        caller: &Caller,
        position: Option<&Position>,
    ) -> Option<Self> {
        let name = target.alias.as_deref().unwrap_or(BY_URL);
        let own = target.budget.as_ref().map(|own| &own.budget);
        let work = position.and_then(|position| position.work(caller));
        let scopes = tool.budgets.scopes(name, own, work);
        if scopes.is_empty() {
            return None;
        }
        let path = Self::path(tool, caller);
        Some(Self {
            turn: tool.ledger_locks.of(&path),
            ledger: Ledger::new(path),
            scopes,
            target: name.to_owned(),
            began: tool.env.now(),
            reservation: None,
        })
    }

    /// Returns why the record cannot be used, if a budget is set; a sentence.
    pub(in crate::remote_agent) async fn problem(
        tool: &RemoteAgent,
        caller: &Caller,
        deadline: &Deadline,
    ) -> Option<String> {
        let targets = tool.catalog.targets().iter();
        let own = targets.filter_map(|target| Some(&target.budget.as_ref()?.budget));
        let mut budgets = own.map(Some).chain([None]);
        budgets.find(|own| !tool.budgets.scopes("", *own, None).is_empty())?;
        let path = Self::path(tool, caller);
        let place = path.display().to_string();
        let checked = spawn_blocking(move || Ledger::new(path).check_file());
        let message = match deadline.run(checked).await {
            Ok(Ok(Err(BudgetError::Unusable(message)))) => message,
            Err(error) => format!("the record of budgets was not read: {}", error.message),
            _ => return None,
        };
        Some(format!("{message} (`{place}`)"))
    }

    fn path(tool: &RemoteAgent, caller: &Caller) -> PathBuf {
        let variable = |name: &str| std::env::var_os(name);
        let (own, host) = (tool.state_dir.as_deref(), caller.state_dir.as_deref());
        tool.budgets.file(own, host, variable)
    }

    /// Reserves a message. If the call ends first, the reservation is given back.
    ///
    /// # Errors
    /// The call ends first.
    async fn reserve(
        &self,
        deadline: &Deadline,
        now: SystemTime,
    ) -> Result<Result<Reservation, BudgetError>, ToolError> {
        let turn = deadline
            .run(Arc::clone(&self.turn.alone).lock_owned())
            .await?;
        let (ledger, scopes) = (self.ledger.clone(), self.scopes.clone());
        let (sender, mut receiver) = oneshot::channel();
        spawn_blocking(move || {
            let _turn = turn;
            let reserved = ledger.reserve(&scopes, now);
            if let Err(Ok(unused)) = sender.send(reserved) {
                give_back(&ledger, &scopes, unused, now);
            }
        });
        let reserved = deadline.run(&mut receiver).await;
        if reserved.is_err() {
            receiver.close();
            if let Ok(Ok(unused)) = receiver.try_recv() {
                let (ledger, scopes) = (self.ledger.clone(), self.scopes.clone());
                spawn_blocking(move || give_back(&ledger, &scopes, unused, now));
            }
        }
        Ok(reserved?.unwrap_or_else(|error| {
            let message = format!("the budget cannot be reserved: {error}");
            Err(BudgetError::Unusable(message))
        }))
    }

    /// Returns the error of a message that may not be sent.
    fn refusal(&self, error: BudgetError, log: &dyn Log) -> ToolError {
        let error = match error {
            BudgetError::Exceeded(level) => exceeded(*level, &self.target),
            BudgetError::Unusable(message) => {
                log_with_path(log, &message, self.ledger.path());
                ToolError::local(Reason::BudgetUnusable, message)
            }
        };
        error.delivered(Delivered::No).for_send()
    }
}

/// Returns what no message used. If that fails, it counts.
fn give_back(ledger: &Ledger, scopes: &[Scope], unused: Reservation, now: SystemTime) {
    let end = Settlement {
        reserved: unused.amounts,
        unsent: true,
        ..Settlement::default()
    };
    let _ = ledger.settle(scopes, &end, now);
}

/// Records the end of a call, in a task of its own: a call that does not wait for it loses nothing.
fn account_end(tool: &RemoteAgent, account: Account, end: Settlement) -> JoinHandle<Option<Level>> {
    let log = Arc::clone(&tool.log);
    let now = tool.env.system_time();
    let Account {
        ledger,
        turn,
        scopes,
        target,
        ..
    } = account;
    let (settled, receiver) = oneshot::channel();
    let has_place = {
        let mut waiting = turn.waiting.lock();
        let has_place = waiting.len() < MAX_WAITING;
        if has_place {
            waiting.push(Ended {
                scopes,
                end,
                settled,
            });
        }
        has_place
    };
    tokio::spawn(async move {
        if !has_place {
            let message =
                "the record of budgets is too busy; what a call used stays as it was estimated";
            log_with_path(&*log, message, ledger.path());
            return None;
        }
        let alone = turn.alone.lock_owned().await;
        let ended = mem::take(&mut *turn.waiting.lock());
        if !ended.is_empty() {
            let path = ledger.path().to_owned();
            let waiting = Arc::clone(&turn.waiting);
            let recorded = spawn_blocking(move || {
                let _alone = alone;
                settle_all(&ledger, ended, now).map_err(|(error, ended)| {
                    keep_waiting(&mut waiting.lock(), ended);
                    error
                })
            });
            if let Ok(Err(BudgetError::Unusable(message))) = recorded.await {
                let message = format!(
                    "{message}; a later call of this process tries again to record what this one used"
                );
                log_with_path(&*log, &message, &path);
                return None;
            }
        }
        let settled = receiver.await.ok()?;
        if settled.is_implausible {
            let message = format!(
                "the target `{target}` reports more tokens or money for a task than is plausible; give it a budget of its own"
            );
            log.log(LogLevel::Warn, &message);
        }
        settled.warning
    })
}

/// Records the ends of calls, and says so to those that wait.
///
/// # Errors
/// The file cannot be used. Nothing is recorded.
fn settle_all(
    ledger: &Ledger,
    ended: Vec<Ended>,
    now: SystemTime,
) -> Result<(), (BudgetError, Vec<Ended>)> {
    let ends: Vec<_> = ended.iter().map(|one| (&*one.scopes, &one.end)).collect();
    match ledger.settle_all(&ends, now) {
        Ok(all) => {
            for (one, settled) in ended.into_iter().zip(all) {
                let _ = one.settled.send(settled);
            }
            Ok(())
        }
        Err(error) => Err((error, ended)),
    }
}

/// Puts ends back before the later ones, as far as there is a place for them.
fn keep_waiting(waiting: &mut Vec<Ended>, mut ended: Vec<Ended>) {
    ended.truncate(MAX_WAITING.saturating_sub(waiting.len()));
    ended.append(waiting);
    *waiting = ended;
}

impl Call<'_> {
    /// Reserves a message with this metadata, where budgets limit it. Tells the peer what is left if the operator wants that.
    ///
    /// # Errors
    /// A budget does not suffice, or the record cannot be used. Nothing has been sent.
    pub(in crate::remote_agent) async fn reserve_budget(
        &mut self,
        metadata: &mut Option<Map<String, Value>>,
    ) -> Result<(), ToolError> {
        let Some(account) = &mut self.account else {
            return Ok(());
        };
        let now = self.tool.env.system_time();
        let reserved = account.reserve(&self.deadline, now).await;
        let reserved = reserved.map_err(|error| error.delivered(Delivered::No).for_send())?;
        let reservation = reserved.map_err(|error| account.refusal(error, &*self.tool.log))?;
        if self
            .target
            .budget
            .as_ref()
            .is_some_and(|own| own.send_remainder)
        {
            let metadata = metadata.get_or_insert_default();
            metadata.insert(METADATA_KEY.to_owned(), remainder(&reservation));
        }
        // The call may have sent messages before this one.
        let earlier = account.reservation.take();
        let earlier = earlier.map(|earlier| earlier.amounts).unwrap_or_default();
        account.reservation = Some(Reservation {
            amounts: earlier.plus(reservation.amounts),
            ..reservation
        });
        Ok(())
    }

    /// Checks that budgets leave room for another message, so that no person answers in vain.
    ///
    /// # Errors
    /// As [`reserve_budget`](Self::reserve_budget), or the call was cancelled.
    pub(in crate::remote_agent) async fn check_budget(&self) -> Result<(), ToolError> {
        let Some(account) = &self.account else {
            return Ok(());
        };
        let now = self.tool.env.system_time();
        let (ledger, scopes) = (account.ledger.clone(), account.scopes.clone());
        let turn = Arc::clone(&account.turn.alone).lock_owned();
        let checked = async {
            let turn = turn.await;
            let check = move || {
                let _turn = turn;
                ledger.check(&scopes, now)
            };
            spawn_blocking(check).await
        };
        let checked = timeout(self.time_for_person(CHECK_TIMEOUT), checked);
        match self.deadline.run_without_limit(checked).await? {
            Ok(Ok(checked)) => checked.map_err(|error| account.refusal(error, &*self.tool.log)),
            // What the check does not find, the reservation does.
            _ => Ok(()),
        }
    }

    /// Does not count the time since `since`, in which the agent waited.
    pub(in crate::remote_agent) fn pause_budget(&mut self, since: Instant) {
        let waited = self.tool.env.now().saturating_duration_since(since);
        if let Some(account) = &mut self.account {
            account.began += waited;
        }
    }

    /// Returns whether the message of a call with this error did not leave this machine. An agent that redirects it has read it,
    /// and may have done the work, whatever HTTP says.
    fn never_left(&self, error: &ToolError) -> bool {
        let is_redirected = error.reason == Reason::RedirectRefused && self.peer.is_some();
        error.delivered == Delivered::No && !is_redirected
    }

    /// Records what the call used, and notes a budget that is nearly used up. A call that is dropped before keeps its
    /// reservation.
    pub(in crate::remote_agent) async fn settle_budget(&mut self, error: Option<&ToolError>) {
        let Some(account) = self.account.take() else {
            return;
        };
        let usage = self.metrics.usage();
        let waits = match self.action {
            Action::Send => account.reservation.is_some(),
            action => action == Action::Watch,
        };
        if account.reservation.is_none() && usage.is_none() && !waits {
            return;
        }
        let usage = usage.unwrap_or_default();
        let reserved = account.reservation.as_ref();
        let elapsed = self.tool.env.now().saturating_duration_since(account.began);
        let elapsed = base::environment::millis(elapsed);
        let task = self.collected.task_id.as_ref().or(self.task_id.as_ref());
        let end = Settlement {
            reserved: reserved
                .map(|reserved| reserved.amounts)
                .unwrap_or_default(),
            // A later message that did not leave follows one that did.
            unsent: error.is_some_and(|error| self.never_left(error))
                && self.collected.task_id.is_none(),
            task: task.map(|task| format!("{} {task}", account.target)),
            elapsed: if waits { elapsed } else { 0 },
            tokens: usage.tokens.total,
            usd_micros: usage.usd_micros,
            unknown_currency: usage.unknown_currency,
        };
        let settled = account_end(self.tool, account, end);
        let wait = match self.deadline.check_cancelled() {
            Ok(()) => self.deadline.remaining(),
            Err(_) => Duration::ZERO,
        };
        let wait = wait.clamp(SETTLE_TIMEOUT_AFTER_END, SETTLE_TIMEOUT);
        if let Ok(Ok(warning)) = timeout(wait, settled).await {
            self.budget_warning = warning;
        }
    }
}

/// Logs why the record cannot be used, with its path.
fn log_with_path(log: &dyn Log, message: &str, path: &Path) {
    log.log(LogLevel::Warn, &format!("{message} (`{}`)", path.display()));
}

fn remainder(reservation: &Reservation) -> Value {
    let left = Unit::ALL.into_iter().zip(reservation.left);
    let left = left.filter_map(|(unit, left)| Some((unit.as_str().to_owned(), unit.shown(left?))));
    Value::Object(left.collect::<Map<_, _>>())
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
        ..
    } = level;
    let anew = resets
        .as_ref()
        .map(|at| format!("; it starts anew at {at}"));
    let message = format!(
        "the budget {whose} does not suffice for another message: {used} of {limit} {unit} are used{}",
        anew.unwrap_or_default()
    );
    let error = ToolError::local(Reason::BudgetExceeded, message);
    let error = match scope == "target" {
        true => error.with("target_alias", target),
        false => error,
    };
    let error = error
        .with("scope", scope)
        .with("unit", unit)
        .with("limit", limit)
        .with("used", used);
    match resets {
        Some(resets) => error.with("resets", resets),
        None => error,
    }
}
