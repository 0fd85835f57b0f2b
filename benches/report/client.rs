//! The client sections: calls, streams and watches.

use serde_json::json;

use crate::{
    Scale, Setup,
    callers::{self, JS03, JS13, NODE_API, OPENCLAW, PY, REQWEST, RS, RUST_ABI},
    peer::Peer,
    process::Process,
    samples::Section,
};

/// Measures round trips and their CPU time: sending a message, and getting the state of a task.
pub(crate) fn measure_calls(setup: &Setup, scale: &Scale, section: &mut Section) {
    let peer = Peer::start();
    let mut clients: Vec<(&str, Process)> = callers::ALL
        .iter()
        .map(|name| (*name, callers::start(name, setup, &peer)))
        .collect();
    for (_, client) in &mut clients {
        for op in ["send", "status"] {
            client.call(&json!({"op": op, "width": 64, "seconds": scale.slice}));
        }
    }
    for round in 0..scale.rounds {
        eprintln!("client, round {}", round + 1);
        for op in ["send", "status"] {
            for width in scale.widths {
                for (name, client) in &mut clients {
                    let usage = client.start_usage();
                    let response =
                        client.call(&json!({"op": op, "width": width, "seconds": scale.slice}));
                    let calls = response["calls"].as_f64().unwrap();
                    let seconds = response["seconds"].as_f64().unwrap();
                    let case = format!("{op}, {width} in flight");
                    section.add(&case, name, "calls/s", calls / seconds);
                    section.add(&case, name, "CPU µs", usage.cpu_seconds() / calls * 1e6);
                }
            }
        }
    }
}

/// Measures one message to a group of targets, beside as many messages at once. Each follows its task.
pub(crate) fn measure_groups(setup: &Setup, scale: &Scale, section: &mut Section) {
    let peer = Peer::start();
    let mut client = callers::start(RUST_ABI, setup, &peer);
    let command = |op: &str| json!({"op": op, "width": 1, "seconds": scale.slice});
    let subjects = ["one call", "single calls"];
    for subject in subjects {
        client.call(&command(subject));
    }
    for round in 0..scale.rounds {
        eprintln!("group, round {}", round + 1);
        for subject in subjects {
            let usage = client.start_usage();
            let response = client.call(&command(subject));
            let calls = response["calls"].as_f64().unwrap();
            let seconds = response["seconds"].as_f64().unwrap();
            let (case, cpu) = ("10 targets", usage.cpu_seconds() / calls * 1e6);
            section.add(case, subject, "ms", seconds / calls * 1e3);
            section.add(case, subject, "CPU µs", cpu);
        }
    }
}

/// How a host receives updates.
#[derive(Clone, Copy, PartialEq)]
enum Updates {
    None,
    /// At most one update per [`PACE_MS`], and the result in the same form as in the OpenClaw package.
    OpenClaw,
    Each,
}

/// The update interval of the OpenClaw package, in milliseconds.
const PACE_MS: u32 = 100;

/// Measures long streams. Clients read every event; with updates, the tool also delivers them to the host.
pub(crate) fn measure_streams(setup: &Setup, scale: &Scale, section: &mut Section) {
    let subjects = [
        (REQWEST, Updates::None),
        (RUST_ABI, Updates::None),
        (RUST_ABI, Updates::Each),
        (NODE_API, Updates::None),
        (NODE_API, Updates::OpenClaw),
        (NODE_API, Updates::Each),
        (RS, Updates::None),
        (JS13, Updates::None),
        (JS03, Updates::None),
        (PY, Updates::None),
    ];
    let peer = Peer::start();
    for round in 0..scale.rounds {
        eprintln!("stream, round {}", round + 1);
        // New processes, so that the peak memory is that of the stream.
        let mut clients: Vec<(&str, Updates, Process)> = subjects
            .iter()
            .map(|(name, updates)| (*name, *updates, callers::start(name, setup, &peer)))
            .collect();
        for &events in scale.events {
            for kind in ["append", "replace", "status"] {
                for (name, updates, client) in &mut clients {
                    // The Python SDK takes seconds for longer streams, and they show nothing new.
                    if *name == PY && events > 10_000 {
                        continue;
                    }
                    let subject = match updates {
                        Updates::None => (*name).to_owned(),
                        Updates::OpenClaw => OPENCLAW.to_owned(),
                        Updates::Each => format!("{name}, updates"),
                    };
                    measure_stream(client, section, &subject, kind, events, *updates);
                }
            }
        }
    }
}

fn measure_stream(
    client: &mut Process,
    section: &mut Section,
    subject: &str,
    kind: &str,
    events: usize,
    updates: Updates,
) {
    // The kernel measures CPU time in units of 10 ms.
    let repetitions = (5_000 / events).clamp(1, 20);
    let interval = (updates == Updates::OpenClaw).then_some(PACE_MS);
    let updates = updates != Updates::None;
    let text = format!("{kind} {events}");
    let command = json!({"op": "stream", "text": text, "updates": updates, "interval": interval});
    let usage = client.start_usage();
    let (mut seconds, mut stall, mut busy) = (0.0, 0.0_f64, 0.0_f64);
    for _ in 0..repetitions {
        let response = client.call(&command);
        seconds += response["seconds"].as_f64().unwrap();
        stall = stall.max(response["stall_ms"].as_f64().unwrap_or(0.0));
        busy = busy.max(response["busy_ms"].as_f64().unwrap_or(0.0));
        // An SDK yields every event. The tool may deliver fewer updates.
        let event_count = response["seen"].as_u64().unwrap();
        let sees_every_event = [JS13, JS03, RS, PY].contains(&subject);
        assert!(
            if sees_every_event {
                event_count == events as u64
            } else {
                event_count > 0 || !updates
            },
            "{subject}: {event_count} of {events} events"
        );
    }
    let repetitions = f64::from(u32::try_from(repetitions).unwrap());
    let case = format!("{kind}, {events} events");
    section.add(&case, subject, "ms", seconds / repetitions * 1e3);
    section.add(
        &case,
        subject,
        "CPU ms",
        usage.cpu_seconds() / repetitions * 1e3,
    );
    section.add(&case, subject, "peak MB", usage.peak_bytes() / 1e6);
    if stall > 0.0 {
        section.add(&case, subject, "stall ms", stall);
        section.add(&case, subject, "busy ms", busy);
    }
}

/// Measures many concurrent watches: the time to open and to end them, and their memory.
pub(crate) fn measure_watches(setup: &Setup, scale: &Scale, section: &mut Section) {
    for round in 0..scale.rounds {
        for name in [RUST_ABI, NODE_API] {
            eprintln!("watch, round {}: {name}", round + 1);
            let mut peer = Peer::start();
            let mut client = callers::start(name, setup, &peer);
            client.call(&json!({"op": "send", "width": 1, "seconds": 0}));
            let usage = client.start_usage();
            let before = usage.resident_bytes();
            let start = std::time::Instant::now();
            client.send(&json!({"op": "watch", "count": scale.watches}));
            peer.wait_for_watches(scale.watches);
            let opened = start.elapsed().as_secs_f64();
            let resident = usage.resident_bytes() - before;
            peer.complete_watches();
            client.receive();
            let ended = start.elapsed().as_secs_f64() - opened;
            let count = f64::from(u32::try_from(scale.watches).unwrap());
            let case = format!("{} watches", scale.watches);
            section.add(&case, name, "open s", opened);
            section.add(&case, name, "end s", ended);
            section.add(&case, name, "kB a watch", resident / count / 1e3);
            section.add(
                &case,
                name,
                "CPU µs a watch",
                usage.cpu_seconds() / count * 1e6,
            );
        }
    }
}
