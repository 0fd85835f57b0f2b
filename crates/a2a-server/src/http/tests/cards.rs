use http::StatusCode;
use serde_json::{Value, json};
use url::Url;

use super::harness::{Clients, Options, Server, TOKEN, V1};

const CARD: &str = "/.well-known/agent-card.json";

async fn card(server: &Server, path: &str) -> Value {
    let reply = server.get(path, &[]).await;
    assert_eq!(reply.status, StatusCode::OK, "{}", reply.text);
    assert_eq!(reply.header("content-type"), "application/json");
    reply.json()
}

#[tokio::test]
async fn card_lists_1_0_interfaces_before_0_3() {
    let server = Server::start().await;
    let base = format!("http://{}", server.address);
    let card = card(&server, CARD).await;
    let interfaces: Vec<_> = card["supportedInterfaces"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            ["protocolBinding", "protocolVersion", "url"].map(|field| one[field].as_str().unwrap())
        })
        .collect();
    let (rpc, rest) = (format!("{base}/a2a"), format!("{base}/rest"));
    let expected = [
        ["JSONRPC", "1.0", rpc.as_str()],
        ["HTTP+JSON", "1.0", &rest],
        ["JSONRPC", "0.3", &rpc],
        ["HTTP+JSON", "0.3", &rest],
    ];
    assert_eq!(interfaces, expected);
}

#[tokio::test]
async fn card_has_fields_of_0_3() {
    let server = Server::start().await;
    let base = format!("http://{}", server.address);
    let card = card(&server, CARD).await;
    assert_eq!(card["protocolVersion"], "0.3.0");
    assert_eq!(card["url"], format!("{base}/a2a"));
    assert_eq!(card["preferredTransport"], "JSONRPC");
    let interfaces = json!([
        {"url": format!("{base}/a2a"), "transport": "JSONRPC"},
        {"url": format!("{base}/rest"), "transport": "HTTP+JSON"},
    ]);
    assert_eq!(card["additionalInterfaces"], interfaces);
    assert_eq!(card["supportsAuthenticatedExtendedCard"], false);
}

#[tokio::test]
async fn every_interface_of_card_answers() {
    let server = Server::start().await;
    let card = card(&server, CARD).await;
    for one in card["supportedInterfaces"].as_array().unwrap() {
        let path = Url::parse(one["url"].as_str().unwrap())
            .unwrap()
            .path()
            .to_owned();
        let version = one["protocolVersion"].as_str().unwrap();
        let headers = [("a2a-version", version)];
        let reply = match (one["protocolBinding"].as_str().unwrap(), version) {
            ("JSONRPC", version) => {
                let method = if version == "1.0" {
                    "GetTask"
                } else {
                    "tasks/get"
                };
                let body =
                    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"id": "no"}});
                server.post(&path, &headers, body).await
            }
            (_, "1.0") => server.get(&format!("{path}/tasks/no"), &headers).await,
            _ => server.get(&format!("{path}/v1/tasks/no"), &headers).await,
        };
        let not_found = reply.text.contains("-32001") || reply.text.contains("TASK_NOT_FOUND");
        assert!(not_found, "{one}: {}", reply.text);
    }
}

#[tokio::test]
async fn card_parses_as_official_type() {
    let server = Server::with(Options::bearer()).await;
    let card: a2a::v1_0::AgentCard = serde_json::from_value(card(&server, CARD).await).unwrap();
    assert_eq!(card.name, "Local OpenClaw");
    assert_eq!(card.version, "7.8.9");
    assert_eq!(card.capabilities.streaming, Some(true));
    assert_eq!(card.capabilities.push_notifications, Some(true));
    assert_eq!(card.skills.len(), 1);
    let schemes = card.security_schemes.unwrap();
    assert!(
        matches!(&schemes["bearer"], a2a::v1_0::SecurityScheme::HttpAuth(http) if http.scheme == "Bearer")
    );
}

#[tokio::test]
async fn card_has_a_skill_for_each_agent() {
    let server = Server::changed(|options| options.agents = &["main", "coder"]).await;
    let card = card(&server, CARD).await;
    let ids: Vec<_> = card["skills"]
        .as_array()
        .unwrap()
        .iter()
        .map(|skill| &skill["id"])
        .collect();
    assert_eq!(ids, ["main", "main/script", "coder", "coder/script"]);
    for skill in card["skills"].as_array().unwrap() {
        assert!(
            skill["name"].is_string()
                && skill["description"].is_string()
                && skill["tags"].is_array()
        );
    }
}

#[tokio::test]
async fn agent_has_its_own_card() {
    let server = Server::changed(|options| options.agents = &["main", "two words"]).await;
    let card = card(&server, "/agents/two%20words/.well-known/agent-card.json").await;
    assert_eq!(card["name"], "two words");
    let url = format!("http://{}/agents/two%20words/a2a", server.address);
    assert_eq!(card["url"], url.as_str());
    assert_eq!(card["supportedInterfaces"][0]["url"], url.as_str());
    assert_eq!(card["skills"][0]["id"], "script");
}

#[tokio::test]
async fn card_of_unknown_agent_is_404() {
    let server = Server::start().await;
    let reply = server
        .get("/agents/unknown/.well-known/agent-card.json", &[])
        .await;
    assert_eq!(reply.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn old_card_path_serves_the_same_card() {
    let server = Server::start().await;
    assert_eq!(
        card(&server, CARD).await,
        card(&server, "/.well-known/agent.json").await
    );
}

#[tokio::test]
async fn equal_cards_have_equal_strong_etags() {
    let server = Server::start().await;
    let first = server.get(CARD, &[]).await;
    let tag = first.header("etag");
    assert!(tag.starts_with('"') && tag.ends_with('"'));
    assert_eq!(server.get(CARD, &[]).await.header("etag"), tag);
    let other = server.get(CARD, &[("host", "other.test")]).await;
    assert_ne!(other.text, first.text);
    assert_ne!(other.header("etag"), tag);
}

#[tokio::test]
async fn unchanged_card_is_304() {
    let server = Server::start().await;
    let tag = server.get(CARD, &[]).await.header("etag").to_owned();
    for known in [
        tag.clone(),
        format!("W/{tag}"),
        format!("\"a\", {tag}"),
        "*".to_owned(),
    ] {
        let reply = server.get(CARD, &[("if-none-match", &known)]).await;
        assert_eq!(
            (reply.status, reply.text.as_str()),
            (StatusCode::NOT_MODIFIED, ""),
            "{known}"
        );
        assert_eq!(reply.header("etag"), tag);
    }
    let reply = server.get(CARD, &[("if-none-match", "\"other\"")]).await;
    assert_eq!(reply.status, StatusCode::OK);
}

#[tokio::test]
async fn card_has_cache_control_and_vary() {
    let server = Server::start().await;
    let reply = server.get(CARD, &[]).await;
    assert_eq!(reply.header("cache-control"), "public, max-age=60");
    assert_eq!(reply.header("vary"), "Host, A2A-Version");
}

#[tokio::test]
async fn card_of_1_0_has_no_fields_of_0_3() {
    let server = Server::start().await;
    let both = card(&server, CARD).await;
    assert!(both["url"].is_string() && both["protocolVersion"].is_string());
    let reply = server.get(CARD, &[("a2a-version", "1.0")]).await;
    let card: Value = serde_json::from_str(&reply.text).unwrap();
    for field in [
        "url",
        "protocolVersion",
        "preferredTransport",
        "additionalInterfaces",
    ] {
        assert_eq!(card.get(field), None, "{field}");
    }
    assert_eq!(card["supportedInterfaces"], both["supportedInterfaces"]);
}

#[tokio::test]
async fn last_modified_is_the_change_of_the_agents() {
    let server = Server::start().await;
    let first = server
        .get(CARD, &[])
        .await
        .header("last-modified")
        .to_owned();
    assert!(first.ends_with(" GMT"), "{first}");
    let again = server.get(CARD, &[("host", "other.test")]).await;
    assert_eq!(again.header("last-modified"), first);
}

#[tokio::test]
async fn card_uses_configured_public_url() {
    let url = Url::parse("https://agents.test/claw/").unwrap();
    let server = Server::changed(|options| options.card.public_url = Some(url)).await;
    let card = card(&server, CARD).await;
    assert_eq!(card["url"], "https://agents.test/claw/a2a");
}

#[tokio::test]
async fn card_uses_https_for_https_clients() {
    let server = Server::changed(|options| options.scheme = "https").await;
    let card = card(&server, CARD).await;
    assert_eq!(card["url"], format!("https://{}/a2a", server.address));
}

#[tokio::test]
async fn card_declares_security_with_tokens_only() {
    let open = card(&Server::start().await, CARD).await;
    assert_eq!(open.get("securitySchemes"), None);
    assert_eq!(open.get("security"), None);
    assert_eq!(open["capabilities"]["extendedAgentCard"], false);
    let closed = card(&Server::with(Options::bearer()).await, CARD).await;
    assert_eq!(
        closed["securitySchemes"]["bearer"]["httpAuthSecurityScheme"]["scheme"],
        "Bearer"
    );
    assert_eq!(closed["securitySchemes"]["bearer"]["type"], "http");
    assert_eq!(closed["security"], json!([{"bearer": []}]));
    assert_eq!(
        closed["securityRequirements"],
        json!([{"schemes": {"bearer": {"list": []}}}])
    );
    assert_eq!(closed["capabilities"]["extendedAgentCard"], true);
    assert_eq!(closed["supportsAuthenticatedExtendedCard"], true);
}

#[tokio::test]
async fn card_names_certificates_of_clients_beside_tokens() {
    let mut options = Options::bearer();
    options.card.client_certificates = true;
    let server = Server::with(options).await;
    let both = card(&server, CARD).await;
    let schemes = &both["securitySchemes"];
    assert_eq!(
        schemes["mtls"],
        json!({"type": "mutualTLS", "mtlsSecurityScheme": {}})
    );
    assert_eq!(schemes["bearer"]["type"], "http");
    // Either is enough.
    assert_eq!(both["security"], json!([{"bearer": []}, {"mtls": []}]));
    let new = [
        json!({"schemes": {"bearer": {"list": []}}}),
        json!({"schemes": {"mtls": {"list": []}}}),
    ];
    assert_eq!(both["securityRequirements"], json!(new));
}

#[tokio::test]
async fn agent_skills_need_authentication() {
    let server = Server::with(Options::bearer()).await;
    let public = card(&server, CARD).await;
    assert_eq!(public["skills"].as_array().unwrap().len(), 1);
    let headers = [V1, ("authorization", TOKEN)];
    let extended = server.get("/rest/extendedAgentCard", &headers).await;
    assert_eq!(extended.status, StatusCode::OK);
    assert_eq!(extended.json()["skills"].as_array().unwrap().len(), 2);
    assert_eq!(extended.json().get("url"), None);
    let over_rpc = json!({"jsonrpc": "2.0", "id": 1, "method": "GetExtendedAgentCard"});
    let reply = server.post("/a2a", &headers, over_rpc).await;
    assert_eq!(reply.result(), extended.json());
}

#[tokio::test]
async fn extended_card_of_0_3_has_fields_of_0_3() {
    let server = Server::with(Options::bearer()).await;
    let headers = [("authorization", TOKEN)];
    let extended = server.get("/rest/v1/card", &headers).await.json();
    assert_eq!(extended["protocolVersion"], "0.3.0");
    assert_eq!(extended.get("supportedInterfaces"), None);
    assert_eq!(extended["skills"].as_array().unwrap().len(), 2);
    let method = "agent/getAuthenticatedExtendedCard";
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {}});
    assert_eq!(server.post("/a2a", &headers, body).await.result(), extended);
}

#[tokio::test]
async fn extended_card_needs_authentication() {
    let server = Server::with(Options::bearer()).await;
    let reply = server.get("/rest/extendedAgentCard", &[V1]).await;
    assert_eq!(reply.status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn undeclared_extended_card_is_unsupported() {
    let server = Server::start().await;
    assert_eq!(
        server.rpc("GetExtendedAgentCard", json!({})).await.code(),
        -32004
    );
    let method = "agent/getAuthenticatedExtendedCard";
    assert_eq!(server.rpc_0_3(method, json!({})).await.code(), -32007);
}

#[tokio::test]
async fn card_declares_push_notifications_as_configured() {
    let server = Server::changed(|options| options.card.push_notifications = false).await;
    let card = card(&server, CARD).await;
    assert_eq!(card["capabilities"]["pushNotifications"], false);
}

const CATALOG: &str = "/.well-known/ai-catalog.json";
const ARD: &str = "/.well-known/ard.json";

async fn public_server(clients: Clients) -> Server {
    Server::changed(|options| {
        options.clients = clients;
        options.agents = &["main", "two words"];
        options.card.public_url = Some("https://agents.example/a2a/".parse().unwrap());
    })
    .await
}

#[tokio::test]
async fn catalog_of_a_public_server_lists_its_agents() {
    let server = public_server(Clients::Anonymous).await;
    let reply = server.get(CATALOG, &[]).await;
    let catalog: Value = serde_json::from_str(&reply.text).unwrap();
    assert_eq!(catalog["specVersion"], "1.0");
    let entries = catalog["entries"].as_array().unwrap();
    let urls: Vec<_> = entries
        .iter()
        .map(|entry| entry["url"].as_str().unwrap())
        .collect();
    let base = "https://agents.example/a2a";
    let card = "/.well-known/agent-card.json";
    assert_eq!(
        urls,
        [
            format!("{base}{card}"),
            format!("{base}/agents/main{card}"),
            format!("{base}/agents/two%20words{card}"),
        ]
    );
    let last = &entries[2];
    assert_eq!(
        last["identifier"],
        "urn:air:agents.example:a2a:agent:two%20words"
    );
    assert_eq!(last["displayName"], "two words");
    assert_eq!(last["type"], "application/a2a-agent-card+json");
    assert_eq!(reply.header("access-control-allow-origin"), "*");
    assert_eq!(reply.header("content-type"), "application/ai-catalog+json");
}

#[tokio::test]
async fn both_catalog_paths_serve_the_same_bytes() {
    let server = public_server(Clients::Anonymous).await;
    let (catalog, ard) = (server.get(CATALOG, &[]).await, server.get(ARD, &[]).await);
    assert_eq!(catalog.text, ard.text);
    assert_eq!(catalog.header("etag"), ard.header("etag"));
    assert_eq!(ard.header("content-type"), "application/json");
    let tag = ard.header("etag");
    let again = server.get(CATALOG, &[("if-none-match", tag)]).await;
    assert_eq!(again.status, StatusCode::NOT_MODIFIED);
}

#[tokio::test]
async fn catalog_lists_only_cards_that_need_no_token() {
    let server = public_server(Clients::Bearer).await;
    let text = server.get(CATALOG, &[]).await.text;
    let catalog: Value = serde_json::from_str(&text).unwrap();
    for entry in catalog["entries"].as_array().unwrap() {
        let url = entry["url"].as_str().unwrap();
        let path = url.strip_prefix("https://agents.example/a2a").unwrap();
        assert_eq!(server.get(path, &[]).await.status, StatusCode::OK, "{url}");
    }
}

#[tokio::test]
async fn server_without_a_public_url_has_no_catalog() {
    let server = Server::start().await;
    for path in [CATALOG, ARD] {
        assert_eq!(server.get(path, &[]).await.status, StatusCode::NOT_FOUND);
    }
    let server = public_server(Clients::Anonymous).await;
    let below = format!("/agents/main{CATALOG}");
    assert_eq!(server.get(&below, &[]).await.status, StatusCode::NOT_FOUND);
}
