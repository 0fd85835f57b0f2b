//! Builds the parts of a message from the command line.

use std::{fs, path::Path};

use base::json::{self, Limits};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

use super::exit::Failure;

/// The parts of the message.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Message")]
pub(super) struct PartArgs {
    /// The text, words joined by spaces; - reads it from standard input
    #[arg(value_name = "TEXT", required_unless_present_any = ["attach", "data"])]
    text: Vec<String>,

    /// Attach a file: the content of a path, or an http(s) URL
    #[arg(long, value_name = "PATH|URL")]
    attach: Vec<String>,

    /// Add a JSON object
    #[arg(long, value_name = "JSON", value_parser = object)]
    data: Vec<Map<String, Value>>,
}

impl PartArgs {
    /// Returns whether the text comes from standard input.
    pub(super) fn reads_stdin(&self) -> bool {
        self.text == ["-"]
    }

    /// Returns the parts, the text first. `input` is the text from standard input, if requested.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(super) fn parts(&self, input: Option<String>) -> Result<Vec<Value>, Failure> {
        let text = input.unwrap_or_else(|| self.text.join(" "));
        let text = (!text.is_empty()).then(|| json!({"kind": "text", "text": text}));
        let mut parts: Vec<Value> = text.into_iter().collect();
        for file in &self.attach {
            parts.push(file_part(file)?);
        }
        let data = self.data.iter();
        parts.extend(data.map(|data| json!({"kind": "data", "data": data})));
        Ok(parts)
    }
}

fn object(text: &str) -> Result<Map<String, Value>, String> {
    json::from_str(text, Limits::NONE).map_err(|error| format!("it is not a JSON object: {error}"))
}

fn file_part(file: &str) -> Result<Value, Failure> {
    let is_url = ["http://", "https://"].iter().any(|scheme| {
        let start = file.get(..scheme.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    });
    let mut part = json!({"kind": "file"});
    let name = if is_url {
        part["uri"] = json!(file);
        let path = file.split(['?', '#']).next().unwrap_or(file);
        path.splitn(4, '/')
            .nth(3)
            .and_then(|path| path.rsplit('/').next())
    } else {
        let bytes = fs::read(file)
            .map_err(|error| Failure::usage(format!("cannot read the file `{file}`: {error}")))?;
        if bytes.is_empty() {
            return Err(Failure::usage(format!(
                "cannot attach the file `{file}`: it is empty; leave it out"
            )));
        }
        part["bytes"] = json!(STANDARD.encode(bytes));
        Path::new(file).file_name().and_then(|name| name.to_str())
    };
    if let Some(name) = name.filter(|name| !name.is_empty()) {
        part["name"] = json!(name);
        if let Some(guess) = mime_guess::from_path(name).first_raw() {
            part["mime_type"] = json!(guess);
        }
    }
    Ok(part)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn words_are_joined_to_one_text() {
        let args = PartArgs {
            text: vec!["Good".to_owned(), "morning".to_owned()],
            ..PartArgs::default()
        };
        assert_eq!(
            args.parts(None).unwrap(),
            [json!({"kind": "text", "text": "Good morning"})]
        );
    }

    #[test]
    fn url_attachment_is_named_after_its_path() {
        assert_eq!(
            file_part("https://files.example/a/report.pdf?x=/y.txt").unwrap(),
            json!({"kind": "file", "uri": "https://files.example/a/report.pdf?x=/y.txt", "name": "report.pdf", "mime_type": "application/pdf"})
        );
        assert_eq!(
            file_part("HTTPS://files.example").unwrap(),
            json!({"kind": "file", "uri": "HTTPS://files.example"})
        );
    }

    #[test]
    fn missing_attachment_is_a_usage_error() {
        let failure = file_part("/nowhere/a.txt").unwrap_err();
        assert_eq!(failure.exit, super::super::exit::Exit::Usage);
        assert!(
            failure.message.contains("/nowhere/a.txt"),
            "{}",
            failure.message
        );
    }

    #[test]
    fn data_is_an_object() {
        assert!(object("[1]").is_err());
        assert_eq!(object(r#"{"a":1}"#).unwrap()["a"], 1);
    }
}
