//! Injects a single fault at every byte position of an exchange.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::command::{Command, TARGETS, Work};
use super::fault::Fault;
use super::instance::{start_instance, start_openclaw_instance};
use super::network::LATE;
use super::openclaw::ANSWER;
use super::random::Random;
use super::servers::HOOK_TOKEN;
use super::webhooks::{HOOKS_HOST, Notification, RECEIPT};
use super::world::Exchange;
use super::{Call, Outcome, Report, Settings, Simulation, start, summary};

/// The exchanges: a message to each target, and exchanges that only some targets have.
pub const EXCHANGES: [&str; 10] = [
    "rpc-1",
    "rpc-0.3",
    "http-1",
    "http-0.3",
    "any",
    "a2a-v1:alpha",
    "a2a-v1:triad",
    "openclaw:alpha",
    "openclaw:triad",
    "notification",
];

/// The faults at a byte of a response or a connection.
const AT_A_BYTE: [fn(usize) -> Fault; 4] = [Fault::Cut, Fault::End, Fault::Stall, Fault::Corrupt];

/// The faults at a byte of a request.
const AT_A_REQUEST: [fn(usize) -> Fault; 2] = [Fault::CutRequest, Fault::CorruptRequest];

/// The faults of a whole exchange.
const WHOLE: [Fault; 9] = [
    Fault::Unreachable,
    Fault::LostRequest,
    Fault::LostAnswer,
    Fault::LateRequest,
    Fault::DuplicateRequest,
    Fault::Delay,
    Fault::Silence,
    Fault::Status(503),
    Fault::Status(429),
];

/// The maximum index of an event that is duplicated or reordered.
const EVENTS: usize = 8;

/// The maximum index of a frame of OpenClaw's gateway that is duplicated or reordered.
const FRAMES: usize = 12;

/// The number of tasks of a server after which they are checked.
const TASKS: usize = 1000;

/// The maximum time until a webhook that fails once receives the end of a task.
const MAX_DELIVERY: Duration = Duration::from_secs(120);

/// Makes calls of one of the [`EXCHANGES`], each with a fault at every `step`th byte. Injects each kind of fault there.
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
        match exchange.split_once(':') {
            Some((dialect, agent)) => simulation.connections(dialect, agent, step).await,
            None if exchange == "notification" => simulation.notifications(step).await,
            None => simulation.messages(exchange, step).await,
        }
        simulation.finish().await
    })
}

/// Advances the clocks by a day between calls, then adjusts the servers' clocks by a week. Checks what expires and what does
/// not.
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
        self.send_and_check(0, "gateway:alpha", true, None, random)
            .await;
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
        self.send_and_check(0, "gateway:alpha", true, None, random)
            .await;
        if self.succeeded.load(Ordering::Relaxed) != before + 2 {
            world.violation("a call after a day fails".to_owned());
        }
        if world.servers.issued() != tokens + 1 {
            world.violation("an expired token is used again".to_owned());
        }
        // Adjust only the servers' clocks.
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
        *self.world.plan.lock().unwrap() = Some((exchange, 0, fault));
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
                // A server evicts finished tasks when it has many.
                if self.known.lock().unwrap().len() >= TASKS {
                    self.check_final_state().await;
                }
            }
        }
    }

    /// Each fault needs a new connection, and therefore a new instance. `dialect` is that of the gateway.
    async fn connections(&self, dialect: &str, agent: &str, step: usize) {
        let alias = format!("gateway:{agent}");
        let is_openclaw = dialect == "openclaw";
        let call_with_fault = async |follows, fault| {
            self.world.servers.openclaw.forget_runs();
            let fresh = match is_openclaw {
                true => start_openclaw_instance(&self.world, 0),
                false => start_instance(&self.world, 0, self.settings.faults),
            };
            *self.instances[0].lock().unwrap() = fresh;
            self.plan(Exchange::Connection, fault);
            let mut random = Random::new(1);
            let outcome = self.send_and_check(0, &alias, follows, Some(20_000), &mut random);
            if let Some(outcome) = outcome.await
                && is_openclaw
                // The bridge keeps votes only in memory.
                && agent != "triad"
            {
                self.check_run(&outcome).await;
            }
        };
        for follows in [false, true] {
            call_with_fault(follows, Fault::None).await;
            let bytes = (0..self.carried()).step_by(step);
            let at_bytes = bytes.flat_map(|at| AT_A_BYTE.iter().map(move |fault| fault(at)));
            let frames = if is_openclaw { FRAMES } else { 0 };
            let frames =
                (0..frames).flat_map(|at| [Fault::DuplicateEvent(at), Fault::ReorderEvents(at)]);
            for fault in at_bytes.chain(frames).chain(WHOLE) {
                call_with_fault(follows, fault).await;
            }
        }
    }

    /// Checks that another instance finds a run of OpenClaw, and its end, after the connection was lost.
    async fn check_run(&self, outcome: &Outcome) {
        let continuation = &summary(&outcome.envelope)["continuation"];
        if outcome.altered || continuation["task"].is_null() {
            return;
        }
        *self.instances[0].lock().unwrap() = start_openclaw_instance(&self.world, 0);
        let call = Call {
            request: json!({"action": "watch", "continuation": continuation, "timeout_ms": 20_000}),
            id: None,
            limit: Duration::from_secs(20),
            follows: true,
        };
        let watched = self.call(0, &call, &mut Random::new(1)).await;
        let envelope = watched.map(|watched| watched.envelope).unwrap_or_default();
        let summary = &envelope["summary"];
        let is_whole = summary["continuation"]["task"]["status"] == "completed"
            && summary["message_text"]
                .as_str()
                .is_some_and(|text| text.contains(ANSWER));
        if !is_whole {
            self.world
                .violation(format!("a run is lost with its connection: {envelope}"));
        }
    }

    async fn notifications(&self, step: usize) {
        for (alias, _) in TARGETS {
            let expected = self.notify(alias, 0, Fault::None, &[]).await;
            for others in 0..expected.len() {
                self.notify(alias, others, Fault::None, &expected).await;
                let request = (0..self.carried()).step_by(step);
                let request =
                    request.flat_map(|at| AT_A_REQUEST.iter().map(move |fault| fault(at)));
                let answer = (0..RECEIPT.len()).step_by(step.min(5));
                let answer = answer.flat_map(|at| AT_A_BYTE.iter().map(move |fault| fault(at)));
                for fault in request.chain(answer).chain(WHOLE) {
                    self.notify(alias, others, fault, &expected).await;
                }
            }
        }
    }

    /// Runs a task with a webhook, with a fault in the notification after `others` ones. Checks that the webhook receives
    /// the notifications in order, and once if the network delivers both the notification and the response. Returns the
    /// notifications.
    async fn notify(
        &self,
        alias: &str,
        others: usize,
        fault: Fault,
        expected: &[Option<String>],
    ) -> Vec<Option<String>> {
        let id = self.new_id();
        let request = json!({
            "action": "send", "target_alias": alias, "message_id": id, "follow_updates": true,
            "parts": [{"kind": "text", "text": "stream 3 5"}], "timeout_ms": 20_000,
            "push_notification_config": {"url": format!("https://{HOOKS_HOST}/{id}"), "token": HOOK_TOKEN},
        });
        self.calls.fetch_add(1, Ordering::Relaxed);
        *self.world.plan.lock().unwrap() = Some((Exchange::Notification, others, fault));
        let call = Call {
            request,
            id: Some(id.clone()),
            limit: Duration::from_secs(20),
            follows: true,
        };
        self.call(0, &call, &mut Random::new(0)).await;
        let webhooks = &self.world.webhooks;
        let ended = async {
            while !webhooks.received(&id).iter().any(Notification::is_terminal) {
                sleep(Duration::from_secs(1)).await;
            }
        };
        let has_ended = timeout(MAX_DELIVERY, ended).await.is_ok();
        if fault == Fault::LateRequest {
            sleep(LATE).await;
        }
        let received = webhooks.received(&id);
        let repeated = webhooks.repeated(&id);
        let mut states: Vec<_> = received.iter().map(|one| one.state.clone()).collect();
        // The receiver can order them by time, unless the network changed the time.
        let is_corrupt = matches!(fault, Fault::CorruptRequest(_));
        let last = received.iter().max_by_key(|one| &one.timestamp);
        let has_ended = has_ended && (is_corrupt || last.is_some_and(Notification::is_terminal));
        let mut refused = expected.to_vec();
        if is_corrupt && others < refused.len() {
            refused.remove(others);
        }
        let all = |states: &[Option<String>]| states.iter().cloned().collect::<BTreeSet<_>>();
        let is_whole = expected.is_empty()
            || [expected, &refused]
                .iter()
                .any(|right| all(right) == all(&states));
        let may_repeat = matches!(
            fault,
            Fault::LostAnswer | Fault::LateRequest | Fault::DuplicateRequest
        );
        let is_once = repeated == 0 || may_repeat && repeated == 1;
        let refuses_end = refused.len() < expected.len() && others == refused.len();
        if !is_whole || !is_once || !has_ended && !refuses_end {
            self.world.violation(format!(
                "{alias}, notification {others} with {fault:?}: {states:?}, {repeated} repeated, not {expected:?}"
            ));
        }
        states.dedup();
        states
    }
}
