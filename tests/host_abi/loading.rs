//! Loads libraries, and reports other files.

use std::{env, fs, path::PathBuf};

use openclaw_remote_agent_interface::load;

use crate::host_abi::fixture::library;

/// A temporary directory for one test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("remote-agent-{name}-{}", std::process::id());
        let path = env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn refusal(path: &PathBuf) -> String {
    let message = load(path).err().expect("a refusal").to_string();
    let path = path.display().to_string();
    assert!(message.contains(&path), "no path in: {message}");
    assert!(message.len() < path.len() + 200, "too long: {message}");
    assert!(!message.contains('\n'), "more than a line: {message}");
    message
}

#[test]
fn two_files_are_two_plugins() {
    let scratch = Scratch::new("two");
    let bytes = fs::read(library()).unwrap();
    let [one, two] = ["one.so", "two.so"].map(|name| load(scratch.file(name, &bytes)).unwrap());
    assert_ne!(one.id() as usize, two.id() as usize);
    assert_eq!(one.build_id()(), two.build_id()());
}

#[test]
fn one_file_loaded_twice_is_one_plugin() {
    let [one, two] = [(); 2].map(|()| load(library()).unwrap());
    assert_eq!(one.id() as usize, two.id() as usize);
}

#[test]
fn missing_file_is_reported() {
    let message = refusal(&PathBuf::from("/nowhere/libopenclaw_remote_agent.so"));
    assert!(message.starts_with("cannot read"), "{message}");
}

#[test]
fn non_library_file_is_reported() {
    let scratch = Scratch::new("text");
    let message = refusal(&scratch.file("plugin.so", b"#!/bin/sh\n"));
    assert!(message.contains("as a shared library"), "{message}");
}

#[test]
fn library_without_plugin_is_reported() {
    let mapped = fs::read_to_string("/proc/self/maps").unwrap();
    let libc = mapped
        .lines()
        .filter_map(|line| line.split_whitespace().last());
    let libc = libc
        .filter(|path| path.contains("libc.so") || path.contains("libc-"))
        .map(PathBuf::from)
        .next();
    let message = refusal(&libc.expect("the C library is mapped"));
    assert!(
        message.contains("not a plugin of this interface"),
        "{message}"
    );
}

#[test]
fn library_with_other_layout_is_reported() {
    let scratch = Scratch::new("layout");
    let mut bytes = fs::read(library()).unwrap();
    // The names of the root module's fields, in its layout.
    let fields = b"id;build_id;parse_config;";
    let renamed = b"id;build_id;parse_konfig;";
    let places: Vec<usize> = memchr::memmem::find_iter(&bytes, fields).collect();
    assert!(!places.is_empty(), "the layout is not where it was");
    for place in places {
        bytes[place..place + fields.len()].copy_from_slice(renamed);
    }
    let message = refusal(&scratch.file("plugin.so", &bytes));
    assert!(
        message.contains("lays its types out differently"),
        "{message}"
    );
}
