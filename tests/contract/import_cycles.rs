//! Modules with one parent import each other in one direction only.
//!
//! The test reads source text: `mod` declarations, `use` trees and inline paths that begin with `crate`, `self` or
//! `super`. It follows re-exports by name and ignores tests. A module and its parent may use each other.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fs,
    path::{Path, PathBuf},
};

use crate::contract::root;

/// A module's path from the crate's root, which is the empty path.
type ModulePath = Vec<String>;

#[derive(Default)]
struct Module {
    /// The names that the module's `use` declarations import, with their paths.
    imports: BTreeMap<String, ModulePath>,
    /// Every path in the module's code.
    uses: Vec<ModulePath>,
}

/// The modules of one crate.
#[derive(Default)]
struct Crate {
    modules: BTreeMap<ModulePath, Module>,
}

impl Crate {
    fn read(root_file: &Path) -> Self {
        let mut read = Self::default();
        let folder = root_file.parent().unwrap();
        read.add_file(root_file, folder, Vec::new());
        read
    }

    /// Reads a file and the files of its modules, which are in `folder`.
    fn add_file(&mut self, file: &Path, folder: &Path, path: ModulePath) {
        let source = fs::read_to_string(file).unwrap();
        let tokens = tokens(&source);
        let mut reader = Reader {
            tokens: &tokens,
            at: 0,
        };
        for name in reader.module(self, &path) {
            let candidates = [
                folder.join(format!("{name}.rs")),
                folder.join(&name).join("mod.rs"),
            ];
            let file = candidates.iter().find(|file| file.exists());
            let file = file.unwrap_or_else(|| panic!("no file of `{name}` in {folder:?}"));
            let mut child = path.clone();
            child.push(name.clone());
            self.add_file(file, &folder.join(&name), child);
        }
    }

    /// Returns the module that defines what `path` names, seen from `from`; `None` for another crate's.
    fn resolve(&self, from: &ModulePath, path: &[String], depth: usize) -> Option<ModulePath> {
        let (mut at, mut rest) = match path.first()?.as_str() {
            "crate" => (Vec::new(), &path[1..]),
            _ => (from.clone(), path),
        };
        loop {
            match rest.first().map(String::as_str) {
                Some("self") => {}
                Some("super") => {
                    at.pop()?;
                }
                _ => break,
            }
            rest = &rest[1..];
        }
        while let Some((name, after)) = rest.split_first() {
            let mut child = at.clone();
            child.push(name.clone());
            if self.modules.contains_key(&child) {
                (at, rest) = (child, after);
                continue;
            }
            let import = self.modules.get(&at)?.imports.get(name);
            return match import {
                Some(import) if depth > 0 && import != path => {
                    let whole = [import.as_slice(), after].concat();
                    self.resolve(&at, &whole, depth - 1)
                }
                Some(_) => None,
                None if rest.len() == path.len() && path[0] != "crate" => None,
                None => Some(at),
            };
        }
        Some(at)
    }

    /// Returns by parent the dependencies between its modules.
    fn sibling_uses(&self) -> BTreeMap<ModulePath, BTreeMap<String, BTreeSet<String>>> {
        let mut all: BTreeMap<_, BTreeMap<_, BTreeSet<_>>> = BTreeMap::new();
        for (from, module) in &self.modules {
            for used in &module.uses {
                let Some(to) = self.resolve(from, used, 8) else {
                    continue;
                };
                let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
                if let (Some(user), Some(target)) = (from.get(shared), to.get(shared)) {
                    let siblings = all.entry(from[..shared].to_vec()).or_default();
                    let targets = siblings.entry(user.clone()).or_default();
                    targets.insert(target.clone());
                }
            }
        }
        all
    }
}

/// Returns the shortest path from a module back to itself.
fn shortest_cycle(uses: &BTreeMap<String, BTreeSet<String>>, start: &str) -> Option<Vec<String>> {
    let mut open = VecDeque::from([vec![start.to_owned()]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = open.pop_front() {
        for next in uses.get(way.last()?).into_iter().flatten() {
            let mut longer = way.clone();
            longer.push(next.clone());
            if next == start {
                return Some(longer);
            }
            if seen.insert(next) {
                open.push_back(longer);
            }
        }
    }
    None
}

/// Returns every module that `start` uses, through others too.
fn reached<'a>(
    uses: &'a BTreeMap<String, BTreeSet<String>>,
    start: &'a String,
) -> BTreeSet<&'a String> {
    let mut all = BTreeSet::new();
    let mut open = vec![start];
    while let Some(name) = open.pop() {
        for next in uses.get(name).into_iter().flatten() {
            if all.insert(next) {
                open.push(next);
            }
        }
    }
    all
}

/// Returns the cycles of a crate: its folder, the parent, the members, and the shortest cycle.
fn cycles(folder: &str, read: &Crate) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (parent, uses) in read.sibling_uses() {
        for start in uses.keys() {
            let ways = reached(&uses, start);
            if !ways.contains(start) {
                continue;
            }
            let members: Vec<&str> = ways
                .iter()
                .filter(|other| reached(&uses, other).contains(start))
                .map(|name| name.as_str())
                .collect();
            let place = [&["crate".to_owned()], parent.as_slice()]
                .concat()
                .join("::");
            let key = format!("{folder} {place}: {}", members.join(", "));
            let way = shortest_cycle(&uses, start).unwrap().join(" -> ");
            found.entry(key).or_insert(way);
        }
    }
    found
}

/// Returns the root files of all crates, by the crate's folder.
fn root_files() -> Vec<(String, PathBuf)> {
    let mut folders = vec!["src".to_owned()];
    for entry in root("crates").read_dir().unwrap() {
        let name = entry.unwrap().file_name();
        folders.push(format!("crates/{}/src", name.to_str().unwrap()));
    }
    folders.sort();
    let mut files = Vec::new();
    for folder in folders {
        for file in ["lib.rs", "main.rs"] {
            let path = root(&folder).join(file);
            if path.exists() {
                files.push((folder.clone(), path));
            }
        }
    }
    files
}

#[test]
fn sibling_modules_have_no_import_cycle() {
    let mut found = BTreeMap::new();
    for (folder, file) in root_files() {
        found.extend(cycles(&folder, &Crate::read(&file)));
    }
    let faults: Vec<String> = found
        .iter()
        .map(|(cycle, way)| format!("{cycle} ({way})"))
        .collect();
    assert!(faults.is_empty(), "import cycles:\n{}", faults.join("\n"));
}

#[test]
fn import_cycle_is_found_in_every_form() {
    let cycle = |first: &str, second: &str| {
        let folder = tempfile::tempdir().unwrap();
        let lib = folder.path().join("lib.rs");
        fs::write(&lib, "mod first; mod second; pub use second::Second;").unwrap();
        fs::write(folder.path().join("first.rs"), first).unwrap();
        fs::write(folder.path().join("second.rs"), second).unwrap();
        !cycles("src", &Crate::read(&lib)).is_empty()
    };
    let back = "use crate::first::First;";
    for first in [
        "use crate::{first::x, second::Second};",
        "use super::second;",
        "use crate::Second;",
        "fn f() -> crate::second::Second { todo!() }",
        "mod inner { use super::super::second::Second; }",
        "const TEXT: &str = r#\"\"#; use crate::second as other;",
    ] {
        assert!(cycle(first, back), "{first}");
        assert!(!cycle(first, "use crate::second::x;"), "{first}");
    }
    for first in [
        "// use crate::second::Second;",
        "const TEXT: &str = \"use crate::second::Second;\";",
        "#[cfg(test)] mod tests { use crate::second::Second; }",
        "#[cfg(test)] use crate::second::Second;",
        "fn f<'a>(c: char) { if c == '\"' {} } /* use crate::second::Second; */",
    ] {
        assert!(!cycle(first, back), "{first}");
    }
}

/// Reads the tokens of one file.
struct Reader<'a> {
    tokens: &'a [String],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self, ahead: usize) -> &str {
        self.tokens.get(self.at + ahead).map_or("", String::as_str)
    }

    fn next(&mut self) -> String {
        let token = self.peek(0).to_owned();
        self.at += 1;
        token
    }

    /// Reads to the end of the module, and returns the modules with separate files.
    fn module(&mut self, read: &mut Crate, path: &ModulePath) -> Vec<String> {
        read.modules.entry(path.clone()).or_default();
        let mut files = Vec::new();
        let mut depth = 0_usize;
        while self.at < self.tokens.len() {
            match self.next().as_str() {
                "#" if self.peek(0) == "[" && self.attribute_is_of_tests() => self.skip_item(),
                "{" => depth += 1,
                "}" if depth == 0 => return files,
                "}" => depth -= 1,
                "mod" if is_name(self.peek(0)) => {
                    let name = self.next();
                    if self.next() == "{" {
                        let inner = [path.as_slice(), &[name]].concat();
                        let nested = self.module(read, &inner);
                        assert!(nested.is_empty(), "a file below an inline module");
                    } else if name != "tests" {
                        files.push(name);
                    }
                }
                "use" => self.use_tree(read, path, &[]),
                word @ ("crate" | "self" | "super") if self.peek(0) == "::" => {
                    let mut whole = vec![word.to_owned()];
                    while self.peek(0) == "::" && is_name(self.peek(1)) {
                        self.at += 1;
                        whole.push(self.next());
                    }
                    read.modules.get_mut(path).unwrap().uses.push(whole);
                }
                _ => {}
            }
        }
        files
    }

    /// Reads one tree of a `use` declaration below the path `prefix`.
    fn use_tree(&mut self, read: &mut Crate, path: &ModulePath, prefix: &[String]) {
        let mut whole = prefix.to_vec();
        if self.peek(0) == "::" {
            self.at += 1;
        }
        loop {
            match self.next().as_str() {
                "{" => {
                    while self.peek(0) != "}" {
                        self.use_tree(read, path, &whole);
                        if self.peek(0) == "," {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    return;
                }
                "*" => break,
                "self" if !whole.is_empty() && whole.last().unwrap() != "super" => {}
                word => whole.push(word.to_owned()),
            }
            if self.peek(0) != "::" {
                break;
            }
            self.at += 1;
        }
        let module = read.modules.get_mut(path).unwrap();
        let mut name = whole.last().unwrap().clone();
        if self.peek(0) == "as" {
            self.at += 1;
            name = self.next();
        }
        let module_uses = &mut module.uses;
        module_uses.push(whole.clone());
        module.imports.insert(name, whole);
    }

    /// Reads an attribute, and returns whether it restricts its item to tests.
    fn attribute_is_of_tests(&mut self) -> bool {
        let start = self.at;
        let mut depth = 0;
        loop {
            match self.next().as_str() {
                "[" => depth += 1,
                "]" if depth == 1 => break,
                "]" => depth -= 1,
                _ => {}
            }
        }
        let words = &self.tokens[start..self.at];
        let has = |wanted: &str| words.iter().any(|word| word == wanted);
        has("cfg") && has("test") && !has("not")
    }

    /// Skips an item: to its semicolon, or over its body.
    fn skip_item(&mut self) {
        let mut depth = 0;
        while self.at < self.tokens.len() {
            match self.next().as_str() {
                ";" | "," if depth == 0 => return,
                "{" | "(" | "[" => depth += 1,
                "}" if depth == 1 => return,
                "}" | ")" | "]" => depth -= 1,
                _ => {}
            }
        }
    }
}

fn is_name(token: &str) -> bool {
    token.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// Returns the names, `::` and punctuation of a source text, without comments, strings and characters.
fn tokens(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let end = if let Some(comment) = rest.strip_prefix("//") {
            comment.find('\n').map_or(rest.len(), |end| end + 2)
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(end) = string_end(rest) {
            end
        } else if first.is_alphanumeric() || first == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
            let end = end.unwrap_or(rest.len());
            found.push(rest[..end].to_owned());
            end
        } else if rest.starts_with("::") {
            found.push("::".to_owned());
            2
        } else {
            if !first.is_whitespace() {
                found.push(first.to_string());
            }
            first.len_utf8()
        };
        rest = &rest[end..];
    }
    found
}

/// Returns the end of the string or character at the start of `rest`.
fn string_end(rest: &str) -> Option<usize> {
    let bytes = rest.as_bytes();
    let prefix = rest.find(|c| !matches!(c, 'b' | 'c' | 'r')).unwrap_or(0);
    let hashes = rest[prefix..].len() - rest[prefix..].trim_start_matches('#').len();
    let raw = rest[..prefix].ends_with('r');
    if prefix <= 2 && raw && bytes.get(prefix + hashes) == Some(&b'"') {
        let close = format!("\"{}", "#".repeat(hashes));
        let from = prefix + hashes + 1;
        return rest[from..]
            .find(&close)
            .map(|end| from + end + close.len());
    }
    let quote = match bytes.get(prefix)? {
        b'"' if prefix <= 1 => b'"',
        // `'a'` and `'\n'`, but no lifetime.
        b'\'' if prefix <= 1 => {
            let mut after = rest[prefix + 1..].chars();
            let first = after.next()?;
            if first != '\\' && after.next() != Some('\'') {
                return None;
            }
            b'\''
        }
        _ => return None,
    };
    let mut at = prefix + 1;
    while at < bytes.len() && bytes[at] != quote {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    Some(at + 1)
}
