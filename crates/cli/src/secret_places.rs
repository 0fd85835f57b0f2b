//! The settings of the plugin that may hold a secret.

use base::validation::escape;
use serde_json::Value;

/// The settings that may hold a secret, or a reference to one, as JSON Pointers; `*` stands for any name or index.
const SECRET_PLACES: [&str; 7] = [
    "/targets/*/auth/token",
    "/targets/*/auth/password",
    "/targets/*/auth/value",
    "/targets/*/auth/clientSecret",
    "/targets/*/headers/*",
    "/defaults/serviceParameters/*",
    "/gateway/token",
];

/// Returns whether the setting at a JSON Pointer may hold a secret.
pub(super) fn is_secret_place(path: &str) -> bool {
    SECRET_PLACES.iter().any(|place| {
        place.split('/').count() == path.split('/').count()
            && place
                .split('/')
                .zip(path.split('/'))
                .all(|(expected, name)| expected == "*" || expected == name)
    })
}

/// Calls `action` with each value inside `value` and its JSON Pointer.
pub(super) fn visit(
    value: &mut Value,
    path: &mut String,
    action: &mut impl FnMut(&mut Value, &str),
) {
    action(value, path);
    let length = path.len();
    let fields: Vec<_> = match value {
        Value::Object(fields) => fields
            .iter_mut()
            .map(|(name, field)| (escape(name), field))
            .collect(),
        Value::Array(items) => items
            .iter_mut()
            .enumerate()
            .map(|(index, item)| (index.to_string(), item))
            .collect(),
        _ => return,
    };
    for (name, field) in fields {
        path.push('/');
        path.push_str(&name);
        visit(field, path, action);
        path.truncate(length);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn secret_places_are_those_of_the_manifest() {
        let manifest: Value =
            serde_json::from_str(include_str!("../../../openclaw/openclaw.plugin.json")).unwrap();
        let inputs = &manifest["configContracts"]["secretInputs"]["paths"];
        let declared: Vec<String> = inputs
            .as_array()
            .unwrap()
            .iter()
            .map(|input| format!("/{}", input["path"].as_str().unwrap().replace('.', "/")))
            .collect();
        assert_eq!(declared, SECRET_PLACES);
    }
}
