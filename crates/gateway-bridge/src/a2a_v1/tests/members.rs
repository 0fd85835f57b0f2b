//! Discovery of agents.

use super::*;
use collective::AgentStatus;
use peer::Member;

fn agents() -> Value {
    json!([
        {"name": "steward", "role": "orchestrator", "status": "online", "workspace": "/home/someone/.openclaw/agents/steward"},
        {"name": "alpha", "role": "triad-member", "status": "Active", "workspace": "~/.openclaw/agents/alpha"},
        {"name": "beta", "role": "triad-member", "status": "sleeping"},
        {"name": "charlie", "status": "offline"},
    ])
}

async fn members(harness: &Harness, connection: &mut Connection, agents: Value) -> Vec<Member> {
    let server = answer_list(connection, agents);
    tokio::join!(harness.gateway.members(), server).0.unwrap()
}

#[tokio::test(start_paused = true)]
async fn h_14_handshake_names_are_used_until_a_list() {
    let mut harness = harness(settings());
    let (members, _connection) = tokio::join!(harness.gateway.members(), async {
        let mut connection = connect(&mut harness.arrivals).await;
        connection.recv().await;
        connection
    });
    let members = members.unwrap();
    let names: Vec<_> = members.iter().map(|member| member.name.as_str()).collect();
    assert_eq!(names, ["alpha", "beta", "charlie", "steward", "triad"]);
    assert!(members.iter().all(|member| member.status.is_none()));
}

#[tokio::test(start_paused = true)]
async fn h_14_list_replaces_handshake_names() {
    let (harness, mut connection) = listed().await;
    let members = members(
        &harness,
        &mut connection,
        json!([{"name": "dora", "status": "idle"}]),
    )
    .await;
    let names: Vec<_> = members.iter().map(|member| member.name.as_str()).collect();
    assert_eq!(names, ["dora", "triad"]);
}

#[tokio::test(start_paused = true)]
async fn h_29_one_correlated_list_request_at_a_time() {
    let (harness, mut connection) = listed().await;
    let server = async {
        let first = connection.recv().await;
        let early = tokio::time::timeout(Duration::from_secs(1), connection.recv()).await;
        assert!(early.is_err());
        connection.send(list_reply(&first, agents())).await;
        let second = connection.recv().await;
        connection.send(list_reply(&second, agents())).await;
        (first, second)
    };
    let (one, two, (first, second)) =
        tokio::join!(harness.gateway.members(), harness.gateway.members(), server);
    assert_eq!((one.unwrap().len(), two.unwrap().len()), (5, 5));
    let id = |request: &Value| {
        request["metadata"]["correlationId"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_ne!(id(&first), id(&second));
}

#[tokio::test(start_paused = true)]
async fn h_30_active_is_online_and_other_status_unknown() {
    let (harness, mut connection) = listed().await;
    let members = members(&harness, &mut connection, agents()).await;
    let statuses: Vec<_> = members
        .iter()
        .map(|member| (member.name.as_str(), member.status))
        .collect();
    use AgentStatus as S;
    assert_eq!(
        statuses,
        [
            ("alpha", Some(S::Online)),
            ("beta", None),
            ("charlie", Some(S::Offline)),
            ("steward", Some(S::Online)),
            ("triad", Some(S::Offline))
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn h_31_workspace_path_is_not_stored() {
    let (harness, mut connection) = listed().await;
    let members = members(&harness, &mut connection, agents()).await;
    let shown = format!("{members:?}");
    assert!(
        !shown.contains(".openclaw") && !shown.contains("someone"),
        "{shown}"
    );
    assert_eq!(members[3].role.as_deref(), Some("orchestrator"));
}

#[tokio::test(start_paused = true)]
async fn h_32_status_messages_update_the_registry() {
    let (harness, mut connection) = listed().await;
    connection.send(json!({"type": "subscribe", "content": {"channel": "agent:status", "status": "subscribed"}})).await;
    connection.send(json!({"type": "status", "from": "gateway", "content": {"agent": "alpha", "status": "busy"}})).await;
    connection.send(json!({"type": "status", "from": "mallory", "content": {"agent": "alpha", "status": "error"}})).await;
    // The list does not arrive, so the client reports the agents that it knows.
    let (members, _) = tokio::join!(harness.gateway.members(), connection.recv());
    let members = members.unwrap();
    assert_eq!(
        (members[0].name.as_str(), members[0].status),
        ("alpha", Some(AgentStatus::Busy))
    );
    harness.assert_warned("alpha");
}

#[tokio::test(start_paused = true)]
async fn h_32_subscribes_to_configured_agents() {
    let mut harness = harness(Settings {
        agents: vec!["alpha".into()],
        ..settings()
    });
    let server = async {
        let mut connection = harness.arrivals.next().await;
        connection.recv().await;
        connection.send(acknowledge()).await;
        let subscribed = connection.recv().await;
        answer_list(&mut connection, agents()).await;
        subscribed
    };
    let (members, subscribed) = tokio::join!(harness.gateway.members(), server);
    assert_eq!(subscribed["content"]["agents"], json!(["alpha"]));
    let names = members.unwrap().into_iter().map(|member| member.name);
    assert_eq!(names.collect::<Vec<_>>(), ["alpha", "triad"]);
}

#[tokio::test(start_paused = true)]
async fn unsupported_list_is_not_requested_again() {
    let (harness, mut connection) = listed().await;
    let server = async {
        connection.recv().await;
        connection.send(json!({"type": "error", "content": {"error": "UNKNOWN_TYPE", "message": "Unknown message type"}})).await;
    };
    let (members, ()) = tokio::join!(harness.gateway.members(), server);
    assert_eq!(members.unwrap()[0].name, "alpha");
}

#[tokio::test(start_paused = true)]
async fn invalid_list_entries_are_omitted() {
    let (harness, mut connection) = listed().await;
    let odd = json!([{"name": "triad"}, {"name": ""}, {"name": "a/b"}, {"name": 7}, "x", {"name": "x".repeat(129)}, {"name": "good"}]);
    let members = members(&harness, &mut connection, odd).await;
    let names: Vec<_> = members.iter().map(|member| member.name.as_str()).collect();
    assert_eq!(names, ["good", "triad"]);
}

#[tokio::test(start_paused = true)]
async fn unknown_agent_is_reported_with_the_known_ones() {
    let (harness, mut connection) = listed().await;
    let reach = reach("unknown");
    let server = async {
        answer_list(&mut connection, agents()).await;
    };
    let (found, ()) = tokio::join!(harness.gateway.discover(&reach, None), server);
    let error = found.unwrap_err();
    assert_fault(&error, ErrorCode::AgentNotFound, Delivered::No);
    assert!(
        error.message.contains("alpha, beta, charlie, steward"),
        "{error}"
    );
}

fn reach(agent: &str) -> PeerConfig {
    let base = Url::parse("http://127.0.0.1:18789").unwrap();
    PeerConfig::new(base, CardLocation::Path(format!("/agents/{agent}")))
}

#[tokio::test(start_paused = true)]
async fn only_the_first_message_waits_for_the_agent_list() {
    let mut harness = harness(settings());
    let began = tokio::time::Instant::now();
    let mut connection = harness.connect_with_discovery().await;
    assert_eq!(connection.recv().await["type"], "discovery");
    // The client first waits for a greeting of the gateway.
    assert!(
        (Duration::from_millis(1000)..Duration::from_millis(1200)).contains(&began.elapsed()),
        "{:?}",
        began.elapsed()
    );
    let began = tokio::time::Instant::now();
    harness
        .gateway
        .discover(&reach("beta"), None)
        .await
        .unwrap();
    let unknown = harness.gateway.discover(&reach("unknown"), None).await;
    assert_eq!(unknown.unwrap_err().kind, fault(ErrorCode::AgentNotFound));
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn name_is_accepted_without_a_list_of_agents() {
    let mut harness = harness(Settings {
        timeout: Duration::from_secs(2),
        ..settings()
    });
    let began = tokio::time::Instant::now();
    let alpha = reach("alpha");
    let server = async {
        let mut connection = harness.arrivals.next().await;
        connection.recv().await;
        let mut bare = acknowledge();
        bare["content"]["availableAgents"] = json!([]);
        connection.send(bare).await;
        connection
    };
    let (found, mut connection) = tokio::join!(harness.gateway.discover(&alpha, None), server);
    found.unwrap();
    let waited = began.elapsed();
    assert!(waited < Duration::from_millis(450), "{waited:?}");
    let resend = harness.send("alpha", text_message("hello"));
    assert_eq!(connection.recv().await["type"], "subscribe");
    assert_eq!(connection.recv().await["type"], "discovery");
    let request = connection.recv().await;
    connection.send(reply(&request, "alpha", "here")).await;
    assert_eq!(reply_text(resend.await.unwrap()), "here");
}

#[tokio::test(start_paused = true)]
async fn error_without_ids_is_not_for_an_abandoned_list() {
    let mut harness = harness(settings());
    let mut connection = harness.connect_with_discovery().await;
    assert_eq!(connection.recv().await["type"], "discovery");
    let resend = harness.send("alpha", text_message("hello"));
    connection.recv().await;
    connection
        .send(json!({"type": "error", "content": {"error": "AGENT_ERROR", "message": "it fell over"}}))
        .await;
    assert_eq!(
        resend.await.unwrap().unwrap_err().kind,
        fault(ErrorCode::AgentError)
    );
}

#[tokio::test(start_paused = true)]
async fn late_list_is_requested_again() {
    let mut harness = harness(settings());
    let mut connection = harness.connect_with_discovery().await;
    answer_list(&mut connection, agents()).await;
    wait_until_idle().await;
    let server = async {
        answer_list(&mut connection, json!([{"name": "dora", "status": "idle"}])).await;
    };
    let dora = reach("dora");
    let (found, ()) = tokio::join!(harness.gateway.discover(&dora, None), server);
    found.unwrap();
}
