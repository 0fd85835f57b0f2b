//! The report on speed and memory. Compares the tool, its interfaces and its servers with alternatives in the same run.
//!
//!     cargo bench --bench report                     measures everything, writes docs/measurements/ and the tables
//!     cargo bench --bench report -- client server    measures only these sections: client, group, stream, server,
//!                                                    store, gateway, cold, watch, handles, growth
//!     cargo bench --bench report -- --redraw         draws tables and plots again, without measuring
//!     cargo bench --bench report -- --quick stream   one short round during development: prints the tables, and
//!                                                    writes the numbers only below target/
//!
//! The subjects run alternately in each round, each in its own process, so that other load on the machine affects all of
//! them. The official SDKs, Node.js and Redis are those that the tests install below `target/`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark that fails should say so and stop"
)]

mod callers;
mod client;
mod cold;
mod gateway;
mod gateway_clients;
mod gateway_servers;
mod goals;
mod growth;
mod handles;
mod load;
mod peer;
mod plot;
mod process;
mod render;
mod samples;
mod server;
mod store;

use std::{env, path::PathBuf, time::Instant};

use testkit::support::{node, root, target};

use samples::Section;

/// The extent of a run.
pub(crate) struct Scale {
    pub(crate) rounds: usize,
    /// Seconds per subject, case and round.
    pub(crate) slice: f64,
    /// Numbers of concurrent calls of a client.
    pub(crate) widths: &'static [u64],
    /// Numbers of events of a stream.
    pub(crate) events: &'static [usize],
    /// Numbers of clients of a server.
    pub(crate) clients: &'static [u64],
    /// The number of tasks in a store.
    pub(crate) tasks: u64,
    /// Numbers of agents of a gateway.
    pub(crate) agents: &'static [usize],
    pub(crate) watches: usize,
    pub(crate) handles: &'static [u32],
    /// Numbers of targets, artifacts and clients whose cost is compared.
    pub(crate) targets: &'static [u64],
    /// Numbers of stored tasks whose cost is compared.
    pub(crate) stored: &'static [u64],
}

const FULL: Scale = Scale {
    rounds: 5,
    slice: 0.25,
    widths: &[1, 64, 512],
    events: &[100, 1_000, 10_000, 100_000],
    clients: &[1, 64, 1_000],
    tasks: 20_000,
    agents: &[10, 100, 1_000],
    watches: 10_000,
    handles: &[1_000, 10_000, 100_000, 1_000_000],
    targets: &[1, 10, 100, 1_000, 10_000],
    stored: &[1_000, 10_000, 100_000, 1_000_000],
};

const QUICK: Scale = Scale {
    rounds: 1,
    slice: 0.2,
    widths: &[1, 64],
    events: &[1_000, 10_000],
    clients: &[64],
    tasks: 1_000,
    agents: &[10, 100],
    watches: 1_000,
    handles: &[1_000, 10_000],
    targets: &[1, 10, 100, 1_000],
    stored: &[1_000, 10_000],
};

/// The programs that the sections start.
pub(crate) struct Setup {
    pub(crate) root: PathBuf,
    pub(crate) library: PathBuf,
    pub(crate) node: PathBuf,
}

type Measure = fn(&Setup, &Scale, &mut Section);

const SECTIONS: [(&str, Measure); 10] = [
    ("client", client::measure_calls),
    ("group", client::measure_groups),
    ("stream", client::measure_streams),
    ("server", |_, scale, section| {
        server::measure(scale, section)
    }),
    ("store", |_, scale, section| store::measure(scale, section)),
    ("gateway", |_, scale, section| {
        gateway::measure(scale, section)
    }),
    ("cold", cold::measure),
    ("handles", |_, scale, section| {
        handles::measure(scale, section)
    }),
    ("growth", |_, scale, section| {
        growth::measure(scale, section)
    }),
    // Last, because it needs the most memory and connections.
    ("watch", client::measure_watches),
];

fn main() {
    let owned_arguments: Vec<String> = env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    let arguments: Vec<&str> = owned_arguments.iter().map(String::as_str).collect();
    // The measured processes are this program with other arguments.
    match arguments[..] {
        [peer::ROLE] => return peer::serve(),
        [callers::ROLE, name, settings] => return callers::serve(name, settings),
        [load::ROLE] => return load::serve(),
        [server::ROLE] => return server::axum_echo(),
        [gateway_servers::ROLE, what, folder] => {
            return gateway_servers::serve(what, folder.as_ref());
        }
        [gateway_clients::ROLE] => return gateway_clients::serve(),
        [store::ROLE, folder, tasks] => {
            return store::serve(folder.as_ref(), tasks.parse().unwrap());
        }
        [cold::ROLE, settings] => return cold::serve(settings),
        _ => {}
    }
    let (flags, names): (Vec<&str>, Vec<&str>) = arguments
        .into_iter()
        .partition(|argument| argument.starts_with("--"));
    let known = |name: &&str| SECTIONS.iter().any(|(section, _)| section == name);
    if let Some(unknown) = names.iter().find(|name| !known(name)) {
        let all = SECTIONS.map(|(name, _)| name).join(", ");
        panic!("there is no section `{unknown}`; the sections are {all}");
    }
    if let Some(unknown) = flags
        .iter()
        .find(|flag| !["--quick", "--redraw"].contains(flag))
    {
        panic!("there is no flag `{unknown}`; the flags are --quick and --redraw");
    }
    let quick = flags.contains(&"--quick");
    let file = root(render::NUMBERS);
    let file = if quick {
        target().join("report.json")
    } else {
        file
    };
    if flags.contains(&"--redraw") {
        return render::documents(&samples::read(&file));
    }
    let setup = setup(quick);
    let scale = if quick { &QUICK } else { &FULL };
    let mut measured = samples::read(&file);
    let machine = samples::machine(&setup.node);
    let start = Instant::now();
    for (name, measure) in SECTIONS {
        if !names.is_empty() && !names.contains(&name) {
            continue;
        }
        let mut section = Section {
            command: render::COMMAND.to_owned(),
            rounds: scale.rounds,
            machine: machine.clone(),
            ..Section::default()
        };
        let section_start = Instant::now();
        measure(&setup, scale, &mut section);
        section.seconds = section_start.elapsed().as_secs_f64().round();
        eprintln!("{name}: {} s", section.seconds);
        measured.insert(name.to_owned(), section);
        // Write after each section, so that a failing subject does not lose earlier numbers.
        samples::write(&file, &measured);
    }
    eprintln!("all: {:.0} s", start.elapsed().as_secs_f64());
    if quick {
        println!("{}", render::tables(&measured));
        return;
    }
    render::documents(&measured);
}

fn setup(quick: bool) -> Setup {
    let library = if quick {
        // Cargo built it together with this program. Its optimization settings differ from those of the released binary.
        env::current_exe()
            .unwrap()
            .with_file_name("libopenclaw_remote_agent.so")
    } else {
        eprintln!("Building the library that ships, which takes a few minutes the first time.");
        xtask::compile::ship(&root(""), None).unwrap()
    };
    Setup {
        root: root(""),
        library,
        node: node::install("node", &[]).node(),
    }
}
