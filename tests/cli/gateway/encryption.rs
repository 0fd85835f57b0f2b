//! Encrypted sessions, with the commands of operators.

use std::{collections::BTreeMap, fs, path::PathBuf, process::Stdio, sync::Arc};

use base::{environment::SystemEnvironment, files, log::Silent};
use gateway_server::{config::ServerConfig, sessions::Sessions};

use super::*;

const KEYS: [&str; 2] = [
    "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8",
    "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8",
];

/// A state directory with the key files `key-0` and `key-1`.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let folder = scratch(name);
        for (key, number) in KEYS.iter().zip(0..) {
            files::replace_private(&folder.join(format!("key-{number}")), key).unwrap();
        }
        Self(folder)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    /// Writes the configuration with these keys.
    fn configure(&self, keys: &[&str]) {
        let keys: Vec<_> = keys.iter().map(|key| json!({"keyFile": key})).collect();
        let config = match keys.is_empty() {
            true => json!({}),
            false => json!({"sessions": {"encryption": {"keys": keys}}}),
        };
        fs::write(self.0.join("gateway.json"), config.to_string()).unwrap();
    }

    async fn sessions(&self, args: &[&str]) -> crate::cli::process::ProcessOutput {
        run(&[
            &["gateway", "sessions"],
            args,
            &["--state-dir", self.path()],
        ]
        .concat())
        .await
    }

    /// Imports a session with this number of entries.
    async fn import(&self, session: &str, entries: usize) {
        let line = |i| {
            json!({"timestamp": 1_711_843_200_000_u64, "role": "user", "content": format!("confidential {i}"),
                "sessionId": session, "id": format!("m{i}")})
        };
        let lines: Vec<_> = (0..entries).map(|i| line(i).to_string()).collect();
        let file = self.0.join("import.jsonl");
        fs::write(&file, lines.join("\n")).unwrap();
        let imported = self
            .sessions(&["import", "alpha", file.to_str().unwrap()])
            .await;
        assert_exit_code(&imported, 0);
        fs::remove_file(file).unwrap();
    }

    fn file(&self, session: &str) -> PathBuf {
        self.0
            .join(format!("agents/alpha/sessions/{session}.jsonl"))
    }
}

#[tokio::test]
async fn sessions_are_encrypted_rekeyed_and_decrypted() {
    let place = Place::new("gateway-encrypted");
    let text = || fs::read_to_string(place.file("s")).unwrap();
    place.import("s", 2).await;
    let has_form = async |form: &str| {
        let listed = place.sessions(&["list", "--json"]).await;
        assert_has(
            &json_lines(&listed)[0]["sessions"][0],
            json!({"form": form}),
        );
        let table = place.sessions(&["list"]).await;
        assert_contains(&table.stdout, &["FORM", form]);
    };
    has_form("plain").await;
    let plain = text();
    let refused = place.sessions(&["rekey"]).await;
    assert_exit_code(&refused, 1);
    assert_contains(&refused.stderr, &["sessions.encryption.keys"]);
    let read = async || {
        let got = place.sessions(&["get", "alpha", "s"]).await;
        assert_exit_code(&got, 0);
        assert_contains(
            &got.stdout,
            &["user: confidential 0", "user: confidential 1"],
        );
    };
    for (keys, sessions) in [
        (&["key-0"][..], 1),
        (&["key-0"], 0),
        (&["key-1", "key-0"], 1),
    ] {
        place.configure(keys);
        let done = place.sessions(&["rekey", "--json"]).await;
        let counts = json!({"rewritten": sessions, "unchanged": 1 - sessions, "failed": 0});
        assert_has(&json_lines(&done)[0], counts);
        assert!(!text().contains("confidential"));
        has_form("encrypted").await;
        read().await;
    }
    // Without its key, the session is named and left.
    let encrypted = text();
    for keys in [&[][..], &["key-0"]] {
        place.configure(keys);
        for args in [
            &["get", "alpha", "s"][..],
            &["export", "alpha", "s"],
            &["commit", "alpha", "s"],
            &["archive", "alpha", "--older-than", "0s"],
        ] {
            let refused = place.sessions(args).await;
            assert_exit_code(&refused, 1);
            assert_contains(&refused.stderr, &["is encrypted with the key `"]);
        }
        let listed = place.sessions(&["list"]).await;
        assert_contains(&listed.stdout, &["no-key"]);
        assert_contains(&listed.stderr, &["sessions.encryption.keys"]);
        assert_eq!(text(), encrypted);
    }
    let failed = place.sessions(&["rekey"]).await;
    assert_exit_code(&failed, 1);
    assert_contains(&failed.stdout, &["1 failed"]);
    assert_eq!(failed.stderr.lines().count(), 1, "{}", failed.stderr);
    place.configure(&["key-1"]);
    let (gateway, _url) = GatewayProcess::gateway(&place.0, &[]);
    let locked = place.sessions(&["rekey", "--plain"]).await;
    assert_exit_code(&locked, 1);
    assert_contains(&locked.stderr, &["a gateway uses the sessions"]);
    drop(gateway);
    let decrypted = place.sessions(&["rekey", "--plain"]).await;
    assert_contains(&decrypted.stdout, &["decrypted 1 session;"]);
    place.configure(&[]);
    read().await;
    assert_eq!(text(), plain);
}

#[cfg(unix)]
#[tokio::test]
async fn unusable_key_is_named_before_the_start() {
    let place = Place::new("gateway-key-mode");
    place.configure(&["key-0"]);
    let key = place.0.join("key-0");
    fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    for args in [
        &["gateway", "--port", "0"][..],
        &["gateway", "validate"],
        &["gateway", "sessions", "list"],
    ] {
        let refused = run(&[args, &["--state-dir", place.path()]].concat()).await;
        assert_exit_code(&refused, 2);
        let shown = ["/sessions/encryption/keys/0/keyFile", "600"];
        assert_contains(&refused.stderr, &shown);
    }
}

/// The system kills the command at a write beyond a limit of file sizes, which rises.
#[cfg(unix)]
#[tokio::test]
async fn killed_rekey_leaves_every_session_readable() {
    use std::os::unix::process::ExitStatusExt as _;
    const KILLED_SCRIPT: &str = "ulimit -c 0; ulimit -f \"$0\"; exec \"$@\"";
    let place = Place::new("gateway-killed-rekey");
    let sizes: BTreeMap<String, usize> = (1..=9).map(|i| (format!("s{i}"), i * 12)).collect();
    for (session, entries) in &sizes {
        place.import(session, *entries).await;
    }
    place.configure(&["key-0"]);
    let (mut kills, mut finished) = (0, false);
    for blocks in (1..=64).step_by(3) {
        let status = std::process::Command::new("sh")
            .args(["-c", KILLED_SCRIPT, &blocks.to_string()])
            .arg(env!("CARGO_BIN_EXE_remote-agent"))
            .args(["gateway", "sessions", "rekey", "--state-dir", place.path()])
            .stdout(Stdio::null())
            .status()
            .unwrap();
        kills += usize::from(status.signal().is_some());
        let config = ServerConfig::read(&place.0.join("gateway.json")).unwrap();
        let config = ServerConfig {
            state_dir: place.0.clone(),
            ..config
        };
        let sessions = Sessions::read_only(&config, Arc::new(SystemEnvironment), Arc::new(Silent));
        let sessions = sessions.unwrap();
        for (session, entries) in &sizes {
            let mut lines = Vec::new();
            let exported = sessions.export("alpha", session, &mut lines).unwrap();
            assert_eq!(exported, *entries as u64, "{session} after {blocks} blocks");
        }
        finished = status.success();
        if finished {
            break;
        }
    }
    assert!(finished && kills > 2, "{kills} kills");
    for file in fs::read_dir(place.file("s1").parent().unwrap())
        .unwrap()
        .flatten()
    {
        let text = fs::read_to_string(file.path()).unwrap();
        assert!(!text.contains("confidential"), "{:?}", file.path());
        assert!(file.path().extension().is_some_and(|it| it == "jsonl"));
    }
}

/// The script of the documentation, on Node.js.
#[cfg(feature = "real")]
#[tokio::test]
async fn script_of_the_documentation_reads_and_writes_sessions() {
    use std::io::Write as _;
    let place = Place::new("gateway-script");
    let page = testkit::support::root("docs/reference/gateway.md");
    let page = fs::read_to_string(page).unwrap();
    let script = page
        .split_once("```js\n")
        .unwrap()
        .1
        .split_once("```")
        .unwrap()
        .0;
    let file = place.0.join("session-crypt.mjs");
    fs::write(&file, script).unwrap();
    let node = crate::support::node::install("node", &[]).node();
    let convert = |mode: &str, lines: &str| {
        let mut command = std::process::Command::new(&node);
        command.arg(&file).args([mode, KEYS[0], "alpha"]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(lines.as_bytes()).unwrap();
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    place.import("s", 3).await;
    let plain = fs::read_to_string(place.file("s")).unwrap();
    place.configure(&["key-0"]);
    assert_exit_code(&place.sessions(&["rekey"]).await, 0);
    let encrypted = fs::read_to_string(place.file("s")).unwrap();
    assert_eq!(convert("decrypt", &encrypted), plain);
    fs::write(place.file("s"), convert("encrypt", &plain)).unwrap();
    let got = place.sessions(&["get", "alpha", "s"]).await;
    assert_contains(
        &got.stdout,
        &["user: confidential 0", "user: confidential 2"],
    );
    assert_exit_code(&place.sessions(&["rekey", "--plain"]).await, 0);
    assert_eq!(fs::read_to_string(place.file("s")).unwrap(), plain);
}
