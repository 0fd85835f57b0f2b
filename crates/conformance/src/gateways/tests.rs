#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
//! Scripted gateways and scripted clients, against each other and against bare sockets.

mod captured;

use std::io::ErrorKind;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Gateways, Log, LogEvent, Member, PROFILES, profile};

const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

async fn gateway(profile: Value) -> Gateways {
    Gateways::start(&profile).await.unwrap()
}

/// Returns a client that first sends these frames.
async fn client(gateway: &Gateways, frames: &[Value]) -> Member {
    let acts: Vec<Value> = frames.iter().map(|frame| json!({"send": frame})).collect();
    join(gateway, json!({"upgrade": {"do": acts}})).await
}

async fn join(gateway: &Gateways, script: Value) -> Member {
    Member::join(&gateway.url(), &script).await.unwrap()
}

async fn within_timeout<T>(what: impl Future<Output = T>) -> T {
    timeout(EXIT_TIMEOUT, what)
        .await
        .expect("it arrives in time")
}

/// Returns the first `count` frames.
async fn received(member: &Member, count: usize) -> Vec<Value> {
    within_timeout(member.log().frame(count, &json!({}))).await;
    member.log().frames()
}

async fn wait_for_disconnect(log: &Log) {
    within_timeout(log.until(|all| all.iter().any(|entry| entry.what == LogEvent::Disconnected)))
        .await;
}

/// Returns a bare socket after the upgrade.
async fn socket(gateway: &Gateways) -> TcpStream {
    let mut stream = TcpStream::connect(gateway.address()).await.unwrap();
    let request = "GET / HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
        sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(within_timeout(stream.read_u8()).await.unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 101 "));
    stream
}

#[tokio::test]
async fn frame_is_answered_with_its_own_values() {
    let rule = json!({"when": {"/type": "ask"}, "do": [{"send": {"to": "{{/id}}", "text": "about {{/what}}"}}]});
    let gateway = gateway(json!({"on": [rule]})).await;
    let client = client(&gateway, &[json!({"type": "ask", "id": 7, "what": "rain"})]).await;
    assert_eq!(
        received(&client, 1).await,
        [json!({"to": 7, "text": "about rain"})]
    );
}

#[tokio::test]
async fn frames_without_pauses_are_answered_in_their_order() {
    let rule = json!({"do": [{"send": "{{/n}}"}]});
    let gateway = gateway(json!({"on": [rule]})).await;
    let sent: Vec<Value> = (0..50).map(|n| json!({"n": n})).collect();
    let client = client(&gateway, &sent).await;
    let expected: Vec<Value> = (0..50).map(Value::from).collect();
    assert_eq!(received(&client, 50).await, expected);
}

#[tokio::test]
async fn pause_delays_only_its_acts() {
    let slow = json!({"when": {"": "slow"}, "do": [{"await": "later"}, {"send": "slow"}]});
    let quick = json!({"when": {"": "quick"}, "do": [{"send": "quick"}]});
    let gateway = gateway(json!({"on": [slow, quick]})).await;
    let client = client(&gateway, &[json!("slow"), json!("quick")]).await;
    assert_eq!(received(&client, 1).await, [json!("quick")]);
    gateway.release("later");
    assert_eq!(received(&client, 2).await, [json!("quick"), json!("slow")]);
}

#[tokio::test]
async fn rules_are_exhausted_and_use_stored_values() {
    let profile = json!({"on": [
        {"when": {"": "a"}, "times": 1, "do": [{"send": "first"}, {"remember": {"seen {{connection}}": 5}}]},
        {"when": {"": "a"}, "given": "seen {{connection}}", "do": [{"send": "{{mine:seen}}"}]},
        {"connection": 2, "do": [{"send": "second connection"}]},
        {"unless": "seen {{connection}}", "do": [{"send": "unseen"}]},
    ]});
    let gateway = gateway(profile).await;
    let one = client(&gateway, &[json!("a"), json!("a")]).await;
    assert_eq!(received(&one, 2).await, [json!("first"), json!(5)]);
    let two = client(&gateway, &[json!("a")]).await;
    assert_eq!(received(&two, 1).await, [json!("second connection")]);
    let three = client(&gateway, &[json!("a")]).await;
    assert_eq!(received(&three, 1).await, [json!("unseen")]);
}

#[tokio::test]
async fn stopped_action_runs_its_final_step() {
    let profile = json!({"on": [
        {"when": {"/run": {"$exists": true}}, "as": "run {{/run}}", "do": [{"send": "begun"}, {"repeat": {"gap_ms": 5, "each": []}}],
         "stopped": [{"send": "stopped {{/run}}"}]},
        {"do": [{"stop": "run {{/stop}}"}]},
    ]});
    let gateway = gateway(profile).await;
    let client = client(&gateway, &[json!({"run": 1}), json!({"stop": 1})]).await;
    assert_eq!(
        received(&client, 2).await,
        [json!("begun"), json!("stopped 1")]
    );
}

#[tokio::test(start_paused = true)]
async fn closed_gate_runs_else_acts() {
    let profile = json!({"on": [{"do": [
        {"await": {"gate": "never", "within_ms": "{{/ms}}", "else": [{"send": "late"}]}}, {"send": "in time"},
    ]}]});
    let gateway = gateway(profile).await;
    let client = client(&gateway, &[json!({"ms": 60_000})]).await;
    client.log().frame(1, &json!({})).await;
    assert_eq!(client.log().frames(), [json!("late")]);
}

#[tokio::test]
async fn broadcast_reaches_all_members() {
    let gateway = gateway(json!({"on": [{"do": [{"send_all": "{{}}"}]}]})).await;
    let one = client(&gateway, &[]).await;
    let two = client(&gateway, &[]).await;
    let all_in = |all: &[super::Received]| all.len() >= 2;
    within_timeout(gateway.log().until(all_in)).await;
    let _three = client(&gateway, &[json!("hear, hear")]).await;
    assert_eq!(received(&one, 1).await, [json!("hear, hear")]);
    assert_eq!(received(&two, 1).await, [json!("hear, hear")]);
}

#[tokio::test]
async fn fragments_of_both_sides_are_put_together() {
    let parts = json!([
        {"frame": {"opcode": 1, "last": false, "masked": true, "payload": "{\"a\":"}},
        {"frame": {"opcode": 9, "masked": true, "payload": "!"}},
        {"frame": {"opcode": 0, "masked": true, "payload": ["1", "}"]}},
    ]);
    let gateway = gateway(json!({"on": [{"do": [{"send": "{{/a}}"}]}]})).await;
    let client = join(&gateway, json!({"upgrade": {"do": parts}})).await;
    assert_eq!(received(&client, 1).await, [json!(1)]);
    let seen: Vec<LogEvent> = gateway
        .log()
        .received()
        .into_iter()
        .map(|e| e.what)
        .collect();
    assert_eq!(seen[1..], [LogEvent::Ping, LogEvent::Text(json!({"a": 1}))]);
}

#[tokio::test]
async fn close_is_reported_and_answered() {
    let profile = json!({"on": [{"do": [{"close": {"code": 1008, "reason": "no"}}]}]});
    let gateway = gateway(profile).await;
    let client = client(&gateway, &[json!("x")]).await;
    let close = LogEvent::Close {
        code: Some(1008),
        reason: "no".to_owned(),
    };
    wait_for_disconnect(client.log()).await;
    assert_eq!(client.log().received()[0].what, close);
    wait_for_disconnect(gateway.log()).await;
    let is_answer = |what: &LogEvent| {
        matches!(
            what,
            LogEvent::Close {
                code: Some(1008),
                ..
            }
        )
    };
    assert!(
        gateway
            .log()
            .received()
            .iter()
            .any(|entry| is_answer(&entry.what))
    );
}

#[tokio::test]
async fn connection_ends_abnormally() {
    for (end, expected) in [
        ("drop", Some(Ok(0))),
        ("destroy", Some(Err(ErrorKind::ConnectionReset))),
        ("hang", None),
    ] {
        let profile = json!({"upgrade": {"do": [{"end": end}]}});
        let gateway = gateway(profile).await;
        let mut stream = socket(&gateway).await;
        let within = if expected.is_some() {
            EXIT_TIMEOUT
        } else {
            Duration::from_millis(100)
        };
        let read = timeout(within, stream.read(&mut [0])).await.ok();
        assert_eq!(
            read.map(|read| read.map_err(|error| error.kind())),
            expected,
            "{end}"
        );
    }
}

#[tokio::test]
async fn frame_may_have_false_length() {
    let profile = json!({"upgrade": {"do": [
        {"frame": {"opcode": 1, "reserved": 4, "length": 300, "payload": ["ab", {"hex": "ff"}]}}, {"end": "drop"},
    ]}});
    let gateway = gateway(profile).await;
    let mut bytes = Vec::new();
    let mut stream = socket(&gateway).await;
    within_timeout(stream.read_to_end(&mut bytes))
        .await
        .unwrap();
    assert_eq!(bytes, [0xc1, 126, 1, 44, b'a', b'b', 0xff]);
}

#[tokio::test]
async fn first_matching_upgrade_is_used() {
    let profile = json!({"upgrade": [
        {"when": {"/path": "/html"}, "raw": ["HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"]},
        {"when": {"/path": "/in"}, "protocol": "echo", "headers": {"x-more": "{{connection}}"}, "do": [{"send": "{{/query}}"}]},
    ]});
    let gateway = gateway(profile).await;
    let refused = async |path: &str| {
        let joined = Member::join(&format!("{}{path}", gateway.url()), &json!({})).await;
        joined.unwrap_err().to_string()
    };
    assert!(refused("/html").await.contains("HTTP/1.1 200 OK"));
    assert!(refused("/").await.contains("HTTP/1.1 404 Not Found"));
    let script = json!({"upgrade": {"protocol": "a2a-v1"}});
    let member = Member::join(&format!("{}/in?a=b", gateway.url()), &script).await;
    assert_eq!(received(&member.unwrap(), 1).await, [json!("a=b")]);
}

#[tokio::test]
async fn muted_upgrade_answers_no_ping() {
    let ping =
        json!({"upgrade": {"do": [{"frame": {"opcode": 9, "masked": true}}, {"send": "x"}]}});
    for (mute, pongs) in [(false, 1), (true, 0)] {
        let profile = json!({"upgrade": {"mute": mute}, "on": [{"do": [{"send": "y"}]}]});
        let gateway = gateway(profile).await;
        let client = join(&gateway, ping.clone()).await;
        received(&client, 1).await;
        let received = client.log().received();
        let count = received.iter().filter(|entry| entry.what == LogEvent::Pong);
        assert_eq!(count.count(), pongs);
    }
}

#[tokio::test]
async fn scripted_member_follows_its_script() {
    let gateway = gateway(json!({"on": [{"do": [{"send": "{{}}"}]}]})).await;
    let client = client(&gateway, &[]).await;
    client.send(&json!("now")).await.unwrap();
    assert_eq!(received(&client, 1).await, [json!("now")]);
    client.act(&json!({"text": "7"})).await.unwrap();
    assert_eq!(received(&client, 2).await, [json!("now"), json!(7)]);
    let unknown = client.act(&json!({"shout": "7"})).await.unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::InvalidData);
}

#[test]
fn every_profile_that_is_built_in_can_be_read() {
    for (name, _) in PROFILES {
        let read = super::Profile::read(&profile(name).unwrap());
        assert!(read.is_ok(), "{name}: {read:?}");
    }
    let unknown = profile("friendly").unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::NotFound);
    assert!(
        unknown
            .to_string()
            .contains("reference-11.2, heretek-js, openclaw, hostile")
    );
}

#[tokio::test]
async fn every_hostile_agent_has_a_rule() {
    let hostile = profile("hostile").unwrap();
    let rules = hostile["on"].as_array().unwrap();
    let gateway = gateway(hostile.clone()).await;
    let client = client(&gateway, &[json!({"type": "discovery"})]).await;
    let reported = received(&client, 1).await;
    let agents = reported[0]["content"]["agents"].as_array().unwrap();
    let agents = agents
        .iter()
        .filter_map(|agent| Some((agent["name"].as_str()?, agent["workspace"].as_str()?)));
    let mut count = 0;
    for (name, _) in agents {
        assert!(
            rules.iter().any(|rule| rule["when"]["/agent"] == name),
            "{name}"
        );
        count += 1;
    }
    assert!(count > 40, "{count} agents");
}
