//! From a file to the first tool definition, in a process that has loaded nothing yet.

use std::{env, path::Path, process::Command, time::Instant};

use openclaw_remote_agent_interface::{RNone, load};

use crate::{
    ROUNDS, median,
    table::{Table, time},
};

pub(crate) const ARGUMENT: &str = "--load-once";

pub(crate) fn measure(table: &mut Table, library: &Path) {
    let rounds = (0..ROUNDS).map(|_| {
        let output = Command::new(env::current_exe().unwrap())
            .arg(ARGUMENT)
            .arg(library)
            .output()
            .unwrap();
        String::from_utf8(output.stdout)
            .unwrap()
            .trim()
            .parse()
            .unwrap()
    });
    let seconds = median(rounds.collect());
    table.row(
        "load the library, first definition",
        time(seconds),
        "limit 30 ms".to_owned(),
    );
}

/// The measured process.
pub(crate) fn load_once(library: &Path) {
    let start = Instant::now();
    let module = load(library).expect("the library loads");
    let tool = module.new_tool()("{}".into(), RNone)
        .into_result()
        .expect("a tool");
    let definition = tool.definition();
    println!("{}", start.elapsed().as_secs_f64());
    assert!(definition.len() > 2);
}
