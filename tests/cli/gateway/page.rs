//! The operator's page of a gateway in a real browser.

use serde_json::json;

use super::*;
use crate::gateway::server::digest;
use crate::serve::chromium::Browser;

const HOSTILE: &str = "<img src=x onerror=\"document.title='taken'\">";

fn page(url: &str) -> String {
    url.replace("ws://", "http://")
}

/// Returns the text of a row whose text contains `word`.
fn row_with(table: &str, text: &str) -> String {
    format!(
        "[...document.querySelectorAll('#{table} tr')].find((row) => row.textContent.includes({text:?}))?.textContent"
    )
}

async fn at(url: &str, args: &[&str]) -> bool {
    let ended = run(&[&["gateway"], args, &["--url", url]].concat()).await;
    ended.status.success()
}

#[tokio::test]
async fn page_shows_agents_votes_and_messages_without_texts() {
    let folder = scratch("gateway-page");
    let (_gateway, url) = Running::gateway(&folder, &[]);
    let mut browser = Browser::start("gateway");
    browser.open(&page(&url));
    browser.until(&format!(
        "{}?.includes('offline')",
        row_with("agent-rows", "alpha")
    ));
    let _members = ["alpha", "beta", "charlie"]
        .map(|name| Running::agent(&url, name, &["--vote", "approve", "--delay-ms", "50"]));
    let _coder = Running::agent(&url, "coder", &["--reply", HOSTILE]);
    browser.until(&format!(
        "{}?.includes('online')",
        row_with("agent-rows", "alpha")
    ));
    assert!(at(&url, &["request", "--to", "coder", HOSTILE]).await);
    assert!(at(&url, &["vote", "Ship", "it", "--id", "release-7"]).await);
    browser.until(&format!(
        "{}?.includes('approved')",
        row_with("proposal-rows", "release-7")
    ));
    browser.until(&format!(
        "{}?.includes('approve')",
        row_with("event-rows", "vote")
    ));
    let shown = browser.run("document.querySelector('main').textContent");
    assert!(!shown.as_str().unwrap().contains("onerror"), "{shown}");
    browser.click("#texts");
    // A page that requests texts receives those of later messages only.
    assert!(at(&url, &["request", "--to", "coder", HOSTILE]).await);
    browser.until(&format!(
        "{} !== undefined",
        row_with("event-rows", "onerror")
    ));
    assert_eq!(
        browser.run("document.querySelectorAll('main img').length"),
        0
    );
    assert_ne!(browser.run("document.title"), "taken");
    let files = [
        ("light", "gateway-page.png"),
        ("dark", "gateway-page-dark.png"),
    ];
    let pictures = files.map(|(scheme, file)| {
        let feature = json!({"name": "prefers-color-scheme", "value": scheme});
        browser.call("Emulation.setEmulatedMedia", json!({"features": [feature]}));
        browser.picture(file)
    });
    assert_ne!(pictures[0], pictures[1]);
    for picture in pictures {
        let colours = browser.colours(&picture);
        assert!(colours > 50, "a picture has {colours} colours");
    }
    assert!(browser.errors.is_empty(), "{:?}", browser.errors);
}

#[tokio::test]
async fn page_shows_how_the_gateway_runs_an_agent() {
    use gateway_server::clients::{Connector, Endpoint};

    let folder = scratch("gateway-page-run");
    let config = json!({"agents": [
        {"name": "coder", "role": "Developer", "backend": {"run": "cat"}},
    ]});
    std::fs::write(folder.join("gateway.json"), config.to_string()).unwrap();
    let (_gateway, url) = Running::gateway(&folder, &[]);
    let mut watch = Running::start(&["gateway", "watch", "--json", "--url", &url]);
    watch.until_status("coder", "online");
    let connector = Connector::new().unwrap();
    let endpoint = Endpoint::new(url.parse().unwrap());
    let mut requester = connector.connect(endpoint).await.unwrap();
    let restart = requester.manage("agents.restart", json!({"agent": "coder"}));
    restart.await.unwrap();
    watch.until_status("coder", "offline");
    watch.until_status("coder", "online");
    let mut browser = Browser::start("gateway-run");
    browser.open(&page(&url));
    browser.until(&format!(
        "{}?.includes('1, ended last: ')",
        row_with("agent-rows", "coder")
    ));
    assert!(browser.errors.is_empty(), "{:?}", browser.errors);
}

#[tokio::test]
async fn page_keeps_its_key_in_the_tab() {
    let folder = scratch("gateway-page-key");
    let key = "correct horse battery staple";
    let digest = digest(key);
    let config = json!({
        "auth": {"keys": [{"name": "me", "sha256": digest, "roles": ["operator"]}]},
        "roles": {"operator": {"subscribe": true, "request": ["gateway"], "workspaces": ["*"]}},
    });
    let file = folder.join("gateway.json");
    std::fs::write(&file, config.to_string()).unwrap();
    let (_gateway, url) = Running::gateway(&folder, &["--config", file.to_str().unwrap()]);
    let mut browser = Browser::start("gateway-key");
    browser.open(&page(&url));
    browser.until("!document.querySelector('#sign-in').hidden");
    assert_eq!(
        browser.run("document.querySelectorAll('#agent-rows tr').length"),
        0
    );
    let enter = |key: &str| {
        format!(
            "document.querySelector('#token').value = {key:?}; document.querySelector('#sign-in').requestSubmit()"
        )
    };
    browser.run(&enter("wrong"));
    browser.until("!document.querySelector('#trouble').hidden");
    browser.until("!document.querySelector('#sign-in').hidden");
    browser.run(&enter(key));
    browser.until("document.querySelectorAll('#agent-rows tr').length > 0");
    assert_eq!(browser.run("document.querySelector('#token').value"), "");
    let everything = browser.run("document.documentElement.outerHTML + location.href");
    assert!(!everything.as_str().unwrap().contains(key));
}
