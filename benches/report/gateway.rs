//! Measures the reference gateway: messages between agents, compared with an echo server on the same WebSocket library.

use base::text::hex;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::authority::Authority;

use crate::{
    Scale, gateway_clients,
    gateway_servers::{self, settings},
    process::Process,
    samples::Section,
};

pub(crate) const GATEWAY: &str = "gateway";
pub(crate) const GATEWAY_INTERVAL: &str = "gateway, fsync interval";
pub(crate) const ECHO: &str = "WebSocket echo";

/// The number of senders, and of messages in flight per sender.
const LOADS: [(usize, usize); 3] = [(1, 1), (16, 1), (16, 16)];

/// The number of agents behind the link. A link offers at most 256.
const LINKED_AGENTS: usize = 100;

/// The measured servers: label and role. Three roles name when session entries reach the disk.
const SERVERS: [(&str, &str); 7] = [
    (ECHO, "echo"),
    (GATEWAY, "never"),
    ("gateway, signatures verified", "signed"),
    ("gateway, sessions encrypted", "encrypted"),
    ("two gateways with a link", "linked"),
    (GATEWAY_INTERVAL, "interval"),
    ("gateway, fsync always", "always"),
];

pub(crate) fn measure(scale: &Scale, section: &mut Section) {
    let mut clients = Process::start_role(&[gateway_clients::ROLE]);
    // Removed at the end: for some seconds ext4 without a journal looks through all removed files before it creates one.
    let mut folders = Vec::new();
    let authority = Authority::new();
    for round in 0..scale.rounds {
        eprintln!("gateway, round {}", round + 1);
        for (name, role) in SERVERS {
            for &agents in scale.agents {
                let is_measured = match role {
                    "echo" | "never" => true,
                    "linked" => agents == LINKED_AGENTS,
                    // The cost of fsync, signatures and encryption does not depend on the number of agents.
                    _ => Some(&agents) == scale.agents.last(),
                };
                if !is_measured {
                    continue;
                }
                for (senders, in_flight) in LOADS {
                    // Agents of the previous load may still be connected with the same names.
                    let (servers, link) = match role {
                        "echo" => (vec![start(role, &mut folders)], Value::Null),
                        "linked" => start_linked(&authority, &mut folders),
                        _ => {
                            let settings = settings(role).to_string();
                            (vec![start(&settings, &mut folders)], Value::Null)
                        }
                    };
                    let response = clients.call(&json!({
                        "address": servers[0].ready, "link": link, "routed": role != "echo", "agents": agents,
                        "senders": senders, "in_flight": in_flight, "seconds": scale.slice, "signed": role == "signed",
                    }));
                    let case = format!("{agents} agents, {} in flight", senders * in_flight);
                    record(section, &case, name, &response);
                    let resident = servers
                        .iter()
                        .map(|server| server.start_usage().resident_bytes() / 1e6);
                    section.add(&case, name, "resident MB", resident.sum());
                }
            }
        }
        let server = start(&settings("never").to_string(), &mut folders);
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

/// Starts the echo server, or a gateway with these settings.
fn start(what: &str, folders: &mut Vec<TempDir>) -> Process {
    let folder = tempfile::tempdir().unwrap();
    let server =
        Process::start_role(&[gateway_servers::ROLE, what, folder.path().to_str().unwrap()]);
    folders.push(folder);
    server
}

/// Starts the gateway of the agents, `berlin`, and that of the senders, which dials it with a certificate. Returns the one
/// of the senders first, and where the agents connect.
fn start_linked(authority: &Authority, folders: &mut Vec<TempDir>) -> (Vec<Process>, Value) {
    let file = |name: &str| authority.file(name);
    authority.signed("127.0.0.1");
    let certificates = ["agents", "senders"].map(|name| {
        let (certificate, _) = authority.signed(name);
        json!({"name": name, "sha256": hex(digest(&SHA256, &certificate).as_ref())})
    });
    let mut berlin = settings("linked");
    berlin["tls"] = json!({"certFile": file("127.0.0.1.pem"), "keyFile": file("127.0.0.1.key"), "clientCaFile": file("ca.pem")});
    berlin["auth"] = json!({"certificates": certificates});
    berlin["links"] = json!([{"name": "senders", "certificate": "senders", "export": ["*"]}]);
    let berlin = start(&berlin.to_string(), folders);
    let mut senders = settings("linked");
    senders["links"] = json!([{
        "name": "berlin", "url": format!("wss://{}", berlin.ready), "agents": ["*"],
        "certFile": file("senders.pem"), "keyFile": file("senders.key"), "caFile": file("ca.pem"),
    }]);
    let senders = start(&senders.to_string(), folders);
    let link = json!({"name": "berlin", "address": berlin.ready, "certificates": file("")});
    (vec![senders, berlin], link)
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
