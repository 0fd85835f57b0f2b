//! `remote-agent serve tasks`: manages the stored tasks of all clients of a server, with a server or without one.

pub(super) mod source;
#[cfg(test)]
mod tests;

use std::{
    path::PathBuf,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use a2a_server::store::sqlite;
use base::text::first_chars;
use clap::Subcommand;
use openclaw_server::config::TaskStoreKind;
use serde_json::Value;

use super::flags::FileArgs;
use crate::{
    exit::{Exit, Failure},
    output::{LineWriter, note},
    text::{self, Table},
};
use source::{TaskSource, TaskSourceArgs};

const EXAMPLES: &str = "\
Examples:
  remote-agent serve tasks list
  remote-agent serve tasks list --state working --json
  remote-agent serve tasks delete 7d2f0c1e-5b0a-4a57-9a0e-0c3f1d2b4e5f
  remote-agent serve tasks list --url http://127.0.0.1:9000 \\
    --bearer-env OPERATOR_TOKEN
  remote-agent serve tasks check
  remote-agent serve tasks export > tasks.jsonl

`list` and `delete` query the server that has the directory of the tasks open; without such a server, they open the directory. \
A server with clients requires the token of an operator (`remote-agent serve clients add me --operator`). `delete` also deletes the \
task for its client, and stops a running task first. `check` and `export` read the directory itself, even while a server runs or if \
the file is damaged.

Exit codes: 0 done, 1 failed, damaged or no such task, 2 wrong usage or configuration, 3 server unreachable, 4 server requires \
another token.";

/// A page of tasks, and the cursor of the next page.
#[derive(Default)]
struct Page {
    tasks: Vec<Value>,
    next: Option<String>,
}

/// List, delete, check and export the stored tasks of a server
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List tasks, the last changed first
    List {
        /// Only tasks in this state
        #[arg(long, value_name = "STATE", value_parser = STATES, hide_possible_values = true)]
        state: Option<String>,

        /// Only tasks of this client
        #[arg(long, value_name = "NAME")]
        client: Option<String>,

        /// The maximum number of tasks
        #[arg(long, value_name = "NUMBER", default_value_t = 100)]
        limit: usize,

        /// Print each task as a line of JSON
        #[arg(long, help_heading = "Output")]
        json: bool,

        #[command(flatten)]
        source: TaskSourceArgs,

        #[command(flatten)]
        files: FileArgs,
    },
    /// Check the task file with `PRAGMA integrity_check`, the totals of clients, and that every task is readable
    Check {
        #[command(flatten)]
        files: FileArgs,
    },
    /// Print every readable task as a line of JSON, with the server's metadata
    Export {
        #[command(flatten)]
        files: FileArgs,
    },
    /// Delete tasks permanently
    Delete {
        /// The ids of the tasks
        #[arg(required = true, value_name = "TASK")]
        ids: Vec<String>,

        #[command(flatten)]
        source: TaskSourceArgs,

        #[command(flatten)]
        files: FileArgs,
    },
}

const STATES: [&str; 8] = [
    "submitted",
    "working",
    "completed",
    "failed",
    "canceled",
    "rejected",
    "input-required",
    "auth-required",
];

/// Runs the subcommand.
///
/// # Errors
/// A sentence with the failed action, the cause and a hint.
pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    match args.command {
        Command::List {
            state,
            client,
            limit,
            json,
            source,
            files,
        } => {
            let source = source.open(&files).await?;
            let matches = |task: &Value| {
                let is = |key: &str, value: &Option<String>| {
                    value
                        .as_ref()
                        .is_none_or(|value| task[key] == value.as_str())
                };
                is("state", &state) && is("client", &client)
            };
            let matching = list(&source, limit, matches).await;
            source.close().await;
            show(&matching?, json);
            Ok(Exit::Ok)
        }
        Command::Check { files } => check_database(&files),
        Command::Export { files } => export_database(&files),
        Command::Delete { ids, source, files } => {
            let source = source.open(&files).await?;
            let deleted = delete(&source, &ids).await;
            source.close().await;
            deleted
        }
    }
}

/// Tasks, and whether there are more.
struct TaskList {
    tasks: Vec<Value>,
    more: bool,
}

async fn list(
    source: &TaskSource,
    limit: usize,
    matches: impl Fn(&Value) -> bool,
) -> Result<TaskList, Failure> {
    let mut tasks = Vec::new();
    let mut after = None;
    loop {
        let page = source.page(after.as_deref()).await?;
        for task in page.tasks.into_iter().filter(&matches) {
            if tasks.len() == limit {
                return Ok(TaskList { tasks, more: true });
            }
            tasks.push(task);
        }
        after = page.next;
        if after.is_none() {
            return Ok(TaskList { tasks, more: false });
        }
    }
}

fn show(matching: &TaskList, json: bool) {
    let lines = LineWriter::default();
    if json {
        for task in &matching.tasks {
            lines.write(task.to_string());
        }
        return;
    }
    if matching.tasks.is_empty() {
        note("no matching tasks; `--url URL` queries a server that keeps its tasks in memory");
        return;
    }
    let mut table = Table::new(["TASK", "STATE", "CLIENT", "AGENT", "AGE", "MESSAGE"]);
    let now = SystemTime::now();
    for task in &matching.tasks {
        let field = |key: &str| crate::text::line(task[key].as_str().unwrap_or("-"));
        let changed = task["changedMs"].as_u64().map(Duration::from_millis);
        let age = changed.map(|since| now.duration_since(UNIX_EPOCH + since).unwrap_or_default());
        let excerpt = first_chars(&field("asked"), 48).to_owned();
        table.add_row([
            field("id"),
            field("state"),
            field("client"),
            field("agent"),
            age.map(text::age).unwrap_or_default(),
            excerpt,
        ]);
    }
    lines.write(table.render());
    if matching.more {
        note("there are more tasks; `--limit NUMBER` shows them");
    }
}

async fn delete(source: &TaskSource, ids: &[String]) -> Result<Exit, Failure> {
    let mut exit = Exit::Ok;
    for id in ids {
        if source.delete(id).await? {
            note(format_args!("deleted `{id}`"));
        } else {
            note(format_args!(
                "error: unknown task `{id}`; `remote-agent serve tasks list` lists them, with the same flags"
            ));
            exit = Exit::Failed;
        }
    }
    Ok(exit)
}

/// Checks the task file.
///
/// # Errors
/// The file cannot be opened.
fn check_database(files: &FileArgs) -> Result<Exit, Failure> {
    let directory = directory(files)?;
    let faults = sqlite::check(&directory).map_err(|error| Failure::new(error.to_string()))?;
    for line in &faults {
        note(format_args!("error: {line}"));
    }
    match faults.len() {
        0 => {
            note(format_args!(
                "the task file in {} is intact",
                directory.display()
            ));
            Ok(Exit::Ok)
        }
        _ => {
            note("`remote-agent serve tasks export` prints the tasks that can be read");
            Ok(Exit::Failed)
        }
    }
}

/// Prints every readable task.
///
/// # Errors
/// The file cannot be opened.
fn export_database(files: &FileArgs) -> Result<Exit, Failure> {
    let directory = directory(files)?;
    let lines = LineWriter::default();
    let mut unwritten = Vec::new();
    let exported = sqlite::export(&directory, |record| match serde_json::to_string(&record) {
        Ok(line) => lines.write(line),
        Err(error) => unwritten.push(format!(
            "cannot write the task `{}` as JSON: {error}",
            record.task.id
        )),
    });
    let unread = exported.map_err(|error| Failure::new(error.to_string()))?;
    let unread = unread.iter().map(ToString::to_string);
    let missing: Vec<String> = unread.chain(unwritten).collect();
    for error in &missing {
        note(format_args!("error: {error}"));
    }
    Ok(Exit::from_success(missing.is_empty()))
}

fn directory(files: &FileArgs) -> Result<PathBuf, Failure> {
    let store = files.read()?.store(|name| std::env::var(name).ok());
    match store.map_err(|error| Failure::usage(error.to_string()))? {
        TaskStoreKind::Directory(path) => Ok(path),
        TaskStoreKind::Memory | TaskStoreKind::Redis(_) => Err(Failure::usage(
            "cannot read the task file: the configured task store is not a directory",
        )),
    }
}
