//! Installs the plugin into OpenClaw and uninstalls it, with the `openclaw` command.

use std::{
    ffi::OsStr,
    io,
    path::PathBuf,
    process::{Command, Output, Stdio},
    time::Instant,
};

use openclaw_remote_agent::remote_agent::Reason;
use serde_json::{Value, json};

use super::{
    config::unset_reason,
    credentials::CredentialArgs,
    exit::{Exit, Failure},
    instance::{self, Library},
    output::note,
    package::{self, Packaged},
    target, targets,
    text::{self, shell},
};

/// The timeout for the running gateway to apply the new configuration, in seconds.
const APPLY_SECONDS: &str = "60";

/// The timeout of the request for the agent card, in milliseconds.
const CARD_TIMEOUT_MS: u64 = 10_000;

/// A phrase in OpenClaw's error about a plugin that it did not install.
const NOT_INSTALLED: &str = "is not associated with a tracked package install";

/// The last sentence of an error that occurs before the first change.
const NOTHING_INSTALLED: &str = "Nothing was installed.";

/// The name of the tool in the policy.
const TOOL: &str = "remote_agent";

const MESSAGE: &str = "Hello. Reply with one short line that says what you can do.";

const INSTALL_EXAMPLES: &str = "\
Examples:
  remote-agent install
  remote-agent install --url https://agent.example --bearer-env AGENT_TOKEN
  remote-agent install --url https://agent.example \\
    --api-key-env X-API-Key=AGENT_KEY
  remote-agent install --url http://127.0.0.1:9000";

/// Install the plugin into OpenClaw, configure an agent and send it a first message
///
/// Packs the library that came with this command, installs the package and accepts the capabilities that its manifest
/// lists, adds the agent and allows the tool, waits until the running gateway has applied the change, and sends a message.
/// An agent whose address OpenClaw knows gets the given alias and credential; its other settings remain.
#[derive(Debug, clap::Args)]
#[command(after_help = INSTALL_EXAMPLES)]
pub struct Args {
    /// Add the agent at this URL, or change the one that OpenClaw has at this URL
    #[arg(long, value_name = "URL", value_parser = target::base_url)]
    url: Option<String>,

    /// The alias of the agent [default: from the host]
    #[arg(long, value_name = "ALIAS", requires = "url")]
    alias: Option<String>,

    #[command(flatten)]
    credentials: CredentialArgs,

    /// Allow an address that is not public
    #[arg(long, requires = "url")]
    allow_private: bool,

    #[command(flatten)]
    openclaw: OpenClaw,
}

/// Uninstall the plugin from OpenClaw, with its settings and its entry in the tool policy
#[derive(Debug, clap::Args)]
pub struct UninstallArgs {
    #[command(flatten)]
    openclaw: OpenClaw,
}

/// The command of OpenClaw.
#[derive(Debug, clap::Args)]
struct OpenClaw {
    /// The command of OpenClaw
    #[arg(long = "openclaw", value_name = "FILE", default_value = "openclaw")]
    program: PathBuf,
}

/// Runs `remote-agent install`.
///
/// # Errors
/// The agent cannot be called, OpenClaw is missing, or one of its commands fails. The message contains the last lines of the
/// command's output. Completed steps are not undone.
pub async fn install(args: &Args, verbose: bool) -> Result<Exit, Failure> {
    let openclaw = &args.openclaw;
    let steps = if args.url.is_some() { 6 } else { 3 };
    let mut progress = Progress::new(steps);

    if let Some(url) = &args.url {
        progress.step("checking the agent");
        progress.done(args.check_agent(url, verbose).await?);
    }

    progress.step("checking OpenClaw");
    let version = openclaw.run(["--version"])?;
    progress.done(first_line(&version.stdout));

    progress.step("packing the library");
    let scratch = tempfile::tempdir()
        .map_err(|error| Failure::new(format!("cannot create a temporary directory: {error}")))?;
    let Packaged { tarball, .. } = package::assemble(&instance::find_library()?, scratch.path())?;
    progress.done("packed");

    progress.step("installing it into OpenClaw");
    let source = format!("npm-pack:{}", tarball.display());
    openclaw.run([
        "plugins",
        "install",
        &source,
        "--force",
        "--accept-capabilities",
    ])?;
    if openclaw.is_enabled() == Some(false) {
        openclaw.run(["plugins", "enable", "remote-agent"])?;
    }
    progress.done("installed");

    let Some(url) = &args.url else {
        note("next: openclaw remote-agent add URL, then openclaw remote-agent send 'Hello'");
        return Ok(Exit::Ok);
    };
    progress.step("adding the agent");
    let alias = args.add(url, &progress)?;
    progress.step("sending a first message");
    let sent = openclaw
        .command(["remote-agent", "send", "--target", &alias, MESSAGE])
        .stdin(Stdio::null())
        .status()
        .map_err(|error| openclaw.start_error(&error))?;
    let alias = shell(&alias);
    if !sent.success() {
        note(format_args!(
            "the first message failed. The plugin is installed and `{alias}` is configured. Correct the fault and run `openclaw remote-agent \
             send --target {alias} 'Hello'`, or run this command again with other options: it changes `{alias}`"
        ));
        return Ok(exit_from_code(sent.code()));
    }
    progress.done("sent");
    note(
        "next: ask an agent of OpenClaw to hand work to it; `openclaw remote-agent tasks` shows the work, \
         `openclaw remote-agent doctor` checks the settings, `remote-agent uninstall` removes the plugin",
    );
    Ok(Exit::Ok)
}

impl Args {
    /// Configures the agent with `openclaw remote-agent add`, and returns its alias.
    fn add(&self, url: &str, progress: &Progress) -> Result<String, Failure> {
        let mut options = self.credentials.clone().with_absolute_paths()?.arguments();
        options.extend(
            self.alias
                .iter()
                .flat_map(|alias| ["--alias".to_owned(), alias.clone()]),
        );
        if self.allow_private {
            options.push("--allow-private".to_owned());
        }
        let command = ["remote-agent", "add", url].map(str::to_owned);
        let command: Vec<String> = command.into_iter().chain(options).collect();
        let wait = ["--json", "--wait", APPLY_SECONDS].map(str::to_owned);
        let (output, failure) = self.openclaw.output(command.iter().chain(&wait))?;
        let added: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let alias = added["target"]["alias"].as_str();
        if let Some(failure) = failure {
            let words: Vec<_> = command.iter().map(|word| shell(word)).collect();
            let again = format!("`{} {}`", self.openclaw.program.display(), words.join(" "));
            let stays = match alias {
                Some(alias) => format!(
                    "The plugin is installed, and `{}` is configured. Correct the fault, then run {again} to check again",
                    text::line(alias)
                ),
                None => format!(
                    "The plugin is installed, and the agent is not configured. Correct the fault, then run {again}, or this command again"
                ),
            };
            let said = last_lines(&output.stderr);
            let said = if said.is_empty() {
                &failure.message
            } else {
                &said
            };
            let message = format!("cannot add the agent ({}):\n{said}\n{stays}", output.status);
            return Err(Failure {
                exit: failure.exit,
                ..Failure::new(message)
            });
        }
        note(last_lines(&output.stderr));
        let alias = alias.unwrap_or_default();
        let name = added["name"].as_str().unwrap_or("an agent");
        let change = added["change"].as_str().unwrap_or("added");
        progress.done(format!("{change} `{alias}`: {name}"));
        Ok(alias.to_owned())
    }

    /// Checks the agent in the same way as `openclaw remote-agent add`, and returns the agent's name.
    async fn check_agent(&self, url: &str, verbose: bool) -> Result<String, Failure> {
        self.credentials.check()?;
        if let Some((option, variable)) = self.credentials.unset_variables().first() {
            return Err(Failure::usage(format!(
                "the environment variable `{variable}` of `{option}` {}; set it here and in the environment of the gateway, \
                 and start again. {NOTHING_INSTALLED}",
                unset_reason(variable)
            )));
        }
        let mut target = json!({"alias": "agent", "baseUrl": url, "allowPrivateNetwork": self.allow_private, "timeoutMs": CARD_TIMEOUT_MS});
        self.credentials.apply(&mut target);
        let config = json!({"enabled": true, "targets": [target]});
        let library = Library::open(verbose)?;
        let instance = library.interactive_instance(&config.to_string(), None)?;
        let (name, error) = targets::check(&instance, "agent").await;
        if error.is_null() {
            return Ok(format!("{name} at {url}"));
        }
        let variable = self.credentials.variable();
        let next = match (Reason::in_error(&error), variable) {
            (Some(Reason::AddressRefused), _) => "add `--allow-private` if the agent may be at such an address".to_owned(),
            (Some(Reason::AuthRequired), Some(variable)) => format!("check the value of `{variable}`: the agent refused it"),
            (Some(Reason::AuthRequired), None) => "give its credential, for example with `--bearer-env VAR`; `remote-agent install --help` lists the others".to_owned(),
            (Some(Reason::CardMalformed | Reason::CardUnavailable), _) => "correct `--url`: give the address before `/.well-known/agent-card.json`".to_owned(),
            _ => "start the agent, or correct `--url`; `remote-agent targets --url URL` tries again".to_owned(),
        };
        Err(Failure {
            exit: Exit::from_error(&error),
            ..Failure::new(format!(
                "cannot call the agent: {}; {next}. {NOTHING_INSTALLED}",
                text::line(error["message"].as_str().unwrap_or_default())
            ))
        })
    }
}

/// Runs `remote-agent uninstall`.
///
/// # Errors
/// OpenClaw is missing, or one of its commands fails. The message contains the last lines of the command's output.
pub fn uninstall(args: &UninstallArgs) -> Result<Exit, Failure> {
    let openclaw = &args.openclaw;
    let mut progress = Progress::new(2);
    progress.step("removing the settings");
    // A disabled plugin does not register its command.
    let is_active = matches!(openclaw.is_enabled(), Some(true));
    let removed = is_active && openclaw.run(["remote-agent", "remove", "--all"]).is_ok();
    // Uninstalling removes the settings with the plugin, and not the policy.
    let disallowed = match removed {
        true => Ok(()),
        false => openclaw.disallow_tool(),
    };
    if disallowed.is_ok() {
        progress.done("no agent and no entry in the tool policy is left");
    }
    progress.step("uninstalling the plugin");
    let uninstalled = openclaw.run(["plugins", "uninstall", "remote-agent", "--force"]);
    match uninstalled {
        Err(failure) if !removed && failure.message.contains(NOT_INSTALLED) => {
            progress.done("nothing to do: the plugin is not installed");
        }
        uninstalled => {
            uninstalled?;
            // OpenClaw leaves a configuration entry that would disable a later installation.
            openclaw.run(["config", "unset", "plugins.entries.remote-agent"])?;
            progress.done("uninstalled");
        }
    }
    disallowed.map(|()| Exit::Ok)
}

impl OpenClaw {
    fn command<I: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = I>) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments);
        command
    }

    /// Runs a command of OpenClaw and waits until it exits.
    fn run<I: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = I>,
    ) -> Result<Output, Failure> {
        let (output, failure) = self.output(arguments)?;
        failure.map_or(Ok(output), Err)
    }

    /// Runs a command like [`run`](Self::run), and returns its output also if it fails.
    fn output<I: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = I>,
    ) -> Result<(Output, Option<Failure>), Failure> {
        let mut command = self.command(arguments);
        let output = command.stdin(Stdio::null()).output();
        let output = output.map_err(|error| self.start_error(&error))?;
        if output.status.success() {
            return Ok((output, None));
        }
        let words: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
        let printed = [&*output.stdout, b"\n", &*output.stderr].concat();
        let message = format!(
            "`{} {}` failed ({}):\n{}",
            self.program.display(),
            words.join(" "),
            output.status,
            last_lines(&printed)
        );
        let failure = Failure {
            exit: exit_from_code(output.status.code()),
            ..Failure::new(message)
        };
        Ok((output, Some(failure)))
    }

    /// Removes the tool from the policy for all agents without the plugin, whose command would do the same.
    fn disallow_tool(&self) -> Result<(), Failure> {
        for path in ["tools.allow", "tools.alsoAllow"] {
            let Ok(output) = self.run(["config", "get", path, "--json"]) else {
                continue;
            };
            let mut names: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap_or_default();
            let count = names.len();
            names.retain(|name| name != TOOL);
            if names.is_empty() {
                self.run(["config", "unset", path])?;
            } else if names.len() < count {
                let names = Value::from(names).to_string();
                self.run(["config", "set", path, &names, "--strict-json"])?;
            }
        }
        Ok(())
    }

    /// Returns whether the configuration enables the plugin. Returns `None` if it does not mention the plugin.
    fn is_enabled(&self) -> Option<bool> {
        let place = "plugins.entries.remote-agent.enabled";
        let output = self.run(["config", "get", place, "--json"]).ok()?;
        Some(output.stdout.trim_ascii() != b"false")
    }

    fn start_error(&self, error: &io::Error) -> Failure {
        let program = self.program.display();
        Failure::new(match error.kind() {
            io::ErrorKind::NotFound => format!(
                "cannot find `{program}`; install OpenClaw (`npm install --global openclaw`), or name its command with `--openclaw FILE`"
            ),
            _ => format!("cannot start `{program}`: {error}"),
        })
    }
}

/// Converts an exit code of `openclaw remote-agent`, which uses the same codes as this command.
fn exit_from_code(code: Option<i32>) -> Exit {
    let all = [Exit::Usage, Exit::Unreachable, Exit::Auth, Exit::Timeout];
    let same = all.into_iter().find(|exit| Some(*exit as i32) == code);
    same.unwrap_or(Exit::Failed)
}

/// Prints the steps and their durations.
struct Progress {
    steps: usize,
    number: usize,
    began: Instant,
}

impl Progress {
    fn new(steps: usize) -> Self {
        Self {
            steps,
            number: 0,
            began: Instant::now(),
        }
    }

    fn step(&mut self, name: &str) {
        self.number += 1;
        self.began = Instant::now();
        note(format_args!("[{}/{}] {name}", self.number, self.steps));
    }

    fn done(&self, result: impl AsRef<str>) {
        let seconds = self.began.elapsed().as_secs_f64();
        note(format_args!(
            "      {} ({seconds:.1} s)",
            text::line(result.as_ref())
        ));
    }
}

fn first_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.lines().next().unwrap_or_default().to_owned()
}

/// Returns the last lines of a command's output, indented.
fn last_lines(bytes: &[u8]) -> String {
    const MAX_LINES: usize = 8;
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let last = &lines[lines.len().saturating_sub(MAX_LINES)..];
    last.iter()
        .map(|line| format!("  {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}
