//! The interface of the library.

use abi_stable::{
    StableAbi,
    library::RootModule,
    package_version_strings, sabi_trait,
    sabi_types::VersionStrings,
    std_types::{RBox, ROption, RResult, RStr, RString},
};
use async_ffi::FfiFuture;

use crate::{AskerBox, LogBox, UpdatesBox};

/// The root module: the functions that the library exports.
///
/// A host gets it as [`PluginModuleRef`] from [`load`](crate::load), and calls each function through the accessor of
/// that name.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = PluginModuleRef, prefix_fields = PluginModule_Prefix)))]
#[sabi(missing_field(panic))]
pub struct PluginModule {
    /// The plugin's id, `remote-agent`.
    pub id: extern "C" fn() -> RStr<'static>,

    /// Identifies the sources of the build. Two builds of one version differ here.
    pub build_id: extern "C" fn() -> RStr<'static>,

    /// Checks a configuration and returns it as JSON with all defaults. Uses no network and starts nothing.
    ///
    /// The error is JSON, `{"code", "message", "path"}`; `path` is a JSON Pointer into the configuration.
    pub parse_config: extern "C" fn(RStr<'_>) -> RResult<RString, RString>,

    /// Creates one configured tool. Starts no thread and opens no socket before the first call.
    ///
    /// The first argument is the configuration as JSON. The second receives the tool's log lines; without it they are
    /// dropped. For the error see [`parse_config`](Self::parse_config).
    #[sabi(last_prefix_field)]
    pub new_tool: extern "C" fn(RStr<'_>, ROption<LogBox>) -> RResult<ToolBox, RString>,
}

impl RootModule for PluginModuleRef {
    abi_stable::declare_root_module_statics! {PluginModuleRef}
    const BASE_NAME: &'static str = "openclaw_remote_agent";
    const NAME: &'static str = "openclaw_remote_agent";
    const VERSION_STRINGS: VersionStrings = package_version_strings!();
}

/// One configured tool.
///
/// Dropping it does not stop running calls. The library's threads end with the last call.
#[sabi_trait]
pub trait Tool: Send + Sync + 'static {
    /// Returns the tool's definition as JSON, `{"name", "label", "description", "parameters"}`. `parameters` is a JSON
    /// Schema.
    fn definition(&self) -> RString;

    /// Starts a call. `request` is the tool's input as JSON.
    ///
    /// `caller` describes the caller as JSON: `{"agent_id"?, "user"?, "session_key"?, "by_person"?, "chain"?, "state_dir"?, "traceparent"?}`.
    /// `chain` is the delegation that the caller works on, `{"hop", "chain"}`. Without it, the library looks up the
    /// session in the delegation file in `state_dir`. `"by_person": true` says that a person wrote the message, and no model:
    /// only then may it answer a task that waits for a person. `traceparent` is the trace of the call (W3C Trace Context).
    /// `updates` receives the progress of the call.
    fn execute(
        &self,
        request: RString,
        caller: ROption<RString>,
        updates: ROption<UpdatesBox>,
    ) -> Call;

    /// Cancels running calls and stops the tool's threads. Returns at once; each running call still returns a result.
    ///
    /// Later calls return an error with the `reason` `shutting_down`. Closing twice has no effect.
    #[sabi(last_prefix_field)]
    fn close(&self);

    /// Returns the text of an envelope or update for a model: short labelled lines, and the text of agents inside a
    /// fence. It has at most `limits.modelTextChars` characters. Starts no thread and opens no socket.
    ///
    /// Returns a sentence with the fault if the input is not an envelope. A library without this method returns
    /// `envelope` unchanged.
    fn render(&self, envelope: RStr<'_>) -> RString {
        envelope.into()
    }

    /// Closes like [`close`](Self::close), and returns once the gateway connection is closed, or after a second, and the sign-ins that
    /// the tool is renewing are stored, which a request to their server limits. For a process that is about to exit; others
    /// need not wait. Usually returns at once.
    ///
    /// A library without this method closes without waiting.
    fn close_and_wait(&self) {
        self.close();
    }

    /// Starts a call like [`execute`](Self::execute). `person` answers the questions of agents whose target has a person
    /// for them.
    ///
    /// A library without this method asks no one.
    fn execute_with_person(
        &self,
        request: RString,
        caller: ROption<RString>,
        updates: ROption<UpdatesBox>,
        person: AskerBox,
    ) -> Call {
        drop(person);
        self.execute(request, caller, updates)
    }
}

/// An owned [`Tool`] of the library.
pub type ToolBox = Tool_TO<RBox<()>>;

/// What a host adds to the request of a call.
#[derive(Default)]
pub struct CallOptions {
    /// The caller as JSON; see [`Tool::execute`].
    pub caller: Option<String>,
    /// Receives the progress of the call.
    pub updates: Option<UpdatesBox>,
    /// Answers the questions of agents.
    pub person: Option<AskerBox>,
}

/// Starts a call, with a person or without one. `request` is the tool's input as JSON.
#[must_use]
pub fn start_call(tool: &ToolBox, request: &str, options: CallOptions) -> Call {
    let caller = options.caller.map(RString::from).into();
    let updates = options.updates.into();
    match options.person {
        Some(person) => tool.execute_with_person(request.into(), caller, updates, person),
        None => tool.execute(request.into(), caller, updates),
    }
}

/// A running call.
#[repr(C)]
#[derive(StableAbi)]
pub struct Call {
    /// Resolves to the result as JSON: `{"ok": true, …}` or `{"ok": false, "error": …}`. Dropping it cancels the call.
    pub future: FfiFuture<RString>,

    /// Cancels the call, which then returns an error of cancellation.
    pub cancel: CancelBox,
}

/// Cancels a running call.
#[sabi_trait]
pub trait Cancel: Send + Sync + 'static {
    /// Cancels the call. Has no effect the second time or after the end.
    #[sabi(last_prefix_field)]
    fn cancel(&self);
}

/// An owned [`Cancel`] of the library.
pub type CancelBox = Cancel_TO<RBox<()>>;
