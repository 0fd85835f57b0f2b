//! `remote-agent add`: by address, by domain, by search and by a card.

use std::fs;

use serde_json::{Value, json};
use testkit::conformance::peers::Peers;

use crate::cli::{process::ProcessOutput, support::*};

/// Starts a server whose catalog has these entries, with its card at the usual path.
async fn harbour(entries: Value) -> Peers {
    let catalog = json!({"json": {"specVersion": "1.0", "entries": entries}});
    let found = json!({"json": {"results": [entry("pilot")]}});
    let routes = json!({"GET /.well-known/ai-catalog.json": catalog, "POST /search": found});
    let desk = json!({"card": card(), "routes": routes, "rpc": {"message/send": {"result": message("pong")}}});
    start_peer(desk).await
}

fn entry(name: &str) -> Value {
    json!({"identifier": format!("urn:air:127.0.0.1:agent:{name}"), "type": "application/a2a-agent-card+json",
        "url": "{{origin}}/.well-known/agent-card.json"})
}

/// Returns the entry with its card inside.
fn inline() -> Value {
    let mut entry = entry("inline");
    entry.as_object_mut().unwrap().remove("url");
    entry["data"] = card();
    entry
}

fn domain(peers: &Peers) -> String {
    peers.origin("desk").replace("http://", "")
}

/// A file that does not exist yet.
fn new_file(test: &str) -> String {
    scratch(test)
        .join("agents.json")
        .to_str()
        .unwrap()
        .to_owned()
}

async fn add(file: &str, args: &[&str]) -> ProcessOutput {
    run(&[&["add", "--config", file], args].concat()).await
}

fn targets(file: &str) -> Value {
    let settings: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    settings["targets"].clone()
}

#[tokio::test]
async fn agent_at_an_address_is_written_once() {
    let peers = harbour(json!([])).await;
    let origin = peers.origin("desk");
    let file = new_file("add-url");
    let card = format!("{origin}/.well-known/agent-card.json");
    for (place, change) in [(origin, "added"), (&card, "unchanged")] {
        let output = add(&file, &[place]).await;
        assert_eq!(output.status.code(), Some(0), "{}", output.stderr);
        assert_contains(&output.stdout, &[change, "Help Desk at http://127.0.0.1:"]);
        assert_contains(&output.stderr, &["next: remote-agent send --config"]);
    }
    let alias = domain(&peers).replace(':', "-");
    assert_eq!(
        targets(&file),
        json!([{"alias": alias, "baseUrl": origin, "default": true}])
    );
    let sent = run(&["send", "--config", &file, "ping"]).await;
    assert_contains(&sent.stdout, &["pong"]);
    let changed = add(&file, &[origin, "--json", "--description", "Berths"]).await;
    assert_eq!(json_lines(&changed)[0]["change"], "changed");
    assert_eq!(targets(&file)[0]["description"], "Berths");
    let twice = add(&file, &[origin, "--alias", "second"]).await;
    assert_contains(&twice.stderr, &["is already `127.0.0.1-", "`--force`"]);
    let other = add(&file, &["https://other.example", "--alias", &alias]).await;
    assert_contains(&other.stderr, &["it is the agent at http://127.0.0.1:"]);
}

#[tokio::test]
async fn domain_is_listed_and_the_picked_agent_is_written() {
    let peers = harbour(json!([entry("pilot"), inline()])).await;
    let file = new_file("add-domain");
    let listed = add(&file, &[&domain(&peers)]).await;
    assert_eq!(listed.status.code(), Some(2), "{}", listed.stderr);
    assert_contains(
        &listed.stdout,
        &[
            "1. Help Desk",
            "skills: Triage",
            "2. Help Desk",
            "card: inside",
        ],
    );
    assert_contains(
        &listed.stderr,
        &["nothing was added; pick one with `--pick NUMBER`"],
    );
    assert!(!fs::exists(&file).unwrap());
    let picked = add(&file, &[&domain(&peers), "--pick", "1", "--alias", "pilot"]).await;
    assert_eq!(picked.status.code(), Some(0), "{}", picked.stderr);
    let origin = peers.origin("desk");
    let card = format!("{origin}/.well-known/agent-card.json");
    let expected = json!([{"alias": "pilot", "baseUrl": origin, "cardUrl": card, "default": true}]);
    assert_eq!(targets(&file), expected);
}

#[tokio::test]
async fn card_of_a_catalog_needs_a_yes() {
    let peers = harbour(json!([inline()])).await;
    let file = new_file("add-inline");
    let refused = add(&file, &[&domain(&peers), "--pick", "1"]).await;
    assert_eq!(refused.status.code(), Some(2));
    assert_contains(
        &refused.stderr,
        &["leads calls to http://127.0.0.1:", "`--yes`"],
    );
    assert!(!fs::exists(&file).unwrap());
    let accepted = add(&file, &[&domain(&peers), "--pick", "1", "--yes"]).await;
    assert_eq!(accepted.status.code(), Some(0), "{}", accepted.stderr);
    assert_eq!(targets(&file)[0]["card"]["name"], "Help Desk");
    let sent = run(&["send", "--config", &file, "ping"]).await;
    assert_contains(&sent.stdout, &["pong"]);
    let is_card = |path: &str| path == "/.well-known/agent-card.json";
    let fetched = peers
        .log("desk")
        .iter()
        .filter(|request| is_card(&request.path))
        .count();
    assert_eq!(fetched, 0);
}

#[tokio::test]
async fn registry_is_searched() {
    let peers = harbour(json!([])).await;
    let file = new_file("add-search");
    let registry = peers.origin("desk");
    let search = ["--search", "book a berth", "--registry", registry];
    let listed = add(&file, &search).await;
    assert_contains(
        &listed.stdout,
        &["1. Help Desk", "urn:air:127.0.0.1:agent:pilot"],
    );
    let picked = add(&file, &[&search[..], &["--pick", "Help Desk"]].concat()).await;
    assert_eq!(picked.status.code(), Some(0), "{}", picked.stderr);
    let asked = peers
        .log("desk")
        .into_iter()
        .find(|request| request.path == "/search");
    let body = asked.unwrap().body.unwrap();
    assert_eq!(body["query"]["text"], "book a berth");
    assert_eq!(body["federation"], "none");
}

#[tokio::test]
async fn card_in_a_file_is_called_at_the_endpoint() {
    let peers = harbour(json!([])).await;
    let origin = peers.origin("desk");
    let file = new_file("add-card");
    let card_file = file.replace("agents.json", "card.json");
    let text = card()
        .to_string()
        .replace("{{origin}}", "https://away.example");
    fs::write(&card_file, text).unwrap();
    let endpoint = format!("{origin}/a2a/jsonrpc");
    let output = add(&file, &[&card_file, "--endpoint", &endpoint]).await;
    assert_eq!(output.status.code(), Some(0), "{}", output.stderr);
    let target = &targets(&file)[0];
    assert_eq!(
        (&target["card"], &target["alias"]),
        (&json!(card_file), &json!("away"))
    );
    let sent = run(&["send", "--config", &file, "ping"]).await;
    assert_contains(&sent.stdout, &["pong"]);
    let doctor = run(&["doctor", "--config", &file]).await;
    assert_contains(&doctor.stdout, &["away: its card is in the settings"]);
    assert!(
        peers
            .log("desk")
            .iter()
            .all(|request| !request.path.contains("card"))
    );
}

#[tokio::test]
async fn failed_check_writes_nothing_without_force() {
    let peers = Peers::start(&json!({"peers": {"desk": {"unreachable": true}}}))
        .await
        .unwrap();
    let origin = peers.origin("desk");
    let file = new_file("add-force");
    let failed = add(&file, &[origin]).await;
    assert_eq!(failed.status.code(), Some(3), "{}", failed.stderr);
    assert_contains(
        &failed.stderr,
        &["cannot call the agent", "Nothing was added"],
    );
    assert!(!fs::exists(&file).unwrap());
    let forced = add(&file, &[origin, "--force"]).await;
    assert_eq!(forced.status.code(), Some(0), "{}", forced.stderr);
    assert_contains(&forced.stderr, &["warn: cannot call the agent"]);
    assert!(!forced.stderr.contains("Nothing"), "{}", forced.stderr);
    assert_contains(&forced.stdout, &["added `"]);
    assert_eq!(targets(&file)[0]["baseUrl"], origin);
}

#[tokio::test]
async fn output_of_card_leads_to_its_agent() {
    let peers = harbour(json!([])).await;
    let origin = peers.origin("desk");
    let file = new_file("add-printed-card");
    let printed = run(&["card", "--url", origin]).await;
    let card_file = file.replace("agents.json", "printed.json");
    fs::write(&card_file, &printed.stdout).unwrap();
    let output = add(&file, &[&card_file]).await;
    assert_eq!(output.status.code(), Some(0), "{}", output.stderr);
    let target = &targets(&file)[0];
    assert_eq!(
        (&target["baseUrl"], &target["card"]),
        (&json!(origin), &Value::Null)
    );
    let sent = run(&["send", "--config", &file, "ping"]).await;
    assert_contains(&sent.stdout, &["pong"]);
}

#[tokio::test]
async fn card_that_was_there_when_the_agent_was_added_is_the_accepted_one() {
    let mut other = card();
    other["url"] = json!("{{origin}}/elsewhere");
    // The last one is for the first call.
    let shown = |card: &Value| json!({"json": card, "headers": {"cache-control": "no-store"}});
    let cards = [&card(), &card(), &other].map(shown);
    let desk = json!({"routes": {"GET /.well-known/agent-card.json": cards}, "rpc": {}});
    let peers = start_peer(desk).await;
    let file = new_file("add-pins");
    let state = file.replace("agents.json", "state");
    let settings = json!({"stateDir": state, "defaults": {"pins": "enforce"}});
    fs::write(&file, settings.to_string()).unwrap();
    let output = add(&file, &[peers.origin("desk")]).await;
    assert_eq!(output.status.code(), Some(0), "{}", output.stderr);
    let sent = run(&["send", "--config", &file, "ping"]).await;
    assert_contains(&sent.stderr, &["is not the one that was accepted"]);
    let shown = run(&["pin", "--config", &file]).await;
    assert_contains(
        &shown.stdout,
        &["(operator", "its card has the fingerprint "],
    );
}

#[tokio::test]
async fn settings_of_openclaw_are_changed_by_openclaw() {
    let entries = json!({"remote-agent": {"config": {}}});
    let file = config_file("add-openclaw", &json!({"plugins": {"entries": entries}}));
    let refused = add(&file, &["https://desk.example"]).await;
    assert_eq!(refused.status.code(), Some(2));
    assert_contains(
        &refused.stderr,
        &["run `openclaw remote-agent add https://desk.example`"],
    );
}

#[tokio::test]
async fn credential_is_written_as_a_reference_and_sent_to_no_catalog() {
    let peers = harbour(json!([entry("pilot")])).await;
    let file = new_file("add-credential");
    let domain = domain(&peers);
    let args = [
        "add",
        "--config",
        &file,
        &domain,
        "--pick",
        "1",
        "--bearer-env",
        "DESK_TOKEN",
    ];
    let output = run_with_env(&args, ("DESK_TOKEN", "s3cret-token")).await;
    assert_eq!(output.status.code(), Some(0), "{}", output.stderr);
    let token = &targets(&file)[0]["auth"]["token"];
    assert_eq!(*token, json!({"source": "env", "id": "DESK_TOKEN"}));
    let log = peers.log("desk");
    let catalogs = log
        .iter()
        .filter(|request| request.path != "/a2a/jsonrpc" && request.path.contains("ai-catalog"));
    assert_eq!(catalogs.clone().count(), 1);
    assert!(
        catalogs
            .into_iter()
            .all(|request| !request.headers.contains_key("authorization"))
    );
    assert!(
        log.iter()
            .any(|request| request.headers.contains_key("authorization"))
    );
}

#[tokio::test]
async fn place_that_is_nothing_is_explained() {
    let file = new_file("add-nothing");
    for (args, part) in [
        (&["x/y"][..], "try `https://x/y`"),
        (&["ftp://x"], "no URL, no domain, and no file"),
        (&["card.json"], "no file that exists"),
        (&["./card.json"], "no file that exists"),
        (&[], "required"),
        (&["--search", "x"], "--registry"),
        (
            &[
                "a.example",
                "--registry",
                "https://r.example",
                "--search",
                "x",
            ],
            "cannot be used",
        ),
    ] {
        let output = add(&file, args).await;
        assert_contains(&output.stderr, &[part]);
        assert!(!output.status.success(), "{args:?}");
    }
}

#[tokio::test]
async fn credential_goes_to_no_other_origin_without_a_yes() {
    let other = start_desk(json!({})).await;
    let mut entry = entry("pilot");
    entry["url"] = json!(format!(
        "{}/.well-known/agent-card.json",
        other.origin("desk")
    ));
    let peers = harbour(json!([entry])).await;
    let file = new_file("add-foreign");
    let domain = domain(&peers);
    let args = [
        "add",
        "--config",
        &file,
        &domain,
        "--pick",
        "1",
        "--allow-private",
        "--bearer-env",
        "DESK_TOKEN",
    ];
    let token = ("DESK_TOKEN", "s3cret-token");
    let refused = run_with_env(&args, token).await;
    assert_eq!(refused.status.code(), Some(2), "{}", refused.stderr);
    assert_contains(
        &refused.stderr,
        &[
            "odd: the card is at another origin",
            "would get the credential",
            "`--yes`",
        ],
    );
    let is_secret = |peers: &Peers| {
        let log = peers.log("desk");
        log.iter()
            .any(|request| request.headers.contains_key("authorization"))
    };
    assert!(!is_secret(&other) && !fs::exists(&file).unwrap());
    let accepted = run_with_env(&[&args[..], &["--yes"]].concat(), token).await;
    assert_eq!(accepted.status.code(), Some(0), "{}", accepted.stderr);
    assert!(is_secret(&other));
}
