//! The environment variables of the export: those that the SDK does not read itself, and warnings about values that it ignores.

use std::path::Path;
use std::time::Duration;

use base::files::read_bounded;
use base::text::shortened;
use base::visible::visible;
use egress::credential::{Trust, TrustError};
use http::{HeaderName, HeaderValue};
use url::Url;

/// The receiver of all signals; spans go to `/v1/traces` below it.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// The whole URL for spans.
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";

/// The encoding of OTLP that the exporter writes.
const PROTOCOL: &str = "http/protobuf";

/// How long a receiver may take for a batch, if the environment does not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// The variables with credentials of the receiver. Commands of agents do not inherit them.
pub(crate) const SECRET_VARIABLES: [&str; 2] = [
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
];

const CERTIFICATE: &str = "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE";
const KEY: &str = "OTEL_EXPORTER_OTLP_CLIENT_KEY";

/// The maximum length of a file with certificates or a key, in bytes.
const MAX_PEM_BYTES: u64 = 1024 * 1024;

/// The maximum length of a value in a warning, in characters.
const MAX_SHOWN_CHARS: usize = 40;

const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
const SAMPLER_ARG: &str = "OTEL_TRACES_SAMPLER_ARG";

/// The samplers of the SDK.
const SAMPLERS: [&str; 6] = [
    "always_on",
    "always_off",
    "traceidratio",
    "parentbased_always_on",
    "parentbased_always_off",
    "parentbased_traceidratio",
];

/// The numbers of the SDK, with their defaults.
const NUMBERS: [(&str, u64); 3] = [
    ("OTEL_BSP_SCHEDULE_DELAY", 5000),
    ("OTEL_BSP_MAX_QUEUE_SIZE", 2048),
    ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512),
];

/// What the exporter cannot read itself: it checks little, and leaves the timeout to its HTTP client.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) url: Url,
    pub(super) timeout: Duration,
    /// The values that the export does not use, a sentence each.
    pub(super) warnings: Vec<String>,
    authorities: Option<File>,
    certificate: Option<File>,
    key: Option<File>,
}

/// A variable, and the path of a PEM file in it.
type File = (String, String);

impl Settings {
    /// Reads the variables. Returns `None` if they name no receiver, or turn the export off. No error shows a value, which may
    /// have a password.
    pub(super) fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, String> {
        let is = |name: &str, value: &str| {
            variable(name).is_some_and(|text| text.trim().eq_ignore_ascii_case(value))
        };
        if is("OTEL_SDK_DISABLED", "true") || is("OTEL_TRACES_EXPORTER", "none") {
            return Ok(None);
        }
        let (name, text, path) = match (variable(TRACES_ENDPOINT), variable(ENDPOINT)) {
            (Some(text), _) => (TRACES_ENDPOINT, text, ""),
            (None, Some(text)) => (ENDPOINT, text, "/v1/traces"),
            (None, None) => return Ok(None),
        };
        let example = "name it like `http://localhost:4318`";
        let mut url = Url::parse(text.trim())
            .map_err(|error| format!("{name} is not a URL ({error}); {example}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("{name} is not an http or https URL; {example}"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(format!(
                "{name} has user info, which is not sent; put the credential in OTEL_EXPORTER_OTLP_HEADERS"
            ));
        }
        if !path.is_empty() {
            url.set_path(&format!("{}{path}", url.path().trim_end_matches('/')));
        }
        let of_traces = |setting: &str| {
            [
                format!("OTEL_EXPORTER_OTLP_TRACES_{setting}"),
                format!("OTEL_EXPORTER_OTLP_{setting}"),
            ]
            .into_iter()
            .find_map(|name| Some((variable(&name)?, name)))
        };
        if let Some((value, name)) = of_traces("PROTOCOL")
            && value != PROTOCOL
        {
            return Err(format!(
                "{name} is not `{PROTOCOL}`, the only protocol of this command; set it so, or unset it"
            ));
        }
        let timeout = match of_traces("TIMEOUT") {
            None => DEFAULT_TIMEOUT,
            Some((value, name)) => match value.parse() {
                Ok(ms) if ms > 0 => Duration::from_millis(ms),
                _ => return Err(format!("{name} is not a number of milliseconds above 0")),
            },
        };
        let file = |setting: &str| of_traces(setting).map(|(path, name)| (name, path));
        Ok(Some(Self {
            url,
            timeout,
            warnings: warnings(&variable),
            authorities: file("CERTIFICATE"),
            certificate: file("CLIENT_CERTIFICATE"),
            key: file("CLIENT_KEY"),
        }))
    }

    /// Reads the files for TLS. Returns `None` for the authorities of the system and no certificate.
    ///
    /// # Errors
    /// A file cannot be used, with the name of its variable.
    pub(super) fn trust(&self) -> Result<Option<Trust>, String> {
        let read = |file: &Option<File>| {
            let Some((name, path)) = file else {
                return Ok(None);
            };
            let text = read_bounded(Path::new(path), MAX_PEM_BYTES);
            let text = text.map_err(|error| format!("{name}: cannot read `{path}`: {error}"))?;
            Ok::<_, String>(Some(text))
        };
        let authorities = read(&self.authorities)?;
        let own = match (read(&self.certificate)?, read(&self.key)?) {
            (None, None) => None,
            (Some(chain), Some(key)) => Some((chain, key)),
            _ => {
                return Err(format!(
                    "{CERTIFICATE} and {KEY} need each other; set both, or none"
                ));
            }
        };
        if authorities.is_none() && own.is_none() {
            return Ok(None);
        }
        let own = own.as_ref();
        let own = own.map(|(chain, key)| (chain.as_bytes(), key.as_bytes()));
        let trust = Trust::read(authorities.as_deref().map(str::as_bytes), own);
        let trust = trust.map_err(|error| {
            let (file, cause) = match error {
                TrustError::Authorities(cause) => (&self.authorities, cause),
                TrustError::Chain(cause) => (&self.certificate, cause),
                TrustError::Key(cause) => (&self.key, cause),
            };
            let (name, path) = file.as_ref().map_or(("", ""), |(name, path)| (name, path));
            format!("{name}: `{path}` {cause}")
        })?;
        Ok(Some(trust))
    }
}

/// Returns a warning for each variable with a value that the SDK replaces in silence. No warning shows a header.
fn warnings(variable: &impl Fn(&str) -> Option<String>) -> Vec<String> {
    let warning = |name: &str, value: &str, expected: &str, used: &str| {
        let value = shortened(&visible(value), MAX_SHOWN_CHARS);
        format!("{name} is `{value}` and not {expected}: {used}")
    };
    let mut all = Vec::new();

    let mut ignored = Vec::new();
    let mut used = "batches are not compressed";
    for name in [
        "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION",
        "OTEL_EXPORTER_OTLP_COMPRESSION",
    ] {
        let Some(value) = variable(name) else {
            continue;
        };
        match value.trim().to_ascii_lowercase().as_str() {
            "none" => break,
            "gzip" => {
                used = "batches are compressed with gzip";
                break;
            }
            _ => ignored.push((name, value)),
        }
    }
    let compressions = ignored.iter();
    all.extend(compressions.map(|(name, value)| warning(name, value, "`gzip` or `none`", used)));

    if let Some(exporter) = variable("OTEL_TRACES_EXPORTER")
        && exporter.trim() != "otlp"
    {
        let used = "spans go only to the receiver of OTLP";
        all.push(warning(
            "OTEL_TRACES_EXPORTER",
            &exporter,
            "`otlp` or `none`",
            used,
        ));
    }

    if let Some(sampler) = variable(SAMPLER) {
        if !SAMPLERS.contains(&&*sampler) {
            let expected = format!("one of {}", SAMPLERS.join(", "));
            let used = "`parentbased_always_on` is used";
            all.push(warning(SAMPLER, &sampler, &expected, used));
        } else if sampler.ends_with("ratio") {
            let ratio = variable(SAMPLER_ARG).unwrap_or_default();
            let number = ratio.parse::<f64>().unwrap_or(f64::INFINITY);
            if !(0.0..=1.0).contains(&number) {
                let used = format!("the ratio {} is used", number.clamp(0.0, 1.0));
                all.push(warning(SAMPLER_ARG, &ratio, "a number from 0 to 1", &used));
            }
        }
    }

    for (name, default) in NUMBERS {
        if let Some(value) = variable(name)
            && value.parse::<u64>().is_err()
        {
            let used = format!("{default} is used");
            all.push(warning(name, &value, "a number of at least 0", &used));
        }
    }

    for name in SECRET_VARIABLES {
        let value = variable(name).unwrap_or_default();
        let entries = value.split_terminator(',');
        let ignored = entries.clone().filter(|entry| !is_header(entry)).count();
        if ignored > 0 {
            let count = entries.count();
            all.push(format!(
                "{name} has {count} entries, of which {ignored} are no headers in the form `name=value`: these are not sent"
            ));
        }
    }
    all
}

/// Returns whether the SDK makes a header of an entry.
fn is_header(entry: &str) -> bool {
    entry.split_once('=').is_some_and(|(name, value)| {
        let value = value.trim();
        name.trim().parse::<HeaderName>().is_ok()
            && !value.is_empty()
            && value.parse::<HeaderValue>().is_ok()
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Reads variables, each `NAME=VALUE` without the prefix of all, separated by `; `.
    fn read(variables: &str) -> Result<Option<Settings>, String> {
        Settings::read(|name| {
            let mut variables = variables.split("; ").filter_map(|one| one.split_once('='));
            let found = variables.find(|(known, _)| name.strip_prefix("OTEL_") == Some(*known));
            found.map(|(_, value)| value.to_owned())
        })
    }

    /// Reads these variables beside the endpoint of all signals.
    fn read_with(variables: &str) -> Settings {
        let all = format!("EXPORTER_OTLP_ENDPOINT=https://localhost:4318; {variables}");
        read(&all).unwrap().unwrap()
    }

    #[test]
    fn endpoint_of_all_signals_gets_the_path_of_traces() {
        for (text, url) in [
            ("http://a.example", "http://a.example/v1/traces"),
            (
                "https://a.example/b/?k=v",
                "https://a.example/b/v1/traces?k=v",
            ),
        ] {
            let settings = read(&format!("EXPORTER_OTLP_ENDPOINT={text}"));
            let settings = settings.unwrap().unwrap();
            assert_eq!(settings.url.as_str(), url);
            assert_eq!(settings.timeout, DEFAULT_TIMEOUT);
        }
    }

    #[test]
    fn variables_of_traces_come_first() {
        let settings = read_with(
            "EXPORTER_OTLP_TRACES_ENDPOINT=http://e.example/spans; EXPORTER_OTLP_TIMEOUT=1; EXPORTER_OTLP_TRACES_TIMEOUT=250; \
            EXPORTER_OTLP_PROTOCOL=grpc; EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf",
        );
        assert_eq!(settings.url.as_str(), "http://e.example/spans");
        assert_eq!(settings.timeout, Duration::from_millis(250));
    }

    #[test]
    fn nothing_is_exported_unless_asked_for() {
        for variables in [
            "",
            "EXPORTER_OTLP_ENDPOINT=nonsense; SDK_DISABLED=TRUE",
            "EXPORTER_OTLP_ENDPOINT=nonsense; TRACES_EXPORTER=none",
        ] {
            assert_eq!(read(variables), Ok(None), "{variables}");
        }
    }

    #[test]
    fn invalid_variable_is_named_without_its_value() {
        for variable in [
            "EXPORTER_OTLP_ENDPOINT=s3cret:4318",
            "EXPORTER_OTLP_ENDPOINT=s3cret",
            "EXPORTER_OTLP_TRACES_ENDPOINT=http://me:s3cret@e.example/",
            "EXPORTER_OTLP_PROTOCOL=s3cret",
            "EXPORTER_OTLP_TIMEOUT=s3cret",
            "EXPORTER_OTLP_TRACES_TIMEOUT=0",
        ] {
            let all = format!("{variable}; EXPORTER_OTLP_ENDPOINT=http://localhost:4318");
            let error = read(&all).unwrap_err();
            let (name, _) = variable.split_once('=').unwrap();
            assert!(error.contains(&format!("OTEL_{name} ")), "{error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn ignored_value_is_named_with_what_is_used() {
        for (variables, named, used) in [
            (
                "EXPORTER_OTLP_COMPRESSION=zstd",
                "OTEL_EXPORTER_OTLP_COMPRESSION is `zstd`",
                "not compressed",
            ),
            (
                "EXPORTER_OTLP_COMPRESSION=GZIP; EXPORTER_OTLP_TRACES_COMPRESSION=zstd",
                "TRACES_COMPRESSION is `zstd`",
                "with gzip",
            ),
            ("TRACES_EXPORTER=a", "OTEL_TRACES_EXPORTER is `a`", "OTLP"),
            (
                "TRACES_SAMPLER=a",
                "SAMPLER is `a`",
                "`parentbased_always_on`",
            ),
            (
                "TRACES_SAMPLER=traceidratio",
                "SAMPLER_ARG is ``",
                "ratio 1 ",
            ),
            (
                "TRACES_SAMPLER=traceidratio; TRACES_SAMPLER_ARG=-2",
                "OTEL_TRACES_SAMPLER_ARG is `-2`",
                "ratio 0 ",
            ),
            ("BSP_MAX_QUEUE_SIZE=a", "BSP_MAX_QUEUE_SIZE is `a`", "2048"),
            (
                "EXPORTER_OTLP_HEADERS=key=k3y, s3cret,b d=s3cret,c=",
                "OTEL_EXPORTER_OTLP_HEADERS has 4 entries, of which 3",
                "not sent",
            ),
        ] {
            let warnings = read_with(variables).warnings;
            let text = warnings.join("\n");
            assert_eq!(warnings.len(), 1, "{text}");
            assert!(text.contains(named) && text.contains(used), "{text}");
            assert!(!text.contains("s3cret"), "{text}");
        }
    }

    #[test]
    fn supported_values_need_no_warning() {
        let settings = read_with(
            "EXPORTER_OTLP_TRACES_COMPRESSION=none; EXPORTER_OTLP_COMPRESSION=gzip; TRACES_EXPORTER=otlp; \
            TRACES_SAMPLER=parentbased_traceidratio; TRACES_SAMPLER_ARG=0.25; BSP_SCHEDULE_DELAY=10; \
            EXPORTER_OTLP_HEADERS=key=k%203y, authorization=Basic%20a==,",
        );
        assert_eq!(settings.warnings, [""; 0]);
    }

    #[test]
    fn unusable_certificate_names_its_variable_and_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        std::fs::write(&file, "s3cret").unwrap();
        let file = file.to_str().unwrap();
        for (name, path, fault) in [
            ("CERTIFICATE", "/none.pem", ": cannot read `/none.pem`"),
            ("TRACES_CERTIFICATE", file, ": `"),
            (
                "CLIENT_CERTIFICATE",
                file,
                " and OTEL_EXPORTER_OTLP_CLIENT_KEY",
            ),
        ] {
            let name = format!("EXPORTER_OTLP_{name}");
            let error = read_with(&format!("{name}={path}")).trust().err().unwrap();
            assert!(error.contains(&format!("OTEL_{name}{fault}")), "{error}");
            assert!(!error.contains("s3cret"), "{error}");
        }
    }
}
