//! Where the known agents come from: the options, a file, or the OpenClaw on this machine.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{PeerArgs, check_url, name_an_agent};
use crate::{
    config::UnsetVariables,
    exit::Failure,
    local,
    openclaw::{self, Loaded, OpenClawFiles},
    text,
};

impl PeerArgs {
    /// Returns the configuration. With `--url` or `--gateway`, it contains only that agent or gateway. If nothing is named,
    /// it is the configuration of the OpenClaw on this machine.
    ///
    /// # Errors
    /// No source of agents is given, the file cannot be read, or the URL is invalid.
    pub(crate) fn config(&self) -> Result<String, Failure> {
        self.load().map(|loaded| loaded.resolved)
    }

    /// Returns the configuration like [`config`](Self::config), and its unresolved text.
    ///
    /// # Errors
    /// See [`config`](Self::config).
    pub(crate) fn load(&self) -> Result<Loaded, Failure> {
        if let Some(gateway) = self.local.settings()? {
            return Ok(Loaded::own(json!({ "gateway": gateway }).to_string()));
        }
        if let Some(url) = &self.url {
            check_url(url)?;
            self.credentials.check()?;
            return Ok(Loaded::own(json!({"targets": [self.ad_hoc()]}).to_string()));
        }
        if self.config.is_set() {
            return self.config.load();
        }
        match self.discovered()? {
            Some(loaded) => Ok(loaded.clone()),
            None => Err(Failure::usage(format!(
                "no agent is known; {}",
                name_an_agent()
            ))),
        }
    }

    /// Returns the file with the configuration; `None` where options name the agents.
    pub(crate) fn config_file(&self) -> Option<PathBuf> {
        match self.openclaw() {
            Some(files) => Some(files.config),
            None if self.reads_config() => self.config.file(),
            None => None,
        }
    }

    /// Returns the settings of the OpenClaw on this machine, if neither the options nor the environment name agents.
    fn discovered(&self) -> Result<Option<&Loaded>, Failure> {
        if !self.names_nothing() {
            return Ok(None);
        }
        if let Some(known) = self.discovered.get() {
            return Ok(known.as_ref());
        }
        let found = openclaw::discover()?;
        Ok(self.discovered.get_or_init(|| found).as_ref())
    }

    /// Returns whether the settings of the OpenClaw on this machine apply, and have the target with this `origin` in a
    /// continuation.
    pub(super) fn discovers(&self, origin: &Value) -> bool {
        let settings = self.discovered().ok().flatten();
        let settings = settings.and_then(|loaded| serde_json::from_str(&loaded.resolved).ok());
        let settings: Value = settings.unwrap_or_default();
        let alias = origin["target_alias"].as_str();
        if local::is_origin(origin) {
            return settings["gateway"]["enabled"] == true;
        }
        let url = |value: &Value| url::Url::parse(value.as_str()?).ok();
        let targets = settings["targets"].as_array().into_iter().flatten();
        targets.into_iter().any(|target| {
            let is_same = url(&target["baseUrl"])
                .is_some_and(|base| Some(base) == url(&origin["target_url"]));
            is_same && alias.is_none_or(|alias| target["alias"] == alias)
        })
    }

    /// Returns whether neither the options nor the environment name an agent.
    pub(crate) fn names_nothing(&self) -> bool {
        self.url.is_none() && !self.local.is_set() && !self.config.is_set()
    }

    /// Returns whether the options, the environment or OpenClaw name an agent.
    ///
    /// # Errors
    /// OpenClaw's configuration cannot be read.
    pub(crate) fn is_known(&self) -> Result<bool, Failure> {
        Ok(!self.names_nothing() || self.discovered()?.is_some())
    }

    /// Returns whether no agent is known.
    pub(crate) fn is_empty(&self) -> bool {
        !self.is_known().unwrap_or_default()
    }

    /// Returns whether the agents come from a configuration file.
    pub(crate) fn reads_config(&self) -> bool {
        self.url.is_none() && !self.local.is_set() && !self.is_empty()
    }

    /// Returns the files of OpenClaw, if the agents come from its configuration.
    pub(crate) fn openclaw(&self) -> Option<OpenClawFiles> {
        self.load().ok()?.openclaw
    }

    /// Returns the error for the unset variables that an error of the library names; `None` if it names none.
    pub(crate) fn unset_sentence(&self, missing: &UnsetVariables, error: &str) -> Option<String> {
        let files = self.openclaw();
        let env_file = files.as_ref().map(|files| files.environment.file());
        let unset = missing.named_in(error);
        let sentences: Vec<_> = unset.map(|unset| unset.sentence_with(env_file)).collect();
        let sentences = sentences.join("; ");
        (!sentences.is_empty()).then(|| match self.config_file() {
            Some(file) => format!("in `{}`, {sentences}", file.display()),
            None => sentences,
        })
    }

    /// Returns the alias of the only agent of a configuration without a default.
    pub(super) fn only_alias(&self) -> Option<String> {
        let config: Value = serde_json::from_str(&self.config().ok()?).ok()?;
        match config["targets"].as_array().map(Vec::as_slice) {
            Some([target]) if config["gateway"]["enabled"] != true => {
                Some(target["alias"].as_str()?.trim().to_owned())
            }
            _ => None,
        }
    }

    /// Returns the option that names the configuration, with its file.
    pub(super) fn config_option(&self) -> Option<(&'static str, PathBuf)> {
        match &self.config.openclaw {
            Some(named) => {
                let file = named
                    .clone()
                    .or_else(|| Some(openclaw::location().ok()?.file));
                Some(("--openclaw", file?))
            }
            None => Some(("--config", self.config.file()?)),
        }
    }

    /// Returns the environment variable with the credential of the agent `alias` of a configuration, or of its only agent.
    pub(crate) fn secret_variable(&self, alias: Option<&str>) -> Option<String> {
        if !self.reads_config() {
            return None;
        }
        let config: Value = serde_json::from_str(&self.load().ok()?.written).ok()?;
        let targets = config["targets"].as_array()?;
        let target = match (alias, targets.as_slice()) {
            (Some(alias), _) => targets.iter().find(|target| target["alias"] == alias)?,
            (None, [only]) => only,
            (None, _) => targets.iter().find(|target| target["default"] == true)?,
        };
        let secrets = target["auth"].as_object()?.values();
        let mut variables = secrets.filter(|secret| secret["source"] == "env");
        Some(variables.next()?["id"].as_str()?.to_owned())
    }

    /// Returns why agents of a configuration are not among those that a call `listed`: they allow only some callers.
    pub(crate) fn restricted(&self, listed: &[Value]) -> Vec<String> {
        let config = self.config().unwrap_or_default();
        let config: Value = serde_json::from_str(&config).unwrap_or_default();
        let targets = config["targets"].as_array().into_iter().flatten();
        let is_listed = |alias: &str| listed.iter().any(|one| one["target_alias"] == alias);
        let reason = |target: &Value| {
            let alias = target["alias"].as_str().filter(|alias| !is_listed(alias))?;
            let callers = target["allowedAgents"].as_array()?.iter();
            let callers: Vec<String> = callers
                .filter_map(Value::as_str)
                .map(|caller| format!("`{}`", text::line(caller)))
                .collect();
            Some(format!(
                "{}: only for {}; name one with `--agent NAME`",
                text::line(alias),
                callers.join(", ")
            ))
        };
        targets.filter_map(reason).collect()
    }
}
