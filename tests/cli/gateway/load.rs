//! Many members: scripted ones, and agents with a process for each message. `MEMBERS=1000 PROCESSES=50` in the environment
//! sets their numbers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use gateway_bridge::client::{Connector, Endpoint, Message, Requester, Script};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::*;

/// The requests to each kind of member.
const REQUESTS: usize = 200;

/// The number of concurrent requests.
const REQUESTERS: usize = 8;

/// The timeout for all members to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(240);

fn count_from_env(variable: &str, default: usize) -> usize {
    let value = std::env::var(variable).ok();
    value.map_or(default, |text| text.parse().unwrap())
}

fn endpoint(url: &str) -> Endpoint {
    Endpoint {
        timeout: Duration::from_secs(60),
        ..Endpoint::new(url.parse().unwrap())
    }
}

/// Connects. Under load, the gateway may evict a connection before its handshake.
async fn connect_requester(url: &str) -> Requester {
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
fn start_scripted_members(url: &str, count: usize, stop: &CancellationToken) {
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

/// Waits until this number of agents is connected. Returns the elapsed time.
async fn wait_for_members(url: &str, count: usize) -> Duration {
    let started = Instant::now();
    let mut requester = connect_requester(url).await;
    loop {
        let agent_list = requester.discover().await.unwrap();
        let agents = agent_list["agents"].as_array().unwrap().iter();
        let online = agents.filter(|agent| agent["status"] != "offline").count();
        if online >= count {
            return started.elapsed();
        }
        assert!(started.elapsed() < CONNECT_TIMEOUT, "{online} of {count}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Calls members in turn. Returns the sorted times of replies, and the number of errors.
async fn measure_replies(url: &str, members: &[String], requests: usize) -> (Vec<Duration>, usize) {
    let members: Arc<[String]> = members.into();
    let mut requesters = JoinSet::new();
    for offset in 0..REQUESTERS {
        let (members, mut requester) = (Arc::clone(&members), connect_requester(url).await);
        requesters.spawn(async move {
            let (mut times, mut errors) = (Vec::new(), 0);
            for request in (offset..requests).step_by(REQUESTERS) {
                let message = Message {
                    agent: members[request % members.len()].clone(),
                    text: "hello".to_owned(),
                    session_id: None,
                };
                let started = Instant::now();
                match requester
                    .send_and_wait(&message, CONNECT_TIMEOUT, |_| {})
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
    for (more_times, failed) in requesters.join_all().await {
        times.extend(more_times);
        errors += failed;
    }
    times.sort_unstable();
    (times, errors)
}

fn report(label: &str, times: &[Duration]) {
    let percentile = |percent: usize| times[(times.len() - 1) * percent / 100];
    println!(
        "{label}: {} replies, median {:?}, 99 % {:?}",
        times.len(),
        percentile(50),
        percentile(99)
    );
}

#[cfg(target_os = "linux")]
fn print_memory(label: &str, gateway: &GatewayProcess) {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.child.id())).unwrap();
    let resident = status.lines().find(|line| line.starts_with("VmRSS"));
    println!("{label}: {}", resident.unwrap_or_default());
}

#[cfg(not(target_os = "linux"))]
fn print_memory(_what: &str, _gateway: &GatewayProcess) {}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_members_do_not_affect_others() {
    let (count, processes) = (
        count_from_env("MEMBERS", 50),
        count_from_env("PROCESSES", 4),
    );
    let folder = scratch("gateway-many-members");
    let (gateway, url) = GatewayProcess::gateway(&folder, &["--fsync", "interval"]);
    print_memory("gateway without members", &gateway);
    let stop = CancellationToken::new();
    let started = Instant::now();
    start_scripted_members(&url, count, &stop);
    wait_for_members(&url, count).await;
    println!("{count} members connected after {:?}", started.elapsed());
    print_memory("gateway with scripted members", &gateway);
    let started = Instant::now();
    let mut agents: Vec<_> = (0..processes)
        .map(|agent| {
            let run = "cat >/dev/null; echo pong";
            GatewayProcess::agent(&url, &format!("process-{agent}"), &["--run", run])
        })
        .collect();
    println!(
        "{processes} processes connected after {:?}",
        started.elapsed()
    );
    print_memory("gateway with all members", &gateway);

    let names = |kind: &str, count| -> Vec<_> {
        (0..count).map(|index| format!("{kind}-{index}")).collect()
    };
    let members = names("member", count);
    let (times, errors) = measure_replies(&url, &members, REQUESTS).await;
    report("scripted members", &times);
    assert_eq!(errors, 0);
    let process_members = names("process", processes);
    let (times, errors) = measure_replies(&url, &process_members, REQUESTS / 2).await;
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
    let survivors = [&members, &process_members[..processes / 2]].concat();
    let (killed_result, other_result, ()) = tokio::join!(
        measure_replies(&url, &process_members, REQUESTS / 2),
        measure_replies(&url, &survivors, REQUESTS),
        kill
    );
    report("other members during kill -9", &other_result.0);
    println!("errors of killed members: {}", killed_result.1);
    assert!(
        killed_result.1 > 0,
        "every killed member answered before its end"
    );
    assert_eq!(other_result.1, 0);

    // Kills the gateway too, and expects all members to reconnect.
    drop(gateway);
    let port = url.rsplit(':').next().unwrap().trim_end_matches('/');
    let state = folder.to_str().unwrap();
    let arguments = ["gateway", "--port", port, "--json", "--state-dir", state];
    let started = Instant::now();
    let mut gateway = GatewayProcess::start(&arguments);
    gateway.next();
    let expected_members = count + processes / 2;
    wait_for_members(&url, expected_members).await;
    println!(
        "{expected_members} members are connected {:?} after the start of the gateway",
        started.elapsed()
    );
    print_memory("gateway after its restart", &gateway);
    let (_, errors) = measure_replies(&url, &members, REQUESTS / 4).await;
    assert_eq!(errors, 0);
    stop.cancel();
}
