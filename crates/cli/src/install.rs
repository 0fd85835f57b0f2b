//! Installs the plugin into OpenClaw and uninstalls it, with the `openclaw` command.

use std::{
    ffi::OsStr,
    io,
    path::PathBuf,
    process::{Command, Output, Stdio},
    time::Instant,
};

use serde_json::{Value, json};

use super::{
    exit::{Exit, Failure},
    instance::Library,
    library,
    output::note,
    package::{self, Packaged},
    text,
};

/// The timeout for the running gateway to apply the new configuration, in seconds.
const APPLY_SECONDS: &str = "60";

/// The timeout of the request for the agent card, in milliseconds.
const CARD_TIMEOUT_MS: u64 = 10_000;

/// A phrase in OpenClaw's error about a plugin that it did not install.
const NOT_INSTALLED: &str = "is not associated with a tracked package install";

/// The last sentence of an error that occurs before the first change.
const NOTHING_INSTALLED: &str = "Nothing was installed.";

const MESSAGE: &str = "Hello. Reply with one short line that says what you can do.";

const INSTALL_EXAMPLES: &str = "\
Examples:
  remote-agent install
  remote-agent install --url https://agent.example --bearer-env AGENT_TOKEN
  remote-agent install --url http://127.0.0.1:9000 --allow-private";

/// Install the plugin into OpenClaw, configure an agent and send it a first message
///
/// Packs the library that came with this command, installs the package and accepts the capabilities that its manifest
/// lists, adds the agent and allows the tool, waits until the running gateway has applied the change, and sends a message.
#[derive(Debug, clap::Args)]
#[command(after_help = INSTALL_EXAMPLES)]
pub struct Args {
    /// Add the agent at this URL
    #[arg(long, value_name = "URL")]
    url: Option<String>,

    /// The alias of the agent [default: from the host name]
    #[arg(long, value_name = "ALIAS", requires = "url")]
    alias: Option<String>,

    /// Send the bearer token in this environment variable; set the variable for the gateway too
    #[arg(long, value_name = "VAR", requires = "url")]
    bearer_env: Option<String>,

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
    let Packaged { tarball, .. } =
        package::assemble(package::source_root(), &library::find()?, scratch.path())
            .map_err(|error| Failure::new(error.to_string()))?;
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
    if openclaw.is_disabled() {
        openclaw.run(["plugins", "enable", "remote-agent"])?;
    }
    progress.done("installed");

    let Some(url) = &args.url else {
        note("next: openclaw remote-agent add URL, then openclaw remote-agent send 'Hello'");
        return Ok(Exit::Ok);
    };
    progress.step("adding the agent");
    let mut add = vec![
        "remote-agent",
        "add",
        url,
        "--json",
        "--wait",
        APPLY_SECONDS,
    ];
    for (option, value) in [("--alias", &args.alias), ("--bearer-env", &args.bearer_env)] {
        add.extend(value.iter().flat_map(|value| [option, value.as_str()]));
    }
    if args.allow_private {
        add.push("--allow-private");
    }
    let added = openclaw.run(&add)?;
    note(last_lines(&added.stderr));
    let added: Value = serde_json::from_slice(&added.stdout).unwrap_or_default();
    let alias = added["target"]["alias"].as_str().unwrap_or_default();
    let name = added["name"].as_str().unwrap_or("an agent");
    progress.done(format!("added `{alias}`: {name}"));

    progress.step("sending a first message");
    let sent = openclaw
        .command(["remote-agent", "send", "--target", alias, MESSAGE])
        .stdin(Stdio::null())
        .status()
        .map_err(|error| openclaw.start_error(&error))?;
    progress.done("sent");
    if !sent.success() {
        return Ok(exit_from_code(sent.code()));
    }
    note(
        "next: ask an agent of OpenClaw to hand work to it; `openclaw remote-agent tasks` shows the work, \
         `openclaw remote-agent doctor` checks the settings, `remote-agent uninstall` removes the plugin",
    );
    Ok(Exit::Ok)
}

impl Args {
    /// Reads the agent card in the same way as the plugin, and returns the agent's name.
    async fn check_agent(&self, url: &str, verbose: bool) -> Result<String, Failure> {
        let bearer = self.bearer_env.as_deref();
        let unset_variable =
            bearer.filter(|name| std::env::var(name).unwrap_or_default().is_empty());
        if let Some(variable) = unset_variable {
            return Err(Failure::usage(format!(
                "the environment variable `{variable}` of `--bearer-env` is not set; set it here and in the environment of the gateway, \
                 and start again. {NOTHING_INSTALLED}"
            )));
        }
        let mut target = json!({"alias": "agent", "baseUrl": url, "allowPrivateNetwork": self.allow_private, "timeoutMs": CARD_TIMEOUT_MS});
        if let Some(variable) = bearer {
            target["auth"] = json!({"type": "bearer", "token": {"source": "env", "id": variable}});
        }
        let library = Library::open(verbose)?;
        let instance = library
            .interactive_instance(&json!({"enabled": true, "targets": [target]}).to_string())?;
        let request = json!({"action": "list_targets"});
        let envelope = instance
            .call(&request.to_string(), None, None::<fn(&str)>)
            .await;
        let envelope: Value = serde_json::from_str(&envelope).unwrap_or_default();
        let target = &envelope["summary"]["targets"][0];
        let error = match envelope["ok"] == true {
            true => &target["last_refresh_error"],
            false => &envelope["error"],
        };
        if error.is_null() {
            return Ok(target["target_name"]
                .as_str()
                .unwrap_or_default()
                .to_owned());
        }
        let reason = error["reason"].as_str();
        let next = match reason {
            Some("address_refused") => {
                "add `--allow-private` if the agent may be at such an address"
            }
            Some("auth_required") => "give its token with `--bearer-env VAR`",
            _ => {
                "start the agent, or correct `--url`; `remote-agent targets --url URL` tries again"
            }
        };
        Err(Failure {
            exit: Exit::from_reason(reason),
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
    let removed = match openclaw.is_disabled() {
        false => openclaw.run(["remote-agent", "remove", "--all"]).is_ok(),
        true => false,
    };
    progress.done(match removed {
        true => "removed the agents and the entry in the tool policy",
        false => "the plugin is not active, so only OpenClaw's own records are removed",
    });
    progress.step("uninstalling the plugin");
    match openclaw.run(["plugins", "uninstall", "remote-agent", "--force"]) {
        Err(failure) if !removed && failure.message.contains(NOT_INSTALLED) => {
            progress.done("nothing to do: the plugin is not installed");
            return Ok(Exit::Ok);
        }
        uninstalled => uninstalled?,
    };
    // OpenClaw leaves a configuration entry that would disable a later installation.
    openclaw.run(["config", "unset", "plugins.entries.remote-agent"])?;
    progress.done("uninstalled");
    Ok(Exit::Ok)
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
        let mut command = self.command(arguments);
        let output = command.stdin(Stdio::null()).output();
        let output = output.map_err(|error| self.start_error(&error))?;
        if output.status.success() {
            return Ok(output);
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
        Err(Failure {
            exit: exit_from_code(output.status.code()),
            ..Failure::new(message)
        })
    }

    /// Returns whether the configuration disables the plugin.
    fn is_disabled(&self) -> bool {
        let enabled = self.run([
            "config",
            "get",
            "plugins.entries.remote-agent.enabled",
            "--json",
        ]);
        enabled.is_ok_and(|output| output.stdout.trim_ascii() == b"false")
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
