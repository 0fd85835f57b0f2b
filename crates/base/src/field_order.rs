//! The order in which a peer wrote the fields of a form, which a parsed JSON object does not keep.

use std::fmt;
use std::sync::Arc;

use memchr::memmem;
use parking_lot::Mutex;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// The member of a JSON Schema with the fields, and how a JSON text has it.
const MEMBER: &str = "properties";
const QUOTED_MEMBER: &str = "\"properties\"";

/// How many forms are remembered, the newest, and with how many fields.
const MAX_FORMS: usize = 16;
const MAX_FIELDS: usize = 64;
/// The most bytes that the names of the fields of one form have.
const MAX_NAME_BYTES: usize = 16 << 10;

/// The orders of the fields in the JSON texts of one call. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct FieldOrder(Arc<Mutex<Vec<Vec<String>>>>);

impl FieldOrder {
    /// Remembers the forms in a JSON text. Those after a fault in the text stay unknown.
    pub fn note(&self, json: &[u8]) {
        // Few texts have a form, and only they are read a second time.
        if !may_have_form(json) {
            return;
        }
        let mut found = Vec::new();
        let mut text = serde_json::Deserializer::from_slice(json);
        let _ = Forms::below(&mut found).deserialize(&mut text);
        let mut known = self.0.lock();
        for fields in found {
            known.retain(|other| *other != fields);
            known.push(fields);
        }
        let surplus = known.len().saturating_sub(MAX_FORMS);
        known.drain(..surplus);
    }

    /// Returns `names` in the order of the newest form with exactly these fields; `None` if there is none.
    #[must_use]
    pub fn of<'a>(&self, names: impl Iterator<Item = &'a str>) -> Option<Vec<String>> {
        let mut names: Vec<&str> = names.collect();
        names.sort_unstable();
        let known = self.0.lock();
        let fits = |fields: &&Vec<String>| {
            let mut fields: Vec<&str> = fields.iter().map(String::as_str).collect();
            fields.sort_unstable();
            fields == names
        };
        known.iter().rev().find(fits).cloned()
    }
}

fn may_have_form(json: &[u8]) -> bool {
    memmem::find(json, QUOTED_MEMBER.as_bytes()).is_some()
}

/// Collects the names of the fields of all forms in a value.
struct Forms<'a> {
    found: &'a mut Vec<Vec<String>>,
    /// Whether the members of the value are fields.
    is_form: bool,
}

impl<'a> Forms<'a> {
    fn below(found: &'a mut Vec<Vec<String>>) -> Self {
        let is_form = false;
        Self { found, is_form }
    }
}

impl<'de> DeserializeSeed<'de> for Forms<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Forms<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Forms::below(self.found))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut names: Vec<String> = Vec::new();
        let mut name_bytes = 0;
        while let Some(name) = members.next_key::<String>()? {
            let is_form = !self.is_form && name == MEMBER;
            name_bytes += name.len();
            let fits = names.len() <= MAX_FIELDS && name_bytes <= MAX_NAME_BYTES;
            if self.is_form && fits && !names.contains(&name) {
                names.push(name);
            }
            let found = &mut *self.found;
            members.next_value_seed(Forms { found, is_form })?;
        }
        if self.is_form && names.len() <= MAX_FIELDS && name_bytes <= MAX_NAME_BYTES {
            self.found.push(names);
            // A peer may send any number of them.
            let surplus = self.found.len().saturating_sub(MAX_FORMS);
            self.found.drain(..surplus);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(texts: &[&str], names: &[&str]) -> Option<Vec<String>> {
        let orders = FieldOrder::default();
        for text in texts {
            orders.note(text.as_bytes());
        }
        orders.of(names.iter().copied())
    }

    #[test]
    fn fields_keep_the_order_of_the_text() {
        let form = r#"{"result": [1.5, {"schema": {"properties": {"when": {"type": "string"}, "class": {}, "a": {}}}}]}"#;
        let names = ["a", "class", "when"];
        assert_eq!(
            order(&[form], &names).unwrap_or_default(),
            ["when", "class", "a"]
        );
        assert_eq!(order(&[form], &["a", "class"]), None);
        let later = r#"{"properties": {"a": 1, "when": null, "class": true}}"#;
        assert_eq!(
            order(&[form, later], &names).unwrap_or_default(),
            ["a", "when", "class"]
        );
        let again = [form, later, form];
        assert_eq!(
            order(&again, &names).unwrap_or_default(),
            ["when", "class", "a"]
        );
    }

    #[test]
    fn fields_of_a_nested_form_and_of_a_cut_text_are_known() {
        let nested = r#"{"properties": {"properties": {"b": 1, "a": {"properties": {"d": 1, "c": 2}}}, "e": 1}}"#;
        assert_eq!(
            order(&[nested], &["c", "d"]).unwrap_or_default(),
            ["d", "c"]
        );
        let cut = r#"[{"properties": {"d": 1, "c": 2}}, {"properties": {"#;
        assert_eq!(order(&[cut], &["c", "d"]).unwrap_or_default(), ["d", "c"]);
    }

    #[test]
    fn texts_about_properties_are_not_read_again() {
        assert!(may_have_form(br#"{"properties": {}}"#));
        assert!(!may_have_form(br#"{"text": "the properties of steel"}"#));
    }

    #[test]
    fn forms_are_bounded() {
        let orders = FieldOrder::default();
        let forms: Vec<_> = (0..100)
            .map(|n| format!(r#"{{"properties": {{"f{n}": 1}}}}"#))
            .collect();
        orders.note(format!("[{}]", forms.join(",")).as_bytes());
        assert_eq!(orders.0.lock().len(), MAX_FORMS);
        assert!(orders.of(["f99"].into_iter()).is_some());
        let fields: Vec<_> = (0..=MAX_FIELDS).map(|n| format!(r#""f{n}": 1"#)).collect();
        orders.note(format!(r#"{{"properties": {{{}}}}}"#, fields.join(",")).as_bytes());
        let long = "n".repeat(MAX_NAME_BYTES);
        orders.note(format!(r#"{{"properties": {{"{long}": 1, "a": 2}}}}"#).as_bytes());
        let known = orders.0.lock();
        assert!(known.iter().all(|fields| fields.len() == 1));
        assert!(known.iter().flatten().all(|name| name.len() < 4));
    }
}
