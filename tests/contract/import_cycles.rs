//! Modules with one parent import each other in one direction only.
//!
//! The test reads the tokens of the source: `mod` declarations, `use` trees and paths that begin with `crate`, `self` or
//! `super`. It follows re-exports by name and ignores tests. A module and its parent may use each other.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::contract::root;

/// A module's path from the crate's root, which is the empty path.
type ModulePath = Vec<String>;

/// For each module of one parent, the siblings that it uses.
type SiblingUses = BTreeMap<String, BTreeSet<String>>;

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
        read.add_file(root_file, root_file.parent().unwrap(), &[]);
        read
    }

    /// Reads a file and the files of its modules, which are in `folder`.
    fn add_file(&mut self, file: &Path, folder: &Path, path: &[String]) {
        let source = fs::read_to_string(file).unwrap();
        self.add_tokens(source.parse().unwrap(), folder, path);
    }

    fn add_tokens(&mut self, tokens: TokenStream, folder: &Path, path: &[String]) {
        self.modules.entry(path.to_vec()).or_default();
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let is = |at: usize, mark: char| matches!(tokens.get(at), Some(TokenTree::Punct(punct)) if punct.as_char() == mark);
        let word = |at: usize| match tokens.get(at) {
            Some(TokenTree::Ident(name)) => name.to_string(),
            _ => String::new(),
        };
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            at += 1;
            match (word(at - 1).as_str(), tokens.get(at)) {
                ("mod", Some(TokenTree::Ident(name))) => {
                    let name = name.to_string();
                    let below = [path, std::slice::from_ref(&name)].concat();
                    let folder = folder.join(&name);
                    if let Some(TokenTree::Group(body)) = tokens.get(at + 1) {
                        self.add_tokens(body.stream(), &folder, &below);
                    } else if name != "tests" {
                        let files = [folder.with_extension("rs"), folder.join("mod.rs")];
                        let file = files.iter().find(|file| file.exists());
                        let file =
                            file.unwrap_or_else(|| panic!("no file of `{name}`: {folder:?}"));
                        self.add_file(file, &folder, &below);
                    }
                    at += 2;
                }
                ("use", Some(TokenTree::Ident(_))) => {
                    let end = (at..).find(|at| is(*at, ';')).unwrap();
                    self.add_use(&tokens[at..end], path, &[]);
                    at = end;
                }
                (first @ ("crate" | "self" | "super"), Some(TokenTree::Punct(_))) => {
                    let mut whole = vec![first.to_owned()];
                    while is(at, ':') && is(at + 1, ':') && !word(at + 2).is_empty() {
                        whole.push(word(at + 2));
                        at += 3;
                    }
                    self.modules.get_mut(path).unwrap().uses.push(whole);
                }
                (_, Some(TokenTree::Group(attribute)))
                    if is(at - 1, '#') && is_of_tests(attribute.stream()) =>
                {
                    let is_last = |at: &usize| {
                        let body = |token: &TokenTree| matches!(token, TokenTree::Group(body) if body.delimiter() == Delimiter::Brace);
                        is(*at, ';') || is(*at, ',') || tokens.get(*at).is_none_or(body)
                    };
                    at = (at..).find(is_last).unwrap() + 1;
                }
                _ => {
                    if let TokenTree::Group(group) = token {
                        self.add_tokens(group.stream(), folder, path);
                    }
                }
            }
        }
    }

    /// Reads the trees of a `use` declaration of the module `path`, below the path `prefix`.
    fn add_use(&mut self, trees: &[TokenTree], path: &[String], prefix: &[String]) {
        let comma =
            |token: &TokenTree| matches!(token, TokenTree::Punct(mark) if mark.as_char() == ',');
        'trees: for tree in trees.split(comma) {
            let mut whole = prefix.to_vec();
            let mut renamed = None;
            for token in tree {
                match token {
                    TokenTree::Group(group) => {
                        let below: Vec<_> = group.stream().into_iter().collect();
                        self.add_use(&below, path, &whole);
                        continue 'trees;
                    }
                    TokenTree::Ident(word) if word == "as" => renamed = Some(whole.clone()),
                    TokenTree::Ident(word) if word == "self" && !whole.is_empty() => {}
                    TokenTree::Ident(word) => whole.push(word.to_string()),
                    _ => {}
                }
            }
            let Some(name) = whole.last().cloned() else {
                continue;
            };
            let used = renamed.unwrap_or(whole);
            let module = self.modules.get_mut(path).unwrap();
            module.uses.push(used.clone());
            module.imports.insert(name, used);
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

    /// Returns by parent the modules that are in an import cycle, or on the way from one to another.
    fn cycles(&self) -> BTreeMap<ModulePath, SiblingUses> {
        let mut all: BTreeMap<ModulePath, SiblingUses> = BTreeMap::new();
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
        all.values_mut().for_each(keep_cycles);
        all.retain(|_, uses| !uses.is_empty());
        all
    }
}

/// Removes the modules that use no other, and those that no other uses, until none is left or those in cycles are.
fn keep_cycles(uses: &mut SiblingUses) {
    loop {
        let before = uses.len();
        let users: BTreeSet<String> = uses.keys().cloned().collect();
        let used: BTreeSet<String> = uses.values().flatten().cloned().collect();
        uses.retain(|name, targets| {
            targets.retain(|target| users.contains(target));
            used.contains(name) && !targets.is_empty()
        });
        if uses.len() == before {
            return;
        }
    }
}

/// Returns whether an attribute restricts its item to tests.
fn is_of_tests(attribute: TokenStream) -> bool {
    fn names(tokens: TokenStream) -> Vec<String> {
        let names = tokens.into_iter().map(|token| match token {
            TokenTree::Group(group) => names(group.stream()),
            TokenTree::Ident(name) => vec![name.to_string()],
            _ => Vec::new(),
        });
        names.flatten().collect()
    }
    let names = names(attribute);
    let has = |name: &str| names.iter().any(|other| other == name);
    has("cfg") && has("test") && !has("not")
}

#[test]
fn sibling_modules_have_no_import_cycle() {
    let crates = root("crates").read_dir().unwrap();
    let crates = crates.map(|entry| entry.unwrap().path());
    for folder in crates.chain([root("")]) {
        for file in ["src/lib.rs", "src/main.rs"] {
            let file = folder.join(file);
            if file.exists() {
                let cycles = Crate::read(&file).cycles();
                assert!(cycles.is_empty(), "import cycles of {file:?}: {cycles:#?}");
            }
        }
    }
}

#[test]
fn import_cycle_is_found_in_every_form() {
    let cycle = |first: &str, second: &str| {
        let folder = tempfile::tempdir().unwrap();
        let lib = folder.path().join("lib.rs");
        fs::write(&lib, "mod first; mod second; pub use second::Second;").unwrap();
        fs::write(folder.path().join("first.rs"), first).unwrap();
        fs::write(folder.path().join("second.rs"), second).unwrap();
        !Crate::read(&lib).cycles().is_empty()
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
