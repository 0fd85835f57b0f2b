//! The tool `remote_agent`: a request comes in as JSON, and one envelope goes out.
//!
//! 1. `schema.rs` and `rules.rs` validate the request, and `request.rs` types it.
//! 2. `resolve.rs` finds its target, task and conversation. `admission.rs` refuses a target that the caller (`caller.rs`)
//!    may not use.
//! 3. `concurrency_limiter.rs` lets the call wait for its turn, `deadline.rs` ends it, `health.rs` refuses one to a target that is
//!    down, and `call/budget.rs` a message that no budget covers.
//! 4. `actions.rs` runs the action on a `call.rs`. `list_targets.rs` is the action without a target.
//! 5. `follow.rs` follows a task through cuts: `read_stream.rs` reads one connection, and `recovery.rs` decides after a
//!    failed read. `collected.rs` and `artifacts.rs` merge the answers, and `call/updates.rs` sends updates.
//!    `group.rs` runs one message to several targets as calls side by side.
//!    `person.rs` lets a person answer the question of an interrupted task, which `question.rs` reads and checks.
//! 6. `envelope.rs` writes the result, `render/` its text for models, and `call_audit.rs` the line of the audit log.
//!
//! `sign_in.rs` lets a person sign in where the target's credential needs that. `error.rs` is the table of errors. Of HTTP
//! and JSON-RPC, only the statuses and codes of errors are known here; the crates of the peers write and read the protocols.

mod actions;
mod admission;
mod artifacts;
mod call;
mod call_audit;
mod caller;
mod collected;
mod concurrency_limiter;
mod deadline;
mod envelope;
mod error;
mod extension_text;
mod follow;
mod group;
mod health;
mod list_targets;
mod person;
mod question;
mod read_stream;
mod recovery;
mod render;
mod request;
mod resolve;
mod rules;
mod schema;
mod sign_in;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::audit::AuditLog;
use crate::config::{Config, ConfigError, Limits, MAX_CALL_TIMEOUT, Policy, ToolSchema};
use crate::handles::{Handle, Handles, NewHandle};
use crate::targets::{Callbacks, CardCache, Catalog, Target, for_user};
use crate::trace::{self, Spans};
use base::budget::Budgets;
use base::environment::Environment;
use base::json;
use base::log::{Level, Log};
use base::validation::{self, schema_violation, violation};
use egress::HttpClient;
use egress::auth::end_refreshes;
use futures_util::future::join_all;
use peer::{BoxFuture, Delivered, LocalGateway, PeerProvider};

pub use deadline::PollIntervals;
pub use error::{ApiCode, Code, Reason, ToolError};
pub use question::{
    Answer, AnswerAction, Choice, Field, FieldKind, Person, Question, QuestionKind, SignInPrompt,
};
pub use schema::SCHEMA as REQUEST_SCHEMA;
pub use schema::TOOL_NAME;
pub use sign_in::SignIn;
pub(crate) use sign_in::{check_issuer, token_file};

use call::{Account, Call, CallPerson, LedgerLocks, Questions};
use call_audit::CallAudit;
use caller::Caller;
use concurrency_limiter::ConcurrencyLimiter;
use deadline::Deadline;
use health::{Health, Verdict};
use request::request_hint;
use request::{Action, Request};
use schema::RequestSchema;

/// The limits of a request. Strings do not count.
pub(crate) const REQUEST_LIMITS: json::Limits = json::Limits {
    depth: usize::MAX,
    values: usize::MAX,
    memory: 16 << 20,
};

/// The longest unknown action that an envelope repeats, in bytes.
const MAX_ACTION_BYTES: usize = 64;

/// How long [`RemoteAgent::close`] waits for the local gateway.
const GATEWAY_CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// The callback for updates during a call; each is an envelope with `phase: "update"`.
pub type UpdateCallback<'a> = &'a (dyn Fn(&str) + Send + Sync);

pub struct ToolCall<'a> {
    /// The request, as JSON.
    pub request: &'a str,
    /// The caller as JSON (`{agent_id, operator, user, session_key, chain, state_dir, traceparent, can_notify, by_person, list_tasks, no_sign_in, update_interval_ms}`,
    /// each optional), where the host reports one.
    pub caller: Option<&'a str>,
    /// The callback for updates.
    pub updates: Option<UpdateCallback<'a>>,
    /// The person that answers questions of the agent, where the host can reach one.
    pub person: Option<&'a dyn Person>,
    /// Cancels the call, on the caller's behalf.
    pub cancel: CancellationToken,
    /// Cancels the call, because the instance closes.
    pub closing: CancellationToken,
}

/// The minimum cap of a text, in characters.
const MIN_TEXT_CHARS: usize = 1000;

/// The configured tool. It starts no thread and opens no socket before the first call. It ignores the configuration's
/// `enabled`, which is for hosts.
pub struct RemoteAgent {
    schema: RequestSchema,
    tool_schema: ToolSchema,
    catalog: Catalog,
    callbacks: Callbacks,
    cards: CardCache,
    directory: Arc<dyn PeerProvider>,
    gateway: Option<Arc<dyn LocalGateway>>,
    /// For sign-ins.
    net: Option<Arc<dyn HttpClient>>,
    handles: Mutex<Handles<Target>>,
    groups: group::Groups,
    env: Arc<dyn Environment>,
    policy: Policy,
    budgets: Budgets,
    state_dir: Option<PathBuf>,
    ledger_locks: LedgerLocks,
    limits: Limits,
    concurrency_limiter: ConcurrencyLimiter,
    health: Health,
    default_timeout: Duration,
    poll_intervals: PollIntervals,
    delegations: gateway_bridge::delegation::DelegationLookup,
    questions: Mutex<Questions>,
    audit: Option<AuditLog>,
    spans: Spans,
    log: Arc<dyn Log>,
}

impl RemoteAgent {
    /// Creates the tool for a configuration, with peers from `directory` and polls at `poll_intervals`. Where the configuration
    /// has a local gateway, `directory` finds its agents too, and `gateway` is the gateway itself.
    ///
    /// # Errors
    /// The configuration is invalid; the error names the place.
    pub fn new(
        config: &Config,
        directory: Arc<dyn PeerProvider>,
        gateway: Option<Arc<dyn LocalGateway>>,
        env: Arc<dyn Environment>,
        poll_intervals: PollIntervals,
        log: Arc<dyn Log>,
    ) -> Result<Self, ConfigError> {
        let catalog = Catalog::new(config)?;
        let schema = RequestSchema::new(&catalog).map_err(|e| ConfigError::at("", e))?;
        let ttl =
            Duration::from_millis(config.task_handles.ttl_ms).min(Duration::from_hours(24 * 365));
        Ok(Self {
            schema,
            tool_schema: config.tool_schema,
            catalog,
            callbacks: Callbacks::new(config),
            cards: CardCache::new(
                Arc::clone(&directory),
                Arc::clone(&env),
                Duration::from_millis(config.cards.ttl_ms),
                config.targets.len(),
            ),
            audit: open_audit(config, &log),
            delegations: gateway_bridge::delegation::DelegationLookup::default(),
            spans: Spans::new(Arc::clone(&log), Arc::clone(&env)),
            directory,
            gateway,
            net: None,
            questions: Mutex::default(),
            groups: group::Groups::default(),
            handles: Mutex::new(Handles::new(config.task_handles.max_entries, ttl)),
            env,
            policy: config.policy.clone(),
            budgets: config.budget.clone(),
            state_dir: config.state_dir.clone(),
            ledger_locks: LedgerLocks::default(),
            limits: config.limits.clone(),
            concurrency_limiter: ConcurrencyLimiter::new(&config.limits),
            health: Health::new(&config.breaker),
            default_timeout: Duration::from_millis(config.defaults.timeout_ms)
                .min(MAX_CALL_TIMEOUT),
            poll_intervals,
            log,
        })
    }

    /// Lets people sign in through `net` during calls.
    #[must_use]
    pub fn with_sign_ins(mut self, net: Arc<dyn HttpClient>) -> Self {
        self.net = Some(net);
        self
    }

    /// Returns the network, for work that is no call.
    pub fn network(&self) -> Option<Arc<dyn HttpClient>> {
        self.net.clone()
    }

    /// Returns the tool's definition as JSON: `{name, label, description, parameters}`.
    pub fn definition(&self) -> String {
        let urls = self.policy.allow_target_url_override;
        schema::definition(&self.catalog, &self.schema, self.tool_schema, urls).to_string()
    }

    /// Returns the targets, and what reads their cards.
    pub(crate) fn targets(&self) -> (&Catalog, &CardCache) {
        (&self.catalog, &self.cards)
    }

    /// Returns the audit log, where one is enabled. The owner of the instance closes it.
    pub fn audit(&self) -> Option<&AuditLog> {
        self.audit.as_ref()
    }

    /// Disconnects from the local gateway; `None` without a gateway. The connection belongs to the runtime of the calls, so
    /// the owner of the instance awaits this on that runtime, after all calls.
    pub fn close(&self) -> Option<BoxFuture<'static, ()>> {
        let gateway = Arc::clone(self.gateway.as_ref()?);
        Some(Box::pin(async move {
            // A gateway that does not answer delays nothing: the connection ends with its runtime.
            let _ = tokio::time::timeout(GATEWAY_CLOSE_TIMEOUT, gateway.close()).await;
        }))
    }

    /// Ends the refreshes of sign-ins. Resolves when those that were sent are stored, after [`REFRESH_TIMEOUT`] at the latest; `None` if
    /// there are none.
    ///
    /// [`REFRESH_TIMEOUT`]: egress::auth::REFRESH_TIMEOUT
    pub fn end_refreshes(&self) -> Option<BoxFuture<'static, ()>> {
        let targets = self.catalog.targets().iter();
        let credentials = targets.filter_map(|target| target.peer_config.credential.as_deref());
        let sent: Vec<_> = credentials.filter_map(end_refreshes).collect();
        if sent.is_empty() {
            return None;
        }
        Some(Box::pin(async {
            join_all(sent).await;
        }))
    }

    /// Executes one call. Always returns an envelope, by the call's deadline at the latest. Dropping the future cancels
    /// the call and closes its connections. Needs a tokio runtime with time and I/O.
    pub async fn execute(&self, tool_call: ToolCall<'_>) -> String {
        let (caller, warnings) = Caller::read(tool_call.caller);
        for warning in warnings {
            self.log.log(Level::Warn, &warning);
        }
        let call_audit = CallAudit::open(self, caller, tool_call.closing.clone());
        let value: Value = match json::from_str(tool_call.request, REQUEST_LIMITS) {
            Ok(value) => value,
            Err(e) => {
                let message = format!("the request is not JSON: {e}");
                let violation =
                    schema_violation("", "#/type", "type", json!({ "type": "object" }), &message);
                call_audit.finish(Err(Reason::InvalidRequest));
                return envelope::failure("unknown", ToolError::invalid(vec![violation], 0));
            }
        };
        let action = action_name(&value).to_owned();
        let outcome = self.run(&action, value, &tool_call, call_audit).await;
        outcome.unwrap_or_else(|error| envelope::failure(&action, error))
    }

    /// Runs the call of a request with this action, logs how it ends, and closes its audit.
    async fn run(
        &self,
        action: &str,
        mut value: Value,
        tool_call: &ToolCall<'_>,
        mut call_audit: CallAudit<'_>,
    ) -> Result<String, ToolError> {
        if let Some(known) = Action::from_name(action) {
            call_audit.set_action(known);
        }
        let outcome = match self.groups.resolve(&mut value) {
            true => match self.check_request(value) {
                Ok(request) => group::run(self, request, tool_call, &mut call_audit).await,
                Err(error) => Err(error),
            },
            false => self.dispatch(value, tool_call, &mut call_audit).await,
        };
        let elapsed = call_audit.elapsed();
        let log = |level, how: &str| {
            if !self.log.enabled(level) {
                return;
            }
            let whose = call_audit.caller.label();
            let whose = whose.map(|label| format!(" for {}", label.escape_debug()));
            let line = format!(
                "{}{}: {how} after {} ms",
                action.escape_debug(),
                whose.unwrap_or_default(),
                elapsed.as_millis()
            );
            self.log.log(level, &line);
        };
        match &outcome {
            Ok(_) => log(Level::Debug, "done"),
            Err(error) => log(Level::Info, error.reason.as_str()),
        }
        call_audit.finish(outcome.as_ref().map(drop).map_err(|error| error.reason));
        outcome
    }

    /// Returns the text that a model reads of an envelope or update of this tool, in at most `limits.modelTextChars`
    /// characters, and in at most `max_chars` if that is smaller. Text of agents is sanitized and fenced. Returns an error
    /// sentence for text that is not an envelope.
    pub fn render(&self, envelope: &str, max_chars: usize) -> String {
        let max = max_chars.max(MIN_TEXT_CHARS);
        let max = self.limits.model_text_chars.min(max);
        render::render(envelope, max, self.env.uuid())
    }

    /// Returns the envelope for a call that never reached [`execute`](Self::execute), or did not return from it.
    pub fn failure(request: &str, reason: Reason, message: &str) -> String {
        let request: Value = json::from_str(request, REQUEST_LIMITS).unwrap_or_default();
        envelope::failure(action_name(&request), ToolError::local(reason, message))
    }

    async fn dispatch(
        &self,
        value: Value,
        tool_call: &ToolCall<'_>,
        call_audit: &mut CallAudit<'_>,
    ) -> Result<String, ToolError> {
        let mut request = self.parse_request(value)?;
        if request.action == Action::ListTargets {
            let deadline = Deadline::new(
                self.default_timeout,
                tool_call.cancel.clone(),
                tool_call.closing.clone(),
            );
            // Boxed like every branch that a plain message does not take: a call is moved several times before it runs,
            // and their state would make it five times as large.
            return Box::pin(list_targets::list_targets(
                self,
                &call_audit.caller,
                request.query.as_deref(),
                &deadline,
            ))
            .await;
        }
        let mut resolved = admission::resolve(&request, &self.catalog, call_audit, |handle| {
            self.handles.lock().resolve(handle, self.env.now())
        })?;
        // A handle may be that of another person.
        resolved.target = for_user(&resolved.target, call_audit.caller.user.as_deref());
        let errors = rules::target_rules(&request, &resolved.target);
        if !errors.is_empty() {
            let (errors, more) = validation::first(errors);
            return Err(ToolError::invalid(errors, more));
        }
        let notify = notification(&mut request, &resolved.target, &call_audit.caller)?;
        let timeout = request
            .timeout_ms
            .map_or_else(
                || self.default_timeout(&request, &resolved.target),
                Duration::from_millis,
            )
            .min(MAX_CALL_TIMEOUT);
        let deadline = Deadline::new(timeout, tool_call.cancel.clone(), tool_call.closing.clone());
        let metrics = call_audit.set_resolved(&resolved);
        let uses_default_timeout = request.timeout_ms.is_none();
        let caller = &call_audit.caller;
        let mut person = CallPerson {
            person: tool_call.person,
            uses_default_timeout,
            writes: caller.by_person,
            ..CallPerson::default()
        };
        if request.action == Action::Send {
            let unsent = |error: ToolError| error.delivered(Delivered::No).for_send();
            let position = caller::add_delegation(self, &mut request, caller, &deadline).await;
            let position = position.map_err(unsent)?;
            let depth = position.check_depth(self.policy.max_delegation_depth);
            depth.map_err(unsent)?;
            call_audit.position = Some(position);
        }
        if person.person.is_some() && matches!(request.action, Action::Send | Action::Watch) {
            if request.action == Action::Watch {
                // A person's answer carries the chain too. A chain that may not be longer does not keep a person from
                // answering: the next agent reads how long it is.
                let position = caller::add_delegation(self, &mut request, caller, &deadline);
                call_audit.position = Some(Box::pin(position).await?);
            }
            person.describe(&request, &call_audit.caller);
        }
        let traceparent = (trace::HEADER.to_owned(), call_audit.trace.traceparent());
        request.service_parameters.extend([traceparent]);
        // On the heap, like the request: each layer moves the call.
        let mut call = Box::new(Call::new(
            self,
            request.action,
            resolved,
            deadline,
            tool_call.updates,
            call_audit.caller.update_interval,
            metrics,
        ));
        call.notify = notify;
        call.person = person;
        call.host = call_audit.caller.session();
        call.owner.clone_from(&call_audit.caller.agent_id);
        let position = call_audit.position.as_ref();
        call.account = Account::open(self, &call.target, &call_audit.caller, position);
        let opened = self.env.now();
        let for_action = |error: ToolError| match request.action {
            Action::Send => error.for_send(),
            _ => error,
        };
        let key = Arc::clone(&call.target.key);
        // A gateway on this machine has its own reconnection, and its agents their own states.
        let is_local = call.target.peer_config.is_local();
        if !is_local {
            // Before a person signs in.
            self.health
                .check(&key, self.env.now())
                .map_err(for_action)?;
        }
        if call.person.person.is_some() && !call_audit.caller.no_sign_in {
            let signed_in = Box::pin(self.sign_in_first(&mut call)).await;
            signed_in.map_err(for_action)?;
        }
        let permit = self
            .concurrency_limiter
            .acquire(&call.target.key, &call.deadline)
            .await;
        call.permit = Some(permit.map_err(for_action)?);
        let began = self.env.now();
        let has_answered = Arc::clone(&call.metrics.has_answered);
        let admitted = (!is_local).then(|| self.health.admit(&key, &has_answered, began));
        let admitted = admitted.transpose().map_err(for_action)?;
        // The budget counts neither the wait nor the sign-in.
        call.pause_budget(opened);
        // A timeout in the request limits the blocking send; without one, the send becomes a task before the host's own
        // timeout.
        let wait = Duration::from_millis(self.limits.wait_ms);
        let wait_until = call
            .deadline
            .wait_until(uses_default_timeout.then_some(wait));
        call.wait_until = Some(wait_until);
        let done = actions::run(&mut call, request).await;
        if let Some(admitted) = admitted {
            let has_answered = has_answered.load(Ordering::Relaxed);
            let verdict = Verdict::of(done.as_ref().map(drop), has_answered, uses_default_timeout);
            let now = (self.env.now(), self.env.system_time());
            // A person's time is not the target's.
            let took = (call.person.questions == 0).then(|| now.0.saturating_duration_since(began));
            self.health.record(admitted, verdict, took, now);
        }
        done.map_err(|error| if is_local { error.for_gateway() } else { error })
    }

    /// Returns the default timeout of a call. A call that follows a task ends before the host's own timeout, and the
    /// task continues.
    fn default_timeout(&self, request: &Request, target: &Target) -> Duration {
        if !request.follows() {
            return target.timeout;
        }
        let wait = Duration::from_millis(self.limits.wait_ms);
        wait.min(self.default_timeout).min(target.timeout)
    }

    /// Returns the health of the configured targets that were called, as a JSON object by alias.
    pub fn health(&self) -> String {
        let now = self.env.now();
        let known = self.catalog.targets().iter().filter_map(|target| {
            let figures = self.health.figures(&target.key, now)?;
            Some((target.alias.clone()?, figures))
        });
        Value::Object(known.collect()).to_string()
    }

    fn parse_request(&self, value: Value) -> Result<Box<Request>, ToolError> {
        let value = Value::Object(self.check_request(value)?);
        serde_json::from_value(value).map_err(|e| {
            let message = format!("the request cannot be read: {e}");
            let violation =
                schema_violation("", "#/type", "type", json!({ "type": "object" }), &message);
            ToolError::invalid(vec![violation], 0)
        })
    }

    /// Checks a request against the schema and the rules between fields.
    fn check_request(&self, value: Value) -> Result<Map<String, Value>, ToolError> {
        let invalid = |value: &Value, errors: Vec<Value>, more| {
            let first = errors.first();
            let hint = first.and_then(|first| request_hint(value, first, &self.catalog));
            let error = ToolError::invalid(errors, more);
            hint.into_iter()
                .fold(error, |error, hint| error.with("hint", hint))
        };
        let (errors, more) = self.schema.violations(&value);
        if !errors.is_empty() {
            return Err(invalid(&value, errors, more));
        }
        let errors = value
            .as_object()
            .map(|map| rules::violations(map, &self.catalog, &self.callbacks))
            .unwrap_or_default();
        if !errors.is_empty() {
            let (errors, more) = validation::first(errors);
            return Err(invalid(&value, errors, more));
        }
        match value {
            Value::Object(request) => Ok(request),
            // The schema has refused it.
            _ => Ok(Map::new()),
        }
    }

    fn insert_handle(&self, task: NewHandle<'_, Target>, handle: Option<Handle>) -> Handle {
        self.handles
            .lock()
            .insert(task, handle, self.env.now(), || self.env.uuid())
    }
}

/// Returns whether the host wakes the session when the task of a `send` ends. Such a `send` follows the task first.
///
/// # Errors
/// The request sets `notify`, and the host cannot wake a session.
fn notification(
    request: &mut Request,
    target: &Target,
    caller: &Caller,
) -> Result<bool, ToolError> {
    if request.action != Action::Send || !request.notify.unwrap_or(target.notify) {
        return Ok(false);
    }
    if !caller.can_notify {
        if request.notify.is_none() {
            return Ok(false);
        }
        let message = "this host cannot wake a session now: it is not OpenClaw's gateway, or it follows notify.maxTasks tasks already; \
            leave notify out and call watch";
        let params = json!({ "property": "notify" });
        let violation = violation("/notify", "not", params, message);
        return Err(ToolError::invalid(vec![violation], 0));
    }
    if request.blocking.is_none() {
        request.follow_updates = true;
        // An agent that does not stream returns its task at once, and the tool polls it.
        request.blocking = Some(false);
    }
    Ok(true)
}

/// Opens the audit log, if it is enabled.
fn open_audit(config: &Config, log: &Arc<dyn Log>) -> Option<AuditLog> {
    let path = config.audit.path.clone().filter(|_| config.audit.enabled)?;
    Some(AuditLog::new(path, config.audit.max_bytes, Arc::clone(log)))
}

/// Returns a request's action for envelopes and log lines. An action that is too long becomes `unknown`.
fn action_name(request: &Value) -> &str {
    let action = request.get("action").and_then(Value::as_str);
    action
        .filter(|action| action.len() <= MAX_ACTION_BYTES)
        .unwrap_or("unknown")
}

#[cfg(test)]
mod tests;
