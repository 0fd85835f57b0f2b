//! The operator's page in a real browser.

use crate::serve::chromium::Browser;
use crate::serve::http_client::{client, send};
use testkit::support::serve::Server;

/// Returns the state that the page shows for the task with `text`.
fn state_of(text: &str) -> String {
    format!(
        "[...document.querySelectorAll('#rows tr')].find((row) => row.querySelector('.asked .text').textContent === {text:?})?.querySelector('.state').textContent"
    )
}

#[test]
fn click_cancels_a_running_task() {
    let server = Server::scripted(&["--task-store", "memory"]);
    let mut browser = Browser::start("cancel");
    let text = "slow: <img src=x onerror=\"document.title='taken'\"> read the logs";
    assert_eq!(send(&server, text, &[]).status, 200);
    for other in ["echo summarise", "fail no model", "ask which one?"] {
        assert_eq!(send(&server, other, &[]).status, 200);
    }
    browser.open(server.url());
    browser.wait_until(&format!("{} === 'working'", state_of(text)));
    browser.wait_until(&format!("{} === 'failed'", state_of("fail no model")));
    assert_eq!(
        browser.evaluate("document.querySelectorAll('#rows img').length"),
        0
    );
    assert_ne!(browser.evaluate("document.title"), "taken");
    browser.assert_fits_screens("serve-page");
    let screenshot = browser.screenshot("serve-page.png");
    browser.click(".working .cancel");
    browser.wait_until(&format!("{} === 'canceled'", state_of(text)));
    assert!(browser.errors.is_empty(), "{:?}", browser.errors);
    let colors = browser.count_colors(&screenshot);
    assert!(colors > 50, "the screenshot has {colors} colors");
}

#[test]
fn row_opens_to_the_answer_and_fits_phones() {
    let server = Server::scripted(&["--task-store", "memory"]);
    let mut browser = Browser::start("open");
    let answer = format!("the answer {} <b>bold</b>", "x".repeat(300));
    assert_eq!(send(&server, &format!("task {answer}"), &[]).status, 200);
    assert_eq!(send(&server, "gift", &[]).status, 200);
    browser.open(server.url());
    browser.wait_until("document.querySelectorAll('.completed').length === 2");
    browser.evaluate("document.querySelectorAll('.open-task').forEach((button) => button.click())");
    let shown = "document.querySelector('#rows').innerText.includes";
    for text in [&*answer, "a.bin · application/octet-stream · 7 B", "asked "] {
        browser.wait_until(&format!("{shown}({text:?})"));
    }
    assert_eq!(
        browser.evaluate("document.querySelectorAll('#rows b').length"),
        0
    );
    browser.assert_fits_screens("serve-page-open");
    browser.click(".open-task");
    browser.wait_until("document.querySelectorAll('.more').length === 1");
    assert!(browser.errors.is_empty(), "{:?}", browser.errors);
}

#[test]
fn keyboard_deletes_task_after_confirmation() {
    let server = Server::scripted(&["--task-store", "memory"]);
    let mut browser = Browser::start("delete");
    assert_eq!(send(&server, "echo gone", &[]).status, 200);
    browser.open(server.url());
    browser.wait_until(&format!("{} === 'completed'", state_of("echo gone")));
    browser.evaluate("document.querySelector('.delete').focus()");
    browser.press_key("Enter", 13);
    browser.wait_until("document.querySelector('#sure').open");
    // The first button cancels the dialog, and has the focus.
    browser.press_key("Enter", 13);
    browser.wait_until("!document.querySelector('#sure').open");
    assert_eq!(browser.evaluate(&state_of("echo gone")), "completed");
    browser.evaluate("document.querySelector('.delete').focus()");
    browser.press_key("Enter", 13);
    browser.wait_until("document.querySelector('#sure').open");
    browser.press_key("Tab", 9);
    browser.press_key("Enter", 13);
    browser.wait_until("document.querySelector('#none-title').textContent === 'No tasks yet'");
    browser.wait_until("!document.querySelector('#none').hidden");
    browser.assert_fits_screens("serve-page-empty");
}

#[test]
fn page_requests_the_operator_token() {
    let state = tempfile::tempdir().unwrap();
    let ada = client(state.path(), "ada", &[]);
    let operator = client(state.path(), "me", &["--operator"]);
    let config = state.path().join("serve.json");
    let clients = std::fs::read_to_string(state.path().join("clients.json")).unwrap();
    std::fs::write(&config, clients).unwrap();
    let config = config.to_str().unwrap();
    let server = Server::scripted(&["--task-store", "memory", "--config", config]);
    assert_eq!(send(&server, "slow: ada's", &[&ada]).status, 200);
    let mut browser = Browser::start("token");
    browser.open(server.url());
    browser.wait_until("!document.querySelector('#sign-in').hidden");
    assert_eq!(
        browser.evaluate("document.querySelectorAll('#rows tr').length"),
        0
    );
    browser.assert_fits_screens("serve-page-token");
    let token = operator.rsplit(' ').next().unwrap();
    browser.evaluate(&format!(
        "document.querySelector('#token').value = {token:?}"
    ));
    browser.click("#sign-in button");
    browser.wait_until(&format!("{} === 'working'", state_of("slow: ada's")));
}

#[test]
fn page_reports_missing_server() {
    let server = Server::scripted(&["--task-store", "memory"]);
    let mut browser = Browser::start("gone");
    browser.open(server.url());
    browser.wait_until("document.querySelector('#health-text').textContent === 'ready'");
    server.stop();
    browser.wait_until("document.querySelector('#health-text').textContent === 'no answer'");
    browser.wait_until("!document.querySelector('#trouble').hidden");
}
