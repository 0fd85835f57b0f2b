//! The rooms of `src/` and of `server/src/`: the pictures and the orders in ARCHITECTURE.md are what the code does.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use crate::{generated, root, text};

/// Doors and libraries outside of `src/` that the picture shows beside the rooms.
const AROUND: &str = r#"    openclaw(["OpenClaw on Node.js"]) -.->|Node-API| host
    rust(["a Rust host"]) -.->|abi_stable| host
    cli -.->|abi_stable| host
    net -.->|HTTP| agents(["agents elsewhere"])
    net -.->|WebSocket| gateways(["a gateway here"])
    clients(["agents and bridges"]) -.->|WebSocket| gateway_server
    serve --> server(["the crate server/"])
    gateway_server --> server
    a2a_clients(["A2A clients"]) -.->|HTTP| server"#;

/// A crate, and where its rooms are told.
struct House {
    /// Where its code is.
    src: &'static str,
    /// Below this heading stands the list of its rooms.
    map: &'static str,
    /// The part that is its picture.
    picture: &'static str,
    /// What the picture shows beside the rooms.
    around: &'static str,
}

/// The plugin and the command.
const PLUGIN: House = House {
    src: "src",
    map: "## Code map",
    picture: "rooms",
    around: AROUND,
};

/// The A2A server.
const SERVER: House = House {
    src: "server/src",
    map: "## The server crate",
    picture: "server-rooms",
    around: r#"    clients(["A2A clients"]) -.->|HTTP| http
    executor -.->|trait| openclaw(["serve/executor, of the command"])
    push -.->|trait| courier(["serve/courier, of the command"])"#,
};

/// One source file without its tests and comments, and the room it belongs to.
struct Source {
    path: String,
    room: String,
    code: String,
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => all.extend(files(&path)),
            false => all.push(path),
        }
    }
    all.sort();
    all
}

fn sources(house: &House) -> Vec<Source> {
    let src = root(house.src);
    let read = |path: PathBuf| {
        let below = path
            .strip_prefix(&src)
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        let room = below
            .split('/')
            .next()
            .unwrap()
            .trim_end_matches(".rs")
            .to_owned();
        (below, room, fs::read_to_string(path).unwrap())
    };
    let is_code = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "rs");
    let all: Vec<_> = files(&src).into_iter().filter(is_code).map(read).collect();
    let tests: BTreeSet<String> = all
        .iter()
        .flat_map(|(path, _, code)| test_modules(path, code))
        .collect();
    all.into_iter()
        .filter(|(path, _, _)| !tests.iter().any(|module| is_of(path, module)))
        .map(|(path, room, code)| {
            let code = code.split("#[cfg(test)]\nmod tests {").next().unwrap();
            let code = code.lines().map(|line| line.split("//").next().unwrap());
            Source {
                path,
                room,
                code: code.collect::<Vec<_>>().join("\n"),
            }
        })
        .collect()
}

/// Whether the file at `path` is the module of the file at `module`, or below it.
fn is_of(path: &str, module: &str) -> bool {
    let folder = module.trim_end_matches(".rs");
    path.strip_prefix(folder)
        .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

/// The files of modules that only tests have.
fn test_modules(path: &str, code: &str) -> Vec<String> {
    let folder = match path.strip_suffix("/mod.rs") {
        Some(folder) => folder.to_owned(),
        None if path == "lib.rs" => String::new(),
        None => path.trim_end_matches(".rs").to_owned(),
    };
    code.split("#[cfg(test)]")
        .skip(1)
        .filter_map(|after| after.trim_start().lines().next())
        .filter_map(|line| line.split_once("mod ")?.1.strip_suffix(';'))
        .map(|name| format!("{folder}/{name}.rs"))
        .collect()
}

/// The rooms that a piece of code names with `crate::`.
fn named(code: &str) -> BTreeSet<String> {
    let word = |text: &str| -> String {
        text.trim_start()
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect()
    };
    let mut names = BTreeSet::new();
    for (index, _) in code.match_indices("crate::") {
        // Not the end of another word, such as `$crate::`.
        let before = code[..index].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '$')) {
            continue;
        }
        let after = &code[index + "crate::".len()..];
        match after.strip_prefix('{') {
            None => drop(names.insert(word(after))),
            Some(list) => {
                let mut depth = 0;
                let mut start = true;
                for (at, c) in list.char_indices() {
                    if start && depth == 0 {
                        names.insert(word(&list[at..]));
                        start = false;
                    }
                    match c {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        ',' => start = true,
                        _ => {}
                    }
                }
            }
        }
    }
    names
}

/// Every room, as `lib.rs` lists them, and `main`, where there is one.
fn rooms(house: &House) -> BTreeSet<String> {
    let lib = text(&format!("{}/lib.rs", house.src));
    let main = root(house.src).join("main.rs").exists();
    let modules = lib
        .lines()
        .filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
    modules
        .map(str::to_owned)
        .chain(main.then(|| "main".to_owned()))
        .collect()
}

/// Which room uses which.
fn arrows(house: &House) -> BTreeMap<String, BTreeSet<String>> {
    let rooms = rooms(house);
    let mut arrows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in sources(house) {
        let code = source.code.replace("openclaw_remote_agent::", "crate::");
        let used = named(if source.room == "main" {
            &code
        } else {
            &source.code
        });
        let room = source.room;
        let used = used
            .into_iter()
            .filter(|name| rooms.contains(name) && *name != room);
        let used: Vec<_> = used.collect();
        arrows.entry(room).or_default().extend(used);
    }
    arrows
}

/// The rooms in the order of the code map, from the top of the house to its ground.
fn order(house: &House) -> Vec<String> {
    let document = text("ARCHITECTURE.md");
    let map = document.split_once(house.map).expect("a code map").1;
    map.lines()
        .skip_while(|line| !line.starts_with("|---"))
        .skip(1)
        .take_while(|line| line.starts_with('|'))
        .flat_map(|line| {
            let rooms = line.split('|').nth(1).unwrap().split(',');
            rooms
                .map(|room| {
                    room.trim()
                        .trim_matches('`')
                        .trim_end_matches('/')
                        .trim_end_matches(".rs")
                        .to_owned()
                })
                .collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn the_code_map_has_every_room_once() {
    for house in [PLUGIN, SERVER] {
        let mut listed = order(&house);
        listed.sort();
        assert_eq!(listed, rooms(&house).into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn every_arrow_points_down_the_code_map() {
    for house in [PLUGIN, SERVER] {
        let order = order(&house);
        let height = |room: &str| order.iter().position(|listed| listed == room).unwrap();
        let mut count = 0;
        for (from, used) in arrows(&house) {
            for to in used {
                assert!(
                    height(&from) < height(&to),
                    "`{from}` uses `{to}`, which is not below it"
                );
                count += 1;
            }
        }
        assert!(count > 20, "{count} arrows");
    }
}

#[test]
fn the_pictures_have_the_arrows_of_the_code() {
    for house in [PLUGIN, SERVER] {
        let mut picture = "```mermaid\nflowchart TD\n".to_owned();
        let arrows = arrows(&house);
        for room in order(&house) {
            for to in arrows.get(&room).into_iter().flatten() {
                picture += &format!("    {room} --> {to}\n");
            }
        }
        picture += &format!("{}\n```", house.around);
        generated::part("ARCHITECTURE.md", house.picture, &picture);
    }
}

/// Nothing of OpenClaw is in the server: whoever executes is behind its traits.
#[test]
fn the_server_knows_no_openclaw() {
    for source in sources(&SERVER) {
        for word in ["openclaw_remote_agent::", "session_key", "18789", "--local"] {
            assert!(
                !source.code.contains(word),
                "`{word}` in server/src/{}",
                source.path
            );
        }
    }
}

/// Fails where a room that is not among `allowed` uses `room`.
fn only(allowed: &[&str], room: &str) {
    for (from, used) in arrows(&PLUGIN) {
        assert!(
            !used.contains(room) || allowed.contains(&from.as_str()),
            "`{from}` uses `{room}`"
        );
    }
}

#[test]
fn the_tool_knows_no_protocol_and_opens_no_socket() {
    only(&["plugin"], "a2a");
    only(&["plugin", "serve"], "gateway");
    only(
        &[
            "plugin",
            "serve",
            "a2a",
            "gateway",
            "gateway_server",
            "gateway_client",
            // It asks an A2A server of its own what tasks it keeps, which is nothing of the tool's.
            "cli",
        ],
        "net",
    );
}

#[test]
fn peers_are_described_without_anything_else() {
    let arrows = arrows(&PLUGIN);
    let known: [(&str, &[&str]); 3] = [
        ("peer", &["collective", "credential", "jws"]),
        ("net", &["credential", "address"]),
        ("handles", &[]),
    ];
    for (room, known) in known {
        let used = arrows[room]
            .iter()
            .filter(|used| !known.contains(&used.as_str()));
        assert_eq!(used.count(), 0, "{room} uses {:?}", arrows[room]);
    }
}

#[test]
fn the_command_goes_through_the_door() {
    only(&[], "host");
    let arrows = arrows(&PLUGIN);
    for room in ["plugin", "remote_agent", "a2a", "targets"] {
        assert!(!arrows["cli"].contains(room), "`cli` uses `{room}`");
    }
}

/// Fails where code outside of `allowed` contains `word`.
fn word_only_in(word: &str, allowed: &[&str]) {
    let mut seen = false;
    for source in sources(&PLUGIN) {
        if source.code.contains(word) {
            let known = allowed.iter().any(|prefix| source.path.starts_with(prefix));
            assert!(known, "`{word}` in src/{}", source.path);
            seen = true;
        }
    }
    assert!(seen, "`{word}` is nowhere");
}

#[test]
fn unsafe_code_is_only_in_the_doors() {
    word_only_in("allow(unsafe_code)", &["host/"]);
}

#[test]
fn sockets_are_only_in_the_net_and_with_the_scripted_peers() {
    word_only_in("hyper_util::", &["net/"]);
    word_only_in("hyper_rustls::", &["net/"]);
    word_only_in("TcpSocket", &["conformance/peers/"]);
    word_only_in("eventsource_client", &["net/sse.rs"]);
}

#[test]
fn envelopes_are_written_in_one_place() {
    // As the field of a struct, and as a key of JSON. Gateways have operations too, which are other things.
    word_only_in("operation: OPERATION", &["remote_agent/envelope.rs"]);
    word_only_in("operation: &'static str", &["remote_agent/envelope.rs"]);
    word_only_in("\"operation\":", &["remote_agent/envelope.rs"]);
}

#[test]
fn no_file_is_longer_than_500_lines() {
    for folder in [
        "src",
        "server",
        "tests",
        "interface/src",
        "benches",
        "examples",
        "openclaw",
    ] {
        for path in files(&root(folder)) {
            if !path
                .extension()
                .is_some_and(|kind| kind == "rs" || kind == "js" || kind == "mjs" || kind == "py")
            {
                continue;
            }
            let lines = fs::read_to_string(&path).unwrap().lines().count();
            assert!(lines <= 500, "{} has {lines} lines", path.display());
        }
    }
}

/// Every path that the document names in backticks, with `*` for any characters.
#[test]
fn what_the_architecture_names_is_there() {
    let document = text("ARCHITECTURE.md");
    let named: Vec<&str> = document
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|word| {
            let below = [
                "src/",
                "tests/",
                "fixtures/",
                "openclaw/",
                "interface/",
                "schema/",
                "server/",
                "docs/",
                "benches/",
                ".ci/",
            ];
            below.iter().any(|folder| word.starts_with(folder))
        })
        .collect();
    assert!(named.len() > 20, "{named:?}");
    for path in named {
        let Some((before, _)) = path.split_once('*') else {
            assert!(root(path).exists(), "`{path}`");
            continue;
        };
        let (folder, prefix) = before.rsplit_once('/').unwrap();
        let mut names = root(folder).read_dir().unwrap();
        let there = names.any(|entry| {
            entry
                .unwrap()
                .file_name()
                .to_str()
                .unwrap()
                .starts_with(prefix)
        });
        assert!(there, "`{path}`");
    }
}
