//! Selects the gateway of a command; its files, agents and sessions.

use super::*;

/// Returns the permissions of a file or folder.
#[cfg(unix)]
fn permissions(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[cfg(unix)]
#[tokio::test]
async fn create_writes_files_for_the_owner_only() {
    let folder = scratch("gateway-modes");
    let (state, etc) = (folder.join("state"), folder.join("etc"));
    let file = etc.join("gateway.json");
    let args = ["gateway", "agents", "create", "reviewer", "--role", "R"];
    let (config, dir) = (file.to_str().unwrap(), state.to_str().unwrap());
    let first = run(&[&args[..], &["--state-dir", dir]].concat()).await;
    assert_exit_code(&first, 0);
    for path in [
        &state,
        &state.join("agents"),
        &state.join("agents/reviewer"),
    ] {
        assert_eq!(permissions(path), 0o700, "{}", path.display());
    }
    assert_eq!(permissions(&state.join("gateway.json")), 0o600);
    std::fs::create_dir(&etc).unwrap();
    std::fs::write(&file, "{}").unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();
    let other = run(&[&args[..], &["--state-dir", dir, "--config", config]].concat()).await;
    assert_exit_code(&other, 0);
    // An existing file keeps its permissions.
    assert_eq!(permissions(&file), 0o640);
}

/// Returns every file and folder below a folder that other users may read.
#[cfg(unix)]
fn paths_readable_by_others(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if permissions(&path) & 0o077 != 0 {
            found.push(path.clone());
        }
        if path.is_dir() {
            found.extend(paths_readable_by_others(&path));
        }
    }
    found
}

#[cfg(unix)]
#[tokio::test]
async fn gateway_files_are_private() {
    let folder = scratch("gateway-private");
    let state = folder.join("state");
    let (gateway, url) = GatewayProcess::gateway(&state, &[]);
    let alpha = GatewayProcess::agent(&url, "alpha", &[]);
    let common_args = ["--state-dir", state.to_str().unwrap(), "--url", &url];
    let create = ["gateway", "agents", "create", "reviewer", "--role", "R"];
    assert_exit_code(&run(&[&create[..], &common_args].concat()).await, 0);
    let send = ["send", "--gateway", &url, "--target", "alpha", "hello"];
    assert_exit_code(&run(&send).await, 0);
    let archive = words("gateway sessions archive alpha --older-than 0s");
    assert_exit_code(&run(&[&archive[..], &common_args].concat()).await, 0);
    drop((alpha, gateway));
    assert_eq!(
        paths_readable_by_others(&folder),
        Vec::<std::path::PathBuf>::new()
    );
}

#[tokio::test]
async fn running_gateway_registers_created_agent() {
    let folder = scratch("gateway-informed");
    let (_gateway, url) = GatewayProcess::gateway(&folder, &[]);
    let common_args = ["--state-dir", folder.to_str().unwrap(), "--url", &url];
    let create = [
        "gateway", "agents", "create", "reviewer", "--role", "Reviewer",
    ];
    let created = run(&[&create[..], &common_args].concat()).await;
    assert_exit_code(&created, 0);
    let status = run(&["gateway", "agents", "status", "reviewer", "--url", &url]).await;
    assert_exit_code(&status, 1);
    assert_contains(&status.stdout, &["Reviewer", "offline"]);
}

/// Returns the command line that creates the agent `reviewer`.
fn create_reviewer(state: &str, url: &str) -> String {
    format!("gateway agents create reviewer --role R --state-dir '{state}' --url {url}")
}

#[tokio::test]
async fn relative_state_directory_matches_the_running_gateway() {
    let folder = scratch("gateway-relative");
    let (_gateway, url) = GatewayProcess::gateway(&folder.join("state"), &[]);
    let create = create_reviewer("state", &url);
    let created = command(&words(&create))
        .current_dir(&folder)
        .spawn()
        .unwrap();
    let created = wait_for_output(created).await;
    assert_exit_code(&created, 0);
    assert_contains(&created.stderr, &["knows it"]);
}

#[tokio::test]
async fn gateway_with_other_state_is_not_notified() {
    let (own, other) = (
        scratch("gateway-create-ours"),
        scratch("gateway-create-theirs"),
    );
    let (_gateway, url) = GatewayProcess::gateway(&other, &[]);
    let state = own.to_str().unwrap();
    let created = run_line(&create_reviewer(state, &url)).await;
    assert_exit_code(&created, 0);
    assert_contains(&created.stderr, &["another state directory"]);
    let status = run(&["gateway", "agents", "status", "reviewer", "--url", &url]).await;
    assert_exit_code(&status, 2);
}

#[tokio::test]
async fn call_to_offline_agent_is_reported() {
    let folder = scratch("gateway-offline");
    let (_gateway, url) = GatewayProcess::gateway(&folder, &[]);
    let status = run(&["gateway", "agents", "status", "beta", "--url", &url]).await;
    assert_exit_code(&status, 1);
    assert_contains(&status.stderr, &["`beta` is offline"]);
    let restart = run(&["gateway", "agents", "restart", "beta", "--url", &url]).await;
    assert_exit_code(&restart, 1);
    assert_contains(&restart.stderr, &["`beta`: it is offline"]);
    assert!(!restart.stderr.contains("message"), "{}", restart.stderr);
}

#[tokio::test]
async fn gateway_commands_share_their_directory() {
    let folder = scratch("gateway-place");
    let file = folder.join("own.json");
    let state = folder.join("state");
    std::fs::write(&file, r#"{"listen": "127.0.0.1:1", "stateDir": "state"}"#).unwrap();
    let (_gateway, url) = GatewayProcess::gateway(&state, &["--config", file.to_str().unwrap()]);
    let (file, state) = (file.display(), state.display());
    let common_args = format!("--config '{file}' --state-dir '{state}' --url {url}");
    for (command, code) in [
        ("sessions list", 0),
        ("agents list", 0),
        ("agents status alpha", 1),
        ("agents config alpha get", 0),
        ("agents restart alpha", 1),
        ("agents create reviewer --role R", 0),
        ("status", 0),
        ("validate", 0),
    ] {
        let output = run_line(&format!("gateway {command} {common_args}")).await;
        assert_exit_code(&output, code);
    }
}

#[tokio::test]
async fn gateway_is_found_by_its_configuration() {
    let folder = scratch("gateway-listen");
    let (_gateway, url) = GatewayProcess::gateway(&folder.join("state"), &[]);
    let file = folder.join("own.json");
    let listen = url.strip_prefix("ws://").unwrap();
    std::fs::write(
        &file,
        format!(r#"{{"listen": "{listen}", "stateDir": "state"}}"#),
    )
    .unwrap();
    let config = ["--config", file.to_str().unwrap()];
    for command in [&["status", "--json"][..], &["agents", "list", "--json"]] {
        let output = run(&[&["gateway"], command, &config].concat()).await;
        assert_exit_code(&output, 0);
        assert_eq!(output.stderr, "");
    }
}

#[tokio::test]
async fn validate_names_agents_unknown_to_the_gateway() {
    let folder = scratch("gateway-validate-url");
    let (_gateway, url) = GatewayProcess::gateway(&folder.join("state"), &[]);
    let file = folder.join("own.json");
    std::fs::write(
        &file,
        r#"{"agents": [{"name": "reviewer", "role": "R"}], "triad": {"members": ["a", "b", "c"]}}"#,
    )
    .unwrap();
    let validate = ["gateway", "validate", "--config", file.to_str().unwrap()];
    assert_exit_code(&run(&validate).await, 0);
    let checked = run(&[&validate[..], &["--url", &url]].concat()).await;
    assert_exit_code(&checked, 1);
    assert_contains(&checked.stderr, &["`reviewer`"]);
}

#[tokio::test]
async fn sessions_list_omits_archived_sessions() {
    let folder = scratch("gateway-archived");
    let common_args = ["--json", "--state-dir", folder.to_str().unwrap()];
    let sessions =
        async |args: &[&str]| run(&[&["gateway", "sessions"], args, &common_args].concat()).await;
    assert_exit_code(&sessions(&["create", "alpha", "--session", "old"]).await, 0);
    assert_exit_code(
        &sessions(&["archive", "alpha", "--older-than", "0s"]).await,
        0,
    );
    assert_exit_code(&sessions(&["create", "alpha", "--session", "new"]).await, 0);
    let listed = async |args: &[&str]| {
        let all = json_lines(&sessions(args).await)[0]["sessions"].take();
        let all = all.as_array().unwrap().clone();
        let ids = all
            .iter()
            .map(|one| one["sessionId"].as_str().unwrap().to_owned());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(listed(&["list"]).await, ["new"]);
    assert_eq!(listed(&["list", "--archived"]).await, ["new", "old"]);
}

#[tokio::test]
async fn audit_log_is_written_unless_disabled() {
    let folder = scratch("gateway-audit");
    let off = folder.join("off.json");
    std::fs::write(&off, r#"{"audit": {"enabled": false}}"#).unwrap();
    for (name, more, lines) in [
        ("on", &[][..], 2),
        ("off", &["--config", off.to_str().unwrap()], 0),
    ] {
        let state = folder.join(name);
        let (mut gateway, url) = GatewayProcess::gateway(&state, more);
        assert_exit_code(&run(&["gateway", "status", "--url", &url]).await, 0);
        interrupt(&gateway.child);
        gateway.child.wait().unwrap();
        let log = std::fs::read_to_string(state.join("audit.jsonl")).unwrap_or_default();
        assert!(log.lines().count() >= lines, "{name}: {log}");
        assert_eq!(log.is_empty(), lines == 0, "{name}: {log}");
    }
}
