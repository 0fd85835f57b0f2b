//! Loads the library from a file.

use std::{
    error::Error,
    fmt,
    path::{Path, PathBuf},
};

use abi_stable::library::{LibraryError, RootModule, lib_header_from_path};

use crate::PluginModuleRef;

/// Loads the library at `path` and checks that it was built for this interface.
///
/// Each file is a separate plugin: a host that loads two files gets two modules that share nothing. A library stays
/// mapped until the process ends.
///
/// # Errors
/// The file cannot be read, is not a shared library or not a plugin of this interface, or was built for another version
/// of it.
pub fn load(path: impl AsRef<Path>) -> Result<PluginModuleRef, LoadError> {
    let path = path.as_ref();
    let fails = |kind| LoadError {
        path: path.to_owned(),
        kind,
    };
    // An absolute path keeps the system's loader from searching its own directories.
    let file = path
        .canonicalize()
        .map_err(|error| fails(Kind::File(error)))?;
    // `RootModule::load_from_file` caches one module per type, and would return the first library for every later path.
    let header =
        lib_header_from_path(&file).map_err(|error| fails(Kind::from_library_error(error)))?;
    header
        .init_root_module::<PluginModuleRef>()
        .map_err(|error| {
            fails(match Kind::from_library_error(error) {
                Kind::Layout(expected, _) => {
                    Kind::Layout(expected, header.version_strings().version.to_string())
                }
                other => other,
            })
        })
}

/// Why a library was not loaded. The message contains the path and what to do.
#[derive(Debug)]
pub struct LoadError {
    path: PathBuf,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    File(std::io::Error),
    Open(String),
    NotAPlugin,
    Version(String, String),
    Layout(String, String),
    Start,
}

impl LoadError {
    /// Returns the path that was passed to [`load`].
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Kind {
    /// Summarizes abi_stable's errors, whose own text fills pages.
    fn from_library_error(error: LibraryError) -> Self {
        let expected = || PluginModuleRef::VERSION_STRINGS.version.to_string();
        match error {
            LibraryError::OpenError { err, .. } => Self::Open(match Error::source(&*err) {
                Some(cause) => cause.to_string(),
                None => err.to_string(),
            }),
            LibraryError::GetSymbolError { .. } => Self::NotAPlugin,
            LibraryError::IncompatibleVersionNumber {
                expected_version,
                actual_version,
                ..
            } => Self::Version(expected_version.to_string(), actual_version.to_string()),
            LibraryError::RootModule { .. } => Self::Start,
            LibraryError::Many(errors) => match errors.into_iter().next() {
                Some(first) => Self::from_library_error(first),
                None => Self::NotAPlugin,
            },
            _ => Self::Layout(expected(), "unknown".to_owned()),
        }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.kind {
            Kind::File(error) => write!(f, "cannot read the library `{path}`: {error}"),
            Kind::Open(reason) => write!(f, "cannot open `{path}` as a shared library: {reason}"),
            Kind::NotAPlugin => write!(
                f,
                "`{path}` is a shared library but not a plugin of this interface: it does not export the root module"
            ),
            Kind::Version(expected, found) => write!(
                f,
                "`{path}` has version {found} of the interface and this host needs {expected}; build both from one version"
            ),
            Kind::Layout(expected, found) => write!(
                f,
                "`{path}` (interface {found}) lays its types out differently from this host (interface {expected}); build both from one version"
            ),
            Kind::Start => write!(f, "`{path}` failed while it started"),
        }
    }
}

impl Error for LoadError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.kind {
            Kind::File(error) => Some(error),
            _ => None,
        }
    }
}
