//! The packages of a release: for npm the main package without a library and one package with a library per platform, and for
//! ClawHub one package with several libraries.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fmt, fs,
    path::{Path, PathBuf},
};

use object::{Architecture, BinaryFormat, Endianness, Object as _, read::elf::ElfFile64};
use serde_json::{Value, json};

use remote_agent_cli::{
    exit::Failure,
    package::{
        self, File, LICENSE, NAME, Platform, VERSION, failed, json_bytes, manifest, read, write,
        write_tarball,
    },
};

use crate::{sbom, sha256_hex};

/// The newest glibc that a library for `linux-*-gnu` may require: that of Debian 10 and RHEL 8.
const GLIBC_FLOOR: Version = Version(2, 28);

const fn platform(os: &'static str, cpu: &'static str, abi: Option<&'static str>) -> Platform {
    Platform { os, cpu, abi }
}

/// The platforms of a release.
const PLATFORMS: [Platform; 7] = [
    platform("linux", "x64", Some("gnu")),
    platform("linux", "arm64", Some("gnu")),
    platform("linux", "x64", Some("musl")),
    platform("linux", "arm64", Some("musl")),
    platform("darwin", "x64", None),
    platform("darwin", "arm64", None),
    platform("win32", "x64", Some("msvc")),
];

/// The platforms in the ClawPack: as many as [`CLAWPACK_BYTES`] allows, at 12 MB for a library. The others install from npm.
const CLAWPACK: [Platform; 4] = [
    platform("linux", "x64", Some("gnu")),
    platform("linux", "arm64", Some("gnu")),
    platform("darwin", "arm64", None),
    platform("win32", "x64", Some("msvc")),
];

/// The largest package that ClawHub takes, unpacked.
const CLAWPACK_BYTES: usize = 50 * 1024 * 1024;

/// Returns the platform of a release with this name.
#[must_use]
pub fn find_platform(name: impl AsRef<OsStr>) -> Option<Platform> {
    let is_named = |platform: &Platform| name.as_ref() == platform.to_string().as_str();
    PLATFORMS.into_iter().find(is_named)
}

/// Returns the platforms of a release that the command has: on Linux it needs glibc.
pub(crate) fn command_platforms() -> impl Iterator<Item = Platform> {
    let all = PLATFORMS.into_iter();
    all.filter(|platform| platform.abi != Some("musl"))
}

/// Returns an error if `directory` lacks one of the platforms `required`. A registry takes each version once, so none could be
/// added later.
pub(crate) fn require_all(
    directory: &Path,
    required: impl Iterator<Item = Platform>,
    found: &[Platform],
) -> Result<(), Failure> {
    let missing = required.filter(|platform| !found.contains(platform));
    let missing: Vec<_> = missing.map(|platform| format!("`{platform}`")).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "cannot package `{}`: it lacks {}. A release has all platforms; for a test, `--partial` packages those that are there",
        directory.display(),
        missing.join(", ")
    )))
}

fn package_name(platform: Platform) -> String {
    format!("{NAME}-{platform}")
}

/// Returns an error if `library` does not run on this platform.
fn check(platform: Platform, library: &[u8]) -> Result<(), String> {
    let file = object::File::parse(library)
        .map_err(|error| format!("it is not a shared library: {error}"))?;
    let format = match platform.os {
        "darwin" => BinaryFormat::MachO,
        "win32" => BinaryFormat::Pe,
        _ => BinaryFormat::Elf,
    };
    let architecture = match platform.cpu {
        "arm64" => Architecture::Aarch64,
        _ => Architecture::X86_64,
    };
    if (file.format(), file.architecture()) != (format, architecture) {
        return Err(format!(
            "it is {:?} for {:?}, and `{platform}` takes {format:?} for {architecture:?}",
            file.format(),
            file.architecture()
        ));
    }
    if platform.os != "linux" {
        return Ok(());
    }
    let newest = newest_glibc(library).map_err(|error| format!("cannot read it: {error}"))?;
    match (newest, platform.abi) {
        (Some((symbol, version)), Some("gnu")) if version > GLIBC_FLOOR => Err(format!(
            "its symbol `{symbol}` needs glibc {version}, and glibc {GLIBC_FLOOR} is the newest allowed. Build it with `cargo xtask package --libc DIR`, or with `cargo-zigbuild rustc --target TRIPLE.{GLIBC_FLOOR}`"
        )),
        (Some((symbol, version)), Some("musl")) => Err(format!(
            "its symbol `{symbol}` needs glibc {version}, and `{platform}` has none. Build it for a musl target"
        )),
        _ => Ok(()),
    }
}

/// A version of glibc.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Version(u32, u32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl Version {
    /// Parses the name of a symbol version: `GLIBC_2.34`, `GLIBC_2.3.4`.
    fn parse(name: &[u8]) -> Option<Self> {
        let mut numbers = str::from_utf8(name)
            .ok()?
            .strip_prefix("GLIBC_")?
            .split('.')
            .map(str::parse);
        Some(Self(numbers.next()?.ok()?, numbers.next()?.ok()?))
    }
}

/// Returns the imported symbol of an ELF library with the newest glibc version.
fn newest_glibc(library: &[u8]) -> object::Result<Option<(String, Version)>> {
    let elf = ElfFile64::<Endianness>::parse(library)?;
    let endian = elf.endian();
    let Some(versions) = elf.elf_section_table().versions(endian, library)? else {
        return Ok(None);
    };
    let symbols = elf.elf_dynamic_symbol_table();
    let mut newest = None;
    for (index, symbol) in symbols.enumerate() {
        let needed = versions.version(versions.version_index(endian, index))?;
        let Some(version) = needed.and_then(|needed| Version::parse(needed.name())) else {
            continue;
        };
        if newest.as_ref().is_none_or(|(_, most)| version > *most) {
            let name = symbols.symbol_name(endian, symbol)?;
            newest = Some((String::from_utf8_lossy(name).into_owned(), version));
        }
    }
    Ok(newest)
}

/// A library of a release.
pub type Library = (Platform, Vec<u8>);

/// Assembles the packages of a release like [`write_packages`], from the libraries in `DIR/PLATFORM/`: of all platforms, or with
/// `partial` of those that are there.
///
/// # Errors
/// A platform is missing. A directory has no platform's name, or does not contain exactly one library; a library does not run on its platform, or
/// requires a glibc newer than 2.28; or as for [`write_packages`].
pub fn assemble(
    root: &Path,
    libraries: &Path,
    out: &Path,
    partial: bool,
) -> Result<Vec<PathBuf>, Failure> {
    let found = find_libraries(libraries)?;
    if !partial {
        let platforms: Vec<_> = found.iter().map(|(platform, _)| *platform).collect();
        require_all(libraries, PLATFORMS.into_iter(), &platforms)?;
    }
    write_packages(root, &found, out)
}

/// Writes the tarballs of a release to `out`: those for npm, and `openclaw-remote-agent-clawpack-VERSION.tgz` for ClawHub if it
/// has a library. Also writes their checksums to `SHA256SUMS` and the list of crates to `sbom.cdx.json`. Returns the paths, with
/// the main package for npm last.
///
/// # Errors
/// The ClawPack is too large; cargo cannot list the crates; a file is not writable.
pub fn write_packages(
    root: &Path,
    libraries: &[Library],
    out: &Path,
) -> Result<Vec<PathBuf>, Failure> {
    let out = std::path::absolute(out).map_err(failed("write", out))?;
    let mut main = manifest()?;

    let mut tarballs = Vec::new();
    let in_clawpack = |(platform, _): &&Library| CLAWPACK.contains(platform);
    let packed: Vec<Library> = libraries.iter().filter(in_clawpack).cloned().collect();
    if !packed.is_empty() {
        tarballs.push((format!("{NAME}-clawpack"), clawpack(main.clone(), packed)?));
    }
    for (platform, library) in libraries {
        tarballs.push((
            package_name(*platform),
            vec![
                ("LICENSE".to_owned(), LICENSE.into()),
                (
                    "package.json".to_owned(),
                    json_bytes(&platform_manifest(*platform, &main)),
                ),
                (platform.library_name(), library.clone()),
            ],
        ));
    }
    let platforms: Vec<Platform> = libraries.iter().map(|(platform, _)| *platform).collect();
    require_platforms(&mut main, &platforms);
    tarballs.push((NAME.to_owned(), package::files(&main, [])));

    let crates = out.join("sbom.cdx.json");
    write(&crates, &json_bytes(&sbom::generate(root)?))?;
    let mut written = vec![crates];
    for (name, files) in tarballs {
        let path = out.join(format!("{name}-{VERSION}.tgz"));
        write_tarball(&path, &files)?;
        written.push(path);
    }
    let checksums = out.join("SHA256SUMS");
    write(&checksums, checksum_lines(&written)?.as_bytes())?;
    written.insert(0, checksums);
    Ok(written)
}

/// Returns the files of one package with all of the libraries, among which `native.js` chooses.
fn clawpack(mut manifest: Value, libraries: Vec<Library>) -> Result<Vec<File>, Failure> {
    let platforms: Vec<Platform> = libraries.iter().map(|(platform, _)| *platform).collect();
    widen(&mut manifest, &platforms);
    let libraries = libraries
        .into_iter()
        .map(|(platform, library)| (format!("native/{}", platform.library_name()), library));
    let files = package::files(&manifest, libraries);
    let bytes: usize = files.iter().map(|(_, content)| content.len()).sum();
    if bytes <= CLAWPACK_BYTES {
        return Ok(files);
    }
    let libraries = files.iter().filter(|(path, _)| path.starts_with("native/"));
    let sizes = libraries.map(|(path, library)| format!("`{path}` {}", library.len()));
    let sizes = sizes.collect::<Vec<_>>().join(", ");
    Err(Failure::new(format!(
        "cannot write the ClawPack: it has {bytes} bytes unpacked, and ClawHub takes {CLAWPACK_BYTES} ({sizes}). Make the libraries smaller, or take a platform out of `CLAWPACK` in `xtask/src/release.rs`"
    )))
}

/// Returns the libraries below `root`, in the order of [`PLATFORMS`].
fn find_libraries(root: &Path) -> Result<Vec<Library>, Failure> {
    let unusable = |path: &Path, reason: String| {
        Failure::new(format!("cannot package `{}`: {reason}", path.display()))
    };
    let mut found = Vec::new();
    for directory in list(root)?.into_iter().filter(|path| path.is_dir()) {
        let name = directory.file_name().unwrap_or_default();
        let platform = find_platform(name).ok_or_else(|| {
            let names = PLATFORMS.map(|platform| format!("`{platform}`")).join(", ");
            unusable(
                &directory,
                format!("no platform has that name. Use one of {names}"),
            )
        })?;
        let libraries: Vec<PathBuf> = list(&directory)?
            .into_iter()
            .filter(|path| {
                path.extension()
                    .is_some_and(|end| ["so", "dylib", "dll", "node"].iter().any(|it| end == *it))
            })
            .collect();
        let [library] = libraries.as_slice() else {
            return Err(unusable(
                &directory,
                format!(
                    "it has {} libraries (`.so`, `.dylib`, `.dll`, `.node`). Put exactly one there",
                    libraries.len()
                ),
            ));
        };
        let bytes = read(library)?;
        check(platform, &bytes).map_err(|reason| unusable(library, reason))?;
        found.push((platform, bytes));
    }
    if found.is_empty() {
        return Err(unusable(
            root,
            "it has no directory of a platform. Put each library into `PLATFORM/`, for example `linux-x64-gnu/`"
                .to_owned(),
        ));
    }
    found.sort_by_key(|(platform, _)| PLATFORMS.iter().position(|it| it == platform));
    Ok(found)
}

pub(crate) fn list(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    fs::read_dir(directory)
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
        .map_err(failed("read", directory))
}

/// Returns the manifest of the package with the library for `platform`.
fn platform_manifest(platform: Platform, main: &Value) -> Value {
    let library = platform.library_name();
    let mut manifest = json!({
        "name": package_name(platform),
        "version": main["version"],
        "description": format!("The library of {NAME} for {platform}."),
        "license": main["license"],
        "repository": main["repository"],
        "engines": main["engines"],
        "main": library,
        "files": [library],
    });
    platform.restrict(&mut manifest);
    manifest
}

/// Sets the manifest fields that restrict a package to one of `platforms`. Without `libc`, which npm refuses on every system but
/// Linux: `native.js` says which libraries the package has.
fn widen(manifest: &mut Value, platforms: &[Platform]) {
    let distinct = |field: fn(&Platform) -> &'static str| {
        json!(platforms.iter().map(field).collect::<BTreeSet<_>>())
    };
    manifest["os"] = distinct(|platform| platform.os);
    manifest["cpu"] = distinct(|platform| platform.cpu);
}

/// Adds the packages of `platforms` as dependencies of the main package. npm installs the matching one; OpenClaw requires
/// it.
fn require_platforms(main: &mut Value, platforms: &[Platform]) {
    widen(main, platforms);
    main["optionalDependencies"] = platforms
        .iter()
        .map(|platform| (package_name(*platform), json!(VERSION)))
        .collect::<serde_json::Map<_, _>>()
        .into();
    main["openclaw"]["install"]["requiredPlatformPackages"] = platforms
        .iter()
        .map(|platform| package_name(*platform))
        .collect();
    if let Some(files) = main["files"].as_array_mut() {
        files.retain(|file| file != "native");
    }
}

/// Returns the checksums in the format of `sha256sum`.
fn checksum_lines(files: &[PathBuf]) -> Result<String, Failure> {
    let mut lines = String::new();
    for path in files {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        lines.push_str(&format!("{}  {name}\n", sha256_hex(&read(path)?)));
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn named(name: &str) -> Platform {
        find_platform(name).unwrap()
    }

    #[test]
    fn this_platform_is_one_of_a_release() {
        assert!(PLATFORMS.contains(&Platform::current()));
    }

    #[test]
    fn glibc_versions_compare_by_number() {
        let parse = |name: &str| Version::parse(name.as_bytes()).unwrap();
        assert!(parse("GLIBC_2.3.4") < GLIBC_FLOOR);
        assert!(parse("GLIBC_2.28") == GLIBC_FLOOR);
        assert!(parse("GLIBC_2.29") > GLIBC_FLOOR);
        assert_eq!(Version::parse(b"GCC_3.0"), None);
    }

    #[test]
    fn text_file_is_refused_as_library() {
        let reason = check(named("linux-x64-gnu"), b"not a library").unwrap_err();
        assert!(reason.starts_with("it is not a shared library"), "{reason}");
    }

    /// Uses the test binary itself, an ELF file that imports symbols of the installed glibc.
    #[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
    #[test]
    fn gnu_library_is_refused_on_other_platforms() {
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        for (name, part) in [
            ("linux-x64-musl", "needs glibc"),
            ("linux-arm64-gnu", "it is Elf for X86_64"),
            ("darwin-x64", "takes MachO"),
            ("win32-x64-msvc", "takes Pe"),
        ] {
            let reason = check(named(name), &own).unwrap_err();
            assert!(reason.contains(part), "{name}: {reason}");
        }
    }

    /// Uses the test binary itself, with the name of each newer version replaced by that of the floor.
    #[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
    #[test]
    fn library_for_old_glibc_is_accepted() {
        let floor = b"\0GLIBC_2.28\0";
        let mut own = fs::read(std::env::current_exe().unwrap()).unwrap();
        for start in 0..own.len() - floor.len() {
            let name = &mut own[start..start + floor.len()];
            if name.starts_with(b"\0GLIBC_2.") && name[10] != 0 && name[11] == 0 {
                name.copy_from_slice(floor);
            }
        }
        assert_eq!(check(named("linux-x64-gnu"), &own), Ok(()));
    }
}
