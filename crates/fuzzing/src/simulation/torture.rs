//! One fault at one byte of one exchange, byte after byte.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::command::{Command, TARGETS, Work};
use super::fault::Fault;
use super::instance::start_instance;
use super::random::Random;
use super::servers::HOOK_TOKEN;
use super::world::{Exchange, HOOKS_HOST};
use super::{Call, Report, Settings, Simulation, start};

/// The exchanges: messages to each target, and what only some of them have.
pub const EXCHANGES: [&str; 8] = [
    "rpc-1",
    "rpc-0.3",
    "http-1",
    "http-0.3",
    "any",
    "gateway:alpha",
    "gateway:triad",
    "notification",
];

/// The faults at a byte of an answer or a connection.
const AT_A_BYTE: [fn(usize) -> Fault; 4] = [Fault::Cut, Fault::End, Fault::Stall, Fault::Corrupt];

/// The faults at a byte of a request.
const AT_A_REQUEST: [fn(usize) -> Fault; 2] = [Fault::CutRequest, Fault::CorruptRequest];

/// The faults of a whole exchange.
const WHOLE: [Fault; 8] = [
    Fault::Unreachable,
    Fault::LostRequest,
    Fault::LostAnswer,
    Fault::DuplicateRequest,
    Fault::Delay,
    Fault::Silence,
    Fault::Status(503),
    Fault::Status(429),
];

/// The longest number of an event that is duplicated or reordered.
const EVENTS: usize = 8;

/// Makes calls of one of the [`EXCHANGES`], each with a fault at a byte: at every `step`th byte, in every way there is.
#[must_use]
pub fn torture(exchange: &str, step: usize) -> Report {
    let runtime = super::runtime();
    runtime.block_on(async {
        let settings = Settings {
            calls: 0,
            faults: 0,
            pause: Duration::ZERO,
        };
        let simulation = start(1, settings).await;
        match exchange {
            "notification" => simulation.notifications().await,
            agent if agent.starts_with("gateway:") => simulation.connections(agent, step).await,
            target => simulation.messages(target, step).await,
        }
        simulation.finish().await
    })
}

/// Lets a day pass between calls, then sets the servers' clocks forward by a week, and checks what expires and what does not.
#[must_use]
pub fn expiries() -> Report {
    super::runtime().block_on(async {
        let settings = Settings {
            calls: 0,
            faults: 0,
            pause: Duration::ZERO,
        };
        let simulation = start(1, settings).await;
        simulation.expire().await;
        simulation.finish().await
    })
}

impl Simulation {
    async fn expire(&self) {
        let (random, world) = (&mut Random::new(0), &self.world);
        let work = |target: usize, command| Work {
            target: TARGETS[target],
            command,
            follows: true,
            timeout_ms: None,
        };
        let question = self
            .send(0, work(0, Command::Ask), None, random)
            .await
            .unwrap();
        let last = TARGETS.len() - 1;
        self.send(0, work(last, Command::Echo), None, random)
            .await
            .unwrap();
        self.ask(0, "gateway:alpha", None, random).await;
        let tokens = world.servers.issued();
        let state = async |reference: Value| {
            let mut request = json!({"action": "status"});
            request
                .as_object_mut()
                .unwrap()
                .extend(reference.as_object().unwrap().clone());
            let call = Call {
                request,
                id: None,
                limit: Duration::from_secs(120),
                follows: false,
            };
            let outcome = self
                .call(0, &call, &mut Random::new(0))
                .await
                .unwrap()
                .envelope;
            let status = &outcome["summary"]["continuation"]["task"]["status"];
            let status = status.as_str().or(outcome["error"]["reason"].as_str());
            status.unwrap_or_default().to_owned()
        };
        let by_handle = json!({"task_handle": question.continuation["task"]["task_handle"]});
        let by_continuation = json!({"continuation": question.continuation});
        let mut seen = vec![state(by_handle.clone()).await];
        sleep(Duration::from_hours(25)).await;
        seen.push(state(by_handle).await);
        seen.push(state(by_continuation.clone()).await);
        let before = self.succeeded.load(Ordering::Relaxed);
        self.send(0, work(last, Command::Echo), None, random)
            .await
            .unwrap();
        self.ask(0, "gateway:alpha", None, random).await;
        if self.succeeded.load(Ordering::Relaxed) != before + 2 {
            world.violation("a call after a day fails".to_owned());
        }
        if world.servers.issued() != tokens + 1 {
            world.violation("an expired token is used again".to_owned());
        }
        // The servers' clocks jump forward.
        world.servers.adjust_clocks(7 * 24 * 3600);
        sleep(Duration::from_hours(2)).await;
        seen.push(state(by_continuation).await);
        if seen
            != [
                "input-required",
                "expired_handle",
                "input-required",
                "failed",
            ]
        {
            world.violation(format!("the question is {seen:?}"));
        }
        self.known.lock().unwrap().clear();
    }

    fn plan(&self, exchange: Exchange, fault: Fault) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        *self.world.plan.lock().unwrap() = Some((exchange, fault));
    }

    fn carried(&self) -> usize {
        self.world.carried.load(Ordering::Relaxed)
    }

    async fn messages(&self, alias: &str, step: usize) {
        let target = TARGETS.into_iter().find(|target| target.0 == alias);
        let target = target.expect("one of the exchanges");
        for (command, follows) in [
            (Command::Echo, false),
            (Command::Stream(3, 5), true),
            (Command::Task, true),
        ] {
            let work = Work {
                target,
                command,
                follows,
                timeout_ms: Some(4000),
            };
            self.plan(Exchange::Message, Fault::None);
            self.send(0, work, None, &mut Random::new(0)).await;
            let length = self.carried();
            let bytes = (0..length).step_by(step);
            let kinds = AT_A_BYTE.iter().chain(&AT_A_REQUEST);
            let at_bytes = bytes.flat_map(|at| kinds.clone().map(move |fault| fault(at)));
            let events =
                (0..EVENTS).flat_map(|at| [Fault::DuplicateEvent(at), Fault::ReorderEvents(at)]);
            for fault in at_bytes.chain(events).chain(WHOLE) {
                self.plan(Exchange::Message, fault);
                self.send(0, work, None, &mut Random::new(0)).await;
            }
        }
    }

    /// Each fault needs a connection of its own, and so an instance.
    async fn connections(&self, alias: &str, step: usize) {
        self.plan(Exchange::Connection, Fault::None);
        self.ask(0, alias, Some(20_000), &mut Random::new(1)).await;
        let bytes = (0..self.carried()).step_by(step);
        let at_bytes = bytes.flat_map(|at| AT_A_BYTE.iter().map(move |fault| fault(at)));
        for fault in at_bytes.chain(WHOLE) {
            let fresh = start_instance(&self.world, 0, self.settings.faults);
            *self.instances[0].lock().unwrap() = fresh;
            self.plan(Exchange::Connection, fault);
            self.ask(0, alias, Some(20_000), &mut Random::new(1)).await;
        }
    }

    /// Whatever happens to a notification, the webhook learns the end of the task.
    async fn notifications(self: &Arc<Self>) {
        for (alias, _) in TARGETS {
            for fault in WHOLE {
                let id = self.new_id();
                let request = json!({
                    "action": "send", "target_alias": alias, "message_id": id, "follow_updates": true,
                    "parts": [{"kind": "text", "text": "stream 3 5"}], "timeout_ms": 20_000,
                    "push_notification_config": {"url": format!("https://{HOOKS_HOST}/{id}"), "token": HOOK_TOKEN},
                });
                self.plan(Exchange::Notification, fault);
                let call = Call {
                    request,
                    id: Some(id.clone()),
                    limit: Duration::from_secs(20),
                    follows: true,
                };
                self.call(0, &call, &mut Random::new(0)).await;
                sleep(Duration::from_secs(120)).await;
                let hooks = self.world.hooks.lock().unwrap();
                let states = hooks.get(&format!("/{id}"));
                if states.and_then(|states| states.last()) != Some(&true) {
                    let text = format!("{alias} with {fault:?}: the webhook received {states:?}");
                    self.world.violation(text);
                }
            }
        }
    }
}
