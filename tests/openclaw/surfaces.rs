//! The plugin in OpenClaw's commands and Control UI.

use std::{
    env, fs, thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    approval, chromium::Browser, host::TOKEN, model, notify::NotifyFixture, peer::answer_text,
};

/// The token of the one peer that OpenClaw's own channel knows.
const CHANNEL_TOKEN: &str = "the-channels-own-token-91be";

/// Returns the settings of OpenClaw's own A2A channel.
pub fn channel_config() -> Value {
    json!({"a2a": {"enabled": true, "peers": {"plugin": {"token": CHANNEL_TOKEN}}}})
}

/// Adds the channel of this gateway to the targets of the plugin.
pub fn add_channel_target(config: &mut Value) {
    let url = format!("http://127.0.0.1:{}", config["gateway"]["port"]);
    let auth = json!({"type": "bearer", "token": CHANNEL_TOKEN});
    let targets = &mut config["plugins"]["entries"]["remote-agent"]["config"]["targets"];
    let target = json!({"alias": "channel", "baseUrl": url, "auth": auth});
    targets.as_array_mut().unwrap().push(target);
}

/// An agent calls the tool, and the tool calls an agent behind the channel that OpenClaw has built in.
pub fn openclaw_channel_answers_the_tool(fixture: &NotifyFixture) {
    let parts = json!([{"kind": "text", "text": "hello over the channel"}]);
    let request = json!({"action": "send", "target_alias": "channel", "parts": parts});
    fixture.run_turn("agent:main:channel", &format!("CALL {request}"));
    let request = fixture.model.request_with_result("hello over the channel");
    let result = model::tool_result(&request).unwrap();
    println!("the result of OpenClaw's channel as the model reads it: {result}");
    assert!(
        result.starts_with("send: task completed\nagent: channel\n"),
        "{result}"
    );
    assert!(result.contains("\nhello over the channel\n"), "{result}");
}

/// OpenClaw's check for authors of plugins accepts the package, and finds its manifest up to date.
pub fn package_passes_validate_and_build(fixture: &NotifyFixture) {
    let package = fixture.package.to_str().unwrap();
    let validated = fixture
        .host
        .cli(&["plugins", "validate", "--root", package, "--json"]);
    println!("openclaw plugins validate: {validated}");
    let start = validated.find('{').unwrap();
    let validated: Value = serde_json::from_str(&validated[start..]).unwrap();
    assert_eq!(validated["valid"], true, "{validated}");
    let built = fixture
        .host
        .cli(&["plugins", "build", "--root", package, "--check"]);
    println!("openclaw plugins build --check: {built}");
    assert!(built.contains("up to date"), "{built}");
}

pub fn skills_list_shows_both_skills(fixture: &NotifyFixture) {
    let listed = fixture.host.cli(&["skills", "list", "--json"]);
    for skill in ["remote-agent", "remote-agent-setup"] {
        assert!(listed.contains(&format!("\"{skill}\"")), "{listed}");
    }
}

/// The page behind the tab of Control UI, with the gateway's token as Control UI sends it.
pub fn page_shows_a_task_from_start_to_end(fixture: &NotifyFixture) {
    let text = "later the summary of the log";
    fixture.delegate("agent:main:page", text);
    let url = format!("http://{}/remote_agent/page", fixture.address());
    let mut browser = Browser::start("openclaw-page");
    browser.call("Network.enable", json!({}));
    browser.open(&url);
    let page_text = browser.evaluate("document.body.innerText");
    assert!(!page_text.as_str().unwrap().contains("peer"), "{page_text}");
    let headers = json!({"Authorization": format!("Bearer {TOKEN}")});
    browser.call("Network.setExtraHTTPHeaders", json!({"headers": headers}));
    browser.open(&url);
    browser.wait_until("document.body?.innerText.includes('working') === true");
    browser.assert_fits_screens("openclaw-page");
    fixture.peer.finish(text);
    fixture.wait_for_wake(text);
    // The page reloads itself.
    browser.wait_until("document.body?.innerText.includes('completed') === true");
}

/// Takes a screenshot in light and in dark mode, and returns both.
pub fn capture_color_schemes(browser: &mut Browser, name: &str) -> [Vec<u8>; 2] {
    let screenshots = ["light", "dark"].map(|scheme| {
        browser.set_color_scheme(scheme);
        browser.screenshot(&format!("{name}-{scheme}.png"))
    });
    assert_ne!(screenshots[0], screenshots[1]);
    screenshots
}

/// With `UPDATE=1`, stores an image for a page of the documentation.
pub fn update_docs_image(name: &str, screenshot: &[u8]) {
    if env::var_os("UPDATE").is_some() {
        fs::write(testkit::support::root("docs").join(name), screenshot).unwrap();
    }
}

/// Opens a page of Control UI. It takes the gateway's token from the fragment, removes it from the URL, and pairs itself on loopback.
pub fn control_ui(fixture: &NotifyFixture, path: &str) -> Browser {
    let mut browser = Browser::start("openclaw-control-ui");
    let url = format!("http://{}{path}#token={TOKEN}", fixture.address());
    browser.call("Page.navigate", json!({"url": url}));
    browser.wait_until("document.body?.innerText.includes('Connected') === true");
    browser
}

/// Runs JavaScript in the frame of the page. The frame has an origin of its own, and its page reloads itself: null if it did
/// so meanwhile.
fn run_in_frame(browser: &mut Browser, script: &str) -> Value {
    let tree = browser.call("Page.getFrameTree", json!({}));
    let frame = &tree["frameTree"]["childFrames"][0]["frame"];
    let world = json!({"frameId": frame["id"]});
    let Ok(world) = browser.try_call("Page.createIsolatedWorld", world) else {
        return Value::Null;
    };
    let script = json!({
        "expression": script, "contextId": world["executionContextId"], "returnByValue": true,
    });
    let evaluated = browser.try_call("Runtime.evaluate", script);
    evaluated.map_or(Value::Null, |mut result| result["result"]["value"].take())
}

/// Control UI has the tab, and frames the page without a token in its URL.
pub fn control_ui_tab_shows_the_page(fixture: &NotifyFixture) {
    let text = "later the figures of the year";
    fixture.delegate("agent:main:tab", text);
    let mut browser = control_ui(fixture, "/remote-agents");
    browser.wait_until("document.querySelector('iframe')?.title === 'Remote agents'");
    let source = browser.evaluate("document.querySelector('iframe').getAttribute('src')");
    assert_eq!(source, "/remote_agent/page");
    let end = Instant::now() + Duration::from_secs(180);
    let page_text = loop {
        let page_text = run_in_frame(&mut browser, "document.body.innerText").to_string();
        if page_text.contains(text) {
            break page_text;
        }
        assert!(Instant::now() < end, "the frame shows {page_text}");
        // The protocol has no event for the text of a frame, so this polls.
        thread::sleep(Duration::from_millis(50));
    };
    println!("the page in the tab of Control UI: {page_text}");
    browser.assert_fits_screens("control-ui-tab");
    let [_, dark] = capture_color_schemes(&mut browser, "control-ui-tab");
    update_docs_image("control-ui-tab.png", &dark);
    fixture.peer.finish(text);
    fixture.wait_for_wake(text);
}

/// The chat shows a call with the icon of the package, and the approval request with its buttons.
pub fn control_ui_shows_call_and_approval(fixture: &NotifyFixture) {
    let mut browser = control_ui(fixture, "/chat?session=agent:main:main");
    let text = "the price list for next year";
    approval::request_approval(fixture, text);
    let expected = format!(
        "Agent main sends to supervised at {}: {text}",
        fixture.peer.url()
    );
    for part in [expected.as_str(), "Allow once"] {
        browser.wait_until(&format!("document.body.innerText.includes({part:?})"));
    }
    let page_text = browser.evaluate("document.body.innerText");
    println!("the approval request in Control UI: {page_text}");
    let [light, _] = capture_color_schemes(&mut browser, "control-ui-approval");
    update_docs_image("control-ui-approval.png", &light);
    browser.click(".btn.primary");
    fixture.peer.call(text);
    browser.wait_until(&format!(
        "document.body.innerText.includes({:?})",
        answer_text(text)
    ));
    // OpenClaw draws the icon of the package as a mask, and its own glyph where there is none.
    browser.wait_until(
        "document.querySelector('.chat-tool-activity-icon')?.style.maskImage.startsWith('url(\"blob:') === true",
    );
    capture_color_schemes(&mut browser, "control-ui-call");
}
