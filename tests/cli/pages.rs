//! Runs the commands of pages: the blocks of a page in order, in one shell.
//!
//! A block ```` ```text ```` shows the output of the blocks since the last such block. `…` in it matches any text within a line.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use testkit::support::free_port;
use tokio::process::Command;

use super::support::scratch;

/// The timeout of the commands of a page.
const TIME_LIMIT: Duration = Duration::from_secs(120);

/// The programs that a page needs beside the command.
#[derive(Clone, Copy, PartialEq)]
enum Needs {
    /// Only those that its commands start.
    Nothing,
    /// The scripted A2A server, in place of `https://support.example`.
    Agent,
    /// OpenClaw's gateway, scripted.
    OpenClaw,
}

/// The pages with commands to run.
const PAGES: [(&str, Needs); 10] = [
    ("README.md", Needs::OpenClaw),
    ("docs/tutorial/first-task.md", Needs::Nothing),
    ("docs/how-to/shell.md", Needs::Agent),
    ("docs/how-to/find.md", Needs::Agent),
    ("docs/how-to/person.md", Needs::Agent),
    ("docs/how-to/costs.md", Needs::Agent),
    ("docs/how-to/trust.md", Needs::Nothing),
    ("docs/how-to/serve.md", Needs::OpenClaw),
    ("docs/how-to/gateway.md", Needs::Nothing),
    ("docs/how-to/run-a-gateway.md", Needs::Nothing),
];

/// A text that identifies a block, and the test that runs its commands instead.
const RUN_ELSEWHERE: [(&str, &str); 21] = [
    ("cargo run -- demo", ".ci/run"),
    ("remote-agent install", "tests/openclaw/commands.rs"),
    ("openclaw remote-agent", "tests/openclaw/commands.rs"),
    ("cargo run --example rust_host", "tests/host_abi"),
    (
        "openclaw plugins install npm-pack:/path/to",
        "tests/openclaw",
    ),
    ("openclaw plugins uninstall", "tests/openclaw"),
    (
        "openclaw config set 'plugins",
        "tests/openclaw/target_commands.rs",
    ),
    ("remote-agent uninstall", "tests/openclaw/commands.rs"),
    ("mkdir empty", "tests/openclaw/target_commands.rs"),
    ("/tools/invoke", "tests/openclaw"),
    ("--tls-cert cert.pem", "tests/serve"),
    ("remote-agent conformance", "tests/conformance_command.rs"),
    ("--task-store-env TASKS", "tests/serve/redis.rs"),
    ("support.example --listen", "tests/mcp/api.rs"),
    ("/remote_agent/read -d", "tests/mcp/api.rs"),
    ("--print-config claude-code", "tests/mcp/host_config.rs"),
    ("--state-dir ~/mcp", "tests/mcp/http.rs"),
    ("add --search", "tests/cli/add.rs"),
    ("add card.json", "tests/cli/add.rs"),
    ("remote-agent sign-in", "tests/cli/sign_in.rs"),
    ("remote-agent sign-out", "tests/cli/sign_in.rs"),
];

/// The page whose commands publish a release.
const PUBLISHES: &str = "docs/how-to/release.md";

/// Texts of pages with their replacements in the shell: the binary is on the `PATH`, and the scripted agent has its own
/// commands.
const SUBSTITUTIONS: [(&str, &str); 5] = [
    ("cargo build --release", ":"),
    ("\"Write the report\"", "'ask Publish it?'"),
    (
        "\"Summarize incident 44.\"",
        "'usage Summarize incident 44.'",
    ),
    ("export PATH=$PWD/target/release:$PATH", ":"),
    // The first job of the script is the gateway that the page needs.
    ("kill %1  ", "kill %?serve  "),
];

fn root(path: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(path)
}

/// Returns the fenced blocks of a page: the language and the text.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    let mut parts = page.split("\n```");
    parts.next();
    let mut found = Vec::new();
    while let (Some(block), Some(_)) = (parts.next(), parts.next()) {
        found.push(block.split_once('\n').unwrap_or((block, "")));
    }
    found
}

fn elsewhere(block: &str) -> Option<usize> {
    RUN_ELSEWHERE
        .iter()
        .position(|(text, _)| block.contains(text))
}

#[test]
fn every_documented_command_is_run_by_a_test() {
    let mut used = [false; RUN_ELSEWHERE.len()];
    for page in crate::contract::documents::documents() {
        if page == PUBLISHES {
            continue;
        }
        let text = fs::read_to_string(root(&page)).unwrap();
        for (_, block) in blocks(&text)
            .iter()
            .filter(|(language, _)| *language == "sh")
        {
            match elsewhere(block) {
                Some(row) => used[row] = true,
                None => assert!(
                    PAGES.iter().any(|(run, _)| *run == page),
                    "{page}: no test runs\n{block}"
                ),
            }
        }
    }
    assert_eq!(used, [true; RUN_ELSEWHERE.len()], "rows without a block");
}

/// Returns the shell script of a page, which prints `@@ N` before block N.
fn script(page: &str, needs: Needs, ports: [u16; 3]) -> String {
    let [serve, gateway, agent] = ports;
    let listening = |port: u16| {
        format!("until (: </dev/tcp/127.0.0.1/{port}) 2>/dev/null; do sleep 0.05; done\n")
    };
    let mut script =
        "set -e\ntrap 'kill $(jobs -p) 2>/dev/null || true; wait || true' EXIT\n".to_owned();
    match needs {
        Needs::Nothing => {}
        Needs::Agent => {
            let _ = writeln!(
                script,
                "remote-agent serve --executor scripted --task-store memory --state-dir agent --port {agent} >/dev/null 2>&1 &"
            );
            script += &listening(agent);
        }
        Needs::OpenClaw => {
            let _ = writeln!(
                script,
                "remote-agent gateway --profile openclaw --port {gateway} >/dev/null 2>&1 &"
            );
            script += &listening(gateway);
        }
    }
    for (number, (language, block)) in blocks(page).into_iter().enumerate() {
        if language != "sh" || elsewhere(block).is_some() {
            continue;
        }
        let _ = writeln!(script, "echo '@@ {number}'");
        let mut block = block
            .replace("127.0.0.1:9000", &format!("127.0.0.1:{serve}"))
            .replace("127.0.0.1:18789", &format!("127.0.0.1:{gateway}"))
            .replace(
                "https://support.example",
                &format!("http://127.0.0.1:{agent}"),
            );
        for (shown, run) in SUBSTITUTIONS {
            block = block.replace(shown, run);
        }
        for line in block.lines() {
            let starts = line.ends_with(" &");
            if starts && line.starts_with("remote-agent serve ") {
                // The page may start another server after this one.
                script += "{ kill %?serve && wait %?serve; } 2>/dev/null || true\n";
            }
            if line == "cat serve.log" {
                // The server writes its log some milliseconds after an answer.
                script += "until grep -q completed serve.log; do sleep 0.05; done\n";
            }
            match line.strip_suffix(" &") {
                // Its output would mix with that of the next commands.
                Some(agent) if line.starts_with("remote-agent gateway agent ") => {
                    let _ = writeln!(script, "{agent} >/dev/null &");
                }
                _ => {
                    let _ = writeln!(script, "{line}");
                }
            }
            if starts && line.starts_with("remote-agent serve ") {
                script += &listening(serve);
            } else if line == "remote-agent gateway &" {
                script += &listening(gateway);
            } else if let Some(agent) = line.strip_prefix("remote-agent gateway agent --name ") {
                let name = agent.split(' ').next().unwrap_or_default();
                let _ = writeln!(
                    script,
                    "until remote-agent gateway agents status {name} >/dev/null 2>&1; do sleep 0.1; done"
                );
            }
        }
    }
    script
}

/// Returns the output of the blocks, by number.
fn printed(output: &str) -> Vec<(usize, String)> {
    output
        .split("@@ ")
        .skip(1)
        .map(|part| {
            let (number, text) = part.split_once('\n').unwrap();
            (number.parse().unwrap(), text.to_owned())
        })
        .collect()
}

/// Returns whether a printed line matches the documented one.
fn is_shown(line: &str, shown: &str) -> bool {
    let mut rest = line;
    for (index, piece) in shown.split('…').enumerate() {
        let Some(at) = rest.find(piece) else {
            return false;
        };
        if index == 0 && at != 0 {
            return false;
        }
        rest = &rest[at + piece.len()..];
    }
    rest.is_empty() || shown.ends_with('…')
}

async fn run_page(page: &str, needs: Needs) {
    let text = fs::read_to_string(root(page)).unwrap();
    let directory = scratch(&format!("page-{}", page.replace('/', "-")));
    let ports = [free_port(), free_port(), free_port()];
    let script = script(&text, needs, ports);
    let [serve, gateway, _] = ports;
    let settings = [
        ("serve", format!(r#"{{"listen": "127.0.0.1:{serve}"}}"#)),
        ("gateway", format!(r#"{{"listen": "127.0.0.1:{gateway}"}}"#)),
    ];
    for (name, json) in settings {
        let place = directory.join("openclaw-remote-agent").join(name);
        fs::create_dir_all(&place).unwrap();
        fs::write(place.join(format!("{name}.json")), json).unwrap();
    }
    let openclaw =
        format!(r#"{{"gateway": {{"port": {gateway}, "auth": {{"token": "scripted-token"}}}}}}"#);
    fs::write(directory.join("openclaw.json"), openclaw).unwrap();
    let binaries = Path::new(env!("CARGO_BIN_EXE_remote-agent"))
        .parent()
        .unwrap();
    let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap());
    let running = Command::new("bash")
        .arg("-c")
        .arg(format!("exec 2>&1\n{script}"))
        .current_dir(&directory)
        .env("PATH", path)
        .env("XDG_STATE_HOME", &directory)
        .env("OPENCLAW_STATE_DIR", &directory)
        .env("SUPPORT_TOKEN", "token")
        .env_remove("REMOTE_AGENT_LIBRARY")
        .env_remove("REMOTE_AGENT_CONFIG")
        .env_remove("OPENCLAW_CONFIG_PATH")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(TIME_LIMIT, running)
        .await
        .unwrap()
        .unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{page}: {script}\n{stdout}");
    let printed = printed(&stdout);
    let mut run: Vec<usize> = Vec::new();
    for (number, (language, block)) in blocks(&text).into_iter().enumerate() {
        match language {
            "sh" if elsewhere(block).is_none() => run.push(number),
            "text" => {
                let output: String = printed
                    .iter()
                    .filter(|(of, _)| run.contains(of))
                    // `curl` prints bodies without a line break.
                    .map(|(_, text)| format!("{text}\n"))
                    .collect();
                let mut lines = output.lines();
                for shown in block.lines() {
                    let shown = shown
                        .replace("127.0.0.1:9000", &format!("127.0.0.1:{serve}"))
                        .replace("127.0.0.1:18789", &format!("127.0.0.1:{gateway}"));
                    assert!(
                        lines.any(|line| is_shown(line.trim_end(), shown.trim_end())),
                        "{page} shows\n{shown}\nwhich is not in, or not in this order in\n{output}"
                    );
                }
                run.clear();
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn commands_of_the_pages_print_the_shown_output() {
    for (page, needs) in PAGES {
        run_page(page, needs).await;
    }
}
