//! The Node-API interface: the exports that `process.dlopen` finds in the library.
//!
//! All functions run on the thread of the JavaScript environment. Updates, log lines and results come from the plugin's
//! own threads and pass through a queue of Node.js.

mod operator;

use std::{
    mem, ptr,
    sync::{Arc, OnceLock, Weak},
    time::{Duration, Instant},
};

use napi::{
    Either, Env, Error, Result, Status,
    bindgen_prelude::{
        FnArgs, Function, FunctionRef, JsObjectValue as _, JsValue as _, Object, Promise, Unknown,
    },
    sys,
    threadsafe_function::{
        ThreadsafeFunction, ThreadsafeFunctionCallMode::NonBlocking, UnknownReturnValue,
    },
};
use napi_derive::napi;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::pieces;
use crate::plugin::{self, CallInput, Plugin, UpdateCallback};
use crate::remote_agent::{Answer as PersonAnswer, Person, Question};
use base::log::{Level, Log, Silent};
use base::{blocking, panics};
use peer::BoxFuture;

/// A JavaScript function that any thread may queue a call of. It takes no error argument, and it is weak: it does not
/// keep the process alive.
type Callback<Values> =
    ThreadsafeFunction<Values, UnknownReturnValue, Values, Status, false, true, MAX_QUEUED>;

/// The JavaScript function that receives updates.
type OnUpdate<'a> = Function<'a, String, UnknownReturnValue>;

/// The JavaScript function that asks a person: it receives a question as JSON, and its promise resolves with the answer.
type AskPerson<'a> = Function<'a, String, Promise<String>>;

/// How many updates, and how many log lines, may wait for the thread of the JavaScript environment. While that thread is
/// busy, further ones are dropped, so that memory stays bounded.
const MAX_QUEUED: usize = 256;

/// How long the thread of the JavaScript environment delivers updates before its event loop takes another turn.
const DELIVERY_SLICE: Duration = Duration::from_millis(2);

/// Returns the hash of the sources that the library was built from.
#[napi(catch_unwind)]
pub fn build_id() -> &'static str {
    crate::BUILD_ID
}

/// Checks a configuration and returns it as JSON, with every default filled in.
///
/// # Errors
/// Throws an `Error` whose message is JSON, `{"code", "message", "path"}`.
#[napi(catch_unwind)]
pub fn parse_config(config_json: String) -> Result<String> {
    panics::silence();
    plugin::parse_config(&config_json).map_err(|error| Error::from_reason(error.to_json()))
}

/// Ends a call early: `signal.addEventListener("abort", () => token.cancel())`.
///
/// A class, because napi's `AbortSignal` replaces the signal's `onabort` and ignores a signal that is already aborted.
#[napi]
#[derive(Default)]
pub struct CancelToken(CancellationToken);

#[napi]
impl CancelToken {
    #[napi(constructor, catch_unwind)]
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels the call that uses the token, at once if it starts later.
    #[napi(catch_unwind)]
    pub fn cancel(&self) {
        self.0.cancel();
    }
}

/// One configured tool.
#[napi]
pub struct RemoteAgent {
    plugin: Arc<Plugin>,
    /// `Promise.withResolvers`.
    promises: FunctionRef<(), Object<'static>>,
    /// The queue of the calls in flight. Their last one ends it.
    answers: Mutex<Weak<AnswerQueue>>,
}

#[napi]
impl RemoteAgent {
    /// Creates a tool from a configuration. Starts no thread.
    ///
    /// # Errors
    /// Throws like [`parse_config`].
    #[napi(constructor, catch_unwind)]
    pub fn new(
        env: &Env,
        config_json: String,
        log: Option<Callback<FnArgs<(String, String)>>>,
    ) -> Result<Self> {
        panics::silence();
        let log: Arc<dyn Log> = match log {
            Some(callback) => Arc::new(HostLog(callback)),
            None => Arc::new(Silent),
        };
        let plugin = Plugin::new(&config_json, log);
        let plugin = plugin.map_err(|error| Error::from_reason(error.to_json()))?;
        // Node.js queues updates, so no call waits for its host.
        let plugin = Arc::new(plugin.on_one_thread());
        // Node.js can terminate a worker during a call.
        let weak = Arc::downgrade(&plugin);
        env.add_env_cleanup_hook(weak, |plugin| {
            if let Some(plugin) = plugin.upgrade() {
                let _ = panics::catch(|| plugin.close());
            }
        })?;
        Ok(Self {
            plugin,
            promises: promise_constructor(env)?,
            answers: Mutex::default(),
        })
    }

    /// Returns the tool's definition as JSON. Starts no thread.
    #[napi(catch_unwind)]
    #[must_use]
    pub fn definition(&self) -> String {
        self.plugin.definition()
    }

    /// Returns the text that a model reads of an envelope or update, in at most `max_chars` characters. Starts no thread and
    /// never throws.
    #[napi(catch_unwind)]
    #[must_use]
    pub fn render(&self, envelope_json: String, max_chars: Option<u32>) -> String {
        match max_chars {
            Some(max) => self.plugin.render_within(&envelope_json, max as usize),
            None => self.plugin.render(&envelope_json),
        }
    }

    /// Returns the health of the configured targets that were called, as a JSON object by alias.
    #[napi(catch_unwind)]
    pub fn health(&self) -> String {
        self.plugin.health()
    }

    /// Starts a call. The promise always resolves, with the envelope as JSON, after the last update was delivered.
    ///
    /// `ask_person` asks a person for the agent, as `Question` and `Answer` of the library say in JSON. One that throws,
    /// rejects or returns something else counts as `unreachable`. The call waits for it no longer than the question says.
    ///
    /// # Errors
    /// Throws when Node.js cannot create a promise, for example while its environment ends.
    #[napi(catch_unwind, ts_return_type = "Promise<string>")]
    pub fn execute<'env>(
        &self,
        env: &'env Env,
        request_json: String,
        caller_json: Option<String>,
        cancel: &CancelToken,
        on_update: Option<OnUpdate<'_>>,
        ask_person: Option<AskPerson<'_>>,
    ) -> Result<Object<'env>> {
        self.start(
            env,
            (request_json, caller_json),
            cancel,
            (on_update, ask_person),
            Either::A,
        )
    }

    /// Starts a call like [`execute`](Self::execute). The promise resolves with the text that a model reads of the envelope,
    /// which costs the thread of the JavaScript environment nothing, and with the envelope. A large one comes without the items
    /// of its long arrays. Further texts have them, each as JSON `[path, items]`, for the array at the path of the envelope.
    ///
    /// # Errors
    /// As [`execute`](Self::execute).
    #[napi(catch_unwind, ts_return_type = "Promise<string[]>")]
    pub fn execute_rendered<'env>(
        &self,
        env: &'env Env,
        request_json: String,
        caller_json: Option<String>,
        cancel: &CancelToken,
        on_update: Option<OnUpdate<'_>>,
        ask_person: Option<AskPerson<'_>>,
    ) -> Result<Object<'env>> {
        let plugin = Arc::clone(&self.plugin);
        let answer = move |envelope: String| {
            Either::B(blocking::run_if_large(envelope.len(), || {
                let mut answer = vec![plugin.render(&envelope)];
                answer.extend(pieces::split_envelope(envelope));
                answer
            }))
        };
        let callbacks = (on_update, ask_person);
        self.start(env, (request_json, caller_json), cancel, callbacks, answer)
    }

    /// Cancels running calls, whose promises still resolve, and ends the tool's threads. A second call does nothing.
    #[napi(catch_unwind)]
    pub fn close(&self) {
        self.plugin.close();
    }

    /// Closes like `close`, and blocks until the tool has stored the sign-ins that it is renewing and has disconnected from the
    /// gateway. For a process that is about to exit.
    #[napi(catch_unwind)]
    pub fn close_and_wait(&self) {
        self.plugin.close_and_wait();
    }
}

impl RemoteAgent {
    /// Starts a call whose promise resolves with what `into_answer` makes of the envelope.
    fn start<'env>(
        &self,
        env: &'env Env,
        (request, caller): (String, Option<String>),
        cancel: &CancelToken,
        (on_update, ask_person): (Option<OnUpdate<'_>>, Option<AskPerson<'_>>),
        into_answer: impl FnOnce(String) -> Answer + Send + 'static,
    ) -> Result<Object<'env>> {
        let receiver = on_update.map(|function| UpdateReceiver::new(env, &function));
        let receiver = receiver.transpose()?;
        let person = ask_person.map(|function| HostPerson::new(&function));
        let person = person.transpose()?;
        let person = person.map(|person| -> Arc<dyn Person> { Arc::new(person) });
        let (promised, promise) = self.promise(env)?;
        let updates = receiver.map(|receiver| self.forward(receiver, Arc::clone(&promised)));
        let job = CallInput {
            request,
            caller,
            updates,
            person,
            cancel: cancel.0.clone(),
        };
        self.plugin.start_with(job, move |envelope| {
            // There is one envelope; the lock only guards against a second.
            let _ = promised.answer.set(into_answer(envelope));
        });
        Ok(promise)
    }

    /// Runs work that is no call. The promise resolves with its JSON, or with its error and whether the arguments are wrong.
    fn resolve_with<'env>(
        &self,
        env: &'env Env,
        work: impl Future<Output = std::result::Result<Value, (String, bool)>> + Send + 'static,
    ) -> Result<Object<'env>> {
        let (promised, promise) = self.promise(env)?;
        self.plugin.spawn(Box::pin(async move {
            let done = work
                .await
                .unwrap_or_else(|(error, is_usage)| json!({"error": error, "isUsage": is_usage}));
            let _ = promised.answer.set(Either::A(done.to_string()));
        }));
        Ok(promise)
    }

    /// Creates a promise for JavaScript.
    fn promise<'env>(&self, env: &'env Env) -> Result<(Arc<CallPromise>, Object<'env>)> {
        let resolvers = self.promises.borrow_back(env)?.call(())?;
        let resolve: Resolve<'_> = resolvers.get_named_property("resolve")?;
        let promised = Arc::new(CallPromise {
            resolve: Some(resolve.create_ref()?),
            answer: OnceLock::new(),
            queue: self.answer_queue(env)?,
        });
        Ok((promised, resolvers.get_named_property("promise")?))
    }

    /// Returns the queue of the calls in flight, or a new one for the first of them.
    fn answer_queue(&self, env: &Env) -> Result<Arc<AnswerQueue>> {
        let mut current = self.answers.lock();
        if let Some(queue) = current.upgrade() {
            return Ok(queue);
        }
        let function: Function<'_, (), UnknownReturnValue> =
            env.create_function("answer", nothing)?;
        let builder = function.build_threadsafe_function();
        let queue = Arc::new(AnswerQueue(builder.build()?));
        *current = Arc::downgrade(&queue);
        Ok(queue)
    }

    /// Returns the callback for updates, and starts the task that delivers them. The task holds the promise until it has.
    fn forward(&self, receiver: Arc<UpdateReceiver>, promised: Arc<CallPromise>) -> UpdateCallback {
        let (queue, waiting) = mpsc::channel(MAX_QUEUED);
        let log = Arc::clone(self.plugin.log());
        self.plugin.spawn(Box::pin(async move {
            receiver.deliver_all(waiting, &*log).await;
            drop(promised);
        }));
        Arc::new(move |json: &str| {
            let _ = queue.try_send(json.to_owned());
        })
    }
}

/// The function that receives the updates of one call.
struct UpdateReceiver {
    function: FunctionRef<String, UnknownReturnValue>,
    callback: Callback<String>,
    /// A function without effect. Its call waits for the next turn of the event loop: Node.js runs all queued calls of one
    /// callback in one turn, but not those of two.
    turn: Callback<String>,
}

impl UpdateReceiver {
    fn new(env: &Env, function: &OnUpdate<'_>) -> Result<Arc<Self>> {
        let callback = |function: &OnUpdate<'_>| {
            let builder = function.build_threadsafe_function();
            let builder = builder.weak::<true>().max_queue_size::<MAX_QUEUED>();
            builder.build()
        };
        Ok(Arc::new(Self {
            function: function.create_ref()?,
            callback: callback(function)?,
            turn: callback(&env.create_function("turn", nothing)?)?,
        }))
    }

    /// Delivers updates until the call has dropped their callback. To wake the thread of the JavaScript environment costs more
    /// than an update, so each turn of its event loop takes all that wait.
    async fn deliver_all(self: Arc<Self>, mut waiting: mpsc::Receiver<String>, log: &dyn Log) {
        let mut warned = false;
        while let Some(first) = waiting.recv().await {
            let (sender, returned_queue) = oneshot::channel();
            let receiver = Arc::clone(&self);
            let deliver_rest = move |returned: Result<UnknownReturnValue>, env: Env| {
                let threw = deliver(&receiver.function, &mut waiting, &env) | returned.is_err();
                let return_queue = move |_, _| {
                    // The task is gone when the instance was closed.
                    let _ = sender.send((waiting, threw));
                    Ok(())
                };
                let turn = &receiver.turn;
                turn.call_with_return_value(String::new(), NonBlocking, return_queue);
                Ok(())
            };
            self.callback
                .call_with_return_value(first, NonBlocking, deliver_rest);
            // The sender is gone when the JavaScript environment ends.
            let Ok((rest, threw)) = returned_queue.await else {
                return;
            };
            waiting = rest;
            if threw && !mem::replace(&mut warned, true) {
                let message = "the host's update callback threw; the call continues";
                log.log(Level::Warn, message);
            }
        }
    }
}

extern "C" fn nothing(_: sys::napi_env, _: sys::napi_callback_info) -> sys::napi_value {
    ptr::null_mut()
}

/// Delivers the updates that wait, and those that arrive meanwhile, for [`DELIVERY_SLICE`]. Returns whether the function threw.
fn deliver(
    function: &FunctionRef<String, UnknownReturnValue>,
    waiting: &mut mpsc::Receiver<String>,
    env: &Env,
) -> bool {
    let Ok(function) = function.borrow_back(env) else {
        return false;
    };
    let start = Instant::now();
    let mut threw = false;
    while start.elapsed() < DELIVERY_SLICE
        && let Ok(update) = waiting.try_recv()
    {
        threw |= function.call(update).is_err();
    }
    threw
}

/// An envelope, or its text and its pieces.
type Answer = Either<String, Vec<String>>;

/// The function that resolves a promise.
type Resolve<'a> = Function<'a, Answer, UnknownReturnValue>;

/// Returns `Promise.withResolvers`.
fn promise_constructor(env: &Env) -> Result<FunctionRef<(), Object<'static>>> {
    let constructor: Unknown<'_> = env.get_global()?.get_named_property("Promise")?;
    let constructor = constructor.coerce_to_object()?;
    let with_resolvers: Function<'_, (), Object<'static>> =
        constructor.get_named_property("withResolvers")?;
    with_resolvers.bind(constructor)?.create_ref()
}

/// Takes the answers of all calls in flight to the thread of the JavaScript environment, and keeps its process alive until
/// then. With a queue for each promise, as napi's `JsDeferred` has one, that thread would poll as many queues as calls.
struct AnswerQueue(ThreadsafeFunction<(), UnknownReturnValue, (), Status, false>);

/// The promise of one call. It settles when its last holder is dropped: the call, or the delivery of its updates. So no
/// update comes after the result, and no promise stays pending, which would keep Node.js from exiting.
struct CallPromise {
    resolve: Option<FunctionRef<Answer, UnknownReturnValue>>,
    answer: OnceLock<Answer>,
    queue: Arc<AnswerQueue>,
}

impl Drop for CallPromise {
    fn drop(&mut self) {
        let Some(resolve) = self.resolve.take() else {
            return;
        };
        // A call always has an answer. Other work is dropped by a closed plugin, or a panic.
        let answer = self.answer.take().unwrap_or_else(|| {
            let error = "the plugin was closed, or failed, before this was done";
            Either::A(json!({"error": error, "isUsage": false}).to_string())
        });
        let settle = move |_, env: Env| {
            let resolve = resolve.borrow_back(&env)?;
            // A text can be too long for JavaScript. An error here would be an uncaught exception of the host.
            if resolve.call(answer).is_err() {
                let _ = resolve.call(Either::A(plugin::lost_result_envelope()));
            }
            Ok(())
        };
        self.queue.0.call_with_return_value((), NonBlocking, settle);
    }
}

/// The person that the host asks.
struct HostPerson(
    ThreadsafeFunction<String, Promise<String>, String, Status, false, true, MAX_QUEUED>,
);

impl HostPerson {
    fn new(function: &AskPerson<'_>) -> Result<Self> {
        let builder = function.build_threadsafe_function();
        let builder = builder.weak::<true>().max_queue_size::<MAX_QUEUED>();
        Ok(Self(builder.build()?))
    }

    async fn answer(&self, question: String) -> Result<String> {
        self.0.call_async_catch(question).await?.await
    }
}

impl Person for HostPerson {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, PersonAnswer> {
        Box::pin(async {
            // The error may quote the host, and no one reads it: the result says that no person was reached.
            let answer = self.answer(question.to_json()).await.unwrap_or_default();
            PersonAnswer::read(&answer)
        })
    }

    fn withdraw(&self, id: &str) {
        // JavaScript does not see that the future is dropped.
        let withdrawn = json!({"id": id, "withdrawn": true}).to_string();
        self.0.call(withdrawn, NonBlocking);
    }
}

struct HostLog(Callback<FnArgs<(String, String)>>);

impl Log for HostLog {
    fn log(&self, level: Level, line: &str) {
        let values = FnArgs::from((level.as_str().to_owned(), line.to_owned()));
        // A host whose logger throws has no log; the exception must not become an uncaught one.
        self.0
            .call_with_return_value(values, NonBlocking, |_, _| Ok(()));
    }
}
