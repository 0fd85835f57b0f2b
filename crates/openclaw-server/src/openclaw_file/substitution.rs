//! Variables in the texts of OpenClaw's configuration.

/// Replaces each `${NAME}` by the value of the variable, and `$${NAME}` by `${NAME}`, as OpenClaw does in its configuration.
///
/// # Errors
/// The name of the first variable that is not set.
pub fn substitute(text: &str, variable: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut substituted = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let reference = after.split_once('}');
        let Some((name, tail)) = reference.filter(|(name, _)| is_variable(name)) else {
            substituted.extend([before, "${"]);
            rest = after;
            continue;
        };
        match before.strip_suffix('$') {
            Some(before) => substituted.extend([before, "${", name, "}"]),
            None => {
                let value = variable(name).ok_or_else(|| name.to_owned())?;
                substituted.extend([before, &value]);
            }
        }
        rest = tail;
    }
    Ok(substituted + rest)
}

/// Returns whether OpenClaw replaces a variable of this name.
fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name
            .bytes()
            .all(|byte| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_'))
}
