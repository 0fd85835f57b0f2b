//! The files of the package, in a directory and in a tarball.

use std::{fs, io, path::Path};

use flate2::{Compression, GzBuilder};
use ring::digest::{SHA256, digest};
use serde_json::Value;

use super::PackageError;

/// The modification time of files in npm tarballs: 1985-10-26T08:15:00Z, in seconds. Some file systems refuse zero.
const NPM_MTIME_UNIX_SECONDS: u64 = 499_162_500;

/// A file of the package: the path in the package, separated by `/`, and the content.
pub(super) type File = (String, Vec<u8>);

/// Collects the files in the manifest's `files`, the manifest itself, the license and the library, sorted by path.
pub(super) fn collect(
    source_root: &Path,
    manifest: &Value,
    library: Option<File>,
) -> Result<Vec<File>, PackageError> {
    let mut files = vec![
        ("LICENSE".to_owned(), read(&source_root.join("LICENSE"))?),
        (
            "package.json".to_owned(),
            format!("{manifest:#}\n").into_bytes(),
        ),
    ];
    files.extend(library);
    let listed = manifest["files"].as_array().into_iter().flatten();
    for name in listed
        .filter_map(Value::as_str)
        .filter(|name| !matches!(*name, "native" | "LICENSE"))
    {
        collect_below(&source_root.join("openclaw"), name, &mut files)?;
    }
    files.sort();
    Ok(files)
}

fn collect_below(root: &Path, name: &str, files: &mut Vec<File>) -> Result<(), PackageError> {
    let path = root.join(name);
    if !path.is_dir() {
        files.push((name.to_owned(), read(&path)?));
        return Ok(());
    }
    for entry in fs::read_dir(&path).map_err(failed("read", &path))? {
        let entry = entry.map_err(failed("read", &path))?;
        collect_below(
            root,
            &format!("{name}/{}", entry.file_name().to_string_lossy()),
            files,
        )?;
    }
    Ok(())
}

pub(super) fn write_directory(directory: &Path, files: &[File]) -> Result<(), PackageError> {
    if directory.exists() {
        if !directory.join("openclaw.plugin.json").is_file() {
            return Err(PackageError::Occupied(directory.to_owned()));
        }
        fs::remove_dir_all(directory).map_err(failed("replace", directory))?;
    }
    files
        .iter()
        .try_for_each(|(name, bytes)| write(&directory.join(name), bytes))
}

/// Packs the files below `package/` like npm. Uses fast compression, because an installation waits for it.
pub(super) fn pack(files: &[File]) -> io::Result<Vec<u8>> {
    let gzip = GzBuilder::new()
        .mtime(0)
        .write(Vec::new(), Compression::fast());
    let mut archive = tar::Builder::new(gzip);
    for (name, bytes) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(if name.starts_with("bin/") {
            0o755
        } else {
            0o644
        });
        header.set_mtime(NPM_MTIME_UNIX_SECONDS);
        archive.append_data(&mut header, format!("package/{name}"), bytes.as_slice())?;
    }
    archive.into_inner()?.finish()
}

/// Returns the SHA-256 of `bytes` in hexadecimal digits.
pub(super) fn sha256_hex(bytes: &[u8]) -> String {
    let digest = digest(&SHA256, bytes);
    let digits = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
    digits.collect()
}

pub(super) fn read_json(path: &Path) -> Result<Value, PackageError> {
    serde_json::from_slice(&read(path)?).map_err(|error| PackageError::Manifest {
        path: path.to_owned(),
        reason: error.to_string(),
    })
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>, PackageError> {
    fs::read(path).map_err(failed("read", path))
}

pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), PackageError> {
    path.parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::write(path, bytes))
        .map_err(failed("write", path))
}

pub(super) fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> PackageError {
    let path = path.to_owned();
    move |source| PackageError::File {
        action,
        path,
        source,
    }
}
