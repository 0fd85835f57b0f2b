//! Hints for requests that the schema or its rules refuse, where the instance knows more than the violation says.

use serde_json::Value;

use crate::targets::Catalog;

/// The fields that callers use in place of `parts`.
const MESSAGE_FIELDS: [&str; 7] = [
    "message", "text", "content", "prompt", "query", "input", "body",
];

/// The maximum number of targets that a hint names, and the maximum length of a wrong name in characters.
const MAX_NAMED_TARGETS: usize = 8;
const MAX_NAME_CHARS: usize = 64;

/// Returns the hint for a request whose first violation is `violation`, if there is a better one than the violation itself.
pub(super) fn request_hint(
    request: &Value,
    violation: &Value,
    catalog: &Catalog,
) -> Option<String> {
    let text = |field: &str| violation[field].as_str().unwrap_or_default();
    match (text("instancePath"), text("keyword")) {
        ("/target_alias", "enum" | "anyOf" | "pattern") => {
            let known = known_targets(catalog)?;
            let name = request["target_alias"].as_str()?;
            let name: String = name.chars().take(MAX_NAME_CHARS).collect();
            Some(format!(
                "No target is named `{}`. Use one of these as target_alias: {known}; list_targets describes them.",
                name.escape_debug()
            ))
        }
        ("", "additionalProperties") => {
            let field = violation["params"]["additionalProperty"].as_str()?;
            (request["action"] == "send" && MESSAGE_FIELDS.contains(&field)).then(|| {
                format!(
                    "Write the message as parts: [{{\"kind\": \"text\", \"text\": \"…\"}}], and leave out `{field}`."
                )
            })
        }
        // The rule that a request needs a target.
        ("", "anyOf") if request["action"] == "send" || request["task_id"].is_string() => {
            match (catalog.aliases().as_slice(), catalog.local()) {
                ([only], None) => Some(format!("Add target_alias: `{only}`, the only target.")),
                ([], None) => {
                    Some("No target is configured: ask the operator to add one.".to_owned())
                }
                _ => {
                    let known = known_targets(catalog)?;
                    Some(format!("Add target_alias, one of these: {known}."))
                }
            }
        }
        _ => None,
    }
}

/// Returns the aliases of the targets; `None` if there are none.
fn known_targets(catalog: &Catalog) -> Option<String> {
    let aliases = catalog.aliases();
    let mut named: Vec<String> = aliases
        .iter()
        .take(MAX_NAMED_TARGETS)
        .map(|alias| format!("`{alias}`"))
        .collect();
    if aliases.len() > MAX_NAMED_TARGETS {
        named.push(format!("{} more", aliases.len() - MAX_NAMED_TARGETS));
    }
    if catalog.local().is_some() {
        named.push("`gateway:NAME`".to_owned());
    }
    (!named.is_empty()).then(|| named.join(", "))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;
    use crate::config::Config;

    fn catalog(config: &Value) -> Catalog {
        Catalog::new(&Config::parse(&config.to_string()).unwrap()).unwrap()
    }

    fn target(alias: &str) -> Value {
        json!({"alias": alias, "baseUrl": format!("https://{alias}.example")})
    }

    #[test]
    fn hint_names_what_the_caller_can_write() {
        let one = json!({"targets": [target("desk")]});
        let two = json!({"targets": [target("desk"), target("shop")]});
        let local = json!({"targets": [target("desk")], "gateway": {"enabled": true}});
        let alias = json!({"instancePath": "/target_alias", "keyword": "enum"});
        let extra = |name: &str| json!({"instancePath": "", "keyword": "additionalProperties", "params": {"additionalProperty": name}});
        let no_target = json!({"instancePath": "", "keyword": "anyOf"});
        let send = json!({"action": "send", "target_alias": "dusk"});
        for (config, violation, expected) in [
            (
                &two,
                &alias,
                Some(
                    "No target is named `dusk`. Use one of these as target_alias: `desk`, `shop`; list_targets describes them.",
                ),
            ),
            (
                &local,
                &alias,
                Some(
                    "No target is named `dusk`. Use one of these as target_alias: `desk`, `gateway:NAME`; list_targets describes them.",
                ),
            ),
            (
                &one,
                &extra("message"),
                Some(
                    r#"Write the message as parts: [{"kind": "text", "text": "…"}], and leave out `message`."#,
                ),
            ),
            (&one, &extra("timeout"), None),
            (
                &one,
                &no_target,
                Some("Add target_alias: `desk`, the only target."),
            ),
            (
                &two,
                &no_target,
                Some("Add target_alias, one of these: `desk`, `shop`."),
            ),
            (
                &json!({}),
                &no_target,
                Some("No target is configured: ask the operator to add one."),
            ),
        ] {
            let hint = request_hint(&send, violation, &catalog(config));
            assert_eq!(hint.as_deref(), expected, "{config} {violation}");
        }
    }

    #[test]
    fn wrong_name_is_short_and_on_one_line() {
        let alias = json!({"instancePath": "/target_alias", "keyword": "enum"});
        let request = json!({"action": "send", "target_alias": format!("a\n{}", "b".repeat(5000))});
        let hint = request_hint(
            &request,
            &alias,
            &catalog(&json!({"targets": [target("desk")]})),
        );
        let hint = hint.unwrap();
        assert!(hint.len() < 200 && !hint.contains('\n'), "{hint}");
    }
}
