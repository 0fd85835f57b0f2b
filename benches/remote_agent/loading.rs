//! From a file to the first tool definition, in a process that has loaded nothing yet.

use std::{env, process::Command, time::Instant};

use openclaw_remote_agent_interface::{RNone, load};

use crate::{
    ROUNDS, library, median,
    table::{Table, time},
};

pub(crate) const ARGUMENT: &str = "--load-once";

pub(crate) fn measure(table: &mut Table) {
    let rounds = (0..ROUNDS).map(|_| {
        let output = Command::new(env::current_exe().unwrap())
            .arg(ARGUMENT)
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
pub(crate) fn load_once() {
    let path = library();
    let start = Instant::now();
    let module = load(path).expect("the library loads");
    let tool = module.new_tool()("{}".into(), RNone)
        .into_result()
        .expect("a tool");
    let definition = tool.definition();
    println!("{}", start.elapsed().as_secs_f64());
    assert!(definition.len() > 2);
}
