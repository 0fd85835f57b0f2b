//! Checks the documents of the A2A server against its code.

use a2a::ErrorReason;
use a2a::v1_0::TaskState;
use a2a_server::metrics::{Metrics, PushResult};
use gateway_bridge::session_key;

use crate::contract::{documents::help, generated, settings::table_with_flags, text};

/// Flags of settings. Those of limits are `--limit`.
const FLAGS: &[(&str, &[&str])] = &[
    ("listen", &["--listen", "--port"]),
    ("publicUrl", &["--public-url"]),
    ("hosts", &["--host"]),
    ("name", &["--name"]),
    ("description", &["--description"]),
    ("tls.certFile", &["--tls-cert"]),
    ("tls.keyFile", &["--tls-key"]),
    ("behindProxy", &["--behind-proxy"]),
    ("trustedProxies", &["--trusted-proxy"]),
    ("stateDir", &["--state-dir"]),
    ("executor", &["--executor"]),
    ("gateway.url", &["--gateway"]),
    ("gateway.token", &["--gateway-token-env"]),
    ("agents", &["--agent"]),
    ("sessionId", &["--session-id"]),
    ("agentId", &["--agent-id"]),
    ("thinking", &["--thinking"]),
    ("timeout", &["--timeout"]),
    ("drain", &["--drain"]),
    ("openclawPath", &["--openclaw-path"]),
    ("workingDirectory", &["--working-directory"]),
    ("envVars", &["--env-var"]),
    ("passEnv", &["--pass-env"]),
    ("local", &["--local"]),
    ("asyncMode", &["--async-mode"]),
    ("whileWorking", &["--while-working"]),
    ("taskStore", &["--task-store", "--task-store-env"]),
    ("fsync", &["--fsync"]),
    ("retention.age", &["--retention-age"]),
    ("retention.count", &["--retention-count"]),
    ("retention.unanswered", &["--retention-unanswered"]),
    ("push.allowedUrls", &["--allow-webhook"]),
    ("push.allowAnyAddress", &["--allow-any-webhook"]),
];

/// The condition of the refusal.
const REASONS: [(ErrorReason, &str); 19] = [
    (ErrorReason::ParseError, "the body is no JSON"),
    (
        ErrorReason::InvalidRequest,
        "the body is JSON and no request",
    ),
    (
        ErrorReason::PayloadTooLarge,
        "the body is larger than `limits.bodyBytes`",
    ),
    (
        ErrorReason::MethodNotFound,
        "there is no such method, path or agent",
    ),
    (
        ErrorReason::InvalidParams,
        "something is missing or wrong; the field is named",
    ),
    (ErrorReason::InternalError, "something here failed"),
    (
        ErrorReason::Unauthenticated,
        "the token is missing, unknown or revoked",
    ),
    (
        ErrorReason::PermissionDenied,
        "the token does not reach so far, or `Host` or `Origin` is not the server's",
    ),
    (
        ErrorReason::ResourceExhausted,
        "too many requests, bodies, open tasks or webhooks",
    ),
    (
        ErrorReason::Unavailable,
        "the server is being stopped, or its store or its agents do not answer",
    ),
    (
        ErrorReason::TaskNotFound,
        "there is no such task or context of this client",
    ),
    (ErrorReason::TaskNotCancelable, "the task has ended"),
    (
        ErrorReason::PushNotificationNotSupported,
        "there are no push notifications",
    ),
    (
        ErrorReason::UnsupportedOperation,
        "not in this state of the task, or not on this server",
    ),
    (
        ErrorReason::ContentTypeNotSupported,
        "a part of a kind, or a body of a type, that is not taken",
    ),
    (
        ErrorReason::InvalidAgentResponse,
        "the agent answered what cannot be understood",
    ),
    (
        ErrorReason::ExtendedAgentCardNotConfigured,
        "there is no extended card",
    ),
    (
        ErrorReason::ExtensionSupportRequired,
        "an extension has to be supported",
    ),
    (
        ErrorReason::VersionNotSupported,
        "not in this version of A2A",
    ),
];

fn flags(path: &str) -> Vec<String> {
    if path.starts_with("limits.") {
        return vec!["--limit".to_owned()];
    }
    let known = FLAGS.iter().find(|(of, _)| *of == path);
    let flags = known.map_or(&[][..], |(_, flags)| flags);
    flags.iter().map(|flag| (*flag).to_owned()).collect()
}

#[test]
fn serve_settings_table_matches_the_schema() {
    let table = table_with_flags("schema/serve.schema.json", flags);
    let help = help(&["serve"]);
    for (path, flags) in FLAGS {
        assert!(table.contains(&format!("| `{path}` |")), "{path}");
        for flag in *flags {
            assert!(
                help.contains(&format!("{flag} <")) || help.contains(&format!("{flag}\n")),
                "{flag}"
            );
        }
    }
    generated::part("docs/reference/serve.md", "serve-settings", &table);
}

#[test]
fn refusal_table_matches_the_codes() {
    let mut table =
        "| `ErrorInfo.reason` | JSON-RPC | HTTP+JSON 1.0 | when |\n|---|---|---|---|\n".to_owned();
    for (reason, when) in REASONS {
        let (status, _) = reason.status();
        table += &format!(
            "| `{}` | {} | {} | {when} |\n",
            reason.name(),
            reason.code(),
            status.as_u16(),
        );
    }
    generated::part("docs/reference/serve.md", "serve-errors", &table);
}

/// Every metric of a server is in the table, with its name on the page of metrics.
#[test]
fn metrics_table_matches_the_server() {
    let page = text("docs/reference/serve.md");
    let metrics = Metrics::new();
    // The page omits metrics without a value.
    metrics.record_state(&TaskState::Working);
    metrics.record_push(PushResult::Delivered);
    let counted = metrics.text();
    let mut checked = 0;
    for line in counted.lines() {
        let Some(name) = line
            .strip_prefix("# TYPE ")
            .and_then(|line| line.split(' ').next())
        else {
            continue;
        };
        assert!(page.contains(&format!("| `{name}")), "{name}");
        checked += 1;
    }
    assert!(checked >= 5, "{counted}");
}

/// The documents show the session of a context, for servers with and without clients.
#[test]
fn session_examples_match_the_code() {
    let page = text("docs/reference/serve.md");
    for context in [
        "550e8400-e29b-41d4-a716-446655440000",
        "user:123/session:456",
        "my_context_123",
        "My context",
    ] {
        for session in [
            session_key::session_id(context),
            session_key::session_id_of_client("ada", context),
        ] {
            let row = page.lines().any(|line| {
                line.starts_with(&format!("| `{context}` |"))
                    && line.contains(&format!("| `{session}` |"))
            });
            assert!(row, "{context} is {session}");
        }
    }
}
