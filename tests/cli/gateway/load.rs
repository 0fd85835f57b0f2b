//! Many members: scripted ones, and agents with a process for each message. `MEMBERS=1000 PROCESSES=50` in the environment
//! measures that many.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gateway_server::clients::{Connector, Endpoint, Message, Requester, Script};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::*;

/// The requests to each kind of member.
const REQUESTS: usize = 200;

/// The number of concurrent requests.
const REQUESTERS: usize = 8;

/// The timeout for all members to connect.
const CONNECT_LIMIT: Duration = Duration::from_secs(240);

fn number(variable: &str, default: usize) -> usize {
    let set = std::env::var(variable).ok();
    set.map_or(default, |text| text.parse().unwrap())
}

fn endpoint(url: &str) -> Endpoint {
    Endpoint {
        timeout: Duration::from_secs(60),
        ..Endpoint::new(url.parse().unwrap())
    }
}

/// Connects. Under load, the gateway may evict a connection before its handshake.
async fn requester(url: &str) -> Requester {
    let connector = Connector::new().unwrap();
    loop {
        match connector.connect(endpoint(url)).await {
            Ok(requester) => return requester,
            Err(error) => assert!(error.is_retryable(), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Starts scripted members in this process.
fn scripted(url: &str, count: usize, stop: &CancellationToken) {
    let connector = Connector::new().unwrap();
    for member in 0..count {
        let script = Script {
            name: format!("member-{member}"),
            ballot: None,
            delay: Duration::ZERO,
            reply: Script::REPLY.to_owned(),
        };
        let (connector, endpoint, stop) = (connector.clone(), endpoint(url), stop.clone());
        tokio::spawn(async move {
            let served = connector.serve(endpoint, script, |_| {}, stop);
            served.await.unwrap();
        });
    }
}

/// Waits until so many agents are connected. Returns how long that took.
async fn connected(url: &str, count: usize) -> Duration {
    let started = Instant::now();
    let mut requester = requester(url).await;
    loop {
        let found = requester.discover().await.unwrap();
        let agents = found["agents"].as_array().unwrap().iter();
        let there = agents.filter(|agent| agent["status"] != "offline").count();
        if there >= count {
            return started.elapsed();
        }
        assert!(started.elapsed() < CONNECT_LIMIT, "{there} of {count}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Calls members in turn. Returns the sorted times of replies, and the number of errors.
async fn ask(url: &str, members: &[String], requests: usize) -> (Vec<Duration>, usize) {
    let members: Arc<[String]> = members.into();
    let mut requesters = JoinSet::new();
    for asker in 0..REQUESTERS {
        let (members, mut requester) = (Arc::clone(&members), requester(url).await);
        requesters.spawn(async move {
            let (mut times, mut errors) = (Vec::new(), 0);
            for request in (asker..requests).step_by(REQUESTERS) {
                let message = Message {
                    agent: members[request % members.len()].clone(),
                    text: "hello".to_owned(),
                    session_id: None,
                };
                let started = Instant::now();
                match requester
                    .send_and_wait(&message, CONNECT_LIMIT, |_| {})
                    .await
                {
                    Ok(_) => times.push(started.elapsed()),
                    Err(_) => errors += 1,
                }
            }
            (times, errors)
        });
    }
    let (mut times, mut errors) = (Vec::new(), 0);
    for (some, failed) in requesters.join_all().await {
        times.extend(some);
        errors += failed;
    }
    times.sort_unstable();
    (times, errors)
}

fn report(what: &str, times: &[Duration]) {
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    println!(
        "{what}: {} replies, median {:?}, 99 % {:?}",
        times.len(),
        at(50),
        at(99)
    );
}

#[cfg(target_os = "linux")]
fn memory(what: &str, gateway: &Running) {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.child.id())).unwrap();
    let resident = status.lines().find(|line| line.starts_with("VmRSS"));
    println!("{what}: {}", resident.unwrap_or_default());
}

#[cfg(not(target_os = "linux"))]
fn memory(_what: &str, _gateway: &Running) {}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_members_do_not_affect_others() {
    let (count, processes) = (number("MEMBERS", 50), number("PROCESSES", 4));
    let folder = scratch("gateway-many-members");
    let (gateway, url) = Running::gateway(&folder, &["--fsync", "interval"]);
    memory("gateway without members", &gateway);
    let stop = CancellationToken::new();
    let started = Instant::now();
    scripted(&url, count, &stop);
    connected(&url, count).await;
    println!("{count} members connected after {:?}", started.elapsed());
    memory("gateway with scripted members", &gateway);
    let started = Instant::now();
    let mut agents: Vec<_> = (0..processes)
        .map(|agent| {
            let run = "cat >/dev/null; echo pong";
            Running::agent(&url, &format!("process-{agent}"), &["--run", run])
        })
        .collect();
    println!(
        "{processes} processes connected after {:?}",
        started.elapsed()
    );
    memory("gateway with all members", &gateway);

    let names =
        |kind: &str, count| -> Vec<_> { (0..count).map(|one| format!("{kind}-{one}")).collect() };
    let members = names("member", count);
    let (times, errors) = ask(&url, &members, REQUESTS).await;
    report("scripted members", &times);
    assert_eq!(errors, 0);
    let with_process = names("process", processes);
    let (times, errors) = ask(&url, &with_process, REQUESTS / 2).await;
    report("members with processes", &times);
    assert_eq!(errors, 0);

    // Kills half of the members with processes during the calls.
    let killed = agents.split_off(processes / 2);
    let kill = async {
        for mut agent in killed {
            agent.child.kill().unwrap();
            tokio::task::yield_now().await;
        }
    };
    let survivors = [&members, &with_process[..processes / 2]].concat();
    let (all, others, ()) = tokio::join!(
        ask(&url, &with_process, REQUESTS / 2),
        ask(&url, &survivors, REQUESTS),
        kill
    );
    report("the others during kill -9", &others.0);
    println!("errors of killed members: {}", all.1);
    assert!(all.1 > 0, "every killed member answered before its end");
    assert_eq!(others.1, 0);

    // Kills the gateway too, and expects all members to reconnect.
    drop(gateway);
    let port = url.rsplit(':').next().unwrap().trim_end_matches('/');
    let state = folder.to_str().unwrap();
    let again = ["gateway", "--port", port, "--json", "--state-dir", state];
    let started = Instant::now();
    let mut gateway = Running::start(&again);
    gateway.next();
    let alive = count + processes / 2;
    connected(&url, alive).await;
    println!(
        "{alive} members are back {:?} after the start of the gateway",
        started.elapsed()
    );
    memory("gateway after its restart", &gateway);
    let (_, errors) = ask(&url, &members, REQUESTS / 4).await;
    assert_eq!(errors, 0);
    stop.cancel();
}
