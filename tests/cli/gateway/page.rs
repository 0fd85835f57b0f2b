//! The operator's page of a gateway in a real browser.

use super::*;
use crate::gateway::server::digest;
use crate::serve::chromium::Browser;

const HOSTILE: &str = "<img src=x onerror=\"document.title='taken'\">";

fn page_url(url: &str) -> String {
    url.replace("ws://", "http://")
}

/// Returns a JavaScript expression for the text of the row that contains `text`.
fn row_text(table: &str, text: &str) -> String {
    format!(
        "[...document.querySelectorAll('#{table} tr')].find((row) => row.textContent.includes({text:?}))?.textContent"
    )
}

/// Waits until the row that contains `text` also contains `expected`.
#[track_caller]
fn wait_for_row(browser: &mut Browser, table: &str, text: &str, expected: &str) {
    let row = row_text(table, text);
    browser.wait_until(&format!("{row}?.includes({expected:?})"));
}

async fn run_gateway_command(url: &str, args: &[&str]) -> bool {
    let output = run(&[&["gateway"], args, &["--url", url]].concat()).await;
    output.status.success()
}

#[tokio::test]
async fn page_shows_agents_votes_and_messages_without_texts() {
    let folder = scratch("gateway-page");
    let (_gateway, url) = GatewayProcess::gateway(&folder, &[]);
    let mut browser = Browser::start("gateway");
    browser.open(&page_url(&url));
    wait_for_row(&mut browser, "agent-rows", "alpha", "offline");
    let _members = ["alpha", "beta", "charlie"]
        .map(|name| GatewayProcess::agent(&url, name, &["--vote", "approve", "--delay-ms", "50"]));
    let _coder = GatewayProcess::agent(&url, "coder", &["--reply", HOSTILE]);
    wait_for_row(&mut browser, "agent-rows", "alpha", "online");
    assert!(run_gateway_command(&url, &["request", "--to", "coder", HOSTILE]).await);
    assert!(run_gateway_command(&url, &["vote", "Ship", "it", "--id", "release-7"]).await);
    wait_for_row(&mut browser, "proposal-rows", "release-7", "approved");
    wait_for_row(&mut browser, "event-rows", "vote", "approve");
    let text = browser.evaluate("document.querySelector('main').textContent");
    assert!(!text.as_str().unwrap().contains("onerror"), "{text}");
    browser.click("#texts");
    // A page that requests texts receives those of later messages only.
    assert!(run_gateway_command(&url, &["request", "--to", "coder", HOSTILE]).await);
    browser.wait_until(&format!(
        "{} !== undefined",
        row_text("event-rows", "onerror")
    ));
    assert_eq!(
        browser.evaluate("document.querySelectorAll('main img').length"),
        0
    );
    assert_ne!(browser.evaluate("document.title"), "taken");
    browser.assert_fits_screens("gateway-page");
    let files = [
        ("light", "gateway-page.png"),
        ("dark", "gateway-page-dark.png"),
    ];
    let screenshots = files.map(|(scheme, file)| {
        browser.set_color_scheme(scheme);
        browser.screenshot(file)
    });
    assert_ne!(screenshots[0], screenshots[1]);
    for screenshot in screenshots {
        let colors = browser.count_colors(&screenshot);
        assert!(colors > 50, "a screenshot has {colors} colors");
    }
    assert!(browser.errors.is_empty(), "{:?}", browser.errors);
}

#[tokio::test]
async fn new_page_shows_earlier_proposals_and_late_votes() {
    let folder = scratch("gateway-page-late");
    let (_gateway, url) = GatewayProcess::gateway(&folder, &[]);
    let mut watch = GatewayProcess::watch(&url);
    let _members =
        ["alpha", "beta"].map(|name| GatewayProcess::agent(&url, name, &["--vote", "approve"]));
    let _charlie =
        GatewayProcess::agent(&url, "charlie", &["--vote", "reject", "--delay-ms", "1500"]);
    for _ in 0..3 {
        watch.wait_for_event(|event| event["status"] == "online");
    }
    assert!(run_gateway_command(&url, &["vote", "Ship", "--id", "release-8"]).await);
    watch.wait_for("late-vote");
    let mut browser = Browser::start("gateway-late");
    browser.open(&page_url(&url));
    wait_for_row(
        &mut browser,
        "proposal-rows",
        "release-8",
        "charlie reject, after the decision",
    );
    browser.wait_until(&format!(
        "{} !== undefined",
        row_text("event-rows", "the vote of charlie came after the decision")
    ));
    let text = browser.evaluate("document.querySelector('main').textContent");
    assert!(
        !text.as_str().unwrap().contains("INVALID_CONTENT"),
        "{text}"
    );
    browser.assert_fits_screens("gateway-page-late");
    assert!(browser.errors.is_empty(), "{:?}", browser.errors);
}

#[tokio::test]
async fn page_shows_how_the_gateway_runs_an_agent() {
    use gateway_bridge::client::{Connector, Endpoint};

    let folder = scratch("gateway-page-run");
    let config = json!({"agents": [
        {"name": "coder", "role": "Developer", "backend": {"run": "cat"}},
    ]});
    let (_gateway, url) = GatewayProcess::configured(&folder, &config);
    let mut watch = GatewayProcess::watch(&url);
    watch.wait_for_status("coder", "online");
    let connector = Connector::new().unwrap();
    let endpoint = Endpoint::new(url.parse().unwrap());
    let mut requester = connector.connect(endpoint).await.unwrap();
    let restart = requester.manage("agents.restart", json!({"agent": "coder"}));
    restart.await.unwrap();
    watch.wait_for_status("coder", "offline");
    watch.wait_for_status("coder", "online");
    let mut browser = Browser::start("gateway-run");
    browser.open(&page_url(&url));
    wait_for_row(
        &mut browser,
        "agent-rows",
        "coder",
        "1 restart, ended last: ",
    );
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
    let (_gateway, url) = GatewayProcess::gateway(&folder, &["--config", file.to_str().unwrap()]);
    let mut browser = Browser::start("gateway-key");
    browser.open(&page_url(&url));
    browser.wait_until("!document.querySelector('#sign-in').hidden");
    assert_eq!(
        browser.evaluate("document.querySelectorAll('#agent-rows tr').length"),
        0
    );
    let enter_key = |key: &str| {
        format!(
            "document.querySelector('#token').value = {key:?}; document.querySelector('#sign-in').requestSubmit()"
        )
    };
    browser.evaluate(&enter_key("wrong"));
    browser.wait_until("!document.querySelector('#trouble').hidden");
    browser.wait_until("!document.querySelector('#sign-in').hidden");
    browser.evaluate(&enter_key(key));
    browser.wait_until("document.querySelectorAll('#agent-rows tr').length > 0");
    assert_eq!(
        browser.evaluate("document.querySelector('#token').value"),
        ""
    );
    let document = browser.evaluate("document.documentElement.outerHTML + location.href");
    assert!(!document.as_str().unwrap().contains(key));
}
