//! Measures the reference gateway: messages between agents, compared with an echo server on the same WebSocket library.

use serde_json::{Value, json};

use crate::{Scale, gateway_clients, gateway_servers, process::Process, samples::Section};

pub(crate) const GATEWAY: &str = "gateway";
pub(crate) const GATEWAY_INTERVAL: &str = "gateway, fsync interval";
pub(crate) const ECHO: &str = "WebSocket echo";

/// The number of senders, and of messages in flight per sender.
const LOADS: [(usize, usize); 3] = [(1, 1), (16, 1), (16, 16)];

/// The measured servers: role and label. Three labels name when session entries reach the disk.
const SERVERS: [(&str, &str); 5] = [
    (ECHO, "echo"),
    (GATEWAY, "never"),
    ("gateway, signatures verified", "signed"),
    (GATEWAY_INTERVAL, "interval"),
    ("gateway, fsync always", "always"),
];

pub(crate) fn measure(scale: &Scale, section: &mut Section) {
    let mut clients = Process::start_role(&[gateway_clients::ROLE]);
    // Removed at the end: for some seconds ext4 without a journal looks through all removed files before it creates one.
    let mut folders = Vec::new();
    for round in 0..scale.rounds {
        eprintln!("gateway, round {}", round + 1);
        for (name, role) in SERVERS {
            for &agents in scale.agents {
                // The cost of fsync and of signatures does not depend on the number of agents.
                if role.starts_with(['i', 'a', 's']) && Some(&agents) != scale.agents.last() {
                    continue;
                }
                for (senders, in_flight) in LOADS {
                    // Agents of the previous load may still be connected with the same names.
                    let folder = tempfile::tempdir().unwrap();
                    let server = start(role, &folder);
                    let response = clients.call(&json!({
                        "address": server.ready, "routed": role != "echo", "agents": agents,
                        "senders": senders, "in_flight": in_flight, "seconds": scale.slice, "signed": role == "signed",
                    }));
                    let case = format!("{agents} agents, {} in flight", senders * in_flight);
                    record(section, &case, name, &response);
                    let peak = server.start_usage().resident_bytes() / 1e6;
                    section.add(&case, name, "resident MB", peak);
                    drop(server);
                    folders.push(folder);
                }
            }
        }
        let folder = tempfile::tempdir().unwrap();
        let server = start("never", &folder);
        let response = clients.call(&json!({"address": server.ready, "votes": 100}));
        section.add(
            "a vote of three",
            GATEWAY,
            "p50 ms",
            response["p50"].as_f64().unwrap(),
        );
        section.add(
            "a vote of three",
            GATEWAY,
            "p99 ms",
            response["p99"].as_f64().unwrap(),
        );
    }
}

fn start(role: &str, folder: &tempfile::TempDir) -> Process {
    Process::start_role(&[gateway_servers::ROLE, role, folder.path().to_str().unwrap()])
}

fn record(section: &mut Section, case: &str, name: &str, response: &Value) {
    let number = |name: &str| response[name].as_f64().unwrap();
    // One exchange with an agent consists of two messages.
    let messages = number("count") * if name == ECHO { 1.0 } else { 2.0 };
    section.add(case, name, "messages/s", messages / number("seconds"));
    section.add(case, name, "p50 ms", number("p50"));
    section.add(case, name, "p99 ms", number("p99"));
    let first = &response["first"];
    section.add(case, name, "first p50 ms", first["p50"].as_f64().unwrap());
    section.add(case, name, "first p99 ms", first["p99"].as_f64().unwrap());
}
