//! The settings of `schema/config.schema.json` and their documents.

use std::collections::BTreeSet;

use openclaw_remote_agent::plugin;
use serde_json::{Value, json};

use crate::contract::{generated, json as read_json, ordered_json::Ordered, text};

const MANIFEST: &str = "openclaw/openclaw.plugin.json";

/// A setting, with its path in the form of manifests: `targets.*.auth.token`.
pub(crate) struct Setting {
    pub(crate) path: String,
    schema: Ordered,
    required: bool,
    /// Whether it contains other settings.
    group: bool,
}

impl Setting {
    /// Returns whether its value is a string or a SecretRef.
    fn is_secret(&self) -> bool {
        self.schema.get("anyOf").is_some()
    }

    /// Returns whether its values are strings or SecretRefs.
    fn is_secret_map(&self) -> bool {
        let values = self.schema.get("additionalProperties");
        values.is_some_and(|values| values.get("anyOf").is_some())
    }

    fn default(&self) -> Option<Value> {
        self.schema.get("default").map(Ordered::to_value)
    }

    /// Returns the path in the form of documents: `targets[].auth.token`.
    fn shown(&self) -> String {
        self.path
            .replace("roles.*", "roles.ROLE")
            .replace(".*", "[]")
    }

    /// Returns the cell with the default.
    fn default_text(&self) -> String {
        match (self.default(), self.required) {
            (Some(default), _) => code(&default),
            (None, true) => "required".to_owned(),
            (None, false) => String::new(),
        }
    }

    fn meaning(&self) -> String {
        let meaning = self.schema.str("description").unwrap();
        // A bar would end the cell, in code too.
        meaning.replace('|', "\\|")
    }

    /// Returns the type of the value, with its bounds.
    fn kind(&self) -> String {
        let words = |schema: &Ordered| match schema.get("enum") {
            Some(Ordered::Array(words)) => {
                let words = words.iter().map(|word| code(&word.to_value()));
                Some(words.collect::<Vec<_>>().join(", "))
            }
            _ => None,
        };
        match self.schema.str("type") {
            None if self.is_secret() => "string or SecretRef".to_owned(),
            None => "object or string".to_owned(),
            Some("integer") => {
                let bound = |name| self.schema.get(name).map(|value| value.to_value());
                match (bound("minimum"), bound("maximum")) {
                    (Some(min), Some(max)) => format!("integer, {min} to {max}"),
                    (Some(min), None) => format!("integer, {min} or more"),
                    _ => "integer".to_owned(),
                }
            }
            Some("array") => {
                let items = self.schema.get("items").and_then(words);
                let are_objects = self.schema.get("items").and_then(|items| items.str("type"));
                let plural = match are_objects {
                    Some("object") => "objects",
                    _ => "strings",
                };
                format!("list of {}", items.unwrap_or_else(|| plural.to_owned()))
            }
            Some("object") => match self.is_secret_map() {
                true => "map of strings or SecretRefs".to_owned(),
                false => "map of strings".to_owned(),
            },
            Some(kind) => words(&self.schema).unwrap_or_else(|| kind.to_owned()),
        }
    }
}

/// Returns every setting of the plugin.
pub(crate) fn settings() -> Vec<Setting> {
    settings_of("schema/config.schema.json")
}

/// Returns every setting of a schema, in its order, with each group before its members.
fn settings_of(file: &str) -> Vec<Setting> {
    fn walk(schema: &Ordered, path: &str, all: &mut Vec<Setting>) {
        let required = schema.get("required").map(Ordered::to_value);
        let required = required.unwrap_or_default();
        let properties = schema.get("properties").map_or(&[][..], Ordered::fields);
        for (name, property) in properties {
            let path = match path {
                "" => name.clone(),
                _ => format!("{path}.{name}"),
            };
            let items = property
                .get("items")
                .or_else(|| property.get("additionalProperties"))
                .filter(|items| items.get("properties").is_some());
            all.push(Setting {
                path: path.clone(),
                schema: property.clone(),
                required: required
                    .as_array()
                    .is_some_and(|names| names.contains(&json!(name))),
                group: items.is_some() || property.get("properties").is_some(),
            });
            match items {
                Some(items) => walk(items, &format!("{path}.*"), all),
                None => walk(property, &path, all),
            }
        }
    }
    let mut all = Vec::new();
    walk(&Ordered::parse(&text(file)), "", &mut all);
    all
}

fn code(value: &Value) -> String {
    match value {
        Value::String(text) => format!("`{text}`"),
        other => format!("`{other}`"),
    }
}

fn table<'a>(settings: impl Iterator<Item = &'a Setting>) -> String {
    let mut table = "| setting | value | default | meaning |\n|---|---|---|---|\n".to_owned();
    for setting in settings.filter(|setting| !setting.group) {
        table += &format!(
            "| `{}` | {} | {} | {} |\n",
            setting.shown(),
            setting.kind(),
            setting.default_text(),
            setting.meaning()
        );
    }
    table
}

/// Returns the table with the flags of a command: `flags` returns those of a setting.
pub(crate) fn table_with_flags(file: &str, flags: impl Fn(&str) -> Vec<String>) -> String {
    let mut table =
        "| key | flag | value | default | meaning |\n|---|---|---|---|---|\n".to_owned();
    let all = settings_of(file);
    for setting in all
        .iter()
        .filter(|setting| !setting.group && setting.path != "$schema")
    {
        let flags: Vec<_> = flags(&setting.path)
            .iter()
            .map(|flag| format!("`{flag}`"))
            .collect();
        table += &format!(
            "| `{}` | {} | {} | {} | {} |\n",
            setting.shown(),
            flags.join(", "),
            setting.kind(),
            setting.default_text(),
            setting.meaning()
        );
    }
    table
}

#[test]
fn settings_table_matches_the_schema() {
    generated::part(
        "docs/reference/settings.md",
        "settings",
        &table(settings().iter()),
    );
}

#[test]
fn gateway_settings_table_matches_the_schema() {
    let settings = settings_of("schema/gateway.schema.json");
    // The maximum permissions of an agent have the fields of a role.
    let shown = settings.iter().filter(|setting| {
        setting.path != "$schema" && !setting.path.starts_with("agents.*.permissions.")
    });
    generated::part(
        "docs/reference/gateway.md",
        "gateway-settings",
        &table(shown),
    );
}

#[test]
fn manifest_schema_matches_the_schema() {
    let schema = Ordered::parse(&text("schema/config.schema.json")).without(&["$schema", "title"]);
    // OpenClaw writes top-level defaults into a configuration, and an empty entry would no longer be empty.
    let schema = schema.map(|name, value| match name {
        "properties" => value.map(|_, property| property.without(&["default"])),
        _ => value.clone(),
    });
    let expected = schema.pretty(2);
    generated::between(MANIFEST, "\"configSchema\": ", "\n}\n", &expected);
}

#[test]
fn schema_defaults_match_the_code() {
    let config = json!({"targets": [{"alias": "a", "baseUrl": "https://a.example", "auth": {"type": "bearer", "token": "x"}, "budget": {}}]});
    let parsed: Value =
        serde_json::from_str(&plugin::parse_config(&config.to_string()).unwrap()).unwrap();
    let mut checked = 0;
    for setting in settings().iter().filter(|setting| !setting.group) {
        let pointer = format!("/{}", setting.path.replace('*', "0").replace('.', "/"));
        if let Some(default) = setting.default() {
            assert_eq!(parsed.pointer(&pointer), Some(&default), "{}", setting.path);
            checked += 1;
        }
    }
    assert!(checked > 10, "{checked} defaults");
}

#[test]
fn exactly_the_settings_have_label_and_help() {
    let manifest = read_json(MANIFEST);
    let hints = manifest["uiHints"].as_object().unwrap();
    let paths: BTreeSet<&str> = hints.keys().map(String::as_str).collect();
    let settings = settings();
    let expected: BTreeSet<&str> = settings
        .iter()
        .map(|setting| setting.path.as_str())
        .collect();
    assert_eq!(paths, expected);
    for (path, hint) in hints {
        for field in ["label", "help"] {
            let words = hint[field].as_str().unwrap_or_default();
            assert!(!words.is_empty(), "{field} of `{path}`");
        }
    }
}

#[test]
fn groups_contain_each_top_level_setting_once() {
    let manifest = read_json(MANIFEST);
    let groups = manifest["configGroups"].as_array().unwrap();
    let mut grouped: Vec<&str> = groups
        .iter()
        .flat_map(|group| group["properties"].as_array().unwrap())
        .map(|name| name.as_str().unwrap())
        .collect();
    grouped.sort_unstable();
    let settings = settings();
    let mut top: Vec<&str> = settings
        .iter()
        .map(|setting| setting.path.as_str())
        .filter(|path| !path.contains('.'))
        .collect();
    top.sort_unstable();
    assert_eq!(grouped, top);
}

#[test]
fn secret_inputs_are_the_secret_ref_settings() {
    let manifest = read_json(MANIFEST);
    let inputs = &manifest["configContracts"]["secretInputs"]["paths"];
    let inputs = inputs.as_array().unwrap().iter();
    let named: BTreeSet<String> = inputs
        .map(|input| input["path"].as_str().unwrap().to_owned())
        .collect();
    let settings = settings();
    let single = settings.iter().filter(|setting| setting.is_secret());
    let single = single.map(|secret| secret.path.clone());
    let maps = settings.iter().filter(|setting| setting.is_secret_map());
    let maps = maps.map(|secrets| format!("{}.*", secrets.path));
    assert_eq!(named, single.chain(maps).collect());
    for path in &named {
        let path = path.trim_end_matches(".*");
        assert_eq!(manifest["uiHints"][path]["sensitive"], true, "{path}");
    }
}

#[test]
fn dangerous_flags_are_switches_that_are_off_by_default() {
    let manifest = read_json(MANIFEST);
    let flags = manifest["configContracts"]["dangerousFlags"]
        .as_array()
        .unwrap();
    assert!(!flags.is_empty());
    for flag in flags {
        let path = flag["path"].as_str().unwrap();
        let settings = settings();
        let setting = settings.iter().find(|setting| setting.path == path);
        let setting = setting.unwrap_or_else(|| panic!("no setting `{path}`"));
        assert_eq!(setting.schema.str("type"), Some("boolean"), "{path}");
        assert_eq!(setting.default(), Some(json!(false)), "{path}");
        assert_eq!(flag["equals"], true, "{path}");
    }
}
