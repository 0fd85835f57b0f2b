//! The interface of the library.

use abi_stable::{
    StableAbi,
    library::RootModule,
    package_version_strings, sabi_trait,
    sabi_types::VersionStrings,
    std_types::{RBox, ROption, RResult, RStr, RString},
};
use async_ffi::FfiFuture;

use crate::{LogBox, UpdatesBox};

/// The root module: the functions that the library exports.
///
/// A host gets it as [`PluginModuleRef`] from [`load`](crate::load) and calls its functions through the accessor of the same name.
#[repr(C)]
#[derive(StableAbi)]
#[sabi(kind(Prefix(prefix_ref = PluginModuleRef, prefix_fields = PluginModule_Prefix)))]
#[sabi(missing_field(panic))]
pub struct PluginModule {
    /// The plugin's id, `remote-agent`.
    pub id: extern "C" fn() -> RStr<'static>,

    /// Names the sources that the library was built from. Two builds of one version differ here.
    pub build_id: extern "C" fn() -> RStr<'static>,

    /// Checks a configuration and returns it as JSON, with every default filled in. Needs no network and starts nothing.
    ///
    /// The error is JSON, `{"code", "message", "path"}`; `path` is a JSON Pointer into the configuration.
    pub parse_config: extern "C" fn(RStr<'_>) -> RResult<RString, RString>,

    /// Makes one configured tool. Starts no thread and opens no socket before the first call.
    ///
    /// The first argument is the configuration as JSON, the second takes the tool's log lines (none: they are dropped). The error is the one of
    /// [`parse_config`](Self::parse_config).
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
/// Dropping it leaves running calls alone; the library's threads end with the last of them.
#[sabi_trait]
pub trait Tool: Send + Sync + 'static {
    /// Returns the tool's definition as JSON, `{"name", "label", "description", "parameters"}`. `parameters` is a JSON
    /// Schema.
    fn definition(&self) -> RString;

    /// Starts a call. `request` is the tool's input as JSON.
    ///
    /// `caller` says on whose behalf the call is made, as JSON: `{"agent_id"?, "session_key"?, "chain"?, "state_dir"?,
    /// "traceparent"?, "update_interval_ms"?}`. `chain` is
    /// the delegation that the caller works on, `{"hop", "chain"}`; without it, what the file of delegations in `state_dir` says of the session.
    /// `traceparent` is the trace that the call belongs to (W3C Trace Context). `updates` takes the call's progress: every
    /// event, or with `update_interval_ms` the first, the last, and between them the newest of each interval.
    fn execute(
        &self,
        request: RString,
        caller: ROption<RString>,
        updates: ROption<UpdatesBox>,
    ) -> Call;

    /// Cancels running calls and stops the tool's threads. Returns at once; the calls still finish, each with its result.
    ///
    /// A call made afterwards is answered with an error whose `reason` is `shutting_down`. Closing twice does nothing.
    #[sabi(last_prefix_field)]
    fn close(&self);

    /// Returns the text that a model reads of an envelope or update: short labelled lines, and text of agents inside a
    /// fence, in at most `limits.modelTextChars` characters. Starts no thread and opens no socket.
    ///
    /// Text that is no envelope gives a sentence that says so. A library that is older than this method gives `envelope` back.
    fn render(&self, envelope: RStr<'_>) -> RString {
        envelope.into()
    }

    /// Closes like [`close`](Self::close), and returns when leave has been taken of the local gateway, or after a second. For a
    /// process that ends now; others have no need to wait. Without a gateway it returns at once.
    ///
    /// A library that is older than this method closes without waiting.
    fn close_and_wait(&self) {
        self.close();
    }
}

/// An owned [`Tool`] of the library.
pub type ToolBox = Tool_TO<RBox<()>>;

/// A running call.
#[repr(C)]
#[derive(StableAbi)]
pub struct Call {
    /// Ends with the result as JSON: `{"ok": true, …}` or `{"ok": false, "error": …}`, whatever happened. Dropping it cancels the call.
    pub future: FfiFuture<RString>,

    /// Cancels the call and lets it finish with a result that says so.
    pub cancel: CancelBox,
}

/// Ends a running call early.
#[sabi_trait]
pub trait Cancel: Send + Sync + 'static {
    /// Asks the call to end. Asking again, or after the end, does nothing.
    #[sabi(last_prefix_field)]
    fn cancel(&self);
}

/// An owned [`Cancel`] of the library.
pub type CancelBox = Cancel_TO<RBox<()>>;
