//! Runs every fuzzing target on its corpus and on mutations of it. `fuzz/` runs them for longer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::PathBuf;

use openclaw_remote_agent_fuzzing::{TARGETS, Target, target};
use proptest::prelude::Rng as _;
use proptest::test_runner::{RngAlgorithm, TestRng};

/// How many mutations of each file of a corpus are run. `FUZZ_MUTATIONS` sets another number.
const MUTATIONS: u32 = 20;

fn root(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

fn corpus(target: &Target) -> Vec<(String, Vec<u8>)> {
    let folder = root("fuzz/seeds").join(target.name);
    let files = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<_> = files
        .map(|file| {
            let path = file.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read(path).unwrap())
        })
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} has no corpus", target.name);
    files
}

fn pick(random: &mut TestRng, below: usize) -> usize {
    usize::try_from(random.next_u32()).unwrap() % below.max(1)
}

/// One change as a fuzzer makes it: a flipped bit, a piece removed, repeated or exchanged, a number or a text replaced.
fn mutate(data: &mut Vec<u8>, random: &mut TestRng) {
    const TOKENS: &[&str] = &[
        "null",
        "-1",
        "1e999",
        "18446744073709551616",
        "\"\"",
        "[]",
        "{}",
        "\\u0000",
        "\\ud800",
        "\u{202e}",
        "true",
        "\n",
    ];
    let at = pick(random, data.len() + 1);
    let end = (at + pick(random, 40)).min(data.len());
    match pick(random, 5) {
        0 if at < data.len() => data[at] ^= 1 << pick(random, 8),
        1 => drop(data.drain(at..end)),
        2 => {
            let piece = data[at..end].to_vec();
            data.splice(at..at, piece);
        }
        3 => {
            let token = TOKENS[pick(random, TOKENS.len())];
            data.splice(at..end, token.bytes());
        }
        _ => data.truncate(at.max(1)),
    }
}

fn check(target: &Target, name: &str, data: &[u8]) {
    let outcome = catch_unwind(|| (target.run)(data));
    assert!(
        outcome.is_ok(),
        "{} breaks on a mutation of {name}: {}",
        target.name,
        data.escape_ascii()
    );
}

fn run(name: &str) {
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let mutations = std::env::var("FUZZ_MUTATIONS").map_or(MUTATIONS, |n| n.parse().unwrap());
    let mut random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    for (name, seed) in corpus(target) {
        check(target, &name, &seed);
        for _ in 0..mutations {
            let mut data = seed.clone();
            for _ in 0..=pick(&mut random, 4) {
                mutate(&mut data, &mut random);
            }
            check(target, &name, &data);
        }
    }
}

macro_rules! targets {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            run(stringify!($name));
        })*

        #[test]
        fn every_target_has_a_test_and_a_program() {
            let tested: BTreeSet<_> = [$(stringify!($name)),*].into();
            let all: BTreeSet<_> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(tested, all);
            for name in all {
                let program = fs::read_to_string(root("fuzz/targets").join(format!("{name}.rs"))).unwrap();
                assert!(program.contains(&format!("\"{name}\"")), "{name}");
                assert!(target(name).is_some());
            }
        }
    };
}

targets! {
    config, request, continuation, card, reply_v0_3, reply_v1_0, reply_http_json, stream_v0_3, stream_v1_0,
    collective_frame, jws, api_request, openclaw_frames, a2a_v1_frames, serve_request, mcp_request,
    gateway_frames,
}
