//! `remote-agent tasks`: lists the tasks that agents know, and those on the record of OpenClaw's gateway.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use a2a::{TaskState, Usage};
use base::text::first_chars;
use openclaw_remote_agent::remote_agent::Reason;
use serde_json::{Value, json};

use super::{
    exit::{Exit, Failure},
    follow_up::duration,
    hints::{About, print_call_error},
    instance::Library,
    output::{LineWriter, note},
    target::PeerArgs,
    text::{self, Table, field, shell},
};

const EXAMPLES: &str = "\
Examples:
  remote-agent tasks --url https://desk.example
  remote-agent tasks --state working --since 2h
  remote-agent tasks --config agents.json --target desk --json

The tasks are those that the agents list for you, the last changed first. With the settings of OpenClaw there are also \
those on its gateway's record: the latest that agents delegated, and those that wake a session. `remote-agent serve tasks` lists the tasks of the A2A server on this machine.";

/// The files of the tasks that OpenClaw's gateway follows, below its state directory. `openclaw/followers.js` writes them.
const FOLLOWED: &str = "remote-agent/followed";
/// The file of the tasks that agents of OpenClaw delegated, below its state directory. `openclaw/tasks.js` writes it.
const DELEGATED: &str = "remote-agent/tasks.json";
const MAX_RECORDS: usize = 1000;
const MAX_DELEGATED_BYTES: u64 = 4 * 1024 * 1024;
const MAX_RECORD_BYTES: u64 = 64 * 1024;

/// The maximum number of characters of a text in a row.
const MAX_TEXT_CHARS: usize = 60;

/// List the tasks of the agents
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Only tasks in this state; may be given several times
    #[arg(long, value_name = "STATE", value_parser = state)]
    state: Vec<String>,

    /// Only tasks of this agent
    #[arg(long, value_name = "ALIAS", alias = "alias")]
    target: Option<String>,

    /// Only tasks that changed or began in this time: 30m, 2h, 7d
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    since: Option<Duration>,

    /// The maximum number of tasks
    #[arg(long, value_name = "NUMBER", default_value_t = 50)]
    limit: usize,

    #[command(flatten)]
    peers: PeerArgs,

    /// Print all of them as a line of JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

fn state(text: &str) -> Result<String, String> {
    match TaskState::from_name(text).is_foreign() {
        false => Ok(text.to_owned()),
        true => Err(
            "A2A has the states submitted, working, completed, failed, canceled, rejected, input-required and auth-required"
                .to_owned(),
        ),
    }
}

/// A task of an agent.
#[derive(Clone, Debug, Default)]
struct Task {
    target: String,
    id: String,
    state: Option<String>,
    /// When it was delegated, by our record.
    began: Option<SystemTime>,
    /// The time of its state, by the agent.
    changed: Option<SystemTime>,
    last_word: Option<String>,
    /// Whether it wakes a session of OpenClaw when it ends.
    notifies: bool,
    /// The session that delegated it.
    session: Option<String>,
    /// What its agent reports that it used.
    usage: Option<Usage>,
}

impl Task {
    fn key(&self) -> (String, String) {
        (self.target.clone(), self.id.clone())
    }

    /// Returns the latest known time.
    fn latest(&self) -> Option<SystemTime> {
        self.changed.max(self.began)
    }

    fn json(&self, now: SystemTime) -> Value {
        let age = |since: Option<SystemTime>| {
            let age = now.duration_since(since?).unwrap_or_default();
            u64::try_from(age.as_millis()).ok()
        };
        let mut task = json!({
            "target": self.target, "taskId": self.id, "state": self.state, "ageMs": age(self.began),
            "updatedMs": age(self.changed), "notify": self.notifies, "lastWord": self.last_word,
        });
        if let Some(usage) = &self.usage {
            task["usage"] = json!(usage);
        }
        task
    }
}

/// Runs the subcommand.
///
/// # Errors
/// The library or the configuration cannot be used.
pub(super) async fn run(mut args: Args, verbose: bool) -> Result<Exit, Failure> {
    let library = Library::open(verbose)?;
    let _gateway = args.peers.local.embed().await?;
    let instance =
        library.interactive_instance(&args.peers.config()?, args.peers.config_file().as_deref())?;
    let peers = &args.peers;
    let caller = json!({"agent_id": peers.agent(), "user": peers.user(), "list_tasks": true});
    let caller = caller.to_string();
    let (_, envelope) = instance.list_targets(Some(caller)).await;
    let Some(targets) = envelope["summary"]["targets"].as_array() else {
        let missing = instance.unset_variables();
        print_call_error(&envelope, &args.peers, missing, About::default());
        return Ok(Exit::from_envelope(&envelope));
    };
    let is_named = |alias: &str| args.target.as_deref().is_none_or(|named| named == alias);
    let alias = |target: &Value| {
        target["target_alias"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let targets: Vec<&Value> = targets.iter().filter(|one| is_named(&alias(one))).collect();
    if let Some(named) = args.target.as_deref().filter(|_| targets.is_empty()) {
        return Err(Failure::usage(format!(
            "no agent is called `{}`; `remote-agent targets{}` lists the agents",
            text::line(named),
            peers.options()
        )));
    }
    let mut recorded = delegated(peers);
    if let Some(files) = peers.openclaw() {
        recorded.extend(followed(&files.environment.file().with_file_name(FOLLOWED)));
    }
    let known = merge(&targets, recorded);
    let mut is_complete = true;
    let mut has_members = false;
    for target in &targets {
        if let Some(why) = missing_list(target, peers) {
            is_complete = false;
            let is_member = target["status"].is_string() && list_error(target).is_none();
            match is_member {
                true if has_members => {}
                true => note("the agents of a gateway keep no list of their tasks"),
                false => note(format_args!("{}: {why}", text::line(&alias(target)))),
            }
            has_members |= is_member;
        }
        for missing in missing_tasks(target) {
            note(format_args!("{}: {missing}", text::line(&alias(target))));
        }
    }
    let now = SystemTime::now();
    let fits = |task: &&Task| {
        let state = task.state.as_deref().unwrap_or_default();
        let is_recent = |since: Duration| {
            let age = |at: SystemTime| now.duration_since(at).unwrap_or_default();
            task.latest().is_some_and(|at| age(at) <= since)
        };
        is_named(&task.target)
            && (args.state.is_empty() || args.state.iter().any(|named| named == state))
            && args.since.is_none_or(is_recent)
    };
    let matching: Vec<&Task> = known.iter().filter(fits).collect();
    show(&matching, &args, now, is_complete || !known.is_empty());
    Ok(match known.is_empty() {
        // A card that was read before serves on.
        true => Exit::from_errors(targets.iter().map(|target| {
            let has_card = target["target_name"].is_string();
            list_error(target).filter(|_| !has_card || target.get("tasks_error").is_some())
        })),
        false => Exit::Ok,
    })
}

/// Returns the error of a target that could not be listed.
fn list_error(target: &Value) -> Option<&Value> {
    let error = target
        .get("tasks_error")
        .or(target.get("last_refresh_error"));
    // The listing sends an agent without a list another request, and its answer is such an error.
    error.filter(|error| {
        !target["tasks"].is_array() && Reason::in_error(error) != Some(Reason::RpcError)
    })
}

/// Returns what a list of tasks lacks.
fn missing_tasks(target: &Value) -> impl Iterator<Item = String> {
    let shown = target["tasks"].as_array().map_or(0, Vec::len);
    let more = (target["tasks_more"] == true)
        .then(|| format!("it has more tasks than the {shown} that it listed"));
    let unreadable = target["tasks_unreadable"].as_u64();
    let unreadable =
        unreadable.map(|count| format!("{count} of the tasks that it lists cannot be read"));
    more.into_iter().chain(unreadable)
}

/// Returns why a target has no list of tasks.
fn missing_list(target: &Value, peers: &PeerArgs) -> Option<String> {
    match list_error(target) {
        Some(error) => Some(format!(
            "its tasks cannot be listed: {}",
            peers.with_source(&field(error, "message"))
        )),
        None if target["tasks"].is_array() => None,
        None => Some(format!(
            "it has no list of tasks, as all agents before A2A 1.0; `remote-agent status{} --target {} --task ID` shows one",
            peers.options(),
            shell(&field(target, "target_alias"))
        )),
    }
}

/// Returns the listed tasks and those of the gateway, the last changed first. The agent knows the state.
fn merge(targets: &[&Value], recorded: Vec<Task>) -> Vec<Task> {
    let mut known: HashMap<(String, String), Task> = HashMap::new();
    for task in recorded {
        match known.get_mut(&task.key()) {
            Some(delegated) => delegated.notifies |= task.notifies,
            None => drop(known.insert(task.key(), task)),
        }
    }
    for target in targets {
        for listed in target["tasks"].as_array().into_iter().flatten() {
            let text = |field: &str| listed[field].as_str().map(str::to_owned);
            let changed = text("updated_at");
            let changed = changed.and_then(|time| humantime::parse_rfc3339_weak(&time).ok());
            let task = Task {
                target: target["target_alias"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
                id: text("task_id").unwrap_or_default(),
                ..Task::default()
            };
            let task = known.entry(task.key()).or_insert(task);
            task.state = text("status");
            task.changed = changed.or(task.changed);
            task.last_word = text("status_message").or(task.last_word.take());
            task.usage = reported(&listed["usage"]).or(task.usage.take());
        }
    }
    let mut tasks: Vec<Task> = known.into_values().collect();
    tasks.sort_by(|a, b| {
        b.latest()
            .cmp(&a.latest())
            .then_with(|| a.key().cmp(&b.key()))
    });
    tasks
}

/// Reads the tasks that OpenClaw's gateway follows. Ignores files of another form.
fn followed(directory: &Path) -> Vec<Task> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let files = entries.flatten().map(|entry| entry.path());
    let files = files.filter(|file| {
        file.extension()
            .is_some_and(|extension| extension == "json")
    });
    files
        .take(MAX_RECORDS)
        .filter_map(|file| record(&file))
        .collect()
}

/// Reads the tasks on the record of the settings' OpenClaw; none outside OpenClaw.
fn delegated(peers: &PeerArgs) -> Vec<Task> {
    peers.openclaw().map_or_else(Vec::new, |files| {
        read_delegated(&files.environment.file().with_file_name(DELEGATED))
    })
}

/// Prints what the tasks on record of these agents used.
pub(super) fn show_usage(peers: &PeerArgs, targets: &[Value]) {
    let recorded = delegated(peers);
    let is_listed = |task: &&Task| {
        let mut names = targets.iter().map(|target| &target["target_alias"]);
        names.any(|name| *name == *task.target)
    };
    let listed: Vec<&Task> = recorded.iter().filter(is_listed).collect();
    for (name, sum) in sums(&listed, |task| Some(&task.target)) {
        note_usage("agent", name, &sum);
    }
}

fn note_usage(kind: &str, name: &str, sum: &Usage) {
    let name = text::line(name);
    note(format_args!("used by {kind} {name}: {}", text::usage(sum)));
}

/// Reads the tasks that agents of OpenClaw delegated. Ignores values of another form.
fn read_delegated(file: &Path) -> Vec<Task> {
    let Some(Value::Array(records)) = read_json(file, MAX_DELEGATED_BYTES) else {
        return Vec::new();
    };
    let task = |record: &Value| {
        let text = |field: &str| record[field].as_str().map(str::to_owned);
        Some(Task {
            target: text("target")?,
            id: text("taskId")?,
            state: text("state"),
            began: time(&record["since"]),
            changed: time(&record["updated"]),
            last_word: text("lastWord"),
            notifies: false,
            session: text("session"),
            usage: reported(&record["usage"]),
        })
    };
    records.iter().take(MAX_RECORDS).filter_map(task).collect()
}

/// Reads a usage that the library or `openclaw/usage.js` wrote.
fn reported(usage: &Value) -> Option<Usage> {
    Some(Usage::read_own(usage)).filter(|usage| !usage.is_empty())
}

/// Returns the sums of the tasks with a usage, by name.
fn sums<'a>(
    tasks: &[&'a Task],
    name: impl Fn(&'a Task) -> Option<&'a str>,
) -> BTreeMap<&'a str, Usage> {
    let mut sums = BTreeMap::<_, Usage>::new();
    for task in tasks {
        if let (Some(name), Some(usage)) = (name(task), &task.usage) {
            sums.entry(name).or_default().add_other(usage);
        }
    }
    sums
}

fn read_json(file: &Path, max_bytes: u64) -> Option<Value> {
    let metadata = fs::symlink_metadata(file).ok()?;
    if !metadata.is_file() || metadata.len() > max_bytes {
        return None;
    }
    serde_json::from_slice(&fs::read(file).ok()?).ok()
}

/// Returns the time of milliseconds since 1970.
fn time(ms: &Value) -> Option<SystemTime> {
    let ms = ms.as_f64().filter(|ms| *ms >= 0.0)?;
    UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(ms / 1000.0).ok()?)
}

fn record(file: &Path) -> Option<Task> {
    let record = read_json(file, MAX_RECORD_BYTES)?;
    let (target, task) = (
        &record["continuation"]["target"],
        &record["continuation"]["task"],
    );
    let name = target["target_alias"]
        .as_str()
        .or(target["target_url"].as_str());
    let since = time(&record["since"])?;
    Some(Task {
        target: name?.to_owned(),
        id: task["task_id"].as_str()?.to_owned(),
        state: record["state"].as_str().map(str::to_owned),
        began: Some(since),
        notifies: true,
        ..Task::default()
    })
}

/// Prints the tasks. `is_complete` says that all targets have listed theirs.
fn show(matching: &[&Task], args: &Args, now: SystemTime, is_complete: bool) {
    let lines = LineWriter::default();
    let shown = matching.iter().take(args.limit);
    let targets = sums(matching, |task| Some(&task.target));
    let sessions = sums(matching, |task| task.session.as_deref());
    if args.json {
        let tasks: Vec<Value> = shown.map(|task| task.json(now)).collect();
        let mut listing = json!({ "tasks": tasks });
        if !targets.is_empty() {
            listing["usage"] = json!({ "targets": targets, "sessions": sessions });
        }
        lines.write(listing.to_string());
        return;
    }
    if matching.is_empty() {
        // Where a list failed, a note has said so.
        if is_complete {
            note("no matching tasks");
        }
        return;
    }
    let heads = ["TARGET", "TASK", "STATE", "AGE", "CHANGED", "NOTIFY"];
    let mut table = match targets.is_empty() {
        true => Table::new(heads.into_iter().chain(["LAST WORD"])),
        false => Table::new(heads.into_iter().chain(["USED", "LAST WORD"])),
    };
    let age = |since: Option<SystemTime>| {
        let age = since.map(|since| now.duration_since(since).unwrap_or_default());
        age.map_or_else(|| "-".to_owned(), text::age)
    };
    for task in shown {
        let word = text::line(task.last_word.as_deref().unwrap_or_default());
        let mut row = vec![
            text::line(&task.target),
            text::line(&task.id),
            text::line(task.state.as_deref().unwrap_or("-")),
            age(task.began),
            age(task.changed),
            if task.notifies { "yes" } else { "-" }.to_owned(),
        ];
        if !targets.is_empty() {
            let used = task.usage.as_ref();
            row.push(used.map_or_else(|| "-".to_owned(), text::usage));
        }
        row.push(first_chars(&word, MAX_TEXT_CHARS).to_owned());
        table.add_row(row);
    }
    lines.write(table.render());
    for (kind, sums) in [("agent", targets), ("session", sessions)] {
        for (name, sum) in sums {
            note_usage(kind, name, &sum);
        }
    }
    if matching.len() > args.limit {
        let more = matching.len() - args.limit;
        note(format_args!(
            "{more} more; `--limit {}` shows all of them",
            matching.len()
        ));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn age_is_since_the_delegation_and_not_since_the_last_state() {
        let directory = tempfile::tempdir().unwrap();
        let record = |id: &str, since: u64| {
            json!({"continuation": {"target": {"target_alias": "desk", "target_url": "https://desk.example/"}, "task": {"task_id": id}},
                "caller": {"session_key": "s"}, "since": since * 1000, "state": "submitted"})
        };
        for (name, text) in [
            ("a.json", record("t-1", 10).to_string()),
            ("b.json", "{".to_owned()),
            ("c.json.1.waking", record("t-2", 10).to_string()),
        ] {
            fs::write(directory.path().join(name), text).unwrap();
        }
        let listed = json!({"target_alias": "desk", "tasks": [
            {"task_id": "t-1", "status": "working", "updated_at": "1970-01-01T00:00:59Z"},
            {"task_id": "t-3", "status": "completed", "updated_at": "1970-01-01T00:01:00Z", "status_message": "done",
                "usage": {"tokens": {"total": 8}, "usd_micros": 1500}},
            {"task_id": "t-4", "status": "completed", "updated_at": "yesterday"},
        ]});
        let tasks = merge(&[&listed], followed(directory.path()));
        let ids: Vec<&str> = tasks.iter().map(|task| task.id.as_str()).collect();
        assert_eq!(ids, ["t-3", "t-1", "t-4"]);
        let used = tasks[0].usage.as_ref().map(text::usage);
        assert_eq!(used.as_deref(), Some("8 tokens $0.0015"));
        assert_eq!(
            (tasks[1].began, tasks[1].changed),
            (Some(at(10)), Some(at(59)))
        );
        assert_eq!(tasks[1].state.as_deref(), Some("working"));
        assert_eq!(tasks[1].json(at(70))["ageMs"], 60_000);
        assert_eq!(tasks[0].json(at(70))["ageMs"], Value::Null);
    }

    #[test]
    fn agent_without_a_list_of_tasks_is_named() {
        assert_eq!(
            missing_list(&json!({"tasks": []}), &PeerArgs::default()),
            None
        );
        assert!(
            missing_list(&json!({}), &PeerArgs::default())
                .unwrap()
                .contains("A2A 1.0")
        );
        let refused = json!({"tasks_error": {"message": "no\nway"}});
        assert!(
            missing_list(&refused, &PeerArgs::default())
                .unwrap()
                .ends_with("no way")
        );
    }

    #[test]
    fn delegated_tasks_are_on_record() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tasks.json");
        let written = json!([
            {"target": "desk", "taskId": "t-1", "state": "working", "since": 10_000, "updated": 20_000, "lastWord": "half"},
            {"target": "desk"}, null,
        ]);
        fs::write(&file, written.to_string()).unwrap();
        let tasks = read_delegated(&file);
        assert_eq!(tasks.len(), 1);
        let shown = tasks[0].json(at(70));
        assert_eq!(
            (&shown["ageMs"], &shown["updatedMs"]),
            (&json!(60_000), &json!(50_000))
        );
        assert_eq!(shown["lastWord"], "half");
    }

    #[test]
    fn usage_is_summed_by_agent_and_session() {
        let task = |target: &str, session: Option<&str>, usage: Value| Task {
            target: target.to_owned(),
            session: session.map(str::to_owned),
            usage: reported(&usage),
            ..Task::default()
        };
        let usage = json!({"tokens": {"total": 600}, "usd_micros": 6_150, "estimated": true});
        let tasks = [
            task("desk", Some("s"), usage.clone()),
            task("desk", None, usage.clone()),
            task("other", Some("s"), json!({"tokens": {"total": -1}})),
        ];
        let tasks: Vec<&Task> = tasks.iter().collect();
        let by_target = sums(&tasks, |task| Some(&task.target));
        assert_eq!(by_target.len(), 1);
        assert_eq!(text::usage(&by_target["desk"]), "~1200 tokens $0.0123");
        let by_session = sums(&tasks, |task| task.session.as_deref());
        assert_eq!(text::usage(&by_session["s"]), "~600 tokens $0.0062");
        assert_eq!(tasks[0].json(at(0))["usage"], usage);
        assert_eq!(tasks[2].json(at(0)).get("usage"), None);
    }
}
