//! The plugin in OpenClaw's commands and Control UI.

use serde_json::{Value, json};

use crate::{chromium::Browser, host::TOKEN, notify::Followed};

/// OpenClaw's check for authors of plugins accepts the package, and finds its manifest up to date.
pub fn package_passes_validate_and_build(followed: &Followed) {
    let package = followed.package.to_str().unwrap();
    let validated = followed
        .host
        .cli(&["plugins", "validate", "--root", package, "--json"]);
    println!("openclaw plugins validate: {validated}");
    let start = validated.find('{').unwrap();
    let validated: Value = serde_json::from_str(&validated[start..]).unwrap();
    assert_eq!(validated["valid"], true, "{validated}");
    let built = followed
        .host
        .cli(&["plugins", "build", "--root", package, "--check"]);
    println!("openclaw plugins build --check: {built}");
    assert!(built.contains("up to date"), "{built}");
}

pub fn skills_list_shows_both_skills(followed: &Followed) {
    let listed = followed.host.cli(&["skills", "list", "--json"]);
    for skill in ["remote-agent", "remote-agent-setup"] {
        assert!(listed.contains(&format!("\"{skill}\"")), "{listed}");
    }
}

/// The page behind the tab of Control UI, with the gateway's token as Control UI sends it.
pub fn page_shows_a_task_from_start_to_end(followed: &Followed) {
    let text = "later the summary of the log";
    followed.hand_over("agent:main:page", text);
    let url = format!("http://{}/remote_agent/page", followed.address());
    let mut browser = Browser::start("openclaw-page");
    browser.call("Network.enable", json!({}));
    browser.open(&url);
    let refused = browser.run("document.body.innerText");
    assert!(!refused.as_str().unwrap().contains("peer"), "{refused}");
    let headers = json!({"Authorization": format!("Bearer {TOKEN}")});
    browser.call("Network.setExtraHTTPHeaders", json!({"headers": headers}));
    browser.open(&url);
    browser.until("document.body?.innerText.includes('working') === true");
    both_schemes(&mut browser, "openclaw-page");
    followed.peer.finish(text);
    followed.woken(text);
    // The page reloads itself.
    browser.until("document.body?.innerText.includes('completed') === true");
}

/// Takes a screenshot in light and in dark mode.
fn both_schemes(browser: &mut Browser, name: &str) {
    let [light, dark] = ["light", "dark"].map(|scheme| {
        let feature = json!({"name": "prefers-color-scheme", "value": scheme});
        browser.call("Emulation.setEmulatedMedia", json!({"features": [feature]}));
        browser.picture(&format!("{name}-{scheme}.png"))
    });
    assert_ne!(light, dark);
}
