//! The text of parts.

use std::borrow::Cow;

use serde_json::Value;

use super::json;

/// The text parts among `parts`.
pub(super) fn texts(parts: &[Value]) -> impl Iterator<Item = &str> {
    parts
        .iter()
        .filter(|part| json::str_at(part, "kind").is_none_or(|kind| kind == "text"))
        .filter_map(|part| json::str_at(part, "text"))
}

/// Texts as one, with `between` between them; `None` where there are none.
pub(super) fn joined<'a>(
    mut texts: impl Iterator<Item = &'a str>,
    between: &str,
) -> Option<Cow<'a, str>> {
    let first = texts.next()?;
    let mut all = Cow::Borrowed(first);
    for text in texts {
        let all = all.to_mut();
        all.push_str(between);
        all.push_str(text);
    }
    Some(all)
}
