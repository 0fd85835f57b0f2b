//! The reference gateway with a thousand agents: messages a second, how long an exchange takes, and memory, beside a server of the
//! same WebSocket library that sends back what it gets.
//!
//!     cargo bench --bench gateway                      all of it
//!     cargo bench --bench gateway -- AGENTS SECONDS    with so many agents, for so long each
//!
//!     cargo bench --bench gateway -- entries           how fast session entries are kept, alone
//!
//! Servers run in processes of their own, so that their memory is measured apart from that of the clients. Both use the
//! same two processors.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

mod clients;
mod entries;
mod servers;

use std::{
    env,
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    process::{Child, Command, Stdio},
    time::Duration,
};

use clients::{Load, Measured};

/// A server in a process of its own.
struct Server {
    process: Child,
    address: SocketAddr,
}

impl Server {
    fn start(what: &str) -> Self {
        let mut process = Command::new(env::current_exe().unwrap())
            .args(["--serve", what])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let address = line.trim().parse().unwrap();
        Self { process, address }
    }

    /// The memory it has in use, in bytes.
    fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()))
            .unwrap_or_default();
        let kilobytes = status.lines().find_map(|line| {
            line.strip_prefix("VmRSS:")?
                .trim()
                .strip_suffix(" kB")?
                .parse()
                .ok()
        });
        kilobytes.unwrap_or(0) * 1024
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It ends when its standard input does.
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

fn main() {
    let arguments: Vec<String> = env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    if let [serve, what] = &arguments[..]
        && serve == "--serve"
    {
        return servers::run(what);
    }
    let number = |at: usize, default: usize| {
        arguments
            .get(at)
            .and_then(|word| word.parse().ok())
            .unwrap_or(default)
    };
    let (agents, seconds) = (number(0, 1000), number(1, 5));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    if arguments.first().is_some_and(|word| word == "entries") {
        return entries::run(&runtime, Duration::from_secs(2));
    }
    println!("{agents} agents connected, {seconds} s each; a message is one frame in and one out");
    println!(
        "{:<34} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "", "messages/s", "p50", "p99", "at rest", "loaded", "after"
    );
    let took = Duration::from_secs(seconds as u64);
    for (name, what, senders, in_flight, size) in [
        ("echo, no rush", "echo", 1, 1, 200),
        ("gateway, no rush", "never", 1, 1, 200),
        ("echo, all at once", "echo", 16, 16, 200),
        ("gateway, all at once", "never", 16, 16, 200),
        ("gateway, fsync interval", "interval", 16, 16, 200),
        ("gateway, fsync always", "always", 16, 16, 200),
        ("echo, 64 kB", "echo", 4, 4, 64_000),
        ("gateway, 64 kB", "never", 4, 4, 64_000),
    ] {
        let server = Server::start(what);
        let load = Load {
            address: server.address,
            routed: what != "echo",
            agents,
            senders,
            in_flight,
            size,
            took,
        };
        let measured = runtime.block_on(clients::run(&load, || server.memory()));
        row(name, &measured);
    }
    println!();
    entries::run(&runtime, took.min(Duration::from_secs(2)));
}

fn row(name: &str, measured: &Measured) {
    let time = |time: Duration| match time.as_secs_f64() {
        s if s < 1e-3 => format!("{:.0} us", s * 1e6),
        s => format!("{:.2} ms", s * 1e3),
    };
    let memory = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
    println!(
        "{name:<34} {:>10.0} {:>10} {:>10} {:>10} {:>10} {:>10}",
        measured.per_second,
        time(measured.p50),
        time(measured.p99),
        memory(measured.at_rest),
        memory(measured.loaded),
        memory(measured.after),
    );
}
