#![allow(clippy::unwrap_used, clippy::panic)]
use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use url::Url;

use crate::collective::Quorum;
use crate::log::Silent;
use crate::peer::{Delivered, End, Event, Member, Part, Step};
use crate::world::System;

use super::*;

/// What a member does when it is asked, in order.
#[derive(Clone)]
enum Does {
    Says(&'static str),
    Fails,
    IsNotThere,
    Sleeps,
}

/// A gateway whose agents do what they are told to.
struct Agents {
    script: Mutex<HashMap<String, Vec<Does>>>,
    asked: Mutex<Vec<(About, Outgoing)>>,
    canceled: Mutex<Vec<String>>,
    stopped: tokio::sync::Notify,
    /// Nobody answers before this many permits are there.
    gate: Semaphore,
}

/// Events, and whether nothing follows them for ever.
struct Said(Vec<Value>, bool);

impl EventStream for Said {
    fn next(&mut self) -> BoxFuture<'_, Step> {
        Box::pin(async {
            if !self.0.is_empty() {
                return Step::Event(Event::read(self.0.remove(0)).unwrap(), 0);
            }
            if self.1 {
                std::future::pending::<()>().await;
            }
            Step::End(End::Clean)
        })
    }
}

impl Link for Agents {
    fn dialect(&self) -> &'static str {
        "openclaw/4"
    }
    fn is_open(&self) -> bool {
        true
    }
    fn members(&self) -> BoxFuture<'_, Result<Vec<Member>, PeerError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
    fn send<'a>(
        &'a self,
        _: &'a About,
        _: &'a Outgoing,
    ) -> BoxFuture<'a, Result<Reply, PeerError>> {
        Box::pin(async { panic!("a triad listens to its members") })
    }
    fn stream<'a>(
        &'a self,
        about: &'a About,
        outgoing: &'a Outgoing,
    ) -> BoxFuture<'a, Result<Box<dyn EventStream>, PeerError>> {
        self.asked
            .lock()
            .unwrap()
            .push((about.clone(), outgoing.clone()));
        let does = self
            .script
            .lock()
            .unwrap()
            .get_mut(&about.agent)
            .map_or(Does::IsNotThere, |all| all.remove(0));
        Box::pin(async move {
            self.gate.acquire().await.unwrap().forget();
            // Nobody answers in the moment it is asked.
            tokio::task::yield_now().await;
            let id = outgoing.message_id.as_str();
            let status = |state: &str| json!({"kind": "status-update", "taskId": id, "status": {"state": state}, "final": true});
            let (events, goes_on) = match does {
                Does::Says(text) => (
                    vec![
                        json!({"kind": "task", "id": id, "status": {"state": "submitted"}}),
                        json!({"kind": "artifact-update", "taskId": id, "artifact": {"artifactId": "reply", "parts": [{"kind": "text", "text": text}]}}),
                        status("completed"),
                    ],
                    false,
                ),
                Does::Fails => (vec![status("failed")], false),
                Does::IsNotThere => {
                    return Err(PeerError::new(
                        Fault::Gateway(ErrorCode::AgentNotFound),
                        "no such agent",
                    ));
                }
                Does::Sleeps => (
                    vec![json!({"kind": "task", "id": id, "status": {"state": "working"}})],
                    true,
                ),
            };
            Ok(Box::new(Said(events, goes_on)) as Box<dyn EventStream>)
        })
    }
    fn get_task<'a>(&'a self, _: &'a About, _: &'a str) -> BoxFuture<'a, Result<Task, PeerError>> {
        Box::pin(async { panic!("not asked") })
    }
    fn cancel<'a>(
        &'a self,
        about: &'a About,
        _: &'a str,
    ) -> BoxFuture<'a, Result<Task, PeerError>> {
        self.canceled.lock().unwrap().push(about.agent.clone());
        self.stopped.notify_one();
        Box::pin(async { Err(PeerError::new(Fault::TaskForgotten, "gone")) })
    }
    fn resubscribe<'a>(
        &'a self,
        _: &'a About,
        _: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn EventStream>, PeerError>> {
        Box::pin(async { panic!("not asked") })
    }
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

const APPROVE: Does = Does::Says(r#"{"vote":"approve","reasoning":"Good.","confidence":0.9}"#);
const REJECT: Does = Does::Says(r#"{"vote":"reject","reasoning":"Bad."}"#);
const ABSTAIN: Does = Does::Says(r#"{"vote":"abstain","reasoning":"No view."}"#);
const NONSENSE: Does = Does::Says("I would say yes.");

fn triad(quorum: Quorum, script: [Vec<Does>; 3]) -> (Triad, Arc<Agents>) {
    let mut settings = Settings::new(Url::parse("ws://127.0.0.1:1").unwrap());
    let names = ["alpha", "beta", "charlie"].map(str::to_owned);
    settings.triad.members = names.to_vec();
    settings.triad.quorum = quorum;
    settings.triad.deadline = Duration::from_secs(300);
    let agents = Arc::new(Agents {
        script: Mutex::new(names.into_iter().zip(script).collect()),
        asked: Mutex::default(),
        canceled: Mutex::default(),
        stopped: tokio::sync::Notify::new(),
        gate: Semaphore::new(99),
    });
    let link = Arc::clone(&agents);
    let links: Links = Arc::new(move || {
        let link: Arc<dyn Link> = Arc::clone(&link) as _;
        Box::pin(async move { Ok(link) })
    });
    let triad = Triad::new(
        Arc::new(settings),
        Arc::new(System),
        Arc::new(Silent),
        links,
    );
    (triad, agents)
}

fn proposing(text: &str) -> Outgoing {
    Outgoing {
        message_id: "proposal-1".into(),
        parts: vec![Part::text(text.into())],
        blocking: true,
        ..Outgoing::default()
    }
}

async fn decided(triad: &Triad) -> Value {
    let reply = triad
        .send(&About::default(), &proposing("Move the backups."))
        .await
        .unwrap();
    let Reply::Task(task) = reply else {
        panic!("no task")
    };
    assert_eq!(task.state().as_str(), "completed", "{}", task.json());
    task.json()["artifacts"][0]["parts"][0]["data"].clone()
}

#[tokio::test(start_paused = true)]
async fn h_40_two_equal_votes_decide_and_the_third_is_not_waited_for() {
    let (triad, agents) = triad(
        Quorum::Majority,
        [vec![APPROVE], vec![APPROVE], vec![Does::Sleeps]],
    );
    assert_eq!(
        decided(&triad).await,
        json!({"proposalId": "proposal-1", "result": "approved", "consensus": true,
            "votes": {"alpha": "approve", "beta": "approve"}, "missing": ["charlie"]})
    );
    // The run of the third is stopped after the decision.
    agents.stopped.notified().await;
    assert_eq!(*agents.canceled.lock().unwrap(), ["charlie"]);
}

#[tokio::test(start_paused = true)]
async fn h_40_with_quorum_all_the_deadline_decides_without_who_is_silent() {
    let (triad, _) = triad(
        Quorum::All,
        [vec![APPROVE], vec![APPROVE], vec![Does::Sleeps]],
    );
    let begun = Instant::now();
    let vote = triad
        .propose(&About::default(), &proposing("x"))
        .await
        .unwrap();
    vote.over().await;
    assert_eq!(begun.elapsed(), Duration::from_secs(300));
    let task = triad.get_task("proposal-1").unwrap();
    let decision = &task.json()["artifacts"][0]["parts"][0]["data"];
    assert_eq!(
        (&decision["result"], &decision["missing"]),
        (&json!("approved"), &json!(["charlie"]))
    );
}

#[tokio::test(start_paused = true)]
async fn h_39_without_two_equal_votes_the_proposal_is_rejected_without_consensus() {
    let (triad, _) = triad(
        Quorum::Majority,
        [vec![APPROVE], vec![REJECT], vec![ABSTAIN]],
    );
    let decision = decided(&triad).await;
    assert_eq!(
        (&decision["result"], &decision["consensus"]),
        (&json!("rejected"), &json!(false))
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_no_vote_is_asked_for_once_more_with_the_reason() {
    let (triad, agents) = triad(
        Quorum::All,
        [vec![NONSENSE, APPROVE], vec![APPROVE], vec![APPROVE]],
    );
    assert_eq!(decided(&triad).await["votes"]["alpha"], "approve");
    let asked = agents.asked.lock().unwrap();
    let alpha: Vec<_> = asked
        .iter()
        .filter(|(about, _)| about.agent == "alpha")
        .collect();
    assert_eq!(alpha.len(), 2);
    assert_eq!(alpha[0].0.context_id, alpha[1].0.context_id);
    let again = alpha[1].1.parts[0].json()["text"].as_str().unwrap();
    assert!(again.contains("not one JSON object"), "{again}");
}

#[tokio::test(start_paused = true)]
async fn a_second_answer_that_is_no_vote_is_an_abstention() {
    let (triad, _) = triad(
        Quorum::All,
        [vec![NONSENSE, NONSENSE], vec![APPROVE], vec![REJECT]],
    );
    assert_eq!(
        decided(&triad).await["votes"],
        json!({"alpha": "abstain", "beta": "approve", "charlie": "reject"})
    );
}

#[tokio::test(start_paused = true)]
async fn members_that_are_not_there_or_fail_are_missing_and_not_waited_for() {
    let (triad, _) = triad(
        Quorum::Majority,
        [vec![APPROVE], vec![Does::IsNotThere], vec![Does::Fails]],
    );
    let begun = Instant::now();
    let decision = decided(&triad).await;
    assert_eq!(decision["missing"], json!(["beta", "charlie"]));
    assert_eq!(
        (&decision["result"], &decision["consensus"]),
        (&json!("rejected"), &json!(false))
    );
    assert_eq!(begun.elapsed(), Duration::ZERO);
    let text = triad.get_task("proposal-1").unwrap().status_text().unwrap();
    assert!(text.contains("beta (no such agent)"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn h_43_votes_are_told_as_they_come_with_reasons_and_confidence() {
    let (triad, agents) = triad(Quorum::All, [vec![APPROVE], vec![REJECT], vec![APPROVE]]);
    let mut stream = triad
        .stream(&About::default(), &proposing("x"))
        .await
        .unwrap();
    let mut told = Vec::new();
    while let Step::Event(event, _) = stream.next().await {
        told.push(event.into_json());
    }
    assert_eq!(told[0]["kind"], "task");
    let votes: Vec<_> = told
        .iter()
        .filter_map(|event| event.pointer("/status/message/parts/1/data"))
        .collect();
    assert_eq!(votes.len(), 3);
    assert!(votes.contains(&&json!({"proposalId": "proposal-1", "from": "alpha", "vote": "approve", "reasoning": "Good.", "confidence": 0.9})));
    assert!(votes.contains(
        &&json!({"proposalId": "proposal-1", "from": "beta", "vote": "reject", "reasoning": "Bad."})
    ));
    assert_eq!(told.last().unwrap()["final"], true);
    drop(agents);
}

#[tokio::test(start_paused = true)]
async fn each_member_is_asked_in_a_session_of_its_own_and_told_how_deep_it_is() {
    let (triad, agents) = triad(Quorum::All, [vec![APPROVE], vec![APPROVE], vec![APPROVE]]);
    let mut outgoing = proposing("x");
    let row = json!({"hop": 2, "chain": "c"});
    outgoing.metadata = Some(
        [(delegation::KEY.to_owned(), row.clone())]
            .into_iter()
            .collect(),
    );
    let about = About {
        session_key: Some("agent:main:main".into()),
        context_id: Some("mine".into()),
        ..About::default()
    };
    triad.send(&about, &outgoing).await.unwrap();
    let asked = agents.asked.lock().unwrap();
    let contexts: std::collections::HashSet<_> = asked
        .iter()
        .map(|(about, _)| about.context_id.clone())
        .collect();
    assert_eq!(contexts.len(), 3);
    for (about, outgoing) in asked.iter() {
        assert_ne!(about.context_id.as_deref(), Some("mine"));
        assert_eq!(about.session_key.as_deref(), Some("agent:main:main"));
        assert_eq!(outgoing.metadata.as_ref().unwrap()[delegation::KEY], row);
    }
}

#[tokio::test(start_paused = true)]
async fn who_listens_late_hears_where_the_vote_stands_and_the_rest() {
    let (triad, agents) = triad(Quorum::All, [vec![APPROVE], vec![REJECT], vec![APPROVE]]);
    agents.gate.forget_permits(98);
    let mut first = triad
        .stream(&About::default(), &proposing("x"))
        .await
        .unwrap();
    first.next().await;
    first.next().await;
    let mut late = triad.resubscribe("proposal-1").unwrap();
    let Step::Event(Event::Task(task), _) = late.next().await else {
        panic!("no task")
    };
    assert!(
        task.status_text().unwrap().contains("votes"),
        "{}",
        task.json()
    );
    agents.gate.add_permits(2);
    let mut votes = 0;
    while let Step::Event(event, _) = late.next().await {
        votes += usize::from(
            event
                .json()
                .pointer("/status/message/parts/1/data")
                .is_some(),
        );
    }
    assert_eq!(votes, 2);
}

#[tokio::test(start_paused = true)]
async fn a_vote_that_is_canceled_stops_everybody_who_is_asked() {
    let (triad, agents) = triad(
        Quorum::All,
        [vec![APPROVE], vec![Does::Sleeps], vec![Does::Sleeps]],
    );
    let mut stream = triad
        .stream(&About::default(), &proposing("x"))
        .await
        .unwrap();
    stream.next().await;
    stream.next().await;
    let task = triad.cancel("proposal-1").await.unwrap();
    assert_eq!(task.state().as_str(), "canceled");
    while agents.canceled.lock().unwrap().len() < 2 {
        agents.stopped.notified().await;
    }
    assert_eq!(
        triad.get_task("proposal-1").unwrap().state().as_str(),
        "canceled"
    );
}

#[tokio::test(start_paused = true)]
async fn what_nobody_knows_of_is_forgotten() {
    let (triad, _) = triad(Quorum::All, [vec![], vec![], vec![]]);
    assert_eq!(triad.get_task("x").unwrap_err().fault, Fault::TaskForgotten);
    assert_eq!(
        triad.cancel("x").await.unwrap_err().fault,
        Fault::TaskForgotten
    );
    assert!(
        triad
            .resubscribe("x")
            .is_err_and(|error| error.fault == Fault::TaskForgotten)
    );
}

#[tokio::test(start_paused = true)]
async fn h_45_a_repeated_proposal_has_the_same_outcome_and_another_one_is_refused() {
    let (triad, agents) = triad(Quorum::All, [vec![APPROVE], vec![APPROVE], vec![APPROVE]]);
    let first = decided(&triad).await;
    assert_eq!(decided(&triad).await, first);
    assert_eq!(agents.asked.lock().unwrap().len(), 3);
    let error = triad
        .send(&About::default(), &proposing("Something else."))
        .await
        .unwrap_err();
    assert_eq!(error.fault, Fault::Gateway(ErrorCode::InvalidContent));
}

#[tokio::test(start_paused = true)]
async fn a_vote_that_takes_longer_than_patience_is_a_task_that_goes_on() {
    let (triad, _) = triad(
        Quorum::Majority,
        [vec![Does::Sleeps], vec![Does::Sleeps], vec![Does::Sleeps]],
    );
    let Reply::Task(task) = triad
        .send(&About::default(), &proposing("x"))
        .await
        .unwrap()
    else {
        panic!("no task")
    };
    assert_eq!(task.state().as_str(), "working");
}

#[tokio::test(start_paused = true)]
async fn no_gateway_is_no_decision() {
    let (mut triad, _) = triad(Quorum::Majority, [vec![], vec![], vec![]]);
    triad.links = Arc::new(|| {
        Box::pin(async {
            Err(
                PeerError::new(Fault::Gateway(ErrorCode::ConnectionRefused), "nobody there")
                    .undelivered(),
            )
        })
    });
    let error = triad
        .send(&About::default(), &proposing("x"))
        .await
        .unwrap_err();
    assert_eq!(
        (error.fault, error.delivered),
        (Fault::Gateway(ErrorCode::ConnectionRefused), Delivered::No)
    );
    assert!(triad.get_task("proposal-1").is_err());
}

#[tokio::test]
async fn a_triad_has_three_different_members() {
    let (mut triad, _) = triad(Quorum::Majority, [vec![], vec![], vec![]]);
    for members in [vec![], vec!["a", "b"], vec!["a", "b", "a"]] {
        let mut settings = (*triad.settings).clone();
        settings.triad.members = members.into_iter().map(str::to_owned).collect();
        triad.settings = Arc::new(settings);
        assert!(
            triad
                .send(&About::default(), &proposing("x"))
                .await
                .is_err()
        );
    }
}
