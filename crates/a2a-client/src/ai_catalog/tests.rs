#![allow(clippy::unwrap_used)]
use std::collections::HashMap;
use std::sync::Mutex;

use egress::{NetError, Request, Response};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::json;

use super::*;

/// A catalog in the shape of AI Catalog 1.0, which is an ARD document too.
const NEW: &str = r#"{"specVersion":"1.0","host":{"displayName":"Harbour Desk"},"entries":[
 {"identifier":"urn:air:harbour.example:agent:pilot","displayName":"Pilot","type":"application/a2a-agent-card+json",
  "url":"https://harbour.example/agents/pilot/.well-known/agent-card.json",
  "representativeQueries":["when may ship 12 dock","book a berth"]},
 {"identifier":"urn:air:harbour.example:mcp:tides","displayName":"Tides","type":"application/mcp-server-card+json","url":"https://harbour.example/mcp.json"}]}"#;

/// A catalog in the shape before ADR 14: `mediaType`, and `metadata` in place of `extensions`.
const OLD: &str = r#"{"specVersion":"0.9","entries":[
 {"identifier":"https://harbour.example/pilot","displayName":"Pilot","mediaType":"application/a2a-agent-card","version":"2.0",
  "url":"https://harbour.example/agents/pilot/.well-known/agent-card.json","metadata":{"stage":"beta"}}]}"#;

/// An ARD document: nothing but entries.
const ARD: &str = r#"{"entries":[
 {"identifier":"urn:air:harbour.example:agent:pilot","displayName":"Pilot","type":"application/a2a-agent-card+json",
  "capabilities":["berths"],"url":"https://harbour.example/agents/pilot/.well-known/agent-card.json"}]}"#;

const CATALOG: &str = "https://harbour.example/.well-known/ai-catalog.json";
const PILOT: &str = "https://harbour.example/agents/pilot/.well-known/agent-card.json";

fn card(name: &str, url: &str) -> Value {
    json!({
        "name": name,
        "supportedInterfaces": [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        "skills": [{"id": "berth", "name": "Book a berth", "description": "", "tags": []}],
        "securitySchemes": {"b": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
    })
}

fn pilot() -> String {
    card("Pilot", "https://harbour.example/agents/pilot/a2a").to_string()
}

/// An answer: its status, a header and its body.
type Answer = (u16, Option<(&'static str, String)>, String);

/// Documents by URL. Others are not found.
#[derive(Default)]
struct Web {
    answers: HashMap<String, Answer>,
    requests: Mutex<Vec<Request>>,
}

impl Web {
    fn new(documents: &[(&str, &str)]) -> Self {
        let mut web = Self::default();
        for (url, body) in documents {
            web.set(url, 200, body);
        }
        web
    }

    fn set(&mut self, url: &str, status: u16, body: &str) {
        self.answers
            .insert(url.to_owned(), (status, None, body.to_owned()));
    }

    fn set_header(&mut self, url: &str, status: u16, header: (&'static str, &str)) {
        let header = Some((header.0, header.1.to_owned()));
        self.answers
            .insert(url.to_owned(), (status, header, String::new()));
    }

    fn requested(&self) -> Vec<String> {
        let requests = self.requests.lock().unwrap();
        requests
            .iter()
            .map(|request| request.url.to_string())
            .collect()
    }

    async fn find(&self, place: &str) -> FoundAgents {
        self.query(place, |_| {}).await.unwrap()
    }

    async fn query(
        &self,
        place: &str,
        change: impl FnOnce(&mut AgentQuery),
    ) -> Result<FoundAgents, String> {
        let mut query = AgentQuery {
            place: place.to_owned(),
            ..AgentQuery::default()
        };
        change(&mut query);
        let found = find_agents(self, &query).await;
        for request in self.requests.lock().unwrap().iter() {
            let headers = &request.headers;
            assert!(request.authorization.is_none() && !headers.contains_key("authorization"));
        }
        found
    }
}

impl HttpClient for Web {
    fn exchange(&self, request: Request) -> BoxFuture<'_, Result<Response, NetError>> {
        let absent = (404, None, String::new());
        let (status, header, body) = self.answers.get(request.url.as_str()).unwrap_or(&absent);
        let mut headers = HeaderMap::new();
        if let Some((name, value)) = header {
            headers.insert(*name, HeaderValue::try_from(value).unwrap());
        }
        let body = bytes::Bytes::from(body.clone());
        self.requests.lock().unwrap().push(request);
        Box::pin(std::future::ready(Ok(Response {
            status: StatusCode::from_u16(*status).unwrap(),
            headers,
            body: Box::pin(stream::iter([Ok(body)])),
        })))
    }
}

fn only(found: &FoundAgents) -> &FoundAgent {
    assert_eq!(found.agents.len(), 1, "{found:?}");
    &found.agents[0]
}

fn catalog_of(entries: &Value) -> String {
    json!({"specVersion": "1.0", "entries": entries}).to_string()
}

fn agent_entry(name: &str, more: Value) -> Value {
    let mut entry = json!({"identifier": format!("urn:air:harbour.example:agent:{name}"), "type": "application/a2a-agent-card+json"});
    for (field, value) in more.as_object().unwrap() {
        entry[field] = value.clone();
    }
    entry
}

#[tokio::test]
async fn reads_every_shape_of_a_catalog() {
    for (document, identifier, others) in [
        (NEW, "urn:air:harbour.example:agent:pilot", 1),
        (OLD, "https://harbour.example/pilot", 0),
        (ARD, "urn:air:harbour.example:agent:pilot", 0),
    ] {
        let pilot = pilot();
        for path in ["ai-catalog.json", "ard.json"] {
            let url = format!("https://harbour.example/.well-known/{path}");
            let web = Web::new(&[(&url, document), (PILOT, &pilot)]);
            let found = web.find("harbour.example").await;
            let agent = only(&found);
            assert_eq!(agent.identifier.as_deref(), Some(identifier));
            assert_eq!((agent.name.as_str(), found.others), ("Pilot", others));
            assert_eq!(agent.skills, ["Book a berth"]);
            assert_eq!(agent.authentication.as_deref(), Some("a bearer token"));
            assert!(agent.odd.is_empty(), "{:?}", agent.odd);
            let base = "https://harbour.example/agents/pilot";
            assert_eq!(
                agent.target,
                Some(json!({"baseUrl": base, "cardUrl": PILOT}))
            );
            assert!(found.problems.is_empty(), "{:?}", found.problems);
        }
    }
}

#[tokio::test]
async fn agent_of_both_documents_appears_once() {
    let pilot = pilot();
    let ard = "https://harbour.example/.well-known/ard.json";
    let web = Web::new(&[(CATALOG, NEW), (ard, ARD), (PILOT, &pilot)]);
    only(&web.find("https://harbour.example/").await);
}

#[tokio::test]
async fn link_of_the_home_page_is_read_before_the_paths() {
    let pilot = pilot();
    let linked = "https://harbour.example/list.json";
    let mut web = Web::new(&[(linked, NEW), (PILOT, &pilot)]);
    let link = r#"</style.css>; rel=preload, </list.json>; rel="nav AI-Catalog"; type="x,y""#;
    web.set_header("https://harbour.example/", 302, ("link", link));
    assert_eq!(only(&web.find("harbour.example").await).catalog, linked);
    assert_eq!(web.requested()[1], linked);
}

#[tokio::test]
async fn nested_catalogs_end_at_level_4_and_loops_at_once() {
    let nested =
        |url: &str| json!({"identifier": url, "type": "application/ai-catalog+json", "url": url});
    let mut web = Web::default();
    for level in 0..=5 {
        let next = format!("https://harbour.example/{}.json", level + 1);
        let card = format!("https://harbour.example/card{level}");
        let entries = json!([
            nested(&next),
            nested(CATALOG),
            agent_entry(&level.to_string(), json!({"url": card}))
        ]);
        let url = match level {
            0 => CATALOG.to_owned(),
            level => format!("https://harbour.example/{level}.json"),
        };
        web.set(&url, 200, &catalog_of(&entries));
    }
    let found = web.find("harbour.example").await;
    let names: Vec<&str> = found
        .agents
        .iter()
        .map(|agent| agent.name.as_str())
        .collect();
    assert_eq!(names, ["0", "1", "2", "3", "4"]);
    assert_eq!(found.problems.len(), 1, "{:?}", found.problems);
    assert!(found.problems[0].contains("below level 4"));
    let reads = |url: &str| web.requested().iter().filter(|one| *one == url).count();
    assert_eq!(
        (reads(CATALOG), reads("https://harbour.example/5.json")),
        (1, 0)
    );
}

#[tokio::test]
async fn catalog_inside_a_catalog_is_read() {
    let pilot = pilot();
    let inner: Value = serde_json::from_str(NEW).unwrap();
    let outer = json!([{"identifier": "urn:air:harbour.example:all", "type": "application/ai-catalog+json", "data": inner}]);
    let web = Web::new(&[(CATALOG, &catalog_of(&outer)), (PILOT, &pilot)]);
    only(&web.find("harbour.example").await);
}

#[tokio::test]
async fn entry_needs_exactly_one_of_url_and_data() {
    let card = card("A", "https://harbour.example/a2a");
    for (more, odd) in [
        (json!({}), "neither `url` nor `data`"),
        (json!({"url": PILOT, "data": card}), "both `url` and `data`"),
        (json!({"url": 1}), "no text"),
        (json!({"data": "x"}), "no card"),
        (
            json!({"url": "ftp://harbour.example/"}),
            "only http and https",
        ),
        (json!({"url": "https://u:p@harbour.example/"}), "user name"),
    ] {
        let entries = json!([agent_entry("a", more)]);
        let web = Web::new(&[(CATALOG, &catalog_of(&entries))]);
        let found = web.find("harbour.example").await;
        let agent = only(&found);
        assert!(
            agent.odd.iter().any(|fault| fault.contains(odd)),
            "{:?}",
            agent.odd
        );
        assert_eq!(agent.target, None);
        assert!(agent.text.ends_with("cannot be added"), "{}", agent.text);
    }
}

#[tokio::test]
async fn card_inside_a_catalog_is_a_target_at_its_own_address() {
    let data = card("Pilot", "https://desk.example/a2a");
    let entries = json!([agent_entry("pilot", json!({ "data": data }))]);
    let web = Web::new(&[(CATALOG, &catalog_of(&entries))]);
    let found = web.find("harbour.example").await;
    let agent = only(&found);
    assert!(agent.inline);
    assert_eq!(agent.interfaces, ["https://desk.example"]);
    let target = json!({"baseUrl": "https://desk.example/a2a", "card": data});
    assert_eq!(agent.target, Some(target));
}

#[tokio::test]
async fn catalog_leads_to_no_address_of_this_network() {
    for address in [
        "http://169.254.169.254/latest",
        "http://10.0.0.7:8080",
        "http://localhost:9/",
    ] {
        let url = format!("{address}/.well-known/agent-card.json");
        let data = card("A", address);
        let entries = json!([
            agent_entry("a", json!({ "url": url })),
            agent_entry("b", json!({ "data": data }))
        ]);
        let web = Web::new(&[(CATALOG, &catalog_of(&entries))]);
        let found = web.find("harbour.example").await;
        for agent in &found.agents {
            assert_eq!(agent.target, None, "{agent:?}");
            let says = |fault: &String| fault.contains("address");
            assert!(agent.odd.iter().any(says), "{:?}", agent.odd);
        }
        let requested = web.requested();
        assert!(
            requested
                .iter()
                .all(|url| url.starts_with("https://harbour.example")),
            "{requested:?}"
        );
    }
}

#[tokio::test]
async fn foreign_origins_and_publishers_are_marked() {
    let elsewhere = "https://cards.example/a.json";
    let entries = json!([{
        "identifier": "urn:air:other.example:agent:a", "type": "application/a2a-agent-card+json",
        "displayName": "Bank", "url": elsewhere, "trustManifest": {},
    }]);
    let card = card("Other", "https://calls.example/a2a").to_string();
    let list = "https://lists.example/all.json";
    let mut web = Web::new(&[(list, &catalog_of(&entries)), (elsewhere, &card)]);
    web.set_header(
        "https://harbour.example/",
        200,
        ("link", "<https://lists.example/all.json>; rel=ard"),
    );
    let found = web.find("harbour.example").await;
    for part in [
        "the catalog is at another origin: https://lists.example",
        "the card is at another origin: https://cards.example",
        "its publisher is other.example, and not harbour.example",
        "the card leads calls to another origin: https://calls.example",
        "its card calls it `Other`",
        "a trust manifest, which is not verified",
    ] {
        let agent = only(&found);
        assert!(
            agent.odd.iter().any(|fault| fault.contains(part)),
            "{part}: {:?}",
            agent.odd
        );
    }
}

#[test]
fn publisher_is_the_host_or_its_parent() {
    for (host, domain, expected) in [
        ("a.example", "a.example", true),
        ("desk.a.example", "a.example", true),
        ("xa.example", "a.example", false),
        ("a.example", "desk.a.example", false),
        ("a.example", "example", false),
    ] {
        assert_eq!(cards::is_of(host, domain), expected, "{host} {domain}");
    }
}

#[tokio::test]
async fn long_catalog_is_shown_in_part() {
    let entry = |n: usize| {
        format!(
            r#"{{"identifier":"urn:air:harbour.example:agent:n{n}","type":"application/a2a-agent-card+json","url":"https://harbour.example/{n}"}}"#
        )
    };
    let entries: Vec<String> = (1..=100_000).map(entry).collect();
    let document = format!(r#"{{"entries":[{}]}}"#, entries.join(","));
    let web = Web::new(&[(CATALOG, &document)]);
    let found = web.find("harbour.example").await;
    assert_eq!(
        (found.agents.len(), found.left + found.agents.len()),
        (20, 100_000)
    );
    assert!(web.requested().len() < 30);
    let picked = web.query("harbour.example", |query| query.pick = Some("n900".into()));
    assert_eq!(only(&picked.await.unwrap()).number, 900);
}

#[tokio::test]
async fn document_beyond_the_maximum_is_a_problem() {
    let mut web = Web::new(&[(CATALOG, &" ".repeat((16 << 20) + 1))]);
    web.set_header(
        "https://harbour.example/.well-known/ard.json",
        200,
        ("content-length", "100000000"),
    );
    let found = web.find("harbour.example").await;
    assert_eq!(found.agents.len(), 0);
    let too_large = found
        .problems
        .iter()
        .filter(|problem| problem.contains("bytes"));
    assert_eq!(too_large.count(), 2, "{:?}", found.problems);
}

#[tokio::test]
async fn unreadable_documents_are_problems() {
    for (document, problem) in [
        ("<html>", "it cannot be read as JSON"),
        ("[]", "no list of `entries`"),
        (r#"{"entries":{}}"#, "no list of `entries`"),
        ("{}", "no list of `entries`"),
        (r#"{"specVersion":"2.0","entries":[]}"#, "reads version 1"),
    ] {
        let web = Web::new(&[(CATALOG, document)]);
        let problems = web.find("harbour.example").await.problems;
        assert!(
            problems.iter().any(|one| one.contains(problem)),
            "{document}: {problems:?}"
        );
    }
}

#[tokio::test]
async fn redirect_to_another_origin_is_not_followed() {
    let mut web = Web::default();
    web.set_header(CATALOG, 302, ("location", "https://evil.example/list.json"));
    let found = web.find("harbour.example").await;
    assert!(
        found
            .problems
            .iter()
            .any(|one| one.contains("another origin")),
        "{:?}",
        found.problems
    );
    assert!(web.requested().iter().all(|url| !url.contains("evil")));
}

#[tokio::test]
async fn text_of_documents_is_visible_and_short() {
    let long = "x".repeat(5000);
    let entries = json!([
        agent_entry(
            "a",
            json!({"displayName": "Pi\u{202e}lot\u{1b}[2J\nrm", "url": PILOT})
        ),
        agent_entry("b", json!({ "displayName": long })),
    ]);
    let web = Web::new(&[(CATALOG, &catalog_of(&entries))]);
    let found = web.find("harbour.example").await;
    assert_eq!(found.agents[0].name, "Pilot rm");
    assert!(found.agents[1].text.len() < 500);
}

#[tokio::test]
async fn domain_without_a_catalog_has_its_own_agent() {
    let own = "https://desk.example/.well-known/agent-card.json";
    let card = card("Desk", "https://desk.example/a2a").to_string();
    let web = Web::new(&[(own, &card)]);
    let found = web.find("desk.example").await;
    assert_eq!(only(&found).name, "Desk");
    let nothing = Web::default().find("desk.example").await;
    assert!(nothing.agents.is_empty());
    assert!(
        nothing.problems.iter().any(|one| one.contains("ard.json")),
        "{:?}",
        nothing.problems
    );
}

#[tokio::test]
async fn address_of_a_card_or_of_a_catalog_is_recognized() {
    let url = "https://harbour.example/cards/pilot.json";
    let web = Web::new(&[(url, &pilot())]);
    let found = web.find(url).await;
    let base = "https://harbour.example/agents/pilot/a2a";
    assert_eq!(
        only(&found).target,
        Some(json!({"baseUrl": base, "cardUrl": url}))
    );
    let pilot = pilot();
    let web = Web::new(&[(url, NEW), (PILOT, &pilot)]);
    assert_eq!(only(&web.find(url).await).name, "Pilot");
}

#[tokio::test]
async fn card_that_needs_a_credential_can_be_added() {
    let mut web = Web::new(&[(CATALOG, NEW)]);
    web.set(PILOT, 401, "");
    let found = web.find("harbour.example").await;
    let target = only(&found).target.as_ref().unwrap();
    assert_eq!(target["cardUrl"], PILOT);
}

#[tokio::test]
async fn pick_names_one_agent() {
    let url = |name: &str| format!("https://harbour.example/{name}");
    let entries = json!([
        agent_entry("a", json!({"displayName": "Pilot", "url": url("a")})),
        agent_entry("b", json!({"displayName": "Pilot", "url": url("b")})),
        agent_entry("c", json!({"url": url("c")})),
    ]);
    let card = card("Crane", "https://harbour.example/a2a").to_string();
    let web = Web::new(&[(CATALOG, &catalog_of(&entries)), (&url("c"), &card)]);
    let pick = |pick: &'static str| {
        web.query("harbour.example", move |query| {
            query.pick = Some(pick.to_owned())
        })
    };
    for (text, number) in [
        ("2", 2),
        ("urn:air:harbour.example:agent:b", 2),
        ("C", 3),
        ("crane", 3),
    ] {
        assert_eq!(only(&pick(text).await.unwrap()).number, number, "{text}");
    }
    assert!(pick("pilot").await.unwrap_err().contains("2 agents"));
    assert!(pick("9").await.unwrap_err().contains("no agent"));
}

#[tokio::test]
async fn search_asks_the_registry_and_follows_no_referral() {
    let registry = "https://registry.example/ard";
    let results = json!({
        "results": [
            {"identifier": "urn:air:harbour.example:agent:pilot", "score": 99},
            {"identifier": "urn:air:harbour.example:mcp:x", "type": "application/mcp-server-card+json", "url": "https://harbour.example/x"},
        ],
        "referrals": [{"identifier": "r", "displayName": "R", "type": "application/ai-registry+json", "url": "https://more.example"}],
    });
    let entry = agent_entry("pilot", json!({ "url": PILOT }));
    let web = Web::new(&[
        ("https://registry.example/ard/search", &results.to_string()),
        (
            "https://registry.example/ard/agents/urn:air:harbour.example:agent:pilot",
            &entry.to_string(),
        ),
        (PILOT, &pilot()),
    ]);
    for place in [registry, "https://registry.example/ard/search"] {
        let found = web
            .query(place, |query| query.search = Some("book a berth".into()))
            .await
            .unwrap();
        let agent = only(&found);
        assert!(agent.odd.is_empty(), "{:?}", agent.odd);
        assert_eq!(agent.target.as_ref().unwrap()["cardUrl"], PILOT);
        assert_eq!(
            (found.registries, found.others),
            (vec!["https://more.example".to_owned()], 1)
        );
    }
    let requests = web.requests.lock().unwrap();
    let question: Value = serde_json::from_slice(requests[0].body.as_ref().unwrap()).unwrap();
    assert_eq!(question["query"]["text"], "book a berth");
    assert_eq!(question["federation"], "none");
    assert!(
        requests
            .iter()
            .all(|request| request.url.host_str() != Some("more.example"))
    );
}

#[tokio::test]
async fn search_without_a_supported_filter_is_asked_again() {
    let mut web = Web::default();
    web.set("https://registry.example/search", 400, "{}");
    let found = web
        .query("registry.example", |query| query.search = Some("x".into()))
        .await
        .unwrap();
    assert!(found.problems[0].contains("400"), "{:?}", found.problems);
    let requests = web.requests.lock().unwrap();
    let questions: Vec<Value> = requests
        .iter()
        .map(|one| serde_json::from_slice(one.body.as_ref().unwrap()).unwrap())
        .collect();
    assert!(questions[0]["query"]["filter"].is_object());
    assert_eq!(questions[1]["query"], json!({"text": "x"}));
}

#[tokio::test]
async fn card_in_a_file_is_the_persons_own() {
    let folder = std::env::temp_dir().join(format!("ai-catalog-{}", std::process::id()));
    std::fs::write(
        &folder,
        card("Pilot", "http://127.0.0.1:7801/a2a").to_string(),
    )
    .unwrap();
    let query = AgentQuery {
        file: Some(folder.clone()),
        ..AgentQuery::default()
    };
    let web = Web::default();
    let found = find_agents(&web, &query).await;
    std::fs::remove_file(&folder).unwrap();
    let found = found.unwrap();
    let agent = only(&found);
    let target = json!({"baseUrl": "http://127.0.0.1:7801/a2a", "card": folder});
    assert_eq!((agent.inline, &agent.target), (false, &Some(target)));
    assert!(web.requested().is_empty());
    assert!(
        find_agents(&web, &query)
            .await
            .unwrap_err()
            .contains("cannot read")
    );
}
