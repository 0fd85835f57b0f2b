//! Chains of delegations.

use base::log::Silent;
use gateway_bridge::delegation::{DELEGATION_KEY, Delegation, DelegationFile};
use serde_json::{Value, json};
use testkit::conformance::Peers;

use crate::callers::{
    call,
    folder::Folder,
    received_calls, start_desk,
    tool_fixture::{ToolFixture, reason, send_request, stream_request},
};

fn fixture(peers: &Peers, max_depth: u64) -> ToolFixture {
    let target = json!({"alias": "main", "baseUrl": peers.origin("main"), "default": true});
    ToolFixture::new(&json!({"targets": [target], "policy": {"maxDelegationDepth": max_depth}}))
}

fn caller_at_hop(hop: u64) -> Value {
    json!({"agent_id": "main", "chain": {"hop": hop, "chain": "row-1"}})
}

/// Returns the delegations in the newest message.
fn delegation(peers: &Peers) -> Value {
    let newest = received_calls(peers).pop().unwrap();
    newest.body.unwrap()["params"]["metadata"][DELEGATION_KEY].clone()
}

#[tokio::test]
async fn undelegated_message_starts_a_chain() {
    let peers = start_desk().await;
    let fixture = fixture(&peers, 4);
    let mut names = Vec::new();
    for _ in 0..2 {
        let envelope = call(&fixture, &json!({"agent_id": "main"}), &send_request()).await;
        assert_eq!(envelope["ok"], true, "{envelope}");
        let delegation = delegation(&peers);
        assert_eq!(delegation["hop"], 1, "{delegation}");
        names.push(delegation["chain"].as_str().unwrap().to_owned());
    }
    assert!(names.iter().all(|name| name.len() == 32), "{names:?}");
    assert_ne!(names[0], names[1]);
}

#[tokio::test]
async fn message_has_its_delegation_depth() {
    let peers = start_desk().await;
    let fixture = fixture(&peers, 4);
    for request in [send_request(), stream_request()] {
        let envelope = call(&fixture, &caller_at_hop(2), &request).await;
        assert_eq!(envelope["ok"], true, "{envelope}");
        assert_eq!(delegation(&peers), json!({"hop": 3, "chain": "row-1"}));
    }
}

#[tokio::test]
async fn request_metadata_is_sent_beside_the_chain() {
    let peers = start_desk().await;
    let mut request = send_request();
    request["metadata"] = json!({"ticket": 7});
    call(&fixture(&peers, 4), &caller_at_hop(0), &request).await;
    let sent = received_calls(&peers).pop().unwrap().body.unwrap();
    let metadata = &sent["params"]["metadata"];
    assert_eq!(metadata["ticket"], 7);
    assert_eq!(metadata[DELEGATION_KEY]["hop"], 1);
}

#[tokio::test]
async fn delegation_beyond_max_depth_opens_no_connection() {
    for max_depth in [0, 1, 4, 100] {
        let peers = start_desk().await;
        let fixture = fixture(&peers, max_depth);
        let envelope = call(&fixture, &caller_at_hop(max_depth), &send_request()).await;
        assert_eq!(
            reason(&envelope),
            "delegation_too_deep",
            "{max_depth} {envelope}"
        );
        assert_eq!(envelope["error"]["code"], "TARGET_RESOLUTION_ERROR");
        assert_eq!(envelope["error"]["retryable"], false);
        assert_eq!(envelope["error"]["details"]["delivered"], "no");
        let message = envelope["error"]["message"].as_str().unwrap();
        assert!(message.contains("do the work yourself"), "{message}");
        assert_eq!(peers.connections("main"), 0, "{max_depth}");
        if let Some(before) = max_depth.checked_sub(1) {
            let envelope = call(&fixture, &caller_at_hop(before), &send_request()).await;
            assert_eq!(envelope["ok"], true, "{max_depth} {envelope}");
            assert_eq!(delegation(&peers)["hop"], max_depth);
        }
    }
}

#[tokio::test]
async fn delegation_at_limit_still_manages_tasks() {
    let peers = start_desk().await;
    let fixture = fixture(&peers, 1);
    for action in ["watch", "status", "cancel"] {
        let request = json!({"action": action, "target_alias": "main", "task_id": "t-1"});
        let envelope = call(&fixture, &caller_at_hop(9), &request).await;
        assert_eq!(envelope["ok"], true, "{action} {envelope}");
    }
    let envelope = call(
        &fixture,
        &caller_at_hop(9),
        &json!({"action": "list_targets"}),
    )
    .await;
    assert_eq!(envelope["ok"], true, "{envelope}");
}

#[tokio::test]
async fn request_cannot_set_the_chain() {
    let peers = start_desk().await;
    for delegation in [json!({"hop": 0, "chain": "mine"}), json!(null)] {
        let mut request = send_request();
        request["metadata"] = json!({ DELEGATION_KEY: delegation });
        let envelope = call(&fixture(&peers, 4), &caller_at_hop(1), &request).await;
        assert_eq!(envelope["error"]["code"], "VALIDATION_ERROR", "{envelope}");
        let place = &envelope["error"]["details"]["errors"][0]["instancePath"];
        assert_eq!(place, "/metadata/openclaw-remote-agent~1delegation");
    }
    assert_eq!(peers.connections("main"), 0);
}

#[tokio::test]
async fn host_file_names_the_task_of_a_session() {
    let peers = start_desk().await;
    let state = Folder::new();
    let fixture = fixture(&peers, 4);
    let caller = json!({"session_key": "agent:main:x", "state_dir": state.path()});
    call(&fixture, &caller, &send_request()).await;
    assert_eq!(delegation(&peers)["hop"], 1);

    let file = DelegationFile::of_host(state.path());
    let work = |hop| Delegation {
        hop,
        chain: Some("row-2".to_owned()),
    };
    file.record("agent:main:x", &work(2), &Silent).unwrap();
    call(&fixture, &caller, &send_request()).await;
    assert_eq!(delegation(&peers), json!({"hop": 3, "chain": "row-2"}));

    file.record("agent:main:x", &work(4), &Silent).unwrap();
    let refused = call(&fixture, &caller, &send_request()).await;
    assert_eq!(reason(&refused), "delegation_too_deep", "{refused}");

    let mut other = caller.clone();
    other["session_key"] = json!("agent:main:y");
    call(&fixture, &other, &send_request()).await;
    assert_eq!(delegation(&peers)["hop"], 1);
}

#[tokio::test]
async fn call_argument_precedes_delegation_file() {
    let peers = start_desk().await;
    let state = Folder::new();
    let work = Delegation {
        hop: 3,
        chain: None,
    };
    let file = DelegationFile::of_host(state.path());
    file.record("s", &work, &Silent).unwrap();
    let mut caller = caller_at_hop(1);
    caller["session_key"] = json!("s");
    caller["state_dir"] = json!(state.path());
    call(&fixture(&peers, 4), &caller, &send_request()).await;
    assert_eq!(delegation(&peers), json!({"hop": 2, "chain": "row-1"}));
}

#[tokio::test]
async fn unusable_log_file_is_reported_and_fails_no_call() {
    let peers = start_desk().await;
    let state = Folder::new();
    let file = DelegationFile::of_host(state.path());
    std::fs::create_dir(file.path().parent().unwrap()).unwrap();
    std::fs::write(file.path(), "garbage").unwrap();
    let fixture = fixture(&peers, 4);
    let caller = json!({"session_key": "s", "state_dir": state.path()});
    let envelope = call(&fixture, &caller, &send_request()).await;
    assert_eq!(envelope["ok"], true, "{envelope}");
    assert_eq!(delegation(&peers)["hop"], 1);
    let reported = fixture.log.lines();
    let warned = reported
        .iter()
        .filter(|(level, line)| level == "warn" && line.contains("delegations.json"));
    assert_eq!(warned.count(), 1, "{reported:?}");
}
