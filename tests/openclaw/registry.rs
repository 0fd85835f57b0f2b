//! The packages of a release: ClawHub's own checks of them, and their installation into a new OpenClaw, from the file for
//! ClawHub and from an npm registry on this machine, up to the first answer to an agent.

use std::{
    fs,
    io::BufReader,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::Arc,
    time::Instant,
};

use remote_agent_cli::package::{self, Platform};
use serde_json::{Value, json};
use testkit::support::{free_port, root};
use xtask::release::{self, Library};

use crate::{
    host::{self, Gateway, Host},
    journal::Journal,
    model::{self, Model},
    node::{self, Installed},
    peer::{Peer, answer_text},
    plugin_fixture, process, send,
};

type Test = (&'static str, fn(&Arc<Installed>));

pub const TESTS: &[Test] = &[
    (
        "clawhub_accepts_both_packages",
        clawhub_accepts_both_packages,
    ),
    (
        "release_workflow_loads_the_library_of_each_package",
        release_workflow_loads_the_library_of_each_package,
    ),
    (
        "clawpack_installs_and_answers",
        clawpack_installs_and_answers,
    ),
    (
        "npm_packages_install_and_answer",
        npm_packages_install_and_answer,
    ),
];

/// The most bytes of a package that ClawHub takes, unpacked.
const CLAWHUB_LIMIT: usize = 50 * 1024 * 1024;

/// Returns an empty directory for one test.
pub fn scratch(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory
}

/// Runs a step, and prints how long it took.
pub fn step<T>(what: &str, run: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let result = run();
    eprintln!("{what}: {:.1} s", began.elapsed().as_secs_f32());
    result
}

fn success(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    stdout
}

/// Returns the library of this build without its symbols.
fn stripped_library(scratch: &Path) -> PathBuf {
    let stripped = scratch.join("library.node");
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(&stripped);
    success(&strip.arg(plugin_fixture::library()).output().unwrap());
    stripped
}

/// Returns the library of this platform, and for three others its first bytes: together as much as ClawHub takes.
pub fn four_libraries(scratch: &Path) -> Vec<Library> {
    let library = fs::read(stripped_library(scratch)).unwrap();
    let others = ["linux-arm64-gnu", "darwin-arm64", "win32-x64-msvc"];
    // 2 MB for the rest of the package.
    let each = (CLAWHUB_LIMIT - 2_000_000 - library.len()) / others.len();
    let others = others.map(|name| {
        let platform = release::find_platform(name).unwrap();
        (platform, library[..each.min(library.len())].to_vec())
    });
    let mut libraries = others.to_vec();
    libraries.push((Platform::current(), library));
    libraries
}

/// Writes the packages of a release, and returns the path of one.
pub fn release_file(scratch: &Path, libraries: &[Library], suffix: &str) -> PathBuf {
    let out = scratch.join("release");
    release::write_packages(&root(""), libraries, &out).unwrap();
    out.join(format!(
        "{}{suffix}-{}.tgz",
        package::NAME,
        package::VERSION
    ))
}

// ---- ClawHub ----------------------------------------------------------------------------------------------------------

/// The command of ClawHub checks the plugin directory, and rehearses its publication and that of the ClawPack.
fn clawhub_accepts_both_packages(openclaw: &Arc<Installed>) {
    let scratch = scratch("registry-clawhub");
    let packaged = package::assemble(&stripped_library(&scratch), &scratch.join("package"));
    let clawpack = release_file(&scratch, &four_libraries(&scratch), "-clawpack");
    let clawhub = node::install("clawhub", &["clawhub@0.23.3"]);
    let run = |arguments: &[&str]| {
        let mut command = Command::new(clawhub.node());
        command
            .arg(clawhub.package("clawhub/bin/clawdhub.js"))
            .arg("package")
            .args(arguments)
            .current_dir(&scratch)
            .env("CLAWHUB_CONFIG_PATH", scratch.join("clawhub.json"))
            .env("CLAWHUB_DISABLE_TELEMETRY", "1");
        let answer = success(&command.output().unwrap());
        serde_json::from_str::<Value>(&answer).unwrap_or_else(|_| panic!("{answer}"))
    };

    let directory = packaged.unwrap().directory;
    let directory = directory.to_str().unwrap();
    let host = openclaw.package("openclaw");
    let against = ["--openclaw", host.to_str().unwrap()];
    let validate = [
        &["validate", directory, "--out", "reports", "--json"],
        &against[..],
    ]
    .concat();
    let report = step("clawhub package validate", || run(&validate));
    assert_eq!(report["status"], "pass", "{report:#}");
    assert_eq!(report["summary"]["issueCount"], 0, "{report:#}");

    let commit = "0123456789abcdef0123456789abcdef01234567";
    for package in [directory, clawpack.to_str().unwrap()] {
        let publish = ["publish", package, "--dry-run", "--json"];
        let source = [
            "--source-repo",
            "openclaw-remote-agent/openclaw-remote-agent",
        ];
        let publish = [&publish[..], &source, &["--source-commit", commit]].concat();
        let plan = step(&format!("clawhub package publish {package}"), || {
            run(&publish)
        });
        println!("{plan}");
        assert_eq!(plan["family"], "code-plugin");
        assert_eq!(
            (&plan["name"], &plan["version"]),
            (&json!(package::NAME), &json!(package::VERSION))
        );
    }
}

/// With the script that the workflow runs on each platform.
fn release_workflow_loads_the_library_of_each_package(installed: &Arc<Installed>) {
    let scratch = scratch("registry-load");
    let main = release_file(&scratch, &four_libraries(&scratch), "");
    let platform = Platform::current().to_string();
    let mut script = Command::new("bash");
    script
        .arg(root(".ci/load-release"))
        .args([main.parent().unwrap(), Path::new(&platform)])
        .arg(installed.node());
    let loaded = success(&script.output().unwrap());
    let line = format!("{platform}: the library loads and answers\n");
    assert_eq!(loaded, line.repeat(2));
}

// ---- installation -----------------------------------------------------------------------------------------------------

/// An OpenClaw with a scripted model and a peer, before the plugin is installed.
struct NewOpenClaw {
    model: Model,
    // Serves until the process ends.
    _peer: Peer,
    host: Host,
}

impl NewOpenClaw {
    fn new(installed: &Arc<Installed>, scratch: &Path, environment: &[(&str, &str)]) -> Self {
        let (model, peer) = (Model::start(), Peer::start());
        let settings = plugin_settings(&peer);
        let config = plugin_fixture::host_config(&model, &settings);
        let directory = scratch.join("host");
        let host = Host::new(Arc::clone(installed), &directory, &config, environment);
        Self {
            model,
            _peer: peer,
            host,
        }
    }

    /// Installs the plugin, and has an agent call it. Returns the path of the library that OpenClaw has loaded.
    fn first_answer(&self, what: &str) -> String {
        step("openclaw plugins install", || self.host.install(what));
        let gateway: Gateway = step("gateway", || self.host.boot());
        let text = "the first question";
        step("first answer", || {
            let message = format!("CALL {}", send(text));
            gateway.socket().run("agent:main:first", &message);
            let request = self.model.request_with_result(text);
            let result = model::tool_result(&request).unwrap();
            assert!(result.contains(&answer_text(text)), "{result}");
        });
        process::library(gateway.pid())
    }
}

/// Returns settings of the plugin with one target, without a credential.
fn plugin_settings(peer: &Peer) -> Value {
    json!({"enabled": true, "targets": [{"alias": "peer", "baseUrl": peer.url()}]})
}

/// As an archive, as OpenClaw installs what it has downloaded from ClawHub. The plugin chooses among four libraries.
fn clawpack_installs_and_answers(installed: &Arc<Installed>) {
    let scratch = scratch("registry-clawpack");
    let clawpack = release_file(&scratch, &four_libraries(&scratch), "-clawpack");
    let openclaw = NewOpenClaw::new(installed, &scratch, &[]);
    let library = openclaw.first_answer(clawpack.to_str().unwrap());
    let expected = format!("/native/{}", Platform::current().library_name());
    assert!(library.ends_with(&expected), "{library}");
}

/// From a real registry, to which npm has published the packages in the order of the release workflow.
fn npm_packages_install_and_answer(installed: &Arc<Installed>) {
    let scratch = scratch("registry-npm");
    let main = release_file(&scratch, &four_libraries(&scratch), "");
    let registry = step("registry", || Registry::start(&scratch));
    step("npm publish", || {
        let packages = main.parent().unwrap();
        for library in fs::read_dir(packages).unwrap() {
            let library = library.unwrap().path();
            let name = library.file_name().unwrap().to_str().unwrap();
            if ["-linux-", "-darwin-", "-win32-"]
                .iter()
                .any(|part| name.contains(part))
            {
                registry.publish(&library);
            }
        }
        registry.publish(&main);
    });
    let userconfig = registry.userconfig.to_str().unwrap();
    let cache = scratch.join("cache");
    let environment = [
        ("npm_config_userconfig", userconfig),
        ("npm_config_cache", cache.to_str().unwrap()),
    ];
    let openclaw = NewOpenClaw::new(installed, &scratch, &environment);
    let library = openclaw.first_answer(&format!("npm:{}", package::NAME));
    let platform = Platform::current();
    let expected = format!("/{}-{platform}/{}", package::NAME, platform.library_name());
    assert!(library.ends_with(&expected), "{library}");
}

/// Verdaccio without another registry behind it. Dropping it stops it.
struct Registry {
    process: Child,
    /// The settings of npm for this registry.
    userconfig: PathBuf,
}

impl Registry {
    fn start(scratch: &Path) -> Self {
        // Verdaccio depends on a tag of node-fetch that is gone, for a check that it does not make here.
        let project = r#"{"private": true, "overrides": {"node-fetch": "2.7.0"}}"#;
        let verdaccio = node::install_with("verdaccio", &["verdaccio@6.10.4"], project);
        let config = scratch.join("verdaccio.yaml");
        let settings = json!({
            "storage": scratch.join("storage"),
            "packages": {"**": {"access": "$all", "publish": "$anonymous"}},
            "max_body_size": "100mb",
            "log": {"type": "stdout", "format": "json", "level": "warn"},
        });
        fs::write(&config, settings.to_string()).unwrap();
        let address = format!("127.0.0.1:{}", free_port());
        let mut process = Command::new(verdaccio.node())
            .arg(verdaccio.package("verdaccio/bin/verdaccio"))
            .args(["--listen", &address, "--config"])
            .arg(&config)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = Journal::new();
        host::follow(BufReader::new(process.stdout.take().unwrap()), &output);
        output.wait("the registry to listen", |line: &String| {
            line.contains("http address")
        });
        let userconfig = scratch.join("npmrc");
        // npm publishes only with a token, and this registry checks none.
        let lines = format!("registry=http://{address}/\n//{address}/:_authToken=none\n");
        fs::write(&userconfig, lines).unwrap();
        Self {
            process,
            userconfig,
        }
    }

    /// Publishes a package with npm.
    fn publish(&self, tarball: &Path) {
        let mut npm = Command::new("npm");
        npm.args(["publish", "--loglevel=error"]).arg(tarball);
        npm.env("npm_config_userconfig", &self.userconfig);
        success(&npm.output().unwrap());
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
