#![allow(clippy::unwrap_used)]
use std::fs;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use base::environment::Clock;
use secrecy::ExposeSecret as _;
use serde_json::json;

use super::*;
use crate::auth::{Authorization, TokenEndpoint, exchange};
use crate::credential::{AwsKeySource, AwsSigV4, Credential};
use crate::testing::{Next, Scripted, request};

struct At(&'static str);

impl Clock for At {
    fn now(&self) -> std::time::Instant {
        std::time::Instant::now()
    }

    fn system_time(&self) -> SystemTime {
        humantime::parse_rfc3339(self.0).unwrap()
    }
}

const NOW: &str = "2026-01-01T00:00:00Z";

fn shell<T>(script: &str) -> CommandCredential<T> {
    let command = ["/bin/sh", "-c", script].map(str::to_owned);
    let mut credential =
        CommandCredential::new(command.into(), Vec::new(), Duration::from_secs(20));
    credential.tokens.clock = Arc::new(At(NOW));
    credential
}

async fn failure(script: &str) -> String {
    let error = shell(script).fetch_bearer().await.err().unwrap();
    assert_eq!(error.fault(), NetFault::TokenUnavailable);
    error.to_string()
}

/// A file of its own in the temporary directory, to which programs of a test append. Removed at the end.
struct Counter(std::path::PathBuf);

impl Counter {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!(
            "credential-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        Self(env::temp_dir().join(name))
    }

    /// Returns a script that prints a new token each time.
    fn script(&self) -> String {
        let file = self.0.display();
        format!("echo x >> {file}; echo token-$(wc -l < {file} | tr -d ' ')")
    }

    fn runs(&self) -> usize {
        fs::read_to_string(&self.0)
            .unwrap_or_default()
            .lines()
            .count()
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn each_form_is_read() {
    let exec = |expiry: &str| {
        json!({"kind": "ExecCredential", "status": {"token": "one", "expirationTimestamp": expiry}})
            .to_string()
    };
    let jwt = "urn:ietf:params:oauth:token-type:id_token";
    for (printed, seconds) in [
        ("one".to_owned(), None),
        ("\u{feff}one\r\n".to_owned(), None),
        (exec("2026-01-01T00:10:00Z"), Some(600.0)),
        (exec("2026-01-01T02:10:00.000+02:00"), Some(600.0)),
        (exec("2025-12-31T23:40:00-00:30"), Some(600.0)),
        (json!({"status": {"token": "one"}}).to_string(), None),
        (json!({"access_token": "one", "expires_in": 60, "token_type": "bEARER"}).to_string(), Some(60.0)),
        (json!({"access_token": "one", "expires_in": " 60 "}).to_string(), Some(60.0)),
        (json!({"access_token": "one", "expires_in": 60.5}).to_string(), Some(60.5)),
        (json!({"access_token": "one", "expires_in": 0}).to_string(), None),
        (json!({"access_token": "one", "expires_in": -5}).to_string(), None),
        (json!({"access_token": "one", "token_type": "N_A"}).to_string(), None),
        (json!({"version": 1, "success": true, "token_type": jwt, "id_token": "one", "expiration_time": 1_767_225_660}).to_string(), Some(60.0)),
        (json!({"accessToken": "one", "expiresOn": "2026-01-01 01:00:00.000000", "expires_on": 1_767_225_660, "tokenType": "Bearer"}).to_string(), Some(60.0)),
    ] {
        let read = shell::<HeaderValue>("").bearer(printed.as_bytes());
        assert_eq!(read, Ok(("one".to_owned(), seconds)), "{printed}");
    }
}

#[tokio::test]
async fn unusable_outputs_are_refused_without_being_quoted() {
    for (script, expected) in [
        ("true", "printed nothing"),
        ("echo", "printed nothing"),
        (r#"echo '{"s3cret": 1}'"#, "in a known form"),
        (r#"echo '["s3cret"]'"#, "in a known form"),
        (r#"echo '"s3cret"'"#, "in a known form"),
        (r#"echo '{"access_token": "s3cret'"#, "in a known form"),
        (r#"echo '{"access_token": 5}'"#, "in a known form"),
        (r#"echo '{"access_token": ""}'"#, "is empty"),
        (r"printf 'not signed in s3cret\n'", "spaces"),
        (r"printf 's3cret\nx-evil: 1\n'", "line breaks"),
        (r"printf 's3cret\001'", "other characters"),
        (
            r#"printf '%s' '{"access_token": "s3cret\r\nx-evil: 1"}'"#,
            "line breaks",
        ),
        (r"printf '\377\376'", "not UTF-8"),
        (
            r#"echo '{"access_token": "s3cret", "token_type": "DPoP"}'"#,
            "type `dpop`",
        ),
        (
            r#"echo '{"status": {"token": "s3cret", "clientCertificateData": "s3cret"}}'"#,
            "client certificate",
        ),
        (
            r#"echo '{"status": {"token": "s3cret", "expirationTimestamp": "2025-12-31T23:59:59Z"}}'"#,
            "has expired",
        ),
        (
            r#"echo '{"status": {"token": "s3cret", "expirationTimestamp": "s3cret"}}'"#,
            "no time of RFC 3339",
        ),
        (
            r#"echo '{"success": true, "id_token": "s3cret", "expiration_time": 1}'"#,
            "has expired",
        ),
        (
            r#"echo '{"success": false, "code": "401", "message": "s3cret"}'"#,
            "`success` is not true",
        ),
        (
            r#"echo '{"Version": 1, "AccessKeyId": "s3cret", "SecretAccessKey": "s3cret"}'"#,
            "awsSigV4",
        ),
    ] {
        let error = failure(script).await;
        assert!(
            error.contains(expected) && !error.contains("s3cret"),
            "{script}: {error}"
        );
        assert!(
            error.starts_with("the command `sh` gave no credential: "),
            "{error}"
        );
    }
}

#[tokio::test]
async fn program_that_does_not_exist_is_named() {
    let command = vec!["/nowhere/get-token".to_owned(), "s3cret".to_owned()];
    let credential = CommandCredential::new(command, Vec::new(), Duration::from_secs(20));
    let error = credential.fetch_bearer().await.err().unwrap().to_string();
    assert!(
        error.contains("`get-token` gave no credential: it does not start"),
        "{error}"
    );
    assert!(!error.contains("s3cret"), "{error}");
}

#[tokio::test]
async fn hanging_program_ends_with_its_children_at_the_limit() {
    let pids = Counter::new();
    let mut credential = shell(&format!(
        "sleep 300 & echo $! > {}; echo x >&2; wait",
        pids.0.display()
    ));
    credential.timeout = Duration::from_millis(5000);
    let error = credential.fetch_bearer().await.err().unwrap().to_string();
    assert!(error.contains("did not end within 5000 ms"), "{error}");
    let child = fs::read_to_string(&pids.0).unwrap();
    let state = || {
        let mut ps = std::process::Command::new("ps");
        let found = ps.args(["-o", "stat=", "-p", child.trim()]).output();
        String::from_utf8(found.unwrap().stdout).unwrap()
    };
    // What is left of an ended process stays until its new parent asks for its status.
    while !(state().trim().is_empty() || state().starts_with('Z')) {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn endless_output_ends_the_program() {
    let started = std::time::Instant::now();
    let error = failure("exec yes s3cret").await;
    assert!(
        error.contains("more than 65536 bytes") && !error.contains("s3cret"),
        "{error}"
    );
    assert!(started.elapsed() < Duration::from_secs(15));
    let fast = failure("head -c 70000 /dev/zero | tr '\\0' a").await;
    assert!(fast.contains("more than 65536 bytes"), "{fast}");
}

#[tokio::test]
async fn standard_error_is_one_line_without_secrets() {
    let status = "it failed with exit status: 1";
    for (script, expected) in [
        (
            "echo 'permission denied (403)' >&2; echo second >&2; exit 1",
            format!("{status}: permission denied (403)"),
        ),
        (
            "echo 'bad token=hunter2-abc, eyJhbGciOiJub25lIn0.e30.x' >&2; exit 1",
            format!("{status}: bad token=[redacted], [redacted]"),
        ),
        (
            "printf 'x\\033[31m hun\\342\\200\\213ter2-abc\\n' >&2; exit 1",
            format!("{status}: x [redacted]"),
        ),
        (
            "echo correcthorse; echo 'refused correcthorse' >&2; exit 1",
            status.to_owned(),
        ),
        (
            "head -c 9000 /dev/zero | tr '\\0' a >&2; exit 1",
            status.to_owned(),
        ),
        ("echo s3cret; exit 1", status.to_owned()),
    ] {
        let error = failure(script).await;
        assert_eq!(
            error,
            format!("the command `sh` gave no credential: {expected}"),
            "{script}"
        );
    }
    let mut given = shell("echo \"cannot use $SHELL\" >&2; exit 1");
    given.env = vec!["SHELL".into()];
    let Ok(value) = env::var("SHELL") else { return };
    let error = given.fetch_bearer().await.err().unwrap().to_string();
    assert!(!error.contains(&value), "{error}");
}

#[tokio::test]
async fn error_omits_the_arguments_of_the_program() {
    for arguments in [
        ["--password", "opensesame"],
        ["--password=opensesame", "--user=desk"],
        ["--login='desk:opensesame'", "--user=desk"],
        ["--quiet", "printf x | PASSWORD=opensesame sign-in"],
    ] {
        let script = r#"echo "cannot use $(printf open; printf sesame)." >&2; exit 1"#;
        let command = ["/bin/sh", "-c", script, "sh"].into_iter().chain(arguments);
        let credential: CommandCredential = CommandCredential::new(
            command.map(str::to_owned).collect(),
            Vec::new(),
            Duration::from_secs(20),
        );
        let error = credential.fetch_bearer().await.err().unwrap().to_string();
        assert!(error.ends_with(": cannot use [redacted]."), "{error}");
    }
}

#[tokio::test]
async fn program_gets_only_the_named_variables() {
    let script =
        "env | cut -d= -f1 | grep -v -x -e PWD -e SHLVL -e _ -e OLDPWD | sort | tr '\\n' ,";
    let seen = |env: Vec<String>| async move {
        let mut credential = shell::<HeaderValue>(script);
        credential.env = env;
        String::from_utf8(credential.output().await.unwrap()).unwrap()
    };
    // Cargo sets the variable for tests.
    let name = "CARGO_MANIFEST_DIR";
    let expected = |more: &str| {
        let home = if env::var_os("HOME").is_some() {
            "HOME,"
        } else {
            ""
        };
        format!("{more}{home}KUBERNETES_EXEC_INFO,PATH,")
    };
    assert_eq!(seen(vec![]).await, expected(""));
    assert_eq!(
        seen(vec![name.into(), "NO_SUCH".into()]).await,
        expected("CARGO_MANIFEST_DIR,")
    );
}

#[tokio::test]
async fn standard_input_is_closed_and_arguments_are_no_shell_text() {
    let command = ["/bin/echo", "-n", "$(id);`id`"].map(str::to_owned);
    let credential: CommandCredential =
        CommandCredential::new(command.into(), vec![], Duration::from_secs(20));
    assert_eq!(credential.output().await.unwrap(), b"$(id);`id`");
    assert_eq!(
        shell::<HeaderValue>("cat; echo end")
            .output()
            .await
            .unwrap(),
        b"end\n"
    );
}

#[tokio::test]
async fn program_comes_from_absolute_directories_only() {
    let output = shell::<HeaderValue>("pwd").output().await;
    assert_eq!(output.unwrap(), b"/\n");
    for (list, expected) in [
        ("/bin:bin::./x:/usr/bin", Some("/bin:/usr/bin")),
        (":.", None),
        ("", None),
    ] {
        let kept = absolute_paths(OsStr::new(list));
        assert_eq!(kept, expected.map(OsString::from), "{list}");
    }
}

fn authorization(credential: Credential) -> Authorization {
    Authorization {
        credential: Arc::new(credential),
        endpoint: TokenEndpoint {
            allow_private: false,
            trust: None,
        },
    }
}

/// Sends a request and returns the status of its answer.
async fn send(net: &Scripted, authorization: &Authorization) -> u16 {
    let answer = exchange(net, authorization.clone(), request("https://a.example/")).await;
    answer.unwrap().status.as_u16()
}

fn answers(statuses: &[u16]) -> Scripted {
    Scripted::new(statuses.iter().map(|status| Next::status(*status)))
}

#[tokio::test]
async fn simultaneous_requests_start_the_program_once() {
    let counter = Counter::new();
    let credential = authorization(Credential::Command(Arc::new(shell(&format!(
        "sleep 0.2; {}",
        counter.script()
    )))));
    let net = answers(&[200; 4]);
    let (one, other) = tokio::join!(send(&net, &credential), send(&net, &credential));
    assert_eq!((one, other, send(&net, &credential).await), (200, 200, 200));
    assert_eq!(
        (counter.runs(), net.headers("authorization")),
        (1, vec!["Bearer token-1".to_owned(); 3])
    );
    let issued = credential.credential.issued().unwrap();
    assert_eq!(issued.last().unwrap().expose_secret(), "token-1");
    assert_eq!(format!("{credential:?}").matches("token-1").count(), 0);
}

#[tokio::test]
async fn simultaneous_requests_share_a_failure() {
    let counter = Counter::new();
    let script = format!("sleep 0.2; {}; exit 1", counter.script());
    let credential = authorization(Credential::Command(Arc::new(shell(&script))));
    let net = answers(&[]);
    let send = || exchange(&net, credential.clone(), request("https://a.example/"));
    let (one, other) = tokio::join!(send(), send());
    assert_eq!(one.err(), other.err());
    assert_eq!(counter.runs(), 1);
}

#[tokio::test]
async fn refused_credential_is_fetched_again_once() {
    let counter = Counter::new();
    let credential = authorization(Credential::Command(Arc::new(shell(&counter.script()))));
    let net = answers(&[401, 401, 403]);
    assert_eq!(send(&net, &credential).await, 401);
    assert_eq!(send(&net, &credential).await, 403);
    assert_eq!(counter.runs(), 2);
    assert_eq!(
        net.headers("authorization"),
        ["Bearer token-1", "Bearer token-2", "Bearer token-2"]
    );
}

#[tokio::test]
async fn refusals_run_the_program_at_most_once_in_an_interval() {
    for printed in ["same", "token-$(wc -l < \"$0\" | tr -d ' ')"] {
        let counter = Counter::new();
        let mut command = shell("");
        command.command = [
            "/bin/sh",
            "-c",
            &format!("echo x >> \"$0\"; echo {printed}"),
        ]
        .map(str::to_owned)
        .into();
        command.command.push(counter.0.display().to_string());
        let credential = authorization(Credential::Command(Arc::new(command)));
        let net = answers(&[401; 40]);
        let at_once = (0..10).map(|_| send(&net, &credential));
        assert_eq!(futures_util::future::join_all(at_once).await, [401; 10]);
        for _ in 0..3 {
            assert_eq!(send(&net, &credential).await, 401);
        }
        assert_eq!(counter.runs(), 2, "{printed}");
    }
}

#[tokio::test]
async fn failing_program_is_not_run_by_each_call() {
    let counter = Counter::new();
    let script = format!("{}; exit 1", counter.script());
    let credential = authorization(Credential::Command(Arc::new(shell(&script))));
    let net = answers(&[]);
    for _ in 0..3 {
        let sent = exchange(&net, credential.clone(), request("https://a.example/"));
        let fault = sent.await.err().map(|error| error.fault());
        assert_eq!(fault, Some(NetFault::TokenUnavailable));
    }
    assert_eq!(counter.runs(), 1);
}

#[tokio::test]
async fn program_of_a_canceled_call_runs_to_its_end() {
    let counter = Counter::new();
    let file = counter.0.display();
    let script = format!("echo x >> {file}; sleep 0.3; echo token-$(wc -l < {file} | tr -d ' ')");
    let credential = authorization(Credential::Command(Arc::new(shell(&script))));
    let net = answers(&[200]);
    let has_started = async {
        while counter.runs() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        _ = send(&net, &credential) => unreachable!("the program sleeps"),
        () = has_started => {}
    }
    assert_eq!(send(&net, &credential).await, 200);
    assert_eq!(net.headers("authorization"), ["Bearer token-1"]);
    assert_eq!(counter.runs(), 1);
}

#[tokio::test]
async fn same_credential_is_not_sent_twice() {
    let credential = authorization(Credential::Command(Arc::new(shell("echo same"))));
    let net = answers(&[401]);
    assert_eq!(send(&net, &credential).await, 401);
    assert_eq!(net.headers("authorization"), ["Bearer same"]);
}

#[tokio::test]
async fn credential_is_replaced_before_it_expires() {
    let counter = Counter::new();
    let script = format!(
        "{} | sed 's/.*/{{\"access_token\": \"&\", \"expires_in\": 1}}/'",
        counter.script()
    );
    let credential = authorization(Credential::Command(Arc::new(shell(&script))));
    let net = answers(&[200, 200]);
    assert_eq!(
        (send(&net, &credential).await, send(&net, &credential).await),
        (200, 200)
    );
    assert_eq!(
        net.headers("authorization"),
        ["Bearer token-1", "Bearer token-2"]
    );
}

/// A clock that a test sets, in seconds after [`NOW`].
struct SetClock(AtomicU64);

impl Clock for SetClock {
    fn now(&self) -> std::time::Instant {
        std::time::Instant::now()
    }

    fn system_time(&self) -> SystemTime {
        At(NOW).system_time() + Duration::from_secs(self.0.load(Ordering::Relaxed))
    }
}

#[tokio::test]
async fn token_expires_while_the_machine_is_suspended() {
    let counter = Counter::new();
    let script = format!(
        "{} | sed 's/.*/{{\"access_token\": \"&\", \"expires_in\": 600}}/'",
        counter.script()
    );
    let (mut command, clock) = (shell(&script), Arc::new(SetClock(AtomicU64::new(0))));
    command.tokens.clock = Arc::clone(&clock) as Arc<dyn Clock>;
    let credential = authorization(Credential::Command(Arc::new(command)));
    let net = answers(&[200; 3]);
    for (seconds, runs) in [(0, 1), (569, 1), (571, 2)] {
        clock.0.store(seconds, Ordering::Relaxed);
        assert_eq!(send(&net, &credential).await, 200);
        assert_eq!(counter.runs(), runs, "{seconds}");
    }
}

#[tokio::test]
async fn refused_keys_of_aws_are_replaced() {
    for status in [401, 403] {
        let counter = Counter::new();
        let keys = r#"{"AccessKeyId": "&", "SecretAccessKey": "wJalrXUtnFEMI"}"#;
        let command = shell(&format!("{} | sed 's/.*/{keys}/'", counter.script()));
        let credential = authorization(Credential::AwsSigV4(Box::new(AwsSigV4 {
            region: "us-east-1".into(),
            service: "bedrock-agentcore".into(),
            keys: AwsKeySource::Command(Arc::new(command)),
            clock: Arc::new(At(NOW)),
        })));
        let net = answers(&[status, 200, status]);
        assert_eq!(send(&net, &credential).await, 200);
        assert_eq!(send(&net, &credential).await, status);
        assert_eq!(counter.runs(), 2);
        let sent = net.headers("authorization").join("\n");
        let uses = |id: &str| sent.matches(&format!("Credential={id}/")).count();
        assert_eq!((uses("token-1"), uses("token-2")), (1, 2), "{sent}");
    }
}

#[tokio::test]
async fn program_prints_keys_of_aws() {
    let keys = r#"{"Version": 1, "AccessKeyId": "AKIDEXAMPLE", "SecretAccessKey": "wJalrXUtnFEMI", "SessionToken": "session-s3cret", "Expiration": "2026-01-01T01:00:00+00:00"}"#;
    let signer = |script: String| {
        authorization(Credential::AwsSigV4(Box::new(AwsSigV4 {
            region: "us-east-1".into(),
            service: "bedrock-agentcore".into(),
            keys: AwsKeySource::Command(Arc::new(shell(&script))),
            clock: Arc::new(At(NOW)),
        })))
    };
    let credential = signer(format!("echo '{keys}'"));
    let net = answers(&[200]);
    assert_eq!(send(&net, &credential).await, 200);
    assert_eq!(net.headers("x-amz-security-token"), ["session-s3cret"]);
    let header = net.headers("authorization").remove(0);
    let start = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260101/us-east-1/bedrock-agentcore/aws4_request, ";
    assert!(header.starts_with(start), "{header}");
    let issued = credential.credential.issued().unwrap();
    let issued: Vec<_> = issued
        .iter()
        .map(|secret| secret.expose_secret().to_owned())
        .collect();
    assert_eq!(issued, ["AKIDEXAMPLE", "wJalrXUtnFEMI", "session-s3cret"]);
    for (printed, expected) in [
        (keys.replace("2026-", "2025-"), "has expired"),
        (
            keys.replace("\"Version\": 1", "\"Version\": 2"),
            "another `Version`",
        ),
        (keys.replace("SecretAccessKey", "Key"), "no keys of AWS"),
        (
            keys.replace("session-s3cret", r"session-s3cret\\u000d\\u000ax: y"),
            "line breaks",
        ),
        ("s3cret".to_owned(), "no keys of AWS"),
    ] {
        let credential = signer(format!("echo '{printed}'"));
        let error = exchange(&answers(&[]), credential, request("https://a.example/")).await;
        let error = error.err().unwrap().to_string();
        assert!(
            error.contains(expected) && !error.contains("s3cret"),
            "{printed}: {error}"
        );
    }
}
