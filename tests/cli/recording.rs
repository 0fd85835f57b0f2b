//! The recording of the demo at the top of the README: a run of the command as an animated SVG.
//!
//! `UPDATE=1 cargo test --test suite cli::recording` updates it.

use std::{
    env,
    fmt::Write as _,
    fs,
    io::{BufRead as _, BufReader},
    os::unix::process::CommandExt as _,
    path::Path,
    time::{Duration, Instant},
};

use super::support::command;

const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/demo.svg");

/// The number of visible lines.
const VISIBLE: usize = 22;

/// The factor by which the recording is slower than the run, which is too fast to read.
const SLOWDOWN: f64 = 3.0;

/// The minimum time that a line is the last one.
const LINE_TIME: Duration = Duration::from_millis(180);

/// How long the recording shows its end.
const PAUSE: Duration = Duration::from_secs(6);

/// The sizes of the drawing, in pixels.
const LINE_HEIGHT: usize = 18;
const PADDING: usize = 10;

/// Returns each line of a run with its time.
fn run() -> Vec<(Duration, String)> {
    let mut child = command(&["demo", "--color", "always"])
        .arg0("remote-agent")
        .spawn()
        .unwrap();
    let started = Instant::now();
    let output = BufReader::new(child.stdout.take().unwrap());
    let lines = output
        .lines()
        .map(|line| (started.elapsed(), line.unwrap()));
    let lines = lines.collect();
    assert!(child.wait().unwrap().success());
    lines
}

/// Returns the lines as a scrolling picture. Viewers without animation show the first lines.
fn draw(lines: &[(Duration, String)]) -> String {
    let text: Vec<&str> = lines.iter().map(|(_, line)| line.as_str()).collect();
    let drawn = anstyle_svg::Term::new().render_svg(&text.join("\n"));
    let (head, body) = drawn.split_once('\n').unwrap();
    let width: usize = head
        .split_once("width=\"")
        .and_then(|(_, rest)| rest.split_once("px"))
        .and_then(|(width, _)| width.parse().ok())
        .unwrap();
    let height = VISIBLE * LINE_HEIGHT + 2 * PADDING;
    let mut shown = Duration::ZERO;
    let times: Vec<Duration> = lines
        .iter()
        .map(|(time, _)| {
            shown = time.mul_f64(SLOWDOWN).max(shown + LINE_TIME);
            shown
        })
        .collect();
    let played = shown + PAUSE;
    let mut frames = String::new();
    for (index, time) in times.iter().enumerate() {
        let percent = 100.0 * time.as_secs_f64() / played.as_secs_f64();
        let shift = (VISIBLE as i64 - 1 - index as i64) * LINE_HEIGHT as i64;
        let _ = write!(frames, "{percent:.2}%{{transform:translateY({shift}px)}}");
    }
    let start = VISIBLE * LINE_HEIGHT;
    format!(
        "<svg width=\"{width}px\" height=\"{height}px\" viewBox=\"0 0 {width} {height}\" xmlns=\"http://www.w3.org/2000/svg\">\n  \
         <style>\n    @keyframes play{{0%{{transform:translateY({start}px)}}{frames}}}\n    \
         text{{animation:play {:.1}s step-end infinite}}\n    \
         @media (prefers-reduced-motion: reduce){{text{{animation:none}}}}\n  </style>\n{body}",
        played.as_secs_f64()
    )
}

/// Returns the text of a drawing without values that differ between runs: ports, times, and updates, which depend on
/// timing.
fn spans(drawing: &str) -> Vec<String> {
    let (_, text) = drawing.split_once("<text").unwrap();
    let (_, text) = text.split_once('>').unwrap();
    let mut out = String::new();
    let mut inside = false;
    for c in text.chars() {
        match c {
            '<' => inside = true,
            '>' => inside = false,
            c if !inside && !c.is_ascii_digit() => out.push(c),
            _ => {}
        }
    }
    let lines = out.lines().map(|line| line.trim().to_owned());
    lines
        .filter(|line| !line.is_empty() && !line.starts_with(".."))
        .collect()
}

#[test]
fn recording_shows_the_demo() {
    let drawn = draw(&run());
    let recorded = fs::read_to_string(RECORDING).unwrap_or_default();
    if !recorded.is_empty() && spans(&recorded) == spans(&drawn) {
        return;
    }
    assert!(
        env::var_os("UPDATE").is_some(),
        "`{}` is out of date: run `UPDATE=1 cargo test --test suite cli::recording`\n{:#?}",
        Path::new(RECORDING).display(),
        spans(&drawn)
    );
    fs::write(RECORDING, drawn).unwrap();
}
