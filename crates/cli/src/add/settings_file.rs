//! A file of settings, and how a target gets into it.

use std::path::PathBuf;

use base::files;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use url::Url;

use crate::{config, exit::Failure, instance::Library};

/// Returns whether a target is at this base URL.
pub(super) fn is_same_agent(base_url: Option<&str>, url: &str) -> bool {
    let parsed = |url: &str| Url::parse(url.trim().trim_end_matches('/'));
    match (base_url.map(parsed), parsed(url)) {
        (Some(Ok(one)), Ok(other)) => one == other,
        _ => false,
    }
}

/// Returns an alias that no target has, by the rule of `openclaw remote-agent add`: the first label of the host, or the address
/// and the port where the host has no name. It is not the agent's own text, because models read aliases.
pub(super) fn alias_for(url: &str, known: &[Value]) -> String {
    let url = Url::parse(url).ok();
    let host = url.as_ref().and_then(Url::host);
    let port = url.as_ref().and_then(Url::port);
    let name = match host {
        Some(url::Host::Domain(name)) if name != "localhost" => {
            let mut labels = name.split('.');
            labels
                .find(|label| *label != "www")
                .unwrap_or(name)
                .to_owned()
        }
        Some(host) => {
            let address = host.to_string();
            let address = address.trim_matches(['[', ']']);
            let parts: Vec<&str> = address.split(':').filter(|part| !part.is_empty()).collect();
            let port = port.map(|port| format!("-{port}"));
            parts.join("-") + &port.unwrap_or_default()
        }
        None => "agent".to_owned(),
    };
    let is_free = |alias: &String| known.iter().all(|target| target["alias"] != **alias);
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let mut all = [name.clone()].into_iter().chain(numbered);
    all.find(is_free).unwrap_or(name)
}

/// A file of settings, as text: a change leaves the rest of it as the person wrote it.
pub(super) struct SettingsFile {
    pub(super) path: PathBuf,
    text: String,
    pub(super) parsed: Value,
}

/// The targets of a file of settings, as they are written.
#[derive(Deserialize)]
struct Written<'a> {
    #[serde(borrow)]
    targets: Option<&'a RawValue>,
}

impl SettingsFile {
    pub(super) fn parse(path: PathBuf, text: String) -> Result<Self, Failure> {
        let parsed: Value = serde_json::from_str(&text).map_err(|error| {
            Failure::usage(format!(
                "`{}` is not JSON: {error}; correct the file",
                path.display()
            ))
        })?;
        Ok(Self { path, text, parsed })
    }

    pub(super) fn targets(&self) -> &[Value] {
        self.parsed["targets"].as_array().map_or(&[], Vec::as_slice)
    }

    /// Returns the settings with `target` alone, and without a gateway and an audit log.
    pub(super) fn with_only(&self, target: &Value) -> Value {
        let mut settings = self.parsed.clone();
        if let Some(members) = settings.as_object_mut() {
            members.retain(|name, _| !matches!(name.as_str(), "gateway" | "audit"));
        }
        settings["enabled"] = true.into();
        settings["targets"] = json!([target]);
        settings
    }

    /// Writes the file with the target in place of the one `at`, or after the last. It may take the default from another one.
    pub(super) fn write(
        &self,
        library: &Library,
        at: Option<usize>,
        target: &Value,
    ) -> Result<(), Failure> {
        let mut text = self.text.clone();
        if target["default"] == true {
            for (index, other) in self.targets().iter().enumerate() {
                if Some(index) != at && other["default"] == true {
                    let mut other = other.clone();
                    other["default"] = false.into();
                    text = with_target(&text, Some(index), &other).unwrap_or(text);
                }
            }
        }
        let text = with_target(&text, at, target)
            .ok_or_else(|| Failure::usage("`targets` of the settings is no list"))?;
        library
            .parse_config(&text)
            .map_err(|error| config::failure(error, Some(&self.path)))?;
        files::replace(&self.path, &text).map_err(|error| {
            Failure::new(format!("cannot write `{}`: {error}", self.path.display()))
        })
    }
}

/// Returns the text of settings with a target in place of the one `at`, or after the last; `None` if it has no place for one.
fn with_target(text: &str, at: Option<usize>, target: &Value) -> Option<String> {
    let pretty = serde_json::to_string_pretty(target).ok()?;
    let pretty = pretty.replace('\n', "\n    ");
    // A `RawValue` borrows its part of the text.
    let offset = |part: &str| (part.as_ptr() as usize).checked_sub(text.as_ptr() as usize);
    let written: Written<'_> = serde_json::from_str(text).ok()?;
    let replaced = |start: usize, end: usize, new: &str| {
        Some(format!("{}{new}{}", text.get(..start)?, text.get(end..)?))
    };
    let Some(targets) = written.targets.map(RawValue::get) else {
        let start = text.find('{')? + 1;
        let rest = text[start..].trim_start();
        let comma = if rest.starts_with('}') { "\n" } else { "," };
        return replaced(
            start,
            start,
            &format!("\n  \"targets\": [\n    {pretty}\n  ]{comma}"),
        );
    };
    let all: Vec<&RawValue> = serde_json::from_str(targets).ok()?;
    if let Some(old) = at.map(|at| all.get(at).map(|old| old.get())) {
        let start = offset(old?)?;
        return replaced(start, start + old?.len(), &pretty);
    }
    match all.last().map(|last| last.get()) {
        Some(last) => {
            let end = offset(last)? + last.len();
            replaced(end, end, &format!(",\n    {pretty}"))
        }
        None => {
            let start = offset(targets)?;
            replaced(
                start,
                start + targets.len(),
                &format!("[\n    {pretty}\n  ]"),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn target_is_written_without_a_change_elsewhere() {
        let desk = json!({"alias": "desk"});
        let written = "{\n      \"alias\": \"desk\"\n    }";
        for (before, at, after) in [
            ("{}", None, "{\n  \"targets\": [\n    DESK\n  ]\n}"),
            (
                "{ \"b\": [],  \"a\": 1.0 }",
                None,
                "{\n  \"targets\": [\n    DESK\n  ], \"b\": [],  \"a\": 1.0 }",
            ),
            (
                r#"{"x":[],"targets":[]}"#,
                None,
                "{\"x\":[],\"targets\":[\n    DESK\n  ]}",
            ),
            (
                r#"{"targets":[{"alias":"a" }],"z":[{"alias":"a" }]}"#,
                None,
                "{\"targets\":[{\"alias\":\"a\" },\n    DESK],\"z\":[{\"alias\":\"a\" }]}",
            ),
            (
                r#"{"z":[{"alias":"a"}],"targets":[1,{"alias":"a"}]}"#,
                Some(1),
                r#"{"z":[{"alias":"a"}],"targets":[1,DESK]}"#,
            ),
        ] {
            let after = after.replace("DESK", written);
            assert_eq!(with_target(before, at, &desk).unwrap(), after);
        }
        assert_eq!(with_target(r#"{"targets": 1}"#, None, &desk), None);
    }

    #[test]
    fn alias_comes_from_the_host() {
        let known = [json!({"alias": "desk"})];
        for (url, alias) in [
            ("https://www.harbour.example/agents/pilot", "harbour"),
            ("https://desk.example", "desk-2"),
            ("http://127.0.0.1:7801", "127.0.0.1-7801"),
            ("http://localhost:7801", "localhost-7801"),
            ("http://[2001:db8::1]/", "2001-db8-1"),
        ] {
            assert_eq!(alias_for(url, &known), alias);
        }
    }

    #[test]
    fn trailing_slash_is_no_other_agent() {
        for (base_url, url, is_same) in [
            (Some("https://a.example/"), "https://a.example", true),
            (Some("https://a.example/x/"), "https://a.example/x", true),
            (Some("https://a.example/x"), "https://a.example", false),
            (None, "https://a.example", false),
        ] {
            assert_eq!(is_same_agent(base_url, url), is_same, "{base_url:?}");
        }
    }
}
