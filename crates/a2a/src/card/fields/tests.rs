use serde_json::json;

use super::*;

fn value(card: &Value, path: &str) -> Option<String> {
    CardFields::read(card).values.remove(path)
}

#[test]
fn empty_and_false_fields_are_as_if_they_were_missing() {
    let empty = json!({
        "name": "", "description": null, "skills": [], "defaultInputModes": [], "capabilities": {"streaming": false},
        "securitySchemes": {}, "security": [],
    });
    assert_eq!(CardFields::read(&empty), CardFields::default());
}

#[test]
fn requirement_keeps_the_name_of_its_scheme() {
    for (security, expected) in [
        (json!([{"a": []}]), r#"[{"a":[]}]"#),
        (
            json!([{"b": []}, {"a": ["y", "x"]}]),
            r#"[{"a":["x","y"]},{"b":[]}]"#,
        ),
        (json!([{}]), "[{}]"),
    ] {
        assert_eq!(
            value(&json!({ "security": security }), "/security").as_deref(),
            Some(expected)
        );
    }
}

#[test]
fn scheme_without_members_is_a_scheme() {
    let card = json!({"securitySchemes": {"a/b": {}}});
    assert_eq!(value(&card, "/securitySchemes/a~1b").as_deref(), Some("{}"));
}

#[test]
fn items_of_one_name_hide_nothing() {
    let skill = |name: &str| json!({"id": "a", "name": name});
    let card = json!({"skills": [skill("x"), skill("y"), {"name": "no id"}, 7]});
    let fields = CardFields::read(&card).values;
    assert_eq!(fields["/skills/a/name"], "x\ny");
    assert_eq!(fields["/skills/2/name"], "no id");
    assert!(fields.contains_key("/skills/3"));
    // Another member does not name an extension.
    let extensions = json!([{"id": "same", "uri": "https://x.example/", "required": true}]);
    let card = json!({"capabilities": {"extensions": extensions}});
    let path = "/capabilities/extensions/https:~1~1x.example~1/required";
    assert_eq!(value(&card, path).as_deref(), Some("true"));
}

#[test]
fn class_depends_on_the_whole_path() {
    for (path, class) in [
        ("/name", Report),
        ("/skills/name", Report),
        ("/skills/a/tags", Note),
        ("/securitySchemes/a", Stop),
        ("/securitySchemes/a/b", Note),
        ("/origins/https:~1~1a.example", Stop),
        ("", Note),
    ] {
        assert_eq!(class_of(path), class, "{path}");
    }
}
