//! Locates the shared library of this command.

use std::{
    env::{
        self,
        consts::{DLL_PREFIX, DLL_SUFFIX},
    },
    path::{Path, PathBuf},
};

use openclaw_remote_agent_interface::{PluginModuleRef, load};

use super::exit::Failure;

/// The environment variable with the path of the library. It replaces the default search paths.
pub const VARIABLE: &str = "REMOTE_AGENT_LIBRARY";

/// Opens the library of this command.
///
/// # Errors
/// The library is missing, cannot be loaded, or was built from other sources than the command. The message lists the
/// searched paths.
pub fn open() -> Result<PluginModuleRef, Failure> {
    locate().map(|(_, module)| module)
}

/// Returns the path of the library of this command.
///
/// # Errors
/// The same as [`open`].
pub fn find() -> Result<PathBuf, Failure> {
    locate().map(|(path, _)| path)
}

fn locate() -> Result<(PathBuf, PluginModuleRef), Failure> {
    let command = env::current_exe()
        .and_then(|path| path.canonicalize())
        .map_err(|error| Failure::new(format!("cannot find this command's own file: {error}")))?;
    let places = candidates(&command, env::var_os(VARIABLE).map(PathBuf::from));
    let library = first_file(&places)?;
    let module = load(library).map_err(|error| Failure::new(error.to_string()))?;
    check_build(&command, library, module.build_id()().as_str())?;
    Ok((library.to_owned(), module))
}

/// Checks that the library at `library` was built from the same sources as the command. Returns the reason if the library
/// cannot be loaded on this machine, for example because it is built for another platform.
///
/// # Errors
/// The library was built from other sources.
pub fn check(library: &Path) -> Result<Option<String>, Failure> {
    let module = match load(library) {
        Ok(module) => module,
        Err(error) => return Ok(Some(error.to_string())),
    };
    let build_id = module.build_id()();
    if build_id.as_str() == openclaw_remote_agent::BUILD_ID {
        return Ok(None);
    }
    Err(Failure::new(format!(
        "the library `{}` is build {build_id}, and this command packs build {}; build both from the same sources",
        library.display(),
        openclaw_remote_agent::BUILD_ID,
    )))
}

/// Returns the possible paths of the library, the most likely first.
fn candidates(command: &Path, named: Option<PathBuf>) -> Vec<PathBuf> {
    if let Some(named) = named {
        return vec![named];
    }
    let file = format!("{DLL_PREFIX}openclaw_remote_agent{DLL_SUFFIX}");
    let directory = command.parent().unwrap_or(Path::new("."));
    vec![
        // Cargo's own copy. Only `cargo build` updates the one next to the command; `cargo run` and `cargo test` do not.
        directory.join("deps").join(&file),
        directory.join(&file),
        directory.join("../lib").join(&file),
    ]
}

fn first_file(places: &[PathBuf]) -> Result<&Path, Failure> {
    let found = places.iter().find(|place| place.is_file());
    found.map(PathBuf::as_path).ok_or_else(|| {
        let searched: Vec<String> = places
            .iter()
            .map(|place| format!("`{}`", place.display()))
            .collect();
        Failure::new(format!(
            "cannot find the plugin's library, looked for {}; set `{VARIABLE}` to its path",
            searched.join(", ")
        ))
    })
}

fn check_build(command: &Path, library: &Path, build_id: &str) -> Result<(), Failure> {
    if build_id == openclaw_remote_agent::BUILD_ID {
        return Ok(());
    }
    Err(Failure::new(format!(
        "the library `{}` is build {build_id}, the command `{}` is build {}; run `cargo build`, or set `{VARIABLE}` to the library that came with the command",
        library.display(),
        command.display(),
        openclaw_remote_agent::BUILD_ID,
    )))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn cargo_library_precedes_adjacent_and_installed() {
        let places = candidates(Path::new("/opt/bin/remote-agent"), None);
        let directories: Vec<&Path> = places.iter().map(|place| place.parent().unwrap()).collect();
        assert_eq!(
            directories,
            [
                Path::new("/opt/bin/deps"),
                Path::new("/opt/bin"),
                Path::new("/opt/bin/../lib")
            ]
        );
    }

    #[test]
    fn named_library_is_the_only_candidate() {
        let places = candidates(Path::new("/opt/bin/remote-agent"), Some("/tmp/x.so".into()));
        assert_eq!(places, [PathBuf::from("/tmp/x.so")]);
    }

    #[test]
    fn missing_library_error_names_every_place() {
        let places = [
            PathBuf::from("/nowhere/a.so"),
            PathBuf::from("/nowhere/b.so"),
        ];
        let message = first_file(&places).unwrap_err().message;
        assert!(
            message.contains("`/nowhere/a.so`, `/nowhere/b.so`"),
            "{message}"
        );
        assert!(message.contains(VARIABLE), "{message}");
    }

    #[test]
    fn another_build_is_refused_with_both_paths() {
        let refused = check_build(
            Path::new("/bin/command"),
            Path::new("/lib/library"),
            "0.1.0+0",
        );
        let message = refused.unwrap_err().message;
        for part in [
            "`/bin/command`",
            "`/lib/library`",
            "0.1.0+0",
            openclaw_remote_agent::BUILD_ID,
        ] {
            assert!(message.contains(part), "{part} in: {message}");
        }
    }
}
