//! The abi_stable interface: the root module that `openclaw-remote-agent-interface` describes.

#![expect(
    missing_docs,
    reason = "`export_root_module` makes a public static without a comment"
)]

use std::sync::Arc;

use abi_stable::{
    export_root_module, prefix_type::PrefixTypeTrait, sabi_extern_fn, sabi_trait::TD_Opaque,
};
use async_ffi::FutureExt;
use openclaw_remote_agent_interface::{
    AskerBox, Call, Cancel, CancelBox, LogBox, PluginModule, PluginModuleRef, RErr, ROk, ROption,
    RResult, RStr, RString, Tool, ToolBox, UpdatesBox,
};
use tokio_util::sync::CancellationToken;

use crate::config::ConfigError;
use crate::plugin::{self, CallInput, Plugin, UpdateCallback};
use crate::remote_agent::{Answer, Person, Question, Reason, RemoteAgent};
use base::log::{Level, Log, Silent};
use base::panics::{self, Panicked};
use peer::BoxFuture;

/// Returns the module that [`load`](openclaw_remote_agent_interface::load) finds in the library.
#[export_root_module]
pub fn root_module() -> PluginModuleRef {
    panics::silence();
    PluginModule {
        id,
        build_id,
        parse_config,
        new_tool,
    }
    .leak_into_prefix()
}

#[sabi_extern_fn]
fn id() -> RStr<'static> {
    crate::PLUGIN_ID.into()
}

#[sabi_extern_fn]
fn build_id() -> RStr<'static> {
    crate::BUILD_ID.into()
}

#[sabi_extern_fn]
fn parse_config(config: RStr<'_>) -> RResult<RString, RString> {
    answer(panics::catch(|| {
        plugin::parse_config(config.as_str()).map(RString::from)
    }))
}

#[sabi_extern_fn]
fn new_tool(config: RStr<'_>, log: ROption<LogBox>) -> RResult<ToolBox, RString> {
    answer(panics::catch(|| {
        let log: Arc<dyn Log> = match log.into_option() {
            Some(log) => Arc::new(HostLog(log)),
            None => Arc::new(Silent),
        };
        let plugin = Plugin::new(config.as_str(), log)?;
        Ok(ToolBox::from_value(Instance(Arc::new(plugin)), TD_Opaque))
    }))
}

fn answer<T>(outcome: Result<Result<T, ConfigError>, Panicked>) -> RResult<T, RString> {
    match outcome {
        Ok(Ok(value)) => ROk(value),
        Ok(Err(error)) => RErr(error.to_json().into()),
        Err(panicked) => RErr(super::config_panicked(&panicked).into()),
    }
}

struct HostLog(LogBox);

impl Log for HostLog {
    fn log(&self, level: Level, line: &str) {
        self.0.log(level.as_str().into(), line.into());
    }
}

struct Instance(Arc<Plugin>);

impl Tool for Instance {
    fn definition(&self) -> RString {
        let definition = panics::catch(|| self.0.definition());
        definition.unwrap_or_else(|_| "{}".to_owned()).into()
    }

    fn execute(
        &self,
        request: RString,
        caller: ROption<RString>,
        updates: ROption<UpdatesBox>,
    ) -> Call {
        self.start(input(request, caller, updates))
    }

    fn close(&self) {
        let _ = panics::catch(|| self.0.close());
    }

    fn render(&self, envelope: RStr<'_>) -> RString {
        self.0.render(envelope.as_str()).into()
    }

    fn close_and_wait(&self) {
        let _ = panics::catch(|| self.0.close_and_wait());
    }

    fn execute_with_person(
        &self,
        request: RString,
        caller: ROption<RString>,
        updates: ROption<UpdatesBox>,
        person: AskerBox,
    ) -> Call {
        self.start(CallInput {
            person: Some(Arc::new(HostPerson(person))),
            ..input(request, caller, updates)
        })
    }
}

impl Instance {
    fn start(&self, job: CallInput) -> Call {
        let cancel = job.cancel.clone();
        let future = match panics::catch(|| self.0.start(job)) {
            Ok(running) => async move { RString::from(running.await) }.into_ffi(),
            Err(panicked) => {
                let message = format!("the call failed inside the plugin {panicked}");
                let envelope = RemoteAgent::failure("", Reason::InternalFault, &message);
                std::future::ready(RString::from(envelope)).into_ffi()
            }
        };
        Call {
            future,
            cancel: CancelBox::from_value(Canceller(cancel), TD_Opaque),
        }
    }
}

/// Returns the input of a call without a person.
fn input(request: RString, caller: ROption<RString>, updates: ROption<UpdatesBox>) -> CallInput {
    CallInput {
        request: request.into_string(),
        caller: caller.into_option().map(RString::into_string),
        updates: updates
            .into_option()
            .map(|sink| -> UpdateCallback { Arc::new(move |json: &str| sink.update(json.into())) }),
        person: None,
        cancel: CancellationToken::new(),
    }
}

/// The person that the host asks.
struct HostPerson(AskerBox);

impl Person for HostPerson {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, Answer> {
        let answer = self.0.ask(question.to_json().into());
        Box::pin(async {
            // After a panic of the host, no person was reached, as after an answer that cannot be read.
            let answer = panics::catch_async(answer).await.unwrap_or_default();
            Answer::read(answer.as_str())
        })
    }
}

struct Canceller(CancellationToken);

impl Cancel for Canceller {
    fn cancel(&self) {
        let _ = panics::catch(|| self.0.cancel());
    }
}
