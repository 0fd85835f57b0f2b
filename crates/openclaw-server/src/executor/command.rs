//! An executor that runs the command `openclaw agent`, one process per message.
//!
//! If a gateway runs on OpenClaw's state, the command sends the turn to it; otherwise the command needs `--local`.
//! OpenClaw rejects the wrong mode before it starts the turn. The executor therefore tries the last accepted mode
//! first. A setting can fix the mode.
//!
//! OpenClaw's launcher searches all arguments for its own options (`--profile`, `--container`) before it parses them,
//! even the values of other options. Therefore no text of a client becomes an argument of its own: the command reads
//! the message from standard input, and each value is in one argument with its option.
//!
//! A turn takes half a minute with `--local` and some seconds through a gateway. The command prints nothing before the
//! end of the turn.

mod answer;
mod error;

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use a2a_server::executor::{Agent, ExecutionEvents, Executor, ExecutorError, Outcome, RunInput};
use futures_util::future::BoxFuture;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::process::Command;
use tokio::sync::OnceCell;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use base::environment::Environment;
use base::log::Log;
use gateway_bridge::openclaw;
use gateway_bridge::openclaw::sanitize;
use gateway_bridge::session_key;

use super::delegated::DelegationWriter;
use super::environment;
use super::parts;
use super::settings::{RunMode, Thinking, state_dir};
use answer::TurnOutput;
use base::process::{self, Ended};
use error::CommandError;

/// How long the command may take to list the agents.
const LISTING_TIMEOUT: Duration = Duration::from_secs(60);

/// The settings of the command. `Debug` omits the values of variables.
#[derive(Debug, Clone)]
pub struct CommandSettings {
    /// The path of the command, or its name in `PATH`.
    pub openclaw_path: PathBuf,
    /// The agent of messages that name none; `None` for OpenClaw's default agent.
    pub agent_id: Option<String>,
    /// The thinking level of a turn. The default is `low` if the model supports it; otherwise OpenClaw selects the
    /// level.
    pub thinking: Option<Thinking>,
    /// The timeout of a turn, including the start of the command.
    pub timeout: Duration,
    /// The working directory of the command. The default is that of the server.
    pub working_directory: Option<PathBuf>,
    /// Additional environment variables of the command.
    pub env_vars: Vec<(String, SecretString)>,
    /// The names of variables of the server's environment that the command receives. A `*` at the end matches any
    /// suffix.
    pub pass_env: Vec<String>,
    /// Whether the command runs turns in its own process.
    pub local: RunMode,
}

impl Default for CommandSettings {
    fn default() -> Self {
        Self {
            openclaw_path: "openclaw".into(),
            agent_id: None,
            thinking: None,
            timeout: Duration::from_secs(300),
            working_directory: None,
            env_vars: Vec::new(),
            pass_env: Vec::new(),
            local: RunMode::default(),
        }
    }
}

/// Executes messages with the command `openclaw`.
pub struct CommandExecutor(Arc<CommandRunner>);

struct CommandRunner {
    settings: CommandSettings,
    delegated: DelegationWriter,
    home: Option<PathBuf>,
    /// Whether `--local` is the last accepted mode.
    local: AtomicBool,
    /// Whether the model rejects thinking levels.
    rejects_thinking: AtomicBool,
    /// The name of OpenClaw's default agent, once it is known.
    default: OnceCell<String>,
}

impl CommandExecutor {
    /// Creates the executor for the command in `settings`. The variables of `settings` determine OpenClaw's state
    /// directory.
    pub fn new(settings: CommandSettings, env: Arc<dyn Environment>, log: Arc<dyn Log>) -> Self {
        let state_dir = state_dir(|name| {
            let own = settings.env_vars.iter().find(|(known, _)| known == name);
            match own {
                Some((_, value)) => Some(value.expose_secret().into()),
                None => std::env::var_os(name),
            }
        });
        Self(Arc::new(CommandRunner {
            delegated: DelegationWriter::new(state_dir, env, log),
            home: std::env::home_dir().filter(|home| home.components().count() > 1),
            local: AtomicBool::new(settings.local == RunMode::InProcess),
            settings,
            rejects_thinking: AtomicBool::new(false),
            default: OnceCell::new(),
        }))
    }
}

impl Executor for CommandExecutor {
    fn agents(&self) -> BoxFuture<'_, Result<Vec<Agent>, ExecutorError>> {
        Box::pin(async {
            let listed = self.0.list_agents().await;
            listed.map_err(|command_error| ExecutorError(command_error.text))
        })
    }

    fn run(
        &self,
        input: RunInput,
        events: ExecutionEvents,
        cancel: CancellationToken,
    ) -> BoxFuture<'static, Outcome> {
        let runner = Arc::clone(&self.0);
        Box::pin(async move {
            runner
                .run_turn(input, events, &cancel)
                .await
                .unwrap_or_else(|outcome| outcome)
        })
    }

    /// Returns `None`, because a turn ends with its process.
    fn reattach(
        &self,
        _input: RunInput,
        _run: String,
        _events: ExecutionEvents,
        _cancel: CancellationToken,
    ) -> Option<BoxFuture<'static, Outcome>> {
        None
    }

    fn ready(&self) -> BoxFuture<'_, Result<(), ExecutorError>> {
        let found = self.0.check_command();
        Box::pin(std::future::ready(
            found.map_err(|command_error| ExecutorError(command_error.text)),
        ))
    }
}

impl CommandRunner {
    async fn run_turn(
        &self,
        input: RunInput,
        events: ExecutionEvents,
        cancel: &CancellationToken,
    ) -> Result<Outcome, Outcome> {
        let deadline = Instant::now() + self.settings.timeout;
        let agent = input
            .agent
            .clone()
            .or_else(|| self.settings.agent_id.clone());
        if let Some(agent) = agent.as_ref().filter(|agent| !is_name(agent)) {
            return Err(Outcome::Rejected(format!(
                "{agent:?} is not a valid agent name"
            )));
        }
        self.record_delegation(&agent, &input).await?;
        let agent_parts = parts::to_agent(input.message.parts);
        let text = openclaw::text(&agent_parts);
        let text = sanitize(&text);
        let (mut local, mut mode_switched) = (self.local.load(Ordering::Relaxed), false);
        loop {
            let thinking = self.thinking();
            let command = self.command(agent.as_deref(), &input.session, &text, local, thinking);
            let ended = process::run(command, Some(&text), deadline, cancel, |_| {}).await;
            let ended = ended.map_err(|error| {
                self.command_error(CommandError::start_failed(&error, &self.settings))
            })?;
            let output = match ended {
                Ended::TimedOut => Err(CommandError::timed_out(self.settings.timeout)),
                Ended::Canceled => Err(CommandError::canceled()),
                Ended::Exited(finished) => {
                    answer::read_turn(&finished, &input.task_id, &input.context_id)
                }
            };
            match output {
                Ok(TurnOutput::Turn { outcome, metadata }) => {
                    self.local.store(local, Ordering::Relaxed);
                    if let Some(metadata) = metadata {
                        let _ = events.send(metadata).await;
                    }
                    return Ok(outcome);
                }
                // In these three cases, OpenClaw has not started the turn.
                Ok(TurnOutput::OtherMode) => match self.settings.local {
                    RunMode::Auto if !mode_switched => (local, mode_switched) = (!local, true),
                    only => return Err(self.command_error(CommandError::mode_rejected(only))),
                },
                Err(command_error)
                    if thinking.is_some() && self.default_thinking_rejected(&command_error) =>
                {
                    self.rejects_thinking.store(true, Ordering::Relaxed);
                }
                Err(command_error) => return Err(self.command_error(command_error)),
            }
        }
    }

    /// Returns the thinking level for the next turn.
    fn thinking(&self) -> Option<Thinking> {
        let default = (!self.rejects_thinking.load(Ordering::Relaxed)).then_some(Thinking::Low);
        self.settings.thinking.or(default)
    }

    /// Returns whether OpenClaw rejected a thinking level that is only a default, so that a turn without it may
    /// succeed.
    fn default_thinking_rejected(&self, command_error: &CommandError) -> bool {
        self.settings.thinking.is_none() && command_error.reason == error::THINKING_NOT_SUPPORTED
    }

    /// Records the delegation of the session before the turn starts.
    async fn record_delegation(
        &self,
        agent: &Option<String>,
        input: &RunInput,
    ) -> Result<(), Outcome> {
        if !self.delegated.is_enabled() {
            return Ok(());
        }
        let agent = match agent {
            Some(agent) => agent,
            // The session of the default agent has no delegation yet, so there is none to clear.
            None if input.delegation.is_none() && !self.default.initialized() => return Ok(()),
            None => {
                let default_agent = self.default.get_or_try_init(|| self.default_agent()).await;
                default_agent.map_err(|command_error| self.command_error(command_error))?
            }
        };
        let key = session_key::explicit_key(agent, &input.session);
        self.delegated.record(&key, input.delegation.as_ref()).await
    }

    async fn default_agent(&self) -> Result<String, CommandError> {
        let listed = self.list_agents().await?;
        let first = listed.into_iter().next();
        first
            .map(|agent| agent.name)
            .ok_or_else(CommandError::unknown_agent)
    }

    async fn list_agents(&self) -> Result<Vec<Agent>, CommandError> {
        let mut command = self.openclaw();
        command.args(["agents", "list", "--json"]);
        let deadline = Instant::now() + LISTING_TIMEOUT;
        let ended = process::run(command, None, deadline, &CancellationToken::new(), |_| {}).await;
        match ended.map_err(|error| CommandError::start_failed(&error, &self.settings))? {
            Ended::Exited(finished) => answer::read_agents(&finished),
            Ended::TimedOut => Err(CommandError::timed_out(LISTING_TIMEOUT)),
            Ended::Canceled => Err(CommandError::canceled()),
        }
        .map_err(|command_error| command_error.redact_home(self.home.as_deref()))
    }

    /// Builds the command for one turn. The command reads the message from standard input.
    fn command(
        &self,
        agent: Option<&str>,
        session: &str,
        text: &str,
        local: bool,
        thinking: Option<Thinking>,
    ) -> Command {
        let mut command = self.openclaw();
        command.arg("agent");
        if local {
            command.arg("--local");
        }
        if cfg!(unix) {
            command.arg("--message-file=/dev/stdin");
        } else {
            // Some systems have no path for standard input.
            command.arg(format!("--message={text}"));
        }
        command.arg("--json").arg(format!("--session-id={session}"));
        if let Some(agent) = agent {
            command.arg(format!("--agent={agent}"));
        }
        if let Some(level) = thinking {
            command.arg(format!("--thinking={level}"));
        }
        let seconds = self.settings.timeout.as_millis().div_ceil(1000).max(1);
        command.arg(format!("--timeout={seconds}"));
        command
    }

    fn openclaw(&self) -> Command {
        let mut command = Command::new(&self.settings.openclaw_path);
        let own = self.settings.env_vars.iter();
        let models = self.settings.local != RunMode::Gateway;
        command
            .env_clear()
            .envs(environment::child_environment(
                std::env::vars_os(),
                models,
                &self.settings.pass_env,
            ))
            .env("NO_COLOR", "1")
            .envs(own.map(|(name, value)| (name, value.expose_secret())))
            .stdin(Stdio::null());
        if let Some(folder) = &self.settings.working_directory {
            command.current_dir(folder);
        }
        command
    }

    /// Checks that the command exists.
    fn check_command(&self) -> Result<(), CommandError> {
        let own = self
            .settings
            .env_vars
            .iter()
            .find(|(name, _)| name == "PATH");
        let path = own.map(|(_, value)| value.expose_secret().into());
        error::find(&self.settings, path.or_else(|| std::env::var_os("PATH")))
    }

    fn command_error(&self, command_error: CommandError) -> Outcome {
        let CommandError { reason, text } = command_error.redact_home(self.home.as_deref());
        Outcome::Failed { reason, text }
    }
}

/// Returns whether a text is a valid name of an agent. Other texts never become arguments, because the command could
/// parse them as options.
fn is_name(name: &str) -> bool {
    let is_word_char = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (1..=64).contains(&name.len())
        && name.starts_with(is_word_char)
        && name.chars().all(|c| is_word_char(c) || c == '-')
}

#[cfg(all(test, unix))]
mod tests;
