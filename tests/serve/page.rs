//! The operator's page in a real browser.

use crate::serve::chromium::Browser;
use crate::serve::plain::{client, send};
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
    browser.until(&format!("{} === 'working'", state_of(text)));
    browser.until(&format!("{} === 'failed'", state_of("fail no model")));
    assert_eq!(
        browser.run("document.querySelectorAll('#rows img').length"),
        0
    );
    assert_ne!(browser.run("document.title"), "taken");
    let picture = browser.picture("serve-page.png");
    browser.click(".working .cancel");
    browser.until(&format!("{} === 'canceled'", state_of(text)));
    assert!(browser.errors.is_empty(), "{:?}", browser.errors);
    let colours = browser.colours(&picture);
    assert!(colours > 50, "the picture has {colours} colours");
}

#[test]
fn keyboard_deletes_task_after_confirmation() {
    let server = Server::scripted(&["--task-store", "memory"]);
    let mut browser = Browser::start("delete");
    assert_eq!(send(&server, "echo gone", &[]).status, 200);
    browser.open(server.url());
    browser.until(&format!("{} === 'completed'", state_of("echo gone")));
    browser.run("document.querySelector('.delete').focus()");
    browser.press("Enter", 13);
    browser.until("document.querySelector('#sure').open");
    // The first button cancels the dialog, and has the focus.
    browser.press("Enter", 13);
    browser.until("!document.querySelector('#sure').open");
    assert_eq!(browser.run(&state_of("echo gone")), "completed");
    browser.run("document.querySelector('.delete').focus()");
    browser.press("Enter", 13);
    browser.until("document.querySelector('#sure').open");
    browser.press("Tab", 9);
    browser.press("Enter", 13);
    browser.until("document.querySelector('#none-title').textContent === 'No tasks yet'");
    browser.until("!document.querySelector('#none').hidden");
    browser.picture("serve-page-empty.png");
}

#[test]
fn page_requests_the_operator_token() {
    let state = tempfile::tempdir().unwrap();
    let ada = client(state.path(), "ada", &[]);
    let operator = client(state.path(), "me", &["--operator"]);
    let config = state.path().join("serve.json");
    let clients = std::fs::read_to_string(state.path().join("clients.json")).unwrap();
    std::fs::write(&config, clients).unwrap();
    let server = Server::scripted(&[
        "--task-store",
        "memory",
        "--config",
        config.to_str().unwrap(),
    ]);
    assert_eq!(send(&server, "slow: ada's", &[&ada]).status, 200);
    let mut browser = Browser::start("token");
    browser.open(server.url());
    browser.until("!document.querySelector('#sign-in').hidden");
    assert_eq!(
        browser.run("document.querySelectorAll('#rows tr').length"),
        0
    );
    browser.picture("serve-page-token.png");
    let token = operator.rsplit(' ').next().unwrap();
    browser.run(&format!(
        "document.querySelector('#token').value = {token:?}"
    ));
    browser.click("#sign-in button");
    browser.until(&format!("{} === 'working'", state_of("slow: ada's")));
}

#[test]
fn page_reports_missing_server() {
    let server = Server::scripted(&["--task-store", "memory"]);
    let mut browser = Browser::start("gone");
    browser.open(server.url());
    browser.until("document.querySelector('#health-text').textContent === 'ready'");
    server.stop();
    browser.until("document.querySelector('#health-text').textContent === 'no answer'");
    browser.until("!document.querySelector('#trouble').hidden");
}
