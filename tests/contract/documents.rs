//! Checks the tables, commands and links of the README and the pages.

use std::{collections::BTreeMap, process::Command};

use openclaw_remote_agent::remote_agent::{Reason, RemoteAgent};
use remote_agent_cli::exit::Exit;
use serde_json::{Value, json};

use crate::contract::{generated, in_process::InProcess, text};

#[test]
fn error_table_matches_the_codes() {
    let mut table = "| `error.code` | `error.reason` | HTTP API | meaning | retryable | what to do |\n|---|---|---|---|---|---|\n".to_owned();
    for reason in Reason::ALL {
        table += &format!(
            "| `{}` | `{}` | `{}` | {} | {} | {} |\n",
            reason.code().as_str(),
            reason.as_str(),
            reason.api_code().as_str(),
            reason.meaning(),
            if reason.retryable() { "yes" } else { "no" },
            reason.hint(),
        );
    }
    generated::part("docs/reference/errors.md", "errors", &table);
}

/// The condition of each exit code.
const EXITS: [(Exit, &str); 9] = [
    (Exit::Ok, "done"),
    (Exit::Failed, "it failed for any other reason"),
    (
        Exit::Usage,
        "the command line or the configuration is wrong",
    ),
    (
        Exit::Unreachable,
        "the agent cannot be reached, or may not be",
    ),
    (Exit::Auth, "the agent requires credentials, or other ones"),
    (Exit::Timeout, "time ran out"),
    (
        Exit::InputRequired,
        "the task waits for an answer (`input-required`) or a sign-in (`auth-required`)",
    ),
    (Exit::Canceled, "the task was `canceled`"),
    (Exit::Interrupted, "Ctrl-C; a task of the agent goes on"),
];

/// The states of a task that has ended or waits for its client.
const STATES: [&str; 6] = [
    "completed",
    "failed",
    "rejected",
    "canceled",
    "input-required",
    "auth-required",
];

fn exit_codes() -> String {
    let mut reasons: BTreeMap<u8, Vec<String>> = BTreeMap::new();
    for reason in Reason::ALL {
        let envelope = RemoteAgent::failure("{}", *reason, "it failed");
        let exit = Exit::from_envelope(&serde_json::from_str(&envelope).unwrap()) as u8;
        reasons
            .entry(exit)
            .or_default()
            .push(format!("`{}`", reason.as_str()));
    }
    // The first row of failures covers those without another row.
    reasons.remove(&(Exit::Failed as u8));
    let mut table = "| exit code | when | `error.reason` |\n|---|---|---|\n".to_owned();
    for (exit, when) in EXITS {
        let code = exit as u8;
        let reasons = reasons.remove(&code).unwrap_or_default().join(", ");
        table += &format!("| {code} | {when} | {reasons} |\n");
    }
    assert!(reasons.is_empty(), "exit codes without a row: {reasons:?}");
    table
}

#[test]
fn plugin_has_the_exit_codes_of_the_command() {
    let code = |reason: &Reason| {
        let envelope = RemoteAgent::failure("{}", *reason, "it failed");
        let exit = Exit::from_envelope(&serde_json::from_str(&envelope).unwrap());
        (exit != Exit::Failed).then(|| (reason.as_str().to_owned(), (exit as u8).into()))
    };
    let of_state = |state: &str| {
        let exit = Exit::from_state(state);
        (exit != Exit::Ok).then(|| (state.to_owned(), (exit as u8).into()))
    };
    let states = STATES.iter().filter_map(|state| of_state(state));
    let expected: serde_json::Map<String, Value> =
        Reason::ALL.iter().filter_map(code).chain(states).collect();
    assert_eq!(
        crate::contract::json("openclaw/exit-codes.json"),
        Value::Object(expected)
    );
}

pub(crate) fn help(arguments: &[&str]) -> String {
    help_at("100", arguments)
}

/// Returns the help of a command in a terminal with this number of columns.
pub(crate) fn help_at(columns: &str, arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_remote-agent"))
        .args(arguments)
        .arg("--help")
        .env("COLUMNS", columns)
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    let help = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    lines.join("\n").trim().to_owned()
}

/// Returns the subcommands that a help text lists, without `help` itself.
pub(crate) fn subcommands(help: &str) -> Vec<&str> {
    help.lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect()
}

const EXITS_MEAN: &str = "
- 0 means that the call succeeded: the task is completed, or works on. `send --follow … && deploy` deploys only after a completed task. With `--json`,
  `summary.continuation.task.status` has the state.
- `send`, `watch` and `status` exit with 1 also if the task failed, with 5 if the wait ended before the task, and with 6 or 7 by the state of the task.
  `cancel` exits with 0 if the task is canceled. `call` exits by the envelope only.
- After Ctrl-C the command prints how to follow the task, or to answer it if it waits.
- `targets` exits with 0 if it could read one card, else with the code of the worst reason. `doctor` exits with 1 if a card can be read and a check found
  an error.
- If the [policy](../how-to/policy.md#addresses) refuses an address, the command exits with 3.
";

#[test]
fn cli_reference_matches_the_help() {
    let top = help(&[]);
    let mut page = format!(
        "# remote-agent\n\nUse this page to find an option or an exit code of the command. The texts are the output of `--help`.\n\n## Exit codes\n\n{}{EXITS_MEAN}\n## Commands\n\n```text\n{top}\n```\n",
        exit_codes()
    );
    let commands = subcommands(&top);
    assert!(commands.contains(&"call"), "{top}");
    for command in commands {
        reference(&[command], &mut page);
    }
    generated::file("docs/reference/cli.md", &page);
}

/// Returns the help of a command and of its subcommands.
fn reference(command: &[&str], page: &mut String) {
    let text = help(command);
    let level = "#".repeat(command.len() + 2);
    let name = command.join(" ");
    *page += &format!("\n{level} remote-agent {name}\n\n```text\n{text}\n```\n");
    for below in subcommands(&text) {
        reference(&[command, &[below]].concat(), page);
    }
}

#[test]
fn documented_options_exist() {
    let mut checked = 0;
    for document in &documents() {
        for (_, block) in blocks(&text(document), "sh") {
            for line in block.lines() {
                let last = line.rsplit_once("| ").map_or(line, |(_, last)| last);
                let after = ["remote-agent ", "cargo run --release -- ", "cargo run -- "]
                    .iter()
                    .find_map(|start| last.strip_prefix(start));
                let Some(after) = after else {
                    continue;
                };
                // The rest belongs to another program, or is a comment.
                let words = after.split_whitespace();
                let words: Vec<&str> = words
                    .take_while(|word| !["--", "#"].contains(word))
                    .collect();
                let help = help_for(&words);
                for option in words.iter().filter(|word| word.starts_with("--")) {
                    let known = help.lines().any(|line| {
                        let mut said = line.split([' ', ',']).filter(|word| !word.is_empty());
                        said.any(|word| word == *option)
                    });
                    assert!(known, "`{line}`: {help}");
                }
                checked += 1;
            }
        }
    }
    assert!(checked > 30, "{checked} lines");
}

/// Returns the help of the innermost subcommand of a command line.
fn help_for(words: &[&str]) -> String {
    let mut path = vec![words[0]];
    loop {
        let text = help(&path);
        match words.get(path.len()) {
            Some(next) if subcommands(&text).contains(next) => path.push(next),
            _ => return text,
        }
    }
}

#[test]
fn readme_of_the_package_installs_this_version() {
    let name = concat!("openclaw-remote-agent-", env!("CARGO_PKG_VERSION"), ".tgz");
    let text = text("openclaw/README.md");
    let install = text.lines().find(|line| line.contains("npm-pack:"));
    assert!(
        install.is_some_and(|line| line.contains(name)),
        "{install:?}"
    );
}

/// Returns the fenced blocks of a document in one language, each with the number of its line.
pub(crate) fn blocks(document: &str, language: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut open: Option<(usize, bool, String)> = None;
    for (index, line) in document.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(info)) => open = Some((index + 1, info == language, String::new())),
            (Some(_), Some(_)) => {
                if let Some((line, true, block)) = open.take() {
                    found.push((line, block));
                }
                open = None;
            }
            (Some((_, _, block)), None) => {
                block.push_str(line);
                block.push('\n');
            }
            (None, None) => {}
        }
    }
    found
}

#[tokio::test]
async fn error_example_is_the_output_of_its_request() {
    let target = json!({"alias": "support", "baseUrl": "https://support.example", "default": true});
    let config = json!({"enabled": true, "targets": [target]});
    let page = text("docs/reference/tool.md");
    let errors = page.split_once("\n## Errors\n").unwrap().1;
    let examples = blocks(errors, "json");
    let [request, answer] = [0, 1].map(|nth| -> Value {
        serde_json::from_str(&examples[nth].1).unwrap_or_else(|error| panic!("{error}"))
    });
    let plugin = InProcess::started(&config).await;
    assert_eq!(plugin.call(&request).await, answer);
}

#[test]
fn readme_commands_are_those_of_ci() {
    let first = blocks(&text("README.md"), "sh").swap_remove(0).1;
    let commands: Vec<&str> = first
        .lines()
        .map(|line| line.split('#').next().unwrap().trim())
        .collect();
    assert_eq!(commands, ["cargo run -- demo", "cargo test"]);
    let ci = text(".ci/run");
    for command in commands {
        assert!(ci.contains(&format!("{{ {command}; }}")), "{command}");
    }
    assert!(ci.contains("\n  cargo real "));
}

#[test]
fn documented_rust_host_is_the_compiled_example() {
    let example = text("examples/rust_host.rs");
    let code = example.split_once("\nuse ").unwrap().1;
    generated::part(
        "docs/how-to/rust-host.md",
        "rust-host",
        &format!("```rust\nuse {code}```"),
    );
}

/// Returns every page of the repository.
pub(crate) fn documents() -> Vec<String> {
    let mut all: Vec<String> = [
        "README.md",
        "ARCHITECTURE.md",
        "SECURITY.md",
        "CHANGELOG.md",
        "openclaw/README.md",
    ]
    .map(str::to_owned)
    .into();
    for folder in [
        "docs",
        "docs/tutorial",
        "docs/how-to",
        "docs/reference",
        "docs/explanation",
        "docs/decisions",
        "fixtures",
    ] {
        for entry in std::fs::read_dir(crate::contract::root(folder)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if name.ends_with(".md") {
                all.push(format!("{folder}/{name}"));
            }
        }
    }
    all
}

#[test]
fn every_internal_link_resolves() {
    for document in &documents() {
        let folder = crate::contract::root(document);
        let folder = folder.parent().unwrap();
        for link in text(document).split("](").skip(1) {
            let target = link.split(')').next().unwrap();
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            if path.contains("://") || path.starts_with("mailto:") {
                continue;
            }
            let file = if path.is_empty() {
                crate::contract::root(document)
            } else {
                folder.join(path)
            };
            assert!(file.exists(), "{document}: {target}");
            if !anchor.is_empty() {
                let text = std::fs::read_to_string(&file).unwrap();
                let known = text
                    .lines()
                    .filter_map(|line| line.strip_prefix('#'))
                    .map(slug);
                assert!(
                    known.into_iter().any(|slug| slug == anchor),
                    "{document}: {target}"
                );
            }
        }
    }
}

/// Returns the anchor of a heading on GitHub.
fn slug(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}
