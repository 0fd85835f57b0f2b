//! The environment variables of the server: selects the ones that the command receives, and finds the secret ones.

use std::ffi::OsString;

use secrecy::SecretString;
use url::Url;

/// Variables that programs need for files, language and network, separated by spaces. A final `*` marks a prefix. They contain no secrets,
/// except for the passwords of proxies and the variables that [`has_secret_name`] matches.
const COMMON_VARIABLES: &str = "\
    PATH HOME USER LOGNAME SHELL LANG LANGUAGE LC_* TZ TERM TMPDIR TMP TEMP XDG_* DBUS_SESSION_BUS_ADDRESS NO_COLOR \
    DO_NOT_TRACK NODE_OPTIONS NODE_EXTRA_CA_CERTS NODE_USE_SYSTEM_CA NODE_COMPILE_CACHE NODE_DISABLE_COMPILE_CACHE \
    SSL_CERT_FILE SSL_CERT_DIR HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY OPENCLAW_*";

/// Those of Windows.
const WINDOWS_VARIABLES: &str = "\
    SYSTEMROOT SYSTEMDRIVE WINDIR COMSPEC PATHEXT USERNAME USERPROFILE HOMEDRIVE HOMEPATH APPDATA LOCALAPPDATA \
    PROGRAMDATA PROGRAMFILES PROGRAMFILES(X86) COMMONPROGRAMFILES COMPUTERNAME NUMBER_OF_PROCESSORS \
    PROCESSOR_ARCHITECTURE";

/// The variables with credentials of the model providers that OpenClaw 2026.9.6 supports. OpenClaw needs them to run a
/// turn itself.
const PROVIDERS: &str = "\
    AI_GATEWAY_API_KEY ANTHROPIC_API_KEY ANTHROPIC_OAUTH_TOKEN ARCEEAI_API_KEY AZURE_OPENAI_API_KEY BASETEN_API_KEY \
    BYTEPLUS_API_KEY CEREBRAS_API_KEY CHUTES_API_KEY CHUTES_OAUTH_TOKEN CLAWROUTER_API_KEY \
    CLOUDFLARE_AI_GATEWAY_API_KEY CODEX_API_KEY COHERE_API_KEY COPILOT_GITHUB_TOKEN DASHSCOPE_API_KEY \
    DEEPINFRA_API_KEY DEEPSEEK_API_KEY FEATHERLESS_API_KEY FIREWORKS_API_KEY GEMINI_API_KEY GMI_API_KEY \
    GOOGLE_API_KEY GOOGLE_CLOUD_API_KEY GRADIUM_API_KEY GROQ_API_KEY HF_TOKEN HUGGINGFACE_HUB_TOKEN KILOCODE_API_KEY \
    KIMICODE_API_KEY KIMI_API_KEY LITELLM_API_KEY LLAMA_SERVER_API_KEY LM_API_TOKEN LONGCAT_API_KEY MINIMAX_API_KEY \
    MINIMAX_CODE_PLAN_KEY MINIMAX_CODING_API_KEY MINIMAX_OAUTH_TOKEN MISTRAL_API_KEY MODELSTUDIO_API_KEY \
    MODEL_API_KEY MOONSHOT_API_KEY NOVITA_API_KEY NVIDIA_API_KEY OLLAMA_API_KEY OPENAI_API_KEY OPENCODE_API_KEY \
    OPENCODE_ZEN_API_KEY OPENROUTER_API_KEY PERPLEXITY_API_KEY QIANFAN_API_KEY QWEN_API_KEY QWEN_TOKEN_PLAN_API_KEY \
    SGLANG_API_KEY STEPFUN_API_KEY SYNTHETIC_API_KEY TOGETHER_API_KEY TOKENHUB_API_KEY TOKENPLAN_API_KEY \
    VENICE_API_KEY VLLM_API_KEY VOLCANO_ENGINE_API_KEY XAI_API_KEY XIAOMI_API_KEY XIAOMI_TOKEN_PLAN_API_KEY \
    ZAI_API_KEY Z_AI_API_KEY";

/// Words that occur in the names of variables with secrets.
const SECRET_NAME_PARTS: [&str; 7] = [
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "APIKEY",
];

/// The minimum length of a secret in a configured variable with such a name, in bytes. Redacting shorter values would
/// damage ordinary text.
const MIN_SECRET_BYTES: usize = 4;

/// The minimum length of a secret in other variables, and in those of the server's own environment, in bytes.
const MIN_ADDRESSED_SECRET_BYTES: usize = 8;

/// Returns the variables that the command receives: the common variables, the ones named in `more`, and, if `models` is
/// true, the credentials of model providers.
pub(super) fn child_environment(
    variables: impl Iterator<Item = (OsString, OsString)>,
    models: bool,
    more: &[String],
) -> impl Iterator<Item = (OsString, OsString)> {
    variables.filter(move |(name, _)| {
        let name = name.to_string_lossy();
        let upper = name.to_ascii_uppercase();
        is_common(&upper)
            || (models && PROVIDERS.split(' ').any(|known| known == upper))
            || more.iter().any(|pattern| matches(pattern, &name))
    })
}

fn is_common(upper: &str) -> bool {
    let windows = WINDOWS_VARIABLES.split(' ');
    let mut all = COMMON_VARIABLES.split(' ').chain(windows);
    all.any(|pattern| matches(pattern, upper))
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(first) => name.starts_with(first),
        None => name == pattern,
    }
}

/// Returns the secret values in the server's own environment variables.
pub(crate) fn environment_secrets(
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Vec<SecretString> {
    let texts = variables.filter_map(|(name, value)| Some((name, value.into_string().ok()?)));
    let secrets = texts.flat_map(|(name, value)| {
        let name = name.to_string_lossy().to_ascii_uppercase();
        let own = has_secret_name(&name) && value.len() >= MIN_ADDRESSED_SECRET_BYTES;
        password(&value)
            .into_iter()
            .chain(own.then(|| value.into()))
    });
    secrets.collect()
}

/// Returns the secret values in the configured variables of the command: all except the common variables.
pub(crate) fn configured_secrets<'a>(
    variables: impl Iterator<Item = (&'a str, &'a str)>,
) -> Vec<SecretString> {
    let secrets = variables.flat_map(|(name, value)| {
        let name = name.to_ascii_uppercase();
        let min_bytes = match has_secret_name(&name) {
            true => MIN_SECRET_BYTES,
            false if is_common(&name) => usize::MAX,
            false => MIN_ADDRESSED_SECRET_BYTES,
        };
        let own = (value.len() >= min_bytes).then(|| value.into());
        password(value).into_iter().chain(own)
    });
    secrets.collect()
}

/// Returns whether a variable with this name has a secret. The name of a file or a socket is no secret.
fn has_secret_name(upper: &str) -> bool {
    let mut parts = upper.split('_');
    let place = parts.clone().next_back();
    let is_place = place.is_some_and(|part| matches!(part, "FILE" | "PATH" | "DIR" | "SOCK"));
    let has_secret_part = SECRET_NAME_PARTS.iter().any(|part| upper.contains(part))
        || parts.any(|part| part == "KEY");
    has_secret_part && !is_place
}

/// Returns the password in the URL of a store or proxy, both percent-encoded and decoded.
pub(crate) fn password(address: &str) -> Vec<SecretString> {
    let parsed = Url::parse(address).ok();
    let Some(encoded) = parsed.as_ref().and_then(Url::password) else {
        return Vec::new();
    };
    let plain = percent_encoding::percent_decode_str(encoded).decode_utf8_lossy();
    let all = [encoded.to_owned(), plain.into_owned()];
    let long = all
        .into_iter()
        .filter(|text| text.len() >= MIN_SECRET_BYTES);
    long.map(SecretString::from).collect()
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret as _;

    use super::*;

    fn variables(all: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        let all = all.iter();
        all.map(|(name, value)| (name.into(), value.into()))
            .collect()
    }

    fn names(models: bool, more: &[&str], all: &[&str]) -> Vec<String> {
        let all: Vec<_> = all.iter().map(|name| (*name, "v")).collect();
        let more: Vec<_> = more.iter().map(|name| (*name).to_owned()).collect();
        let passed = child_environment(variables(&all).into_iter(), models, &more);
        passed
            .map(|(name, _)| name.to_string_lossy().into_owned())
            .collect()
    }

    fn texts(secrets: Vec<SecretString>) -> Vec<String> {
        let secrets = secrets.iter();
        secrets
            .map(|secret| secret.expose_secret().to_owned())
            .collect()
    }

    #[test]
    fn child_environment_has_basic_variables() {
        let all = [
            "PATH",
            "LC_ALL",
            "https_proxy",
            "OPENCLAW_HOME",
            "REDIS_URL",
            "MY_TOKEN",
            "GATEWAY",
        ];
        assert_eq!(
            names(true, &[], &all),
            ["PATH", "LC_ALL", "https_proxy", "OPENCLAW_HOME"]
        );
    }

    #[test]
    fn passes_keys_of_models_where_turns_may_run_here() {
        let all = ["OPENAI_API_KEY", "STRIPE_API_KEY"];
        assert_eq!(names(true, &[], &all), ["OPENAI_API_KEY"]);
        assert!(names(false, &[], &all).is_empty());
    }

    #[test]
    fn child_environment_has_named_and_prefixed_variables() {
        let all = ["AWS_REGION", "AWS_PROFILE", "GH_TOKEN", "GH_TOKENS"];
        assert_eq!(
            names(true, &["AWS_*", "GH_TOKEN"], &all),
            ["AWS_REGION", "AWS_PROFILE", "GH_TOKEN"]
        );
    }

    #[test]
    fn secrets_are_known_by_name_and_by_address() {
        let all = variables(&[
            ("MY_TOKEN", "token-value"),
            ("SHORT_TOKEN", "abc"),
            ("DEPLOY_KEY", "key-value"),
            ("KEYBOARD", "german-layout"),
            ("TLS_KEY_FILE", "/etc/tls/key.pem"),
            ("STORE", "rediss://:p%40ss-part@h/0"),
        ]);
        let known = texts(environment_secrets(all.into_iter()));
        assert_eq!(
            known,
            ["token-value", "key-value", "p%40ss-part", "p@ss-part"]
        );
    }

    #[test]
    fn configured_values_are_secrets_except_common_ones() {
        let given = [
            ("MY_KEY", "k3y!"),
            ("THING", "unnamed-secret"),
            ("MODE", "test"),
            ("LANG", "en_US.UTF-8"),
            ("OPENCLAW_STATE_DIR", "/var/lib/openclaw"),
            ("OPENCLAW_GATEWAY_TOKEN", "gate"),
        ];
        let known = texts(configured_secrets(given.into_iter()));
        assert_eq!(known, ["k3y!", "unnamed-secret", "gate"]);
    }
}
