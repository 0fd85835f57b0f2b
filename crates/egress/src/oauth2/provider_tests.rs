//! What providers expect and answer, by grant and client authentication: literal answers from their documents. The table is in
//! `docs/how-to/sign-in.md`; `UPDATE=1` writes it.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::fmt::Write as _;
use std::fs;

use serde_json::json;
use testkit::folder::Folder;
use tokio::sync::mpsc;

use super::sign_in::{Prompt, SignInError, sign_in};
use super::*;
use crate::credential::{Endpoints, SignInFlow, TokenFile};
use crate::testing::{Next, Scripted};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/how-to/sign-in.md");
const MARKS: [&str; 2] = [
    "<!-- generated: providers -->\n",
    "<!-- end: providers -->\n",
];

/// One use of a provider.
struct Cell {
    provider: &'static str,
    grant: &'static str,
    auth: ClientAuth,
    /// `scopes`, `audience`, `resource` and `tokenParams`.
    scopes: &'static [&'static str],
    audience: Option<&'static str>,
    resource: Option<&'static str>,
    params: &'static [(&'static str, &'static str)],
    /// The answers of the token endpoint.
    answers: Vec<Next>,
    /// What the last request to it has, and what comes out.
    sent: &'static str,
    outcome: &'static str,
}

fn cell(provider: &'static str, grant: &'static str, auth: ClientAuth) -> Cell {
    Cell {
        provider,
        grant,
        auth,
        scopes: &[],
        audience: None,
        resource: None,
        params: &[],
        answers: Vec::new(),
        sent: "",
        outcome: "",
    }
}

fn token(more: Value) -> Next {
    let mut answer = json!({"access_token": "one", "token_type": "Bearer"});
    let more = more.as_object().unwrap().clone();
    answer.as_object_mut().unwrap().extend(more);
    Next::json(200, &answer)
}

fn error(status: u16, code: &str) -> Next {
    Next::json(status, &json!({"error": code}))
}

fn cells() -> Vec<Cell> {
    vec![
        Cell {
            audience: Some("https://api.example"),
            answers: vec![token(json!({"expires_in": 86400}))],
            sent: "client_credentials, audience=https://api.example, client_id, client_secret",
            outcome: "token for 86400 s",
            ..cell("Auth0", "client_credentials", ClientAuth::Post)
        },
        Cell {
            audience: Some("https://api.example"),
            answers: vec![
                error(403, "authorization_pending"),
                token(json!({"expires_in": 86400})),
            ],
            sent: "device_code, device_code, client_id",
            outcome: "token for 86400 s",
            ..cell("Auth0", "device_code", ClientAuth::None)
        },
        Cell {
            scopes: &["api://desk/.default"],
            answers: vec![token(json!({"expires_in": 3599, "ext_expires_in": 3599}))],
            sent: "client_credentials, scope=api://desk/.default, client_id, client_secret",
            outcome: "token for 3599 s",
            ..cell("Entra", "client_credentials", ClientAuth::Post)
        },
        Cell {
            resource: Some("https://desk.example"),
            answers: vec![token(
                json!({"expires_in": "3599", "expires_on": "1767225600"}),
            )],
            sent: "Basic, client_credentials, resource=https://desk.example",
            outcome: "token for 3599 s",
            ..cell(
                "Entra, endpoints of v1",
                "client_credentials",
                ClientAuth::Basic,
            )
        },
        Cell {
            answers: vec![Next::json(
                401,
                &json!({"error": "invalid_client", "error_description": "AADSTS7000215: Invalid client secret provided.", "error_codes": [7_000_215]}),
            )],
            sent: "client_credentials, client_id, client_secret",
            outcome: "error: it answered 401 Unauthorized: invalid_client (AADSTS7000215: Invalid client secret provided.)",
            ..cell("Entra", "client_credentials", ClientAuth::Post)
        },
        Cell {
            answers: vec![
                error(400, "authorization_pending"),
                error(400, "authorization_declined"),
            ],
            sent: "device_code, device_code, client_id",
            outcome: "error: the sign-in was declined",
            ..cell("Entra", "device_code", ClientAuth::None)
        },
        Cell {
            scopes: &["email"],
            answers: vec![
                error(428, "authorization_pending"),
                token(json!({"expires_in": 3599, "refresh_token": "r"})),
            ],
            sent: "device_code, device_code, client_id, client_secret",
            outcome: "token for 3599 s, renewed",
            ..cell("Google", "device_code", ClientAuth::Post)
        },
        Cell {
            params: &[("access_type", "offline")],
            answers: vec![token(json!({"expires_in": 3599, "refresh_token": "r"}))],
            sent: "authorization_code, code, redirect_uri, code_verifier, access_type=offline, client_id, client_secret",
            outcome: "token for 3599 s, renewed",
            ..cell("Google", "authorization_code", ClientAuth::Post)
        },
        Cell {
            scopes: &["repo"],
            answers: vec![
                error(200, "authorization_pending"),
                Next::json(200, &json!({"error": "slow_down", "interval": 10})),
                Next::Answer(
                    200,
                    None,
                    "access_token=one&scope=repo&token_type=bearer".to_owned(),
                ),
            ],
            sent: "device_code, device_code, client_id",
            outcome: "token until a 401",
            ..cell("GitHub", "device_code", ClientAuth::None)
        },
        Cell {
            answers: vec![Next::Answer(
                200,
                None,
                "error=bad_verification_code&error_description=The+code+is+incorrect+or+expired."
                    .to_owned(),
            )],
            sent: "authorization_code, code, redirect_uri, code_verifier, client_id, client_secret",
            outcome: "error: it answered bad_verification_code (The code is incorrect or expired.)",
            ..cell("GitHub", "authorization_code", ClientAuth::Post)
        },
        Cell {
            scopes: &["desk.read"],
            answers: vec![token(json!({"expires_in": 3600, "scope": "desk.read"}))],
            sent: "Basic, client_credentials, scope=desk.read",
            outcome: "token for 3600 s",
            ..cell("Okta", "client_credentials", ClientAuth::Basic)
        },
        Cell {
            answers: vec![token(
                json!({"expires_in": 300, "refresh_expires_in": 0, "not-before-policy": 0}),
            )],
            sent: "Basic, client_credentials",
            outcome: "token for 300 s",
            ..cell("Keycloak", "client_credentials", ClientAuth::Basic)
        },
        Cell {
            audience: Some("desk"),
            answers: vec![token(
                json!({"expires_in": 300, "issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}),
            )],
            sent: "Basic, token-exchange, subject_token, subject_token_type, audience=desk",
            outcome: "token for 300 s",
            ..cell("Keycloak", "token_exchange", ClientAuth::Basic)
        },
        Cell {
            params: &[("user_scope", "chat:write")],
            answers: vec![Next::json(
                200,
                &json!({"ok": true, "authed_user": {"id": "U1", "access_token": "one", "token_type": "user", "scope": "chat:write"}}),
            )],
            sent: "authorization_code, code, redirect_uri, code_verifier, user_scope=chat:write, client_id, client_secret",
            outcome: "token until a 401",
            ..cell(
                "Slack, token of a person",
                "authorization_code",
                ClientAuth::Post,
            )
        },
        Cell {
            answers: vec![Next::json(
                200,
                &json!({"ok": false, "error": "invalid_code"}),
            )],
            sent: "authorization_code, code, redirect_uri, code_verifier, client_id, client_secret",
            outcome: "error: it answered invalid_code",
            ..cell("Slack", "authorization_code", ClientAuth::Post)
        },
        Cell {
            answers: vec![token(
                json!({"instance_url": "https://desk.my.salesforce.com", "issued_at": "1767225600000", "refresh_token": "r"}),
            )],
            sent: "authorization_code, code, redirect_uri, code_verifier, client_id",
            outcome: "token until a 401, renewed",
            ..cell("Salesforce", "authorization_code", ClientAuth::None)
        },
        Cell {
            answers: vec![Next::json(
                200,
                &json!({"access_token": "one", "token_type": "BearerToken", "expires_in": "1799"}),
            )],
            sent: "Basic, client_credentials",
            outcome: "token for 1799 s",
            ..cell("Apigee", "client_credentials", ClientAuth::Basic)
        },
    ]
}

/// Returns what a request has: values that the settings name, and only the names of the others.
fn sent(request: &Request) -> String {
    let basic = request.headers.contains_key(AUTHORIZATION);
    let body = request.body.clone().unwrap();
    let shown = ["scope", "audience", "resource", "access_type", "user_scope"];
    let parts = url::form_urlencoded::parse(&body).map(|(name, value)| match &*name {
        "grant_type" => value.rsplit(':').next().unwrap().to_owned(),
        name if shown.contains(&name) => format!("{name}={value}"),
        name => name.to_owned(),
    });
    let parts = basic.then(|| "Basic".to_owned()).into_iter().chain(parts);
    parts.collect::<Vec<_>>().join(", ")
}

fn outcome(lifetime: Option<u64>, is_renewed: bool) -> String {
    let lifetime = lifetime.map_or("until a 401".to_owned(), |seconds| {
        format!("for {seconds} s")
    });
    format!(
        "token {lifetime}{}",
        if is_renewed { ", renewed" } else { "" }
    )
}

/// Runs a cell. Returns what the last request to the token endpoint had, and what came out.
async fn run(cell: Cell) -> (String, String) {
    let folder = Folder::new();
    let url = |path: &str| Some(Url::parse(&format!("https://as.example{path}")).unwrap());
    let endpoints = Endpoints {
        token: url("/token"),
        authorization: url("/authorize"),
        device: url("/device"),
        ..Endpoints::default()
    };
    let file = TokenFile::new(folder.file("tokens"), "desk".into(), &[], false);
    let subject = folder.file("subject");
    fs::write(&subject, "subject").unwrap();
    let grant = match cell.grant {
        "device_code" => Grant::Person {
            flow: SignInFlow::DeviceCode,
            file,
        },
        "authorization_code" => Grant::Person {
            flow: SignInFlow::AuthorizationCode(None),
            file,
        },
        "token_exchange" => Grant::TokenExchange {
            subject,
            subject_type: "urn:ietf:params:oauth:token-type:jwt".to_owned(),
        },
        _ => Grant::ClientCredentials,
    };
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let client = OAuth2 {
        client_secret: Some("s3cret-of-the-client".to_owned().into()),
        client_auth: cell.auth,
        scopes: cell
            .scopes
            .iter()
            .map(|scope| (*scope).to_owned())
            .collect(),
        audience: cell.audience.map(str::to_owned),
        resource: cell.resource.map(str::to_owned),
        params: cell.params.iter().map(owned).collect(),
        ..OAuth2::at(endpoints, "cli".into(), grant)
    };
    let endpoint = TokenEndpoint {
        allow_private: false,
        trust: None,
    };
    // Google's name of the address.
    let code = json!({"device_code": "device", "user_code": "WDJB-MJHT", "verification_url": "https://as.example/go", "interval": 1});
    let device = (cell.grant == "device_code").then(|| Next::json(200, &code));
    let net = Scripted::new(device.into_iter().chain(cell.answers));
    let came = if let Grant::Person { .. } = &client.grant {
        let (sender, pasted) = mpsc::channel(1);
        let show = |prompt: Prompt| {
            if let Prompt::Browser(url) = prompt {
                let asked: std::collections::HashMap<_, _> =
                    url.query_pairs().into_owned().collect();
                let back = format!(
                    "{}?code=c0de-of-the-browser&state={}",
                    asked["redirect_uri"], asked["state"]
                );
                sender.try_send(back).unwrap();
            }
        };
        let signed_in = sign_in(&net, &client, &endpoint, show, pasted).await;
        signed_in.map(|token| {
            let lifetime = token.expires_at.map(|at| at - token.issued_at);
            outcome(lifetime, token.is_renewable())
        })
    } else {
        let issued = obtain(&net, &client, &endpoint).await;
        let came =
            issued.map(|issued| outcome(issued.lifetime.map(|lifetime| lifetime.as_secs()), false));
        came.map_err(SignInError::from)
    };
    let (_, last) = net.requests().pop().unwrap();
    assert_eq!(last.url.path(), "/token");
    assert_eq!(last.headers[ACCEPT], "application/json");
    let came = came.unwrap_or_else(|error| {
        let text = error.to_string();
        format!("error: {}", text.rsplit("token: ").next().unwrap())
    });
    (sent(&last), came)
}

#[tokio::test(start_paused = true)]
async fn each_provider_gets_and_answers_what_its_documents_say() {
    let mut table = "| provider | `grant` | `clientAuth` | the token request has | result |\n|---|---|---|---|---|\n".to_owned();
    for cell in cells() {
        let (provider, grant, wanted) = (cell.provider, cell.grant, (cell.sent, cell.outcome));
        let auth = match cell.auth {
            ClientAuth::Basic => "basic",
            ClientAuth::Post => "post",
            _ => "none",
        };
        let (sent, outcome) = run(cell).await;
        assert_eq!((&*sent, &*outcome), wanted, "{provider} {grant} {auth}");
        writeln!(
            table,
            "| {provider} | `{grant}` | `{auth}` | {sent} | {outcome} |"
        )
        .unwrap();
    }
    println!("{table}");
    let page = fs::read_to_string(PAGE).unwrap();
    let (before, rest) = page.split_once(MARKS[0]).unwrap();
    let (_, after) = rest.split_once(MARKS[1]).unwrap();
    let expected = [before, MARKS[0], "\n", &table, "\n", MARKS[1], after].concat();
    if std::env::var_os("UPDATE").is_some() {
        fs::write(PAGE, expected).unwrap();
    } else {
        assert_eq!(page, expected, "run this test with UPDATE=1");
    }
}
