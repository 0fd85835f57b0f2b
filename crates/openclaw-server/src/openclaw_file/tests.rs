#![allow(clippy::unwrap_used)]

use serde_json::json;

use super::*;

fn written(files: &[(&str, &str)]) -> tempfile::TempDir {
    let scratch = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let file = scratch.path().join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    scratch
}

fn read_in(scratch: &tempfile::TempDir) -> Result<Value, ReadError> {
    read(&scratch.path().join("openclaw.json"), |_| None)
}

#[test]
fn includes_are_merged_as_in_openclaw() {
    let scratch = written(&[
        (
            "openclaw.json",
            "{a: {$include: './one.json5', x: {n: 3}}, b: [{$include: ['one.json5', 'sub/two.json']}], /* JSON5 */}",
        ),
        ("one.json5", "{x: {m: 1, n: 1}, list: [1],}"),
        (
            "sub/two.json",
            r#"{"x": {"n": 2}, "list": [2], "y": {"$include": "../sub/three.json"}}"#,
        ),
        ("sub/three.json", "3"),
    ]);
    let one = json!({"x": {"m": 1, "n": 3}, "list": [1]});
    let both = json!({"x": {"m": 1, "n": 2}, "list": [1, 2], "y": 3});
    assert_eq!(read_in(&scratch).unwrap(), json!({"a": one, "b": [both]}));
}

#[test]
fn include_that_openclaw_refuses_is_an_error() {
    let outside = written(&[("secret.json", "{}")]);
    let link = outside.path().join("secret.json");
    for (include, cause) in [
        (json!("../secret.json"), "No such file"),
        (json!(link), "outside the directory"),
        (json!("link.json"), "outside the directory"),
        (json!("openclaw.json"), "includes itself"),
        (json!("missing.json"), "No such file"),
        (json!("bad.json"), "line 1 is not valid"),
        (json!(7), "neither a path"),
        (json!([7]), "neither a path"),
    ] {
        let text = json!({"a": {"$include": include}}).to_string();
        let scratch = written(&[("openclaw.json", &text), ("bad.json", "{token: s3cret")]);
        #[cfg(unix)]
        std::os::unix::fs::symlink(&link, scratch.path().join("link.json")).unwrap();
        let message = read_in(&scratch).unwrap_err().to_string();
        assert!(message.contains(cause), "{include}: {message}");
        assert!(!message.contains("s3cret"), "{message}");
    }
}

#[test]
fn configuration_is_where_openclaw_looks_for_it() {
    let of = |variables: &[(&str, &str)]| {
        let found = locate(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        });
        found.map(|found| (found.file.display().to_string(), found.is_named))
    };
    let at = |file: &str, is_named| Some((file.to_owned(), is_named));
    let home = ("HOME", "/home/me");
    assert_eq!(of(&[home]), at("/home/me/.openclaw/openclaw.json", false));
    assert_eq!(
        of(&[home, ("OPENCLAW_STATE_DIR", "/s")]),
        at("/s/openclaw.json", false)
    );
    assert_eq!(
        of(&[home, ("OPENCLAW_CONFIG_PATH", "~/a.json")]),
        at("/home/me/a.json", true)
    );
    assert_eq!(of(&[]), None);
}

#[test]
fn lines_are_read_like_dotenv() {
    let text = "\u{feff}# comment\nA=1\n export B = two words # note\nC='#3'\nD=\"x\\ny\"\nE=\nF=a=b\n1 x\nG=`a'b`\nA=last\r\n";
    let read = parse_dotenv(text.as_bytes());
    for (name, value) in [
        ("A", "last"),
        ("B", "two words"),
        ("C", "#3"),
        ("D", "x\ny"),
        ("E", ""),
        ("F", "a=b"),
        ("G", "a'b"),
    ] {
        assert_eq!(read.get(name).map(String::as_str), Some(value), "{name}");
    }
    assert_eq!(read.len(), 7);
}

#[test]
fn dotenv_takes_precedence_over_the_configuration() {
    let scratch = tempfile::tempdir().unwrap();
    fs::write(scratch.path().join(".env"), "A=file\n").unwrap();
    let config = serde_json::json!({"env": {"A": "config", "B": "own", "vars": {"C": "vars", "D": "${E}"}, "shellEnv": {}}});
    let file = scratch.path().join("openclaw.json");
    let read = Environment::read(&file, &config, |_| None);
    let found = ["A", "B", "C", "D"].map(|name| read.get(name));
    assert_eq!(found, [Some("file"), Some("own"), Some("vars"), None]);
    assert!(!format!("{read:?}").contains("vars"), "{read:?}");
    let elsewhere = Environment::read(&file, &config, |name| {
        (name == "OPENCLAW_STATE_DIR").then(|| "/nowhere".into())
    });
    assert_eq!(elsewhere.get("A"), Some("config"));
}

#[cfg(unix)]
#[test]
fn dotenv_that_is_a_pipe_is_not_read() {
    let scratch = tempfile::tempdir().unwrap();
    let pipe = scratch.path().join(".env");
    base::testing::make_pipe(&pipe);
    // The writer waits for a reader, and lets one that reads end.
    std::thread::spawn(move || fs::write(pipe, "A=pipe\n"));
    let file = scratch.path().join("openclaw.json");
    let read = Environment::read(&file, &Value::Null, |_| None);
    assert_eq!(read.get("A"), None);
}
