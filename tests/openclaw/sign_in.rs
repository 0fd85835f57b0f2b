//! `openclaw remote-agent sign-in` and `sign-out`, with a running gateway and a real authorization server.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Stdio},
};

use serde_json::json;

use crate::{
    authorization_server::{Server, server},
    commands::decode_output,
    notify::{NotifyFixture, Test},
    peer::answer_text,
};

pub const TESTS: &[Test] = &[
    (
        "running_gateway_uses_a_sign_in_of_the_command",
        running_gateway_uses_a_sign_in_of_the_command,
    ),
    (
        "browser_sign_in_returns_or_is_pasted",
        browser_sign_in_returns_or_is_pasted,
    ),
];

/// Adds a target for a sign-in with this grant.
pub fn add_target(fixture: &NotifyFixture, server: &Server, alias: &str, grant: &str) {
    let auth = json!({"type": "oauth2", "grant": grant, "issuer": server.issuer(), "clientId": "person",
        "scopes": ["openid", "offline_access"], "tokenParams": {"prompt": "consent"}});
    let target = json!({"alias": alias, "baseUrl": fixture.peer.url(), "allowPrivateNetwork": true, "auth": auth});
    let state = fixture.host.state().join("sign-ins");
    fixture.host.edit_config(|config| {
        let settings = &mut config["plugins"]["entries"]["remote-agent"]["config"];
        settings["stateDir"] = json!(state);
        settings["targets"].as_array_mut().unwrap().push(target);
    });
    fixture.restart(drop);
}

/// Runs `openclaw remote-agent`.
fn openclaw(fixture: &NotifyFixture, arguments: &[&str]) -> (Option<i32>, String, String) {
    let all = [&["remote-agent"], arguments].concat();
    decode_output(&fixture.host.command(&all).output().unwrap())
}

fn start_sign_in(fixture: &NotifyFixture, alias: &str) -> Child {
    let mut command = fixture.host.command(&["remote-agent", "sign-in", alias]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Returns the address that a sign-in shows.
fn shown_address(child: &mut Child) -> String {
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    loop {
        let line = lines.next().expect("the address").unwrap();
        println!("{line}");
        if line.starts_with("  http") {
            // The pipe has to stay open.
            std::thread::spawn(move || lines.count());
            return line.trim().to_owned();
        }
    }
}

fn assert_signed_in(child: Child) {
    let output = child.wait_with_output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{stdout}");
    assert!(stdout.contains(": signed in"), "{stdout}");
}

fn send(fixture: &NotifyFixture, alias: &str) -> (Option<i32>, String, String) {
    openclaw(fixture, &["send", "--target", alias, "look at the lamps"])
}

fn running_gateway_uses_a_sign_in_of_the_command(fixture: &NotifyFixture) {
    let (server, before) = (server(), fixture.host.config());
    add_target(fixture, server, "by-code", "device_code");
    let (code, _, stderr) = send(fixture, "by-code");
    assert_eq!(code, Some(4), "{stderr}");
    let command = "`openclaw remote-agent sign-in by-code`";
    assert!(stderr.contains(command), "{stderr}");

    let mut signing_in = start_sign_in(fixture, "by-code");
    let address = shown_address(&mut signing_in);
    server.browse(&address);
    assert_signed_in(signing_in);
    let (code, stdout, stderr) = send(fixture, "by-code");
    assert_eq!(code, Some(0), "{stderr}");
    assert!(
        stdout.contains(&answer_text("look at the lamps")),
        "{stdout}"
    );

    let out = openclaw(fixture, &["sign-out", "by-code"]);
    assert_eq!(out.0, Some(0), "{}", out.2);
    assert!(out.1.contains("by-code: signed out"), "{}", out.1);
    let (code, _, stderr) = send(fixture, "by-code");
    assert_eq!(code, Some(4), "{stderr}");
    fixture.host.edit_config(|config| *config = before);
}

/// The browser of this machine returns by itself; the address of another one is pasted.
fn browser_sign_in_returns_or_is_pasted(fixture: &NotifyFixture) {
    let (server, before) = (server(), fixture.host.config());
    add_target(fixture, server, "by-browser", "authorization_code");
    for is_pasted in [false, true] {
        let mut signing_in = start_sign_in(fixture, "by-browser");
        let address = shown_address(&mut signing_in);
        let end = server.browse(&address);
        let mut stdin = signing_in.stdin.take().unwrap();
        match is_pasted {
            true => write!(stdin, "no address\n{end}\n").unwrap(),
            false => open(&end),
        }
        assert_signed_in(signing_in);
        drop(stdin);
    }
    assert_eq!(send(fixture, "by-browser").0, Some(0));
    let unknown = openclaw(fixture, &["sign-in", "other"]);
    assert_eq!(unknown.0, Some(2), "{}", unknown.2);
    fixture.host.edit_config(|config| *config = before);
}

/// Opens a loopback address as a browser does.
fn open(url: &str) {
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nhost: {host}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}
