//! Sign-in and sign-out, with an authorization server that a person uses at once.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use testkit::conformance::peers::Peers;

use crate::cli::support::*;

const TOKENS: [&str; 2] = ["s3cret-access-token", "s3cret-refresh-token"];

/// Starts an agent and its authorization server.
pub(crate) async fn start(token: Value) -> Peers {
    let device = json!({"device_code": "d", "user_code": "WDJB-MJHT", "interval": 0.01, "expires_in": 600,
        "verification_uri": "{{origin}}/go", "verification_uri_complete": "{{origin}}/go?code=WDJB-MJHT"});
    let token = match token {
        Value::Array(_) => token,
        _ => json!({ "json": token }),
    };
    let routes = json!({"POST /device": {"json": device}, "POST /token": token});
    let desk = json!({"card": card(), "rpc": {"message/send": {"result": message("pong")}}});
    let script = json!({"peers": {"desk": desk, "login": {"routes": routes}}});
    Peers::start(&script).await.unwrap()
}

pub(crate) fn token() -> Value {
    json!({"access_token": TOKENS[0], "refresh_token": TOKENS[1], "expires_in": 3600, "scope": "read write"})
}

/// Writes a configuration with a target for a sign-in, and `more` in its `auth`.
pub(crate) fn config(test: &str, peers: &Peers, more: &Value) -> String {
    let login = peers.origin("login");
    let mut auth = json!({"type": "oauth2", "grant": "device_code", "clientId": "cli",
        "tokenUrl": format!("{login}/token"), "deviceAuthorizationUrl": format!("{login}/device")});
    let more = more.as_object().unwrap().clone();
    auth.as_object_mut().unwrap().extend(more);
    let target = json!({"alias": "desk", "baseUrl": peers.origin("desk"), "auth": auth});
    config_file(
        test,
        &json!({"stateDir": scratch(&format!("{test}-state")), "targets": [target]}),
    )
}

#[tokio::test]
async fn person_signs_in_calls_and_signs_out() {
    let peers = start(token()).await;
    let config = config("sign-in", &peers, &json!({}));
    let run_with = async |command: &str, more: &[&str]| {
        let output = run(&[&[command, "--config", &config], more].concat()).await;
        let shown = format!("{}{}", output.stdout, output.stderr);
        assert!(!shown.contains("s3cret"), "{shown}");
        output
    };
    let before = run_with("doctor", &[]).await;
    assert_contains(
        &before.stdout,
        &[
            "desk: not signed in",
            &format!("`remote-agent sign-in --config {config} desk`"),
        ],
    );
    let faults = before
        .stdout
        .lines()
        .filter(|line| line.starts_with("error"));
    assert_eq!(faults.count(), 1, "{}", before.stdout);
    let refused = run_with("send", &["hello"]).await;
    assert_contains(
        &refused.stderr,
        &[&format!(
            "no person is signed in to this target; sign in with `remote-agent sign-in --config {config} desk`"
        )],
    );
    assert!(!refused.stderr.contains("what to do"), "{}", refused.stderr);
    let refused = run_with("send", &["--json", "hello"]).await;
    let message = json_lines(&refused).pop().unwrap()["error"]["message"].take();
    let command = format!("`remote-agent sign-in --config {config} desk`");
    assert!(message.as_str().unwrap().contains(&command), "{message}");

    let signed_in = run_with("sign-in", &["desk"]).await;
    assert_exit_code(&signed_in, 0);
    let login = peers.origin("login");
    assert_contains(
        &signed_in.stdout,
        &[
            &format!("Open {login}/go and enter the code WDJB-MJHT within 10 min"),
            &format!("or open {login}/go?code=WDJB-MJHT"),
            "desk: signed in now, scopes read write, renewed when needed",
        ],
    );
    assert_exit_code(&run_with("send", &["hello"]).await, 0);
    let sent = peers.log("desk").pop().unwrap();
    assert_eq!(
        sent.headers["authorization"],
        format!("Bearer {}", TOKENS[0])
    );
    for command in ["doctor", "targets"] {
        let output = run_with(command, &[]).await;
        assert_contains(&output.stdout, &["desk: signed in now, scopes read write"]);
        assert_exit_code(&output, 0);
    }

    let signed_out = run_with("sign-out", &[]).await;
    assert_contains(&signed_out.stdout, &["desk: signed out"]);
    let again = run_with("sign-out", &[]).await;
    assert_contains(&again.stdout, &["desk: there was no sign-in"]);
}

#[tokio::test]
async fn command_that_times_out_stores_the_renewed_sign_in() {
    let renewed =
        json!({"access_token": TOKENS[0], "refresh_token": "s3cret-rotated", "expires_in": 3600});
    let peers = start(json!([{"json": token()}, {"delay_ms": 1500, "json": renewed}])).await;
    let config = config("sign-in-rotated", &peers, &json!({}));
    assert_exit_code(&run(&["sign-in", "--config", &config]).await, 0);
    let settings: Value = serde_json::from_slice(&fs::read(&config).unwrap()).unwrap();
    let dir = Path::new(settings["stateDir"].as_str().unwrap()).join("tokens");
    let mut files = fs::read_dir(dir).unwrap().map(|file| file.unwrap().path());
    let file = files
        .find(|file| file.extension().is_some_and(|end| end == "json"))
        .unwrap();
    let read = || serde_json::from_slice::<Value>(&fs::read(&file).unwrap()).unwrap();
    let mut stored = read();
    stored["expiresAt"] = json!(1);
    fs::write(&file, stored.to_string()).unwrap();
    let output = run(&["send", "--config", &config, "--timeout", "500ms", "hello"]).await;
    assert_exit_code(&output, 5);
    assert_eq!(read()["refreshToken"], "s3cret-rotated");
}

#[tokio::test]
async fn each_person_has_a_token_of_their_own() {
    let peers = start(token()).await;
    let config = config("sign-in-per-user", &peers, &json!({"per": "user"}));
    let run_with = async |command: &str, more: &[&str]| {
        run(&[&[command, "--config", &config], more].concat()).await
    };
    let nameless = run_with("sign-in", &[]).await;
    assert_exit_code(&nameless, 2);
    assert_contains(&nameless.stderr, &["`--person NAME`"]);
    assert_exit_code(&run_with("sign-in", &["--person", "anna"]).await, 0);
    assert_exit_code(&run_with("send", &["--person", "anna", "hello"]).await, 0);
    let bob = run_with("send", &["--person", "bob", "hello"]).await;
    let command = format!("`remote-agent sign-in --config {config} desk --person bob`");
    assert_contains(&bob.stderr, &[&command]);
    let nameless = run_with("send", &["hello"]).await;
    assert_contains(
        &nameless.stderr,
        &["does not name the person", "`--person NAME`"],
    );
}

#[tokio::test]
async fn person_at_the_terminal_signs_in_during_a_send() {
    let pending = json!({"status": 400, "json": {"error": "authorization_pending"}});
    let peers = start(json!([pending, {"json": token()}])).await;
    let config = config("sign-in-ask", &peers, &json!({}));
    let sent = run_with_input(&["send", "--config", &config, "--ask", "hello"], "\n").await;
    assert_exit_code(&sent, 0);
    let login = peers.origin("login");
    assert_contains(
        &sent.stderr,
        &[
            &format!("sign in at {login}; open {login}/go?code=WDJB-MJHT"),
            "enter the code WDJB-MJHT",
        ],
    );
    assert_contains(&sent.stdout, &["pong"]);
}

#[tokio::test]
async fn declined_sign_in_exits_with_4() {
    let peers = start(json!({"error": "access_denied"})).await;
    let config = config("sign-in-declined", &peers, &json!({}));
    let output = run(&["sign-in", "--config", &config]).await;
    assert_exit_code(&output, 4);
    assert_contains(&output.stderr, &["the sign-in was declined"]);
}

#[tokio::test]
async fn target_without_a_sign_in_is_refused() {
    let peers = start_desk(json!({})).await;
    let output = run_subcommand(&peers, "sign-in", &["target"]).await;
    assert_exit_code(&output, 2);
    assert_contains(&output.stderr, &["`target` needs no sign-in"]);
    let output = run_subcommand(&peers, "sign-in", &["shop"]).await;
    assert_contains(&output.stderr, &["no target is named `shop`"]);
}

#[tokio::test]
async fn doctor_reads_the_metadata_of_an_issuer() {
    let peers = start(token()).await;
    let config = config("sign-in-issuer", &peers, &json!({}));
    let mut settings: Value = serde_json::from_slice(&fs::read(&config).unwrap()).unwrap();
    let auth = settings["targets"][0]["auth"].as_object_mut().unwrap();
    auth.retain(|name, _| !name.ends_with("Url"));
    auth.insert("issuer".to_owned(), json!(peers.origin("login")));
    fs::write(&config, settings.to_string()).unwrap();
    let output = run(&["doctor", "--config", &config]).await;
    assert_exit_code(&output, 4);
    assert_contains(
        &output.stdout,
        &[
            "desk: not signed in",
            "it has no metadata",
            "correct `auth.issuer`",
            "Correct `auth` of the target",
        ],
    );
}
