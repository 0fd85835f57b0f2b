//! The log of the servers, on standard error.

use clap::ValueEnum;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    #[default]
    Human,
    /// A JSON object in each line
    Json,
}

/// The options of the log.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct LogArgs {
    /// The format of log lines on standard error
    #[arg(
        long,
        visible_alias = "log-format",
        value_name = "FORMAT",
        value_enum,
        default_value_t,
        help_heading = "Output"
    )]
    pub(crate) log: LogFormat,
}

/// Installs a logger that writes to standard error. Does nothing if a logger is already installed.
pub(crate) fn install(form: LogFormat, verbose: bool) {
    let level = if verbose {
        LevelFilter::DEBUG
    } else {
        LevelFilter::INFO
    };
    // The MCP library logs text that clients send about themselves.
    let levels = Targets::new()
        .with_default(level)
        .with_target("rmcp", LevelFilter::WARN);
    let registry = tracing_subscriber::registry().with(levels);
    let lines = fmt::layer().with_writer(std::io::stderr).with_target(false);
    let _ = match form {
        LogFormat::Human => {
            let people = console::Term::stderr().is_term();
            registry.with(lines.with_ansi(people)).try_init()
        }
        LogFormat::Json => registry.with(lines.json().with_ansi(false)).try_init(),
    };
}
