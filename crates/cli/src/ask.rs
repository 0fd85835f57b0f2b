//! Lets the person at the terminal answer the questions of an agent (`--ask`).
//!
//! Answers come from standard input, a line each: typed, or piped by a script, whose answers are not recorded as a person's.

use std::{
    env,
    io::{self, BufRead, IsTerminal},
    sync::{Arc, Once},
    thread,
    time::Instant,
};

use base::confusables::glyphs;
use gateway_agent::DELEGATION_VARIABLE;
use openclaw_remote_agent_interface::{AskerBox, ask_with};
use serde_json::{Map, Value, json};
use tokio::sync::{Mutex, mpsc};
use url::Url;

use super::{
    exit::Failure,
    output::note,
    text::{block, line},
};

/// Whether the person at the terminal answers.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(super) struct AskArgs {
    /// Ask on the terminal what the agent wants to know, and send it the answer; an empty line declines, or takes the default of a field
    #[arg(long)]
    pub(super) ask: bool,
}

/// The lines of standard input and when each was read, by a thread of their own: it may wait for a line when the process ends.
type Lines = mpsc::Receiver<(Instant, String)>;

/// What was read for the questions of a call.
struct Input {
    lines: Lines,
    /// The id of the question that was answered last, and the values.
    given: Option<(String, Map<String, Value>)>,
}

/// Who answers, for the audit log: a person at the terminal, or whatever is at the other end of a pipe.
fn answered_by() -> &'static str {
    match io::stdin().is_terminal() {
        true => "terminal",
        false => "standard input",
    }
}

/// How many lines wait for a question. Those of a terminal beyond it are dropped.
const MAX_LINES: usize = 64;

impl AskArgs {
    /// Checks that standard input can have answers; `reads_stdin` says that it is the message.
    ///
    /// # Errors
    /// It cannot.
    pub(super) fn check(self, reads_stdin: bool) -> Result<(), Failure> {
        let problem = match self.ask {
            true if reads_stdin => {
                "standard input is the text of the message; give the text as an argument"
            }
            true if !has_input() => {
                "standard input is neither a terminal nor a pipe, so no person could answer; run it in a terminal, pipe the answers, or leave `--ask` out and answer later with `send`"
            }
            _ => return Ok(()),
        };
        Err(Failure::usage(format!("cannot use `--ask`: {problem}")))
    }

    /// Returns the configuration in which the person answers.
    pub(super) fn config(self, config: String) -> String {
        match self.ask {
            // A line that the person sends to a task themselves is theirs too.
            true => with_answers(config, "person-then-model"),
            false => config,
        }
    }

    /// Returns what asks the person; `before` runs first each time, to clear the terminal.
    pub(super) fn person(self, before: impl Fn() + Send + Sync + 'static) -> Option<AskerBox> {
        if !self.ask {
            return None;
        }
        let (sender, lines) = mpsc::channel(MAX_LINES);
        thread::spawn(move || {
            let is_terminal = io::stdin().is_terminal();
            for line in io::stdin().lock().lines().map_while(Result::ok) {
                let line = (Instant::now(), line);
                if is_terminal {
                    // A line that waits for its turn would count as typed later.
                    let _ = sender.try_send(line);
                } else if sender.blocking_send(line).is_err() {
                    return;
                }
            }
        });
        let input = Arc::new(Mutex::new(Input { lines, given: None }));
        let first = Arc::new(Once::new());
        Some(ask_with(move |question: String| {
            before();
            let input = Arc::clone(&input);
            first.call_once(|| {
                if !io::stdin().is_terminal() {
                    note(
                        "standard input is not a terminal: its lines answer, and the audit log does not name a person. Run the command at a terminal for a person's answer",
                    );
                }
            });
            async move {
                let question: Value = serde_json::from_str(&question).unwrap_or_default();
                answer(&question, &mut *input.lock().await)
                    .await
                    .to_string()
            }
        }))
    }
}

/// Sets who answers the questions of every target, also of those that the configuration does not list, unless a target has its
/// own rule for a person.
pub(super) fn with_answers(config: String, answers: &str) -> String {
    let Ok(mut parsed) = serde_json::from_str::<Value>(&config) else {
        return config;
    };
    let Some(settings) = parsed.as_object_mut() else {
        return config;
    };
    let targets = settings.get_mut("targets").and_then(Value::as_array_mut);
    for target in targets
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
    {
        // Without a rule of its own a target has the default.
        if target.get("answers").is_some_and(|rule| rule == "model") {
            target.remove("answers");
        }
    }
    let defaults = settings.entry("defaults").or_insert_with(|| json!({}));
    if let Some(defaults) = defaults.as_object_mut()
        && defaults.get("answers").is_none_or(|rule| rule == "model")
    {
        defaults.insert("answers".to_owned(), answers.into());
    }
    parsed.to_string()
}

/// Returns whether a person types this command, whose message is then theirs: on a terminal that also shows the answer. Programs
/// and models that run commands have pipes in place of one of these, and where they have a terminal, the command that an agent of
/// the reference gateway or of OpenClaw runs is known by its environment.
pub(super) fn is_typed_by_person() -> bool {
    let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let is_of_agent = env::var_os(DELEGATION_VARIABLE).is_some()
        || env::var_os("OPENCLAW_SHELL").is_some_and(|shell| shell == "exec");
    is_terminal && !is_of_agent
}

/// Returns whether standard input is a terminal, a pipe or a file, and not closed or `/dev/null`.
fn has_input() -> bool {
    if io::stdin().is_terminal() {
        return true;
    }
    #[cfg(unix)]
    {
        use std::{fs::File, os::fd::AsFd as _, os::unix::fs::FileTypeExt as _};
        let file = io::stdin().as_fd().try_clone_to_owned().map(File::from);
        let kind = file.and_then(|file| file.metadata());
        kind.is_ok_and(|kind| !kind.file_type().is_char_device())
    }
    #[cfg(not(unix))]
    true
}

/// Asks the question and returns the answer, both as JSON.
async fn answer(question: &Value, input: &mut Input) -> Value {
    let is_terminal = io::stdin().is_terminal();
    let is_sign_in = question["sign_in"].is_object();
    if !is_sign_in {
        show(question);
    }
    if is_terminal {
        discard_typed();
    }
    if is_sign_in {
        return sign_in(question, &mut input.lines, is_terminal).await;
    }
    let shown = Instant::now();
    let fields = question["fields"].as_array().cloned().unwrap_or_default();
    let id = question["id"].as_str().unwrap_or_default();
    let misfits = question["misfits"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let before = input.given.take().filter(|(given, _)| given == id);
    let before = before.filter(|_| !misfits.is_empty());
    let keeps = before.is_some();
    let mut content = before.map_or_else(Map::new, |(_, content)| content);
    // A person must choose by themselves what they permit.
    let takes_defaults = question["kind"] == "input";
    for field in &fields {
        if keeps && !misfits.contains(&field["name"]) {
            continue;
        }
        let name = field["name"].as_str().unwrap_or_default();
        let default = field.get("default").filter(|_| takes_defaults);
        note(prompt(field, fields.len() == 1, default.is_some()));
        let typed = loop {
            match input.lines.recv().await {
                // What was typed before the question is no answer to it.
                Some((read, _)) if is_terminal && read < shown => {}
                Some((_, line)) => break line,
                None => {
                    note("standard input has ended; nothing is sent");
                    return json!({"action": "unreachable"});
                }
            }
        };
        match typed.trim() {
            "" => match default {
                Some(default) => drop(content.insert(name.to_owned(), default.clone())),
                None if field["required"] == true => {
                    note("declined; nothing is sent");
                    return json!({"action": "decline", "by": answered_by()});
                }
                None => drop(content.remove(name)),
            },
            typed => drop(content.insert(name.to_owned(), value(field, typed))),
        }
    }
    input.given = Some((id.to_owned(), content.clone()));
    json!({"action": "answer", "content": content, "by": answered_by()})
}

/// Shows where the person signs in, and returns the address that they paste. The library ends the question of a code.
async fn sign_in(question: &Value, lines: &mut Lines, is_terminal: bool) -> Value {
    let text = |value: &Value| line(value.as_str().unwrap_or_default());
    let prompt = &question["sign_in"];
    let (target, server) = (text(&question["target"]), text(&prompt["server"]));
    match question["error"].as_str().map(line) {
        Some(error) if prompt["takes_address"] == true => note(format!("{error}. Paste it again:")),
        Some(error) => note(error),
        None => note(format!(
            "to call {target}, sign in at {server}; open {}",
            text(&question["url"])
        )),
    }
    let has_code = prompt["code"].is_string();
    if has_code {
        let declines = match is_terminal {
            true => " (an empty line declines)",
            false => "",
        };
        note(format!(
            "and enter the code {}{declines}",
            text(&prompt["code"])
        ));
    }
    // The lines of a script answer the agent.
    if !is_terminal {
        return std::future::pending().await;
    }
    let shown = Instant::now();
    if !has_code && question["error"].is_null() {
        note("if the page at the end does not load, paste its whole address (empty declines):");
    }
    while let Some((read, typed)) = lines.recv().await {
        let typed = typed.trim();
        // What was typed before the question is no answer to it.
        if read < shown {
            continue;
        }
        if typed.is_empty() {
            return json!({"action": "decline", "by": answered_by()});
        }
        if has_code {
            continue;
        }
        if Url::parse(typed).is_ok() {
            return json!({"action": "answer", "content": {"answer": typed}});
        }
        // The library takes a text that is no address for the word that the browser has returned.
        note(
            "that is no address; paste the whole address of the page at which the browser ended (empty declines):",
        );
    }
    // The browser may still return.
    std::future::pending().await
}

/// Discards what was typed and not read, such as the beginning of a line.
fn discard_typed() {
    #[cfg(unix)]
    let _ = rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush);
}

/// Shows who asks, what for, and the agent's words behind a bar that no line of them can leave.
fn show(question: &Value) {
    let text = |name: &str| question[name].as_str().map(line);
    let origin = text("origin").unwrap_or_default();
    let target = text("target").unwrap_or_else(|| origin.clone());
    let agent = text("agent").map_or_else(String::new, |agent| format!("\"{agent}\", "));
    let what = match question["kind"].as_str() {
        Some("auth") => "wants you to sign in",
        Some("permission") => "asks for a permission",
        _ => "asks",
    };
    note(format!("{target} ({agent}{origin}) {what}"));
    let chain = question["chain"].as_array().into_iter().flatten();
    let chain: Vec<_> = chain.filter_map(Value::as_str).map(line).collect();
    if !chain.is_empty() {
        note(format!("  called by: {}", chain.join(", ")));
    }
    if let Some(task) = text("task") {
        note(format!("  about: {task}"));
    }
    if let Some(error) = text("error") {
        note(format!("  not sent: {error}"));
    }
    for warning in question["warnings"].as_array().into_iter().flatten() {
        note(match warning.as_str() {
            Some("asks_for_secret") => {
                "  warning: it may ask for a password, a token, a key or a code; what you answer goes to this agent"
            }
            _ => "  warning: it offers a form that cannot be shown here; answer in your own words",
        });
    }
    let mut fields = question["fields"].as_array().into_iter().flatten();
    if fields.any(|field| field["type"] == "text") {
        note("  Never send passwords or keys to an agent.");
    }
    let words = question["text"].as_str().unwrap_or_default();
    for words in block(words).lines() {
        note(format!("  | {words}"));
    }
    if let Some(url) = text("url") {
        note(format!("  | link: {url}"));
    }
}

fn prompt(field: &Value, is_only: bool, has_default: bool) -> String {
    let form = match field["type"].as_str() {
        Some("integer") => ", a whole number",
        Some("number") => ", a number",
        Some("boolean") => ", yes or no",
        Some("choice") if is_numbered(&names(field)) => ", a number or a name of these",
        Some("choice") => ", a name of these",
        _ => "",
    };
    let empty = match field["required"] == true {
        _ if has_default => "empty takes the default",
        true => "empty declines",
        false => "empty leaves it out",
    };
    let title = line(field["title"].as_str().unwrap_or_default());
    let title = if is_only {
        "your answer".to_owned()
    } else {
        title
    };
    let mut prompt = format!("{title}{form} ({empty}):");
    if let Some(description) = field["description"].as_str() {
        prompt = format!("  | {}\n{prompt}", line(description));
    }
    let names = names(field);
    let is_numbered = is_numbered(&names);
    for (i, name) in names.into_iter().enumerate() {
        prompt += &match is_numbered {
            true => format!("\n  {}) {name}", i + 1),
            false => format!("\n  - {name}"),
        };
    }
    prompt
}

/// Returns what the person sees of each choice. Titles that look alike get numbers.
fn names(field: &Value) -> Vec<String> {
    let looks = |name: &str| {
        glyphs(name)
            .into_iter()
            .map(|glyph| glyph.c)
            .collect::<String>()
    };
    let mut seen: Vec<String> = Vec::new();
    let choices = field["choices"].as_array().into_iter().flatten();
    let name = |choice: &Value| {
        let title = line(choice["title"].as_str().unwrap_or_default());
        let numbered = (2..).map(|n| format!("{title} ({n})"));
        let mut names = std::iter::once(title.clone()).chain(numbered);
        let name = names
            .find(|name| !seen.contains(&looks(name)))
            .unwrap_or_default();
        seen.push(looks(&name));
        name
    };
    choices.map(name).collect()
}

/// Returns whether a number stands for a choice: not where a choice itself may be meant by one.
fn is_numbered(names: &[String]) -> bool {
    names.iter().all(|name| name.trim().parse::<f64>().is_err())
}

/// Returns the value of a choice by its number or by what the person sees of it, else what was typed. What fits no choice is
/// returned as a list, which the library refuses: the person has not seen the values.
fn value(field: &Value, typed: &str) -> Value {
    let Some(choices) = field["choices"].as_array() else {
        return typed.into();
    };
    let names = names(field);
    let nth = typed.parse::<usize>().ok().filter(|_| is_numbered(&names));
    let named = || {
        names
            .iter()
            .position(|name| name.trim().to_lowercase() == typed.to_lowercase())
    };
    let chosen = nth.and_then(|nth| nth.checked_sub(1)).or_else(named);
    let chosen = chosen.and_then(|chosen| choices.get(chosen));
    chosen.map_or_else(|| json!([typed]), |choice| choice["value"].clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choice_is_taken_by_number_or_name() {
        let choices = |all: Value| json!({"type": "choice", "choices": all});
        let colours =
            choices(json!([{"value": "r", "title": "Red"}, {"value": 7, "title": "Seven"}]));
        // The values contradict the titles, which alone are shown.
        let crossed =
            choices(json!([{"value": "yes", "title": "No"}, {"value": "no", "title": "Yes"}]));
        let numbers = choices(json!([{"value": "a", "title": "2"}, {"value": "b", "title": "1"}]));
        let equal =
            choices(json!([{"value": "a", "title": "Yes"}, {"value": "b", "title": "Y\u{435}s"}]));
        for (field, typed, expected) in [
            (&colours, "2", json!(7)),
            (&colours, "red", json!("r")),
            (&colours, "3", json!(["3"])),
            (&colours, "r", json!(["r"])),
            (&crossed, "yes", json!("no")),
            (&numbers, "2", json!("a")),
            (&equal, "2", json!("b")),
            (&equal, "Y\u{435}s (2)", json!("b")),
            (&json!({"type": "text"}), "1", json!("1")),
        ] {
            assert_eq!(value(field, typed), expected, "{field} {typed}");
        }
        let shown = [&equal, &numbers].map(|field| prompt(field, true, false));
        assert!(
            shown[0].ends_with("\n  1) Yes\n  2) Y\u{435}s (2)"),
            "{}",
            shown[0]
        );
        assert!(shown[1].ends_with("\n  - 2\n  - 1"), "{}", shown[1]);
    }

    #[tokio::test]
    async fn sign_in_takes_an_address_typed_after_the_question() {
        let question = json!({"sign_in": {"server": "https://id.example", "takes_address": true}, "error": "no"});
        let address = "http://127.0.0.1:1/callback?code=c";
        let later = Instant::now() + std::time::Duration::from_secs(3600);
        let lines = |all: &[(Instant, &str)]| {
            let (sender, lines) = mpsc::channel(MAX_LINES);
            for (read, line) in all {
                let _ = sender.try_send((*read, (*line).to_owned()));
            }
            lines
        };
        let stale = (Instant::now(), "");
        let mut typed = lines(&[stale, (later, "hello"), (later, address)]);
        let answer = sign_in(&question, &mut typed, true).await;
        assert_eq!(answer["content"]["answer"], address, "{answer}");
        let mut declined = lines(&[(later, " ")]);
        assert_eq!(
            sign_in(&question, &mut declined, true).await["action"],
            "decline"
        );
        let mut piped = lines(&[(later, "Braga")]);
        let by_code = json!({"sign_in": {"server": "https://id.example", "code": "WDJB"}});
        let mut typed = lines(&[stale, (later, "hello"), (later, "")]);
        assert_eq!(
            sign_in(&by_code, &mut typed, true).await["action"],
            "decline"
        );
        let never = tokio::time::timeout(
            std::time::Duration::from_millis(10),
            sign_in(&question, &mut piped, false),
        );
        assert!(never.await.is_err());
        assert_eq!(
            piped.recv().await.map(|(_, line)| line).as_deref(),
            Some("Braga")
        );
    }

    #[test]
    fn option_makes_a_person_answer_for_every_target() {
        let config = r#"{"targets": [{"alias": "a", "answers": "model"}, {"alias": "b", "answers": "person"}]}"#;
        let asks = AskArgs { ask: true };
        let answers: Value =
            serde_json::from_str(&asks.config(config.to_owned())).unwrap_or_default();
        assert_eq!(answers["defaults"]["answers"], "person-then-model");
        assert_eq!(answers["targets"][0].get("answers"), None);
        assert_eq!(answers["targets"][1]["answers"], "person");
        assert_eq!(AskArgs::default().config(config.to_owned()), config);
    }
}
