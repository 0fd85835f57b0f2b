//! The language of pages, help, errors, comments and names: plain technical English.

use serde_json::Value;

use crate::contract::{
    documents::{blocks, documents, help_at, subcommands},
    files, root, text,
};

/// Banned words. A sentence names the actor and uses the standard verb instead: "the client", "reports", "receives", "closes".
const BANNED: [&str; 13] = [
    "told",
    "nobody",
    "somebody",
    "anybody",
    "everybody",
    "whoever",
    "hears",
    "heard",
    "takes leave",
    "lest",
    "spoken to",
    "what came of",
    "what comes of",
];

/// The list itself, and files that are generated from checked sources.
const EXEMPT: [&str; 2] = ["tests/contract/prose.rs", "docs/demo.svg"];

/// Returns every file with text for people. Recorded cases quote other programs.
fn texts() -> Vec<(String, String)> {
    let kinds = ["md", "rs", "js", "mjs", "py", "json", "html"];
    let paths = files(&root("")).into_iter().filter_map(|path| {
        let kind = path.extension()?.to_str()?;
        let name = path.strip_prefix(root("")).ok()?.to_str()?;
        let recorded = name.starts_with("fixtures/") && name.matches('/').count() > 1;
        let shown = kinds.contains(&kind) && !recorded && !EXEMPT.contains(&name);
        shown.then(|| (name.to_owned(), text(name)))
    });
    paths.collect()
}

/// Returns the banned words of a text with their line numbers, also those in names such as `is_told`.
fn banned(text: &str) -> Vec<(usize, &'static str)> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let words = line
            .split(|c: char| !c.is_alphabetic())
            .filter(|word| !word.is_empty());
        let spaced = format!(" {} ", words.collect::<Vec<_>>().join(" ").to_lowercase());
        let words = BANNED
            .iter()
            .filter(|word| spaced.contains(&format!(" {word} ")));
        found.extend(words.map(|word| (index + 1, *word)));
    }
    found
}

#[test]
fn banned_words_are_found() {
    let text = "It is told.\nfn nobody_reads() {}\nShe takes\nleave; TOLD";
    assert_eq!(banned(text), [(1, "told"), (2, "nobody"), (4, "told")]);
    assert!(banned("untold, Bold, a toldo").is_empty());
}

#[test]
fn text_has_no_banned_words() {
    let mut errors = Vec::new();
    for (path, text) in texts() {
        for (line, word) in banned(&text) {
            errors.push(format!("{path}:{line}: `{word}`"));
        }
    }
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

#[test]
fn headings_and_options_have_no_full_stop() {
    for document in documents() {
        let mut fenced = false;
        for line in text(&document).lines() {
            fenced ^= line.starts_with("```");
            let heading = !fenced && line.starts_with('#');
            assert!(!(heading && line.ends_with('.')), "{document}: {line}");
        }
    }
    let page = text("docs/reference/cli.md");
    for (_, block) in blocks(&page, "text") {
        for line in block.lines().filter(|line| line.starts_with("  ")) {
            let ends = line.ends_with('.') && !line.ends_with("...");
            assert!(!ends, "docs/reference/cli.md: {line}");
        }
    }
}

#[test]
fn descriptions_in_schemas_are_sentences() {
    fn check(value: &Value, place: &str) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    if let ("description", Value::String(words)) = (name.as_str(), value) {
                        assert!(words.ends_with('.'), "{place}: {words}");
                    }
                    check(value, place);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| check(item, place)),
            _ => {}
        }
    }
    for name in ["config", "gateway", "request", "result", "serve"] {
        let path = format!("schema/{name}.schema.json");
        check(&crate::contract::json(&path), &path);
    }
}

#[test]
fn citations_are_in_the_references() {
    let references = text("docs/references.md");
    for (path, text) in texts() {
        for rest in text.split("RFC ").skip(1) {
            let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
            let listed = number.is_empty() || references.contains(&format!("[RFC {number}]"));
            assert!(listed, "{path}: RFC {number}");
        }
    }
}

/// Returns all commands and subcommands, each as the words of its call.
fn commands() -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    let mut next = 0;
    while let Some(command) = all.get(next).cloned() {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        for below in subcommands(&help_at("80", &words)) {
            all.push([command.as_slice(), &[below.to_owned()]].concat());
        }
        next += 1;
    }
    all
}

#[test]
fn help_fits_80_columns_without_short_lines() {
    for command in commands() {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let help = help_at("80", &words);
        let mut examples = false;
        let lines: Vec<&str> = help.lines().collect();
        for pair in lines.windows(2) {
            let [line, next] = [pair[0], pair[1]];
            let place = format!("{words:?}: {line}");
            // clap does not break its line of usage.
            let is_usage = line.starts_with("Usage:");
            assert!(is_usage || line.chars().count() <= 80, "{place}");
            examples = (examples || line.starts_with("Examples")) && !line.is_empty();
            // Only the first line of an example is not indented further.
            let starts = line.starts_with("  remote-agent") || line.starts_with("  openclaw");
            let breaks = examples && line.starts_with("  ") && !line.starts_with("    ");
            assert!(!breaks || starts, "{place}: break it with a backslash");
            let indented = |line: &str| line.is_empty() || line.starts_with(' ');
            let ends = line.ends_with([':', '.']) || indented(line) || indented(next);
            let word = next.split(' ').next().unwrap_or_default();
            let fits = line.chars().count() + 1 + word.chars().count() <= 80;
            assert!(ends || !fits, "{place}: a line break within a paragraph");
        }
    }
}
