//! Which texts messages show as the name of an environment variable.

/// The maximum length of a text that messages show as the name of an environment variable, in bytes.
const MAX_SHOWN_NAME_BYTES: usize = 64;

/// Returns what is wrong with a text in place of the name of an environment variable, as the end of a sentence about it; `None`
/// for a plausible name: upper-case letters, digits and `_`. Messages must not show another text, which may be the secret itself: a
/// shell puts it there for `$NAME`, and a person may type a password there.
pub fn variable_fault(text: &str) -> Option<&'static str> {
    match text.strip_prefix('$') {
        _ if is_plausible_name(text) => None,
        Some(name) if is_plausible_name(name) => {
            Some("takes the NAME of an environment variable without the leading `$`")
        }
        _ => Some("takes the NAME of an environment variable that is set, not its value"),
    }
}

fn is_plausible_name(text: &str) -> bool {
    let is_word = text
        .bytes()
        .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
    let is_identifier = is_word && !text.starts_with(|first: char| first.is_ascii_digit());
    // Random letters and digits in one piece.
    let is_random =
        text.bytes().any(|byte| byte.is_ascii_digit()) && text.len() > 15 && !text.contains('_');
    is_identifier && !text.is_empty() && text.len() <= MAX_SHOWN_NAME_BYTES && !is_random
}

/// Returns how messages show the reference to a secret: as `SOURCE:ID`, without an id that may be the secret itself.
pub fn shown_reference(source: &str, id: &str) -> String {
    match source == "env" && variable_fault(id).is_some() {
        true => "env:…".to_owned(),
        false => format!("{source}:{id}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::config::Secret;

    #[test]
    fn only_a_plausible_name_of_a_variable_is_shown() {
        for name in ["A", "_X", "DESK_TOKEN", "AGENT_2_OAUTH_CLIENT_SECRET"] {
            assert_eq!(variable_fault(name), None, "{name}");
        }
        assert!(
            variable_fault("$DESK_TOKEN")
                .unwrap()
                .ends_with("without the leading `$`")
        );
        let long = "A".repeat(65);
        for value in [
            "",
            "rat_Hf7ZqP0aXw",
            "sk_live_4ec39hqlyjwdarjtt1",
            "d3adb33fd3adb33fd3adb33f",
            "AKIAIOSFODNN7EXAMPLE",
            "two words",
            "hunter2",
            "CorrectHorse",
            "desk_token",
            "a-b",
            "2fa",
            "$rat_Hf7ZqP0aXw",
            "ключ",
            &long,
        ] {
            assert!(
                variable_fault(value).unwrap().ends_with("not its value"),
                "{value}"
            );
            if value.is_empty() {
                continue;
            }
            let reference = serde_json::json!({"source": "env", "id": value});
            let secret: Secret = serde_json::from_value(reference).unwrap();
            let shown = secret.resolve(|_| None).unwrap_err()
                + &format!("{secret:?}")
                + &secret.value().unwrap_err();
            assert!(!shown.contains(value), "{shown}");
            let length = value.chars().count().to_string();
            assert!(!shown.contains(&length), "{shown}");
        }
    }
}
