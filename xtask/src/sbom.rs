//! The list of crates in the library, in the format of CycloneDX 1.5.

use std::{
    collections::BTreeSet,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use remote_agent_cli::{
    exit::Failure,
    package::{NAME, VERSION},
};

/// Returns the crates that the library links on any platform, without build scripts and macros. The output is reproducible.
pub(crate) fn generate(root: &Path) -> Result<Value, Failure> {
    let broken = |reason: String| {
        Failure::new(format!(
            "cannot list the crates of `{}` with `cargo tree`: {reason}",
            root.display()
        ))
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--locked", "--package", "openclaw-remote-agent"])
        .args(["--target", "all", "--edges", "normal,no-proc-macro"])
        .args(["--prefix", "none", "--format", "{p}\t{l}"])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| broken(error.to_string()))?;
    if !output.status.success() {
        return Err(broken(output.status.to_string()));
    }
    let components = components(&String::from_utf8_lossy(&output.stdout));
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "library",
                "bom-ref": format!("pkg:npm/{NAME}@{VERSION}"),
                "name": NAME,
                "version": VERSION,
                "purl": format!("pkg:npm/{NAME}@{VERSION}"),
            },
        },
        "components": components,
    }))
}

/// Parses lines of `name v1.2.3 (path)`, a tab and the license. Cargo appends ` (*)` to the line of a repeated crate.
fn components(tree: &str) -> Vec<Value> {
    let crates: BTreeSet<(&str, &str, String)> = tree
        .lines()
        .filter_map(|line| {
            let (package, licence) = line.split_once('\t')?;
            let mut words = package.split(' ');
            let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
            // Old crates separate licenses with a slash, which SPDX does not allow.
            let licence = licence.trim_end_matches(" (*)").replace('/', " OR ");
            Some((name, version, licence))
        })
        .collect();
    crates
        .into_iter()
        .map(|(name, version, licence)| {
            let purl = format!("pkg:cargo/{name}@{version}");
            let mut component = json!({
                "type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl,
            });
            if !licence.is_empty() {
                component["licenses"] = json!([{ "expression": licence }]);
            }
            component
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_are_listed_once_without_local_paths() {
        let tree = "common v0.1.0 (/home/me/common)\tMIT\nlog v0.4.1\tMIT/Apache-2.0\nlog v0.4.1\tMIT/Apache-2.0 (*)\n";
        let listed = components(tree);
        assert_eq!(listed.len(), 2);
        assert!(!json!(listed).to_string().contains("/home"));
        assert_eq!(listed[1]["purl"], "pkg:cargo/log@0.4.1");
        assert_eq!(
            listed[1]["licenses"],
            json!([{ "expression": "MIT OR Apache-2.0" }])
        );
    }
}
