//! The calls of `openclaw remote-agent` run where agents run: in the gateway, with its environment.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{Arc, Mutex},
};

use remote_agent_cli::package;
use serde_json::{Value, json};

use crate::{
    host::{Gateway, Host},
    node::Installed,
    plugin_fixture::library,
    server::Server,
};

type Test = (&'static str, fn(&OperatorFixture));

macro_rules! tests {
    ($($name:ident)*) => { &[$((stringify!($name), $name as fn(&OperatorFixture))),*] };
}

/// The tests, in their order: the gateway first lacks the token, then has another one, then the right one.
pub const TESTS: &[Test] = tests![
    doctor_names_the_variable_that_the_gateway_lacks
    restricted_target_is_shown_and_called_in_the_name_of_an_agent
    followed_text_arrives_during_the_task_and_interrupt_leaves_it
    changed_settings_do_not_end_a_followed_call
    killed_gateway_leaves_the_commands_for_the_task
    check_without_a_gateway_is_one_of_the_shell
    doctor_compares_the_tokens_of_gateway_and_shell
    restarted_gateway_reads_its_file_of_variables
];

/// The variable with the token of the agent `secured`.
const VARIABLE: &str = "OPERATOR_TEST_TOKEN";
const WRONG_TOKEN: &str = "not-the-token-of-the-agent";

/// An OpenClaw with three targets, and its gateway: `open`, `secured` with a token, and `restricted` to an agent.
pub struct OperatorFixture {
    host: Host,
    gateway: Mutex<Option<Gateway>>,
    token: String,
    audit: PathBuf,
    _agents: [Server; 2],
}

impl OperatorFixture {
    /// Installs the plugin and starts the gateway, without the token, and the agents.
    pub fn start(installed: Arc<Installed>) -> Self {
        let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join("openclaw-operator");
        let _ = fs::remove_dir_all(&scratch);
        let clients = scratch.join("clients");
        fs::create_dir_all(&clients).unwrap();
        let clients = clients.to_str().unwrap();
        let added = Command::new(testkit::support::command())
            .args([
                "serve",
                "clients",
                "add",
                "operator",
                "--state-dir",
                clients,
            ])
            .output()
            .unwrap();
        let token = String::from_utf8(added.stdout).unwrap().trim().to_owned();
        let secured_flags = [
            "--port",
            "0",
            "--executor",
            "scripted",
            "--state-dir",
            clients,
        ];
        let agents = [Server::scripted(&[]), Server::start(&secured_flags, &[])];
        let [open, secured] = [agents[0].url(), agents[1].url()];
        let reference = json!({"source": "env", "provider": "default", "id": VARIABLE});
        let targets = json!([
            {"alias": "open", "baseUrl": open, "allowPrivateNetwork": true, "default": true},
            {"alias": "secured", "baseUrl": secured, "allowPrivateNetwork": true, "auth": {"type": "bearer", "token": reference}},
            {"alias": "restricted", "baseUrl": format!("{open}/"), "allowPrivateNetwork": true, "allowedAgents": ["writer"]},
        ]);
        let audit = scratch.join("audit.jsonl");
        let settings =
            json!({"enabled": true, "targets": targets, "audit": {"enabled": true, "path": audit}});
        let config = json!({
            "agents": {"defaults": {"skipBootstrap": true}},
            "tools": {"alsoAllow": ["remote_agent"]},
            "plugins": {"entries": {"remote-agent": {"enabled": true, "config": settings}}},
        });
        let packaged = package::assemble(&library(), &scratch.join("package")).unwrap();
        let host = Host::new(installed, &scratch.join("host"), &config, &[]);
        host.install(&format!("npm-pack:{}", packaged.tarball.display()));
        let gateway = Mutex::new(Some(host.boot()));
        Self {
            host,
            gateway,
            token,
            audit,
            _agents: agents,
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        self.host.command(&[&["remote-agent"], arguments].concat())
    }

    fn run(&self, arguments: &[&str]) -> Printed {
        Printed::from(self.command(arguments).output().unwrap())
    }

    /// Runs a command in a shell with the variable.
    fn run_with_token(&self, arguments: &[&str]) -> Printed {
        let mut command = self.command(arguments);
        Printed::from(command.env(VARIABLE, &self.token).output().unwrap())
    }

    /// Writes the file with the gateway's variables, and starts a gateway.
    fn boot_with_token(&self, token: &str) {
        let file = self.host.state().join(".env");
        fs::write(file, format!("{VARIABLE}={token}\n")).unwrap();
        let mut gateway = self.gateway.lock().unwrap();
        // The old gateway stops first.
        drop(gateway.take());
        *gateway = Some(self.host.boot());
    }

    /// Returns the last call in the audit log.
    fn last_call(&self) -> Value {
        let log = fs::read_to_string(&self.audit).unwrap();
        serde_json::from_str(log.lines().last().unwrap()).unwrap()
    }
}

/// What a command printed, and its exit code.
#[derive(Debug)]
struct Printed {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl From<Output> for Printed {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Self {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

/// A command that follows a task. Its task has begun to answer.
struct Following {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
}

impl Following {
    /// Sends `text`, and waits for the first word of the answer.
    fn start(fixture: &OperatorFixture, text: &str) -> Self {
        let mut command = fixture.command(&["send", "--follow", text]);
        let pipes = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pipes.spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut first = Vec::new();
        stdout.read_until(b' ', &mut first).unwrap();
        assert_eq!(first, b"0 ");
        Self { child, stdout }
    }

    /// Interrupts the command, like Ctrl-C.
    fn interrupt(&self) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-INT", &id]).status();
        assert!(sent.unwrap().success());
    }

    fn wait(mut self) -> Printed {
        let mut stdout = String::new();
        self.stdout.read_to_string(&mut stdout).unwrap();
        let printed = Printed::from(self.child.wait_with_output().unwrap());
        Printed { stdout, ..printed }
    }
}

/// Returns the id of the task that the printed command continues.
fn task_in(stderr: &str) -> &str {
    let (_, rest) = stderr.split_once("watch --target open --task ").unwrap();
    rest.lines().next().unwrap()
}

fn doctor_names_the_variable_that_the_gateway_lacks(fixture: &OperatorFixture) {
    let printed = fixture.run_with_token(&["doctor"]);
    assert_eq!(printed.code, Some(1), "{printed:?}");
    let lacks = format!("the gateway does not have {VARIABLE} for");
    assert_eq!(printed.stdout.matches(&lacks).count(), 1, "{printed:?}");
    let file = fixture.host.state().join(".env");
    let repair = format!(
        "Add it to {} and restart the gateway (`openclaw gateway restart`).",
        file.display()
    );
    assert!(printed.stdout.contains(&repair), "{printed:?}");
    assert!(!printed.stdout.contains(".."), "{printed:?}");
    let sent = fixture.run_with_token(&["send", "--target", "secured", "echo hi"]);
    assert_eq!(sent.code, Some(2), "{sent:?}");
    assert!(
        sent.stderr
            .contains(&format!("The gateway does not have {VARIABLE}")),
        "{sent:?}"
    );
}

fn restricted_target_is_shown_and_called_in_the_name_of_an_agent(fixture: &OperatorFixture) {
    let listed = fixture.run(&["targets"]);
    assert!(listed.stdout.contains("only for: writer"), "{listed:?}");
    let refused = fixture.run(&["send", "--target", "restricted", "echo hi"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.stderr.contains("`--agent writer`"), "{refused:?}");
    let sent = fixture.run(&[
        "send",
        "--target",
        "restricted",
        "--agent",
        "writer",
        "echo hi",
    ]);
    assert_eq!((sent.code, sent.stdout.trim()), (Some(0), "hi"), "{sent:?}");
    assert!(sent.stderr.contains("--agent writer --context"), "{sent:?}");
    let call = fixture.last_call();
    assert_eq!(
        (&call["agent"], &call["operator"]),
        (&json!("writer"), &json!("cli"))
    );
}

fn followed_text_arrives_during_the_task_and_interrupt_leaves_it(fixture: &OperatorFixture) {
    let following = Following::start(fixture, "stream 600 100");
    following.interrupt();
    let printed = following.wait();
    assert!(
        printed
            .stderr
            .contains("stopped waiting; the task continues"),
        "{printed:?}"
    );
    let task = task_in(&printed.stderr);
    let status = fixture.run(&["status", "--task", task, "--json"]);
    let status: Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(
        status["summary"]["continuation"]["task"]["status"], "working",
        "{status}"
    );
    let canceled = fixture.run(&["cancel", "--task", task]);
    assert!(canceled.stderr.contains("canceled"), "{canceled:?}");
}

fn changed_settings_do_not_end_a_followed_call(fixture: &OperatorFixture) {
    let gateway = fixture.gateway.lock().unwrap();
    let output = gateway.as_ref().unwrap().output.clone();
    let from = output.len();
    let following = Following::start(fixture, "stream 60 250");
    fixture.host.edit_config(|config| {
        config["plugins"]["entries"]["remote-agent"]["config"]["targets"][0]["description"] =
            json!("changed");
    });
    output.wait_from(from, "the new settings to be applied", |line| {
        line.contains("config hot reload applied")
    });
    let printed = following.wait();
    assert_eq!(printed.code, Some(0), "{printed:?}");
    let words: Vec<_> = printed
        .stdout
        .split_whitespace()
        .map(str::to_owned)
        .collect();
    let expected: Vec<_> = (1..60).map(|number| number.to_string()).collect();
    assert_eq!(words, expected);
}

fn killed_gateway_leaves_the_commands_for_the_task(fixture: &OperatorFixture) {
    let following = Following::start(fixture, "stream 600 100");
    fixture.gateway.lock().unwrap().take().unwrap().kill();
    let printed = following.wait();
    assert_eq!(printed.code, Some(3), "{printed:?}");
    assert!(
        printed
            .stderr
            .contains("the gateway stopped while it ran the call"),
        "{printed:?}"
    );
    assert!(!task_in(&printed.stderr).is_empty());
}

fn check_without_a_gateway_is_one_of_the_shell(fixture: &OperatorFixture) {
    let printed = fixture.run_with_token(&["doctor"]);
    assert_eq!(printed.code, Some(0), "{printed:?}");
    let line = "warn: no gateway is running. This was checked with the environment and the secrets of this shell only";
    assert!(printed.stdout.contains(line), "{printed:?}");
    assert!(printed.stdout.contains("ok: `secured` at "), "{printed:?}");
}

fn doctor_compares_the_tokens_of_gateway_and_shell(fixture: &OperatorFixture) {
    fixture.boot_with_token(WRONG_TOKEN);
    let stale = fixture.run_with_token(&["doctor"]);
    let message = format!("refuses {VARIABLE} of the gateway, and accepts that of this shell");
    assert!(stale.stdout.contains(&message), "{stale:?}");
    // The command reads the same file as the gateway.
    let wrong = fixture.run(&["doctor"]);
    let message = format!(
        "Check the token in the environment variable `{VARIABLE}` of the gateway: the agent refused it."
    );
    assert!(
        wrong.stdout.contains(", also with the token of this shell"),
        "{wrong:?}"
    );
    assert!(wrong.stdout.contains(&message), "{wrong:?}");
    let listed = fixture.run(&["targets"]);
    let row = listed
        .stdout
        .lines()
        .find(|line| line.starts_with("secured"));
    assert!(row.unwrap().contains("auth_required"), "{listed:?}");
    for printed in [stale, wrong, listed] {
        assert!(!format!("{printed:?}").contains(WRONG_TOKEN));
    }
}

fn restarted_gateway_reads_its_file_of_variables(fixture: &OperatorFixture) {
    fixture.boot_with_token(&fixture.token);
    let printed = fixture.run(&["doctor"]);
    assert_eq!(printed.code, Some(0), "{printed:?}");
    assert!(printed.stdout.contains("ok: `secured` at "), "{printed:?}");
}
