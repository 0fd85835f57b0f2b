//! Generated parts of files: compares them with the expected text, or updates them with `UPDATE=1`.

use std::{
    env, fs,
    sync::{Mutex, PoisonError},
};

use super::{root, text};

/// The lock of writes: one file may have several parts, and tests run concurrently.
static WRITING: Mutex<()> = Mutex::new(());

/// Checks the whole file at `path`.
pub fn file(path: &str, expected: &str) {
    replaced(path, |_| expected.to_owned());
}

/// Checks or updates the text between `<!-- generated: NAME -->` and `<!-- end: NAME -->` in the file at `path`.
pub fn part(path: &str, name: &str, expected: &str) {
    let (open, close) = (
        format!("<!-- generated: {name} -->"),
        format!("<!-- end: {name} -->"),
    );
    between(path, &open, &close, &format!("\n\n{}\n\n", expected.trim()));
}

/// Checks or updates the text between two texts that the file contains once.
pub fn between(path: &str, open: &str, close: &str, expected: &str) {
    replaced(path, |now| {
        let missing = |what: &str| -> ! { panic!("`{path}` has no `{what}`") };
        let Some((before, rest)) = now.split_once(open) else {
            missing(open)
        };
        let Some((_, after)) = rest.split_once(close) else {
            missing(close)
        };
        format!("{before}{open}{expected}{close}{after}")
    });
}

fn replaced(path: &str, make: impl FnOnce(&str) -> String) {
    let _one_at_a_time = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let update = env::var_os("UPDATE").is_some();
    let now = if update && !root(path).exists() {
        String::new()
    } else {
        text(path)
    };
    let expected = make(&now);
    if now == expected {
        return;
    }
    if update {
        fs::write(root(path), expected).unwrap();
        return;
    }
    let line = now
        .lines()
        .zip(expected.lines())
        .position(|(now, expected)| now != expected);
    let line = line.unwrap_or_else(|| now.lines().count().min(expected.lines().count()));
    let show = |text: &str| text.lines().nth(line).unwrap_or("nothing").to_owned();
    panic!(
        "`{path}` is out of date at line {}: it has\n  {}\nand should have\n  {}\nrun the test again with `UPDATE=1`",
        line + 1,
        show(&now),
        show(&expected),
    );
}
