//! The tool `remote_agent`: a request comes in, one envelope goes out.
//!
//! A request is checked (`schema.rs`, `rules.rs`), typed (`request.rs`) and understood (`resolve.rs`); one file an action
//! does the work over a `session.rs`, and `envelope.rs` writes what came of it. `error.rs` is the one table of errors.
//! Nothing here knows HTTP or how any protocol is written.

mod bounds;
mod caller;
mod collect;
mod definition;
mod diagnostics;
mod envelope;
mod error;
mod follow;
mod list_targets;
mod pace;
mod request;
mod resolve;
mod rules;
mod schema;
mod send;
mod session;
mod task_actions;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::config::{Config, ConfigError, LONGEST_CALL, Limits, Policy};
use crate::handles::{Handle, Handles, Named};
use crate::log::{Level, Log};
use crate::peer::Directory;
use crate::targets::{CardCache, Catalog, Target};
use crate::validation::{self, complaint};
use crate::world::World;

pub use error::{Code, Reason, ToolError};
pub use pace::Pace;
pub use schema::SCHEMA as REQUEST_SCHEMA;

use bounds::Bounds;
use caller::Caller;
use request::{Action, Request};
use schema::RequestSchema;
use session::Session;

/// The longest word that is taken for an action, in bytes.
const LONGEST_ACTION: usize = 64;

/// Who hears of updates while a call is under way; each is an envelope with `phase: "update"`.
pub type Updates<'a> = &'a (dyn Fn(&str) + Send + Sync);

/// One call.
pub struct Call<'a> {
    /// The request, as JSON.
    pub request: &'a str,
    /// Who calls, as JSON (`{agent_id, session_key, chain}`), where the host says so.
    pub caller: Option<&'a str>,
    /// Who hears of updates.
    pub updates: Option<Updates<'a>>,
    /// The caller's word that the call should end early.
    pub cancel: CancellationToken,
    /// The host's word that the instance is closing.
    pub closing: CancellationToken,
}

/// The tool, configured. It starts no thread and opens no socket before it is called, and answers whatever the
/// configuration's `enabled` says: that is for hosts to heed.
pub struct RemoteAgent {
    schema: RequestSchema,
    catalog: Catalog,
    cards: CardCache,
    directory: Arc<dyn Directory>,
    handles: Mutex<Handles<Target>>,
    world: Arc<dyn World>,
    policy: Policy,
    limits: Limits,
    default_timeout: Duration,
    pace: Pace,
    log: Arc<dyn Log>,
}

impl RemoteAgent {
    /// The tool for a configuration, with peers from `directory`, asked at `pace`.
    ///
    /// # Errors
    /// What is wrong with the configuration, and where.
    pub fn new(
        config: &Config,
        directory: Arc<dyn Directory>,
        world: Arc<dyn World>,
        pace: Pace,
        log: Arc<dyn Log>,
    ) -> Result<Self, ConfigError> {
        let catalog = Catalog::new(config)?;
        let schema = RequestSchema::new(&catalog.aliases()).map_err(|e| ConfigError::at("", e))?;
        let ttl =
            Duration::from_millis(config.task_handles.ttl_ms).min(Duration::from_hours(24 * 365));
        Ok(Self {
            schema,
            catalog,
            cards: CardCache::new(
                Arc::clone(&directory),
                Arc::clone(&world),
                Duration::from_millis(config.cards.ttl_ms),
                config.targets.len(),
            ),
            directory,
            handles: Mutex::new(Handles::new(config.task_handles.max_entries, ttl)),
            world,
            policy: config.policy.clone(),
            limits: config.limits.clone(),
            default_timeout: Duration::from_millis(config.defaults.timeout_ms).min(LONGEST_CALL),
            pace,
            log,
        })
    }

    /// The tool's definition, as JSON: `{name, label, description, parameters}`.
    pub fn definition(&self) -> String {
        definition::definition(&self.catalog, &self.schema).to_string()
    }

    /// Carries out one call. Always gives an envelope, by the call's deadline at the latest. Dropping the future ends
    /// the call and closes its connections. Needs a tokio runtime with time and I/O.
    pub async fn execute(&self, call: Call<'_>) -> String {
        let began = self.world.now();
        let value: Value = match serde_json::from_str(call.request) {
            Ok(value) => value,
            Err(e) => {
                let message = format!("the request is not JSON: {e}");
                let wrong = complaint("", "#/type", "type", json!({ "type": "object" }), &message);
                return envelope::failure("unknown", invalid(vec![wrong], 0));
            }
        };
        let action = action_of(&value).to_owned();
        let (caller, wrong) = Caller::read(call.caller);
        if let Some(wrong) = wrong {
            self.log.log(Level::Warn, &wrong);
        }
        let outcome = self.act(value, &call).await;
        let elapsed = self.world.now().saturating_duration_since(began);
        let told = |level, how: &str| {
            if !self.log.wants(level) {
                return;
            }
            let whose = caller.label().map(|label| format!(" for {label}"));
            let line = format!(
                "{}{}: {how} after {} ms",
                action.escape_debug(),
                whose.unwrap_or_default(),
                elapsed.as_millis()
            );
            self.log.log(level, &line);
        };
        match outcome {
            Ok(done) => {
                told(Level::Debug, "done");
                done
            }
            Err(error) => {
                told(Level::Info, error.reason.as_str());
                envelope::failure(&action, error)
            }
        }
    }

    /// The envelope for a call that never got as far as [`execute`](Self::execute), or did not come back from it.
    pub fn failure(request: &str, reason: Reason, message: &str) -> String {
        let request: Value = serde_json::from_str(request).unwrap_or_default();
        envelope::failure(action_of(&request), ToolError::new(reason, message))
    }

    async fn act(&self, value: Value, call: &Call<'_>) -> Result<String, ToolError> {
        let request = self.valid(value)?;
        if request.action == Action::ListTargets {
            let bounds = Bounds::new(
                self.default_timeout,
                call.cancel.clone(),
                call.closing.clone(),
            );
            return list_targets::list_targets(self, &bounds).await;
        }
        let resolved = resolve::resolve(&request, &self.catalog, |handle| {
            self.lock().resolve(handle, self.world.now())
        })?;
        let timeout = request
            .timeout_ms
            .map_or(resolved.target.timeout, Duration::from_millis)
            .min(LONGEST_CALL);
        let bounds = Bounds::new(timeout, call.cancel.clone(), call.closing.clone());
        let session = Session::new(self, request.action, resolved, bounds, call.updates);
        match request.action {
            Action::Watch => task_actions::watch(session, request).await,
            Action::Status => task_actions::status(session, request).await,
            Action::Cancel => task_actions::cancel(session, request).await,
            Action::Send | Action::ListTargets => {
                send::send(
                    session,
                    request,
                    &self.policy,
                    self.world.uuid().to_string(),
                )
                .await
            }
        }
    }

    fn valid(&self, value: Value) -> Result<Request, ToolError> {
        let (errors, more) = self.schema.complaints(&value);
        if !errors.is_empty() {
            return Err(invalid(errors, more));
        }
        let errors = value
            .as_object()
            .map(|map| rules::complaints(map, &self.catalog))
            .unwrap_or_default();
        if !errors.is_empty() {
            let (errors, more) = validation::first(errors);
            return Err(invalid(errors, more));
        }
        serde_json::from_value(value).map_err(|e| {
            ToolError::new(
                Reason::InvalidRequest,
                format!("the request cannot be read: {e}"),
            )
        })
    }

    fn remember(&self, task: Named<'_, Target>, held: Option<Handle>) -> Handle {
        self.lock()
            .remember(task, held, self.world.now(), || self.world.uuid())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Handles<Target>> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a request asks for, as envelopes and log lines name it. A word that is no action is repeated, unless it is no word.
fn action_of(request: &Value) -> &str {
    let action = request.get("action").and_then(Value::as_str);
    action
        .filter(|action| action.len() <= LONGEST_ACTION)
        .unwrap_or("unknown")
}

/// The error for a request that is not as it should be: the faults to list, and how many more there are.
fn invalid(errors: Vec<Value>, more: usize) -> ToolError {
    let first = errors.first().map(|error| {
        let [place, message] =
            ["instancePath", "message"].map(|field| error[field].as_str().unwrap_or_default());
        match place {
            // The schema's sentences lack a subject, the others have one.
            "" if message.starts_with("must ") => format!(": the request {message}"),
            "" => format!(": {message}"),
            place => format!(": {place} {message}"),
        }
    });
    let message = format!(
        "remote_agent input validation failed{}",
        first.unwrap_or_default()
    );
    let error = ToolError::new(Reason::InvalidRequest, message)
        .with("source", "ajv")
        .with("tool", "remote_agent")
        .with("errors", errors);
    if more > 0 {
        error.with("more_errors", more)
    } else {
        error
    }
}
