//! Renders the numbers as tables and plots, and updates the documents that contain them.

use std::fs;

use testkit::support::{root, text};

use crate::{
    callers::{JS03, JS13, PY, RS},
    goals, growth,
    plot::{self, Bar, Curve},
    samples::{Measured, Section},
};

/// The command that produces the whole report.
pub(crate) const COMMAND: &str = "cargo bench --bench report";
pub(crate) const NUMBERS: &str = "docs/measurements/numbers.json";
const PAGE: &str = "docs/explanation/performance.md";
const PLOTS: &str = "docs/measurements";

/// Formats a number with as many digits as its spread justifies, and with separated thousands.
pub(crate) fn number(value: f64) -> String {
    let text = match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    };
    let (whole, rest) = text.split_once('.').unwrap_or((&text, ""));
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let rest = rest.trim_end_matches('0');
    if rest.is_empty() {
        grouped
    } else {
        format!("{grouped}.{rest}")
    }
}

/// Formats the median, and half of the range of all rounds in percent of it.
fn cell(values: Option<&[f64]>) -> String {
    let Some(values) = values else {
        return "–".to_owned();
    };
    let median = crate::samples::median(values);
    let (minimum, maximum) = range(values);
    let spread = if median == 0.0 {
        0.0
    } else {
        (maximum - minimum) / 2.0 / median * 100.0
    };
    format!("{} ±{spread:.0}%", number(median))
}

fn range(values: &[f64]) -> (f64, f64) {
    (
        values.iter().copied().fold(f64::INFINITY, f64::min),
        values.iter().copied().fold(0.0, f64::max),
    )
}

/// A column: heading, case and metric.
type Column = (String, String, &'static str);

/// Returns a table with one row per subject that has a value in any column.
fn table(section: &Section, first: &str, columns: &[Column]) -> String {
    let headings: Vec<&str> = columns.iter().map(|column| column.0.as_str()).collect();
    let lines = "--:|".repeat(columns.len());
    let mut text = format!("| {first} | {} |\n|---|{lines}\n", headings.join(" | "));
    for subject in section.subjects() {
        let cells = columns
            .iter()
            .map(|(_, case, metric)| section.values(case, subject, metric));
        let cells: Vec<_> = cells.collect();
        if cells.iter().any(Option::is_some) {
            let cells: Vec<String> = cells.into_iter().map(cell).collect();
            text += &format!("| {subject} | {} |\n", cells.join(" | "));
        }
    }
    text
}

/// Returns one column per case with this prefix and suffix. The heading is the rest of the case's name.
fn columns(section: &Section, prefix: &str, suffix: &str, metric: &'static str) -> Vec<Column> {
    let cases = section.cases().into_iter().filter_map(|case| {
        let heading = case.strip_prefix(prefix)?.strip_suffix(suffix)?;
        Some((number(heading.parse().ok()?), case.to_owned(), metric))
    });
    cases.collect()
}

/// Returns the tables of a section, each below a line that describes it.
fn section_tables(name: &str, section: &Section) -> String {
    let mut parts = Vec::new();
    let mut add = |caption: &str, first: &str, columns: &[Column]| {
        if !columns.is_empty() {
            parts.push(format!("{caption}\n\n{}", table(section, first, columns)));
        }
    };
    match name {
        "client" => {
            for (op, what) in [("send", "a message"), ("status", "the state of a task")] {
                let prefix = format!("{op}, ");
                for (metric, unit) in [
                    ("calls/s", "calls a second"),
                    ("CPU µs", "CPU of a call in µs"),
                ] {
                    let all = columns(section, &prefix, " in flight", metric);
                    add(
                        &format!("`{op}`, {what}: {unit}, by the calls in flight."),
                        "client",
                        &all,
                    );
                }
            }
        }
        "group" => {
            let metrics = [("time in ms", "ms"), ("CPU in µs", "CPU µs")];
            for case in section.cases() {
                let all = metrics.map(|(name, metric)| (name.to_owned(), case.to_owned(), metric));
                add(&format!("A message to each of {case}."), "calls", &all);
            }
        }
        "stream" => {
            for (metric, what) in [
                ("ms", "time in ms"),
                ("CPU ms", "CPU in ms"),
                ("peak MB", "peak of the memory in MB"),
                ("stall ms", "longest stall of Node's event loop in ms"),
                (
                    "busy ms",
                    "longest time of its thread on a processor between two turns of the loop in ms",
                ),
            ] {
                for kind in ["append", "replace", "status"] {
                    // The other kinds have similar values for these metrics. The data file has their numbers.
                    if kind == "append" || metric == "ms" {
                        let all = columns(section, &format!("{kind}, "), " events", metric);
                        add(
                            &format!("`{kind}`: {what}, by the events of the stream."),
                            "client",
                            &all,
                        );
                    }
                }
            }
        }
        "server" => {
            for what in ["message", "task", "stream", "list"] {
                let prefix = format!("{what}, ");
                for (metric, unit) in [
                    ("answers/s", "answers a second"),
                    ("CPU µs", "CPU of an answer in µs"),
                ] {
                    let all = columns(section, &prefix, " clients", metric);
                    add(
                        &format!("`{what}`: {unit}, by the clients."),
                        "server",
                        &all,
                    );
                }
            }
            let all = columns(section, "task, ", " clients", "peak MB");
            add(
                "`task`: peak of the memory in MB, by the clients.",
                "server",
                &all,
            );
        }
        "store" => {
            for (metric, what) in [
                ("changes/s", "changes stored a second"),
                ("p99 µs", "p99 of a change in µs"),
            ] {
                let all = columns(section, "", " writers", metric);
                add(
                    &format!("{what}, by the concurrent writers."),
                    "store",
                    &all,
                );
            }
            let cases = section.cases().into_iter();
            for case in cases.filter(|case| case.ends_with(" tasks")) {
                let metrics = ["open ms", "listed tasks/s", "loaded tasks/s", "resident MB"];
                let all = metrics.map(|metric| (metric.to_owned(), case.to_owned(), metric));
                add(&format!("A store of {case}."), "store", &all);
            }
        }
        "gateway" => {
            for (metric, what) in [
                ("messages/s", "messages routed a second"),
                ("p50 ms", "p50 of an exchange in ms"),
                ("p99 ms", "p99 of an exchange in ms"),
                (
                    "first p99 ms",
                    "p99 of the first exchange of a conversation in ms, which creates a directory and a file",
                ),
                ("resident MB", "resident memory in MB"),
            ] {
                let cases = section
                    .cases()
                    .into_iter()
                    .filter(|case| case.contains(" agents, "));
                let all: Vec<Column> = cases
                    .map(|case| (case.replace(" in flight", ""), case.to_owned(), metric))
                    .collect();
                add(
                    &format!("{what}, by the agents and the exchanges in flight."),
                    "server",
                    &all,
                );
            }
            let vote = ["p50 ms", "p99 ms"]
                .map(|metric| (metric.to_owned(), "a vote of three".to_owned(), metric));
            add(
                "A vote: from the tool's call to the decision.",
                "server",
                &vote,
            );
        }
        "cold" => {
            let metrics = [
                "registered ms",
                "answered ms",
                "registered MB",
                "answered MB",
            ];
            let all = metrics.map(|metric| (metric.to_owned(), "first use".to_owned(), metric));
            add(
                "From mapping the library to the registered tool and to the first answer.",
                "interface",
                &all,
            );
        }
        "watch" => {
            for case in section.cases() {
                let metrics = ["open s", "end s", "kB a watch", "CPU µs a watch"];
                let all = metrics.map(|metric| (metric.to_owned(), case.to_owned(), metric));
                add(
                    &format!("{} at the same time, in one process.", case),
                    "interface",
                    &all,
                );
            }
        }
        _ => add(
            "ns of an operation, by the handles in the store.",
            "operation",
            &columns(section, "", "", "ns"),
        ),
    }
    parts.join("\n")
}

/// Returns all tables.
pub(crate) fn tables(measured: &Measured) -> String {
    let sections = measured
        .iter()
        .filter(|(name, _)| *name != "growth")
        .map(|(name, section)| format!("## {name}\n\n{}", section_tables(name, section)));
    format!(
        "{}\n## growth\n\n{}\n## goals\n\n{}",
        sections.collect::<Vec<_>>().join("\n"),
        growth::table(measured),
        goals::table(measured)
    )
}

/// Writes the tables into the page, and the plots next to the data file.
pub(crate) fn documents(measured: &Measured) {
    let mut page = text(PAGE);
    // The table of growth has rows of several sections.
    page = replaced(&page, "growth", &growth::table(measured));
    for (name, section) in measured.iter().filter(|(name, _)| *name != "growth") {
        let tables = section_tables(name, section);
        page = replaced(&page, name, &tables);
    }
    page = replaced(&page, "goals", &goals::table(measured));
    if let Some(section) = measured.values().next() {
        page = replaced(&page, "machine", &machine(measured, section));
    }
    fs::write(root(PAGE), page).unwrap();
    for (name, svg) in plots(measured) {
        fs::write(root(PLOTS).join(format!("{name}.svg")), svg).unwrap();
    }
}

fn machine(measured: &Measured, section: &Section) -> String {
    let seconds: f64 = measured.values().map(|section| section.seconds).sum();
    let facts = section
        .machine
        .iter()
        .map(|(name, value)| format!("- {name}: {value}\n"));
    format!(
        "{}- packages: {}, {}, {}\n- {} rounds in {:.0} s, by `{COMMAND}`\n",
        facts.collect::<String>(),
        [JS13, JS03].map(|name| format!("`{name}`")).join(", "),
        format_args!("`{RS}`"),
        format_args!("`{PY}`"),
        section.rounds,
        seconds,
    )
}

fn replaced(page: &str, name: &str, part: &str) -> String {
    let (open, close) = (
        format!("<!-- generated: {name} -->"),
        format!("<!-- end: {name} -->"),
    );
    let found = page.split_once(&open).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(&close)?;
        Some((before, after))
    });
    let (before, after) = found.unwrap_or_else(|| panic!("`{PAGE}` has no part `{name}`"));
    format!("{before}{open}\n\n{}\n\n{close}{after}", part.trim())
}

fn bars(section: &Section, case: &str, metric: &str, title: &str) -> String {
    let own = |subject: &str| {
        ["Node-API", "Rust ABI", "in process", "serve", "gateway"]
            .iter()
            .any(|word| subject.contains(word))
            && !subject.starts_with('a')
    };
    let all = section.subjects().into_iter().filter_map(|subject| {
        let values = section.values(case, subject, metric)?;
        let (minimum, maximum) = range(values);
        let (label, own) = (subject.to_owned(), own(subject));
        Some(Bar {
            label,
            median: crate::samples::median(values),
            minimum,
            maximum,
            own,
        })
    });
    plot::bars(COMMAND, title, &all.collect::<Vec<_>>())
}

/// Returns one curve per subject, over the cases between prefix and suffix.
fn curves(
    section: &Section,
    subjects: &[&str],
    (prefix, suffix): (&str, &str),
    metric: &str,
) -> Vec<Curve> {
    let curve = |subject: &&str| {
        let points = section.cases().into_iter().filter_map(|case| {
            let x = case
                .strip_prefix(prefix)?
                .strip_suffix(suffix)?
                .parse()
                .ok()?;
            Some((x, section.median(case, subject, metric)?))
        });
        Curve {
            label: (*subject).to_owned(),
            points: points.collect(),
        }
    };
    subjects
        .iter()
        .map(curve)
        .filter(|curve| !curve.points.is_empty())
        .collect()
}

fn plots(measured: &Measured) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    let mut add = |name: &'static str, section: &str, draw: &dyn Fn(&Section) -> String| {
        if let Some(section) = measured.get(section) {
            all.push((name, draw(section)));
        }
    };
    let case = "send, 64 in flight";
    add("calls", "client", &|section| {
        bars(
            section,
            case,
            "calls/s",
            "Calls a second, 64 in flight (more is better)",
        )
    });
    add("processor", "client", &|section| {
        bars(
            section,
            case,
            "CPU µs",
            "CPU of a call in µs, 64 in flight (less is better)",
        )
    });
    add("streams", "stream", &|section| {
        let subjects = [
            "Node-API, updates",
            "Node-API",
            "Rust ABI, updates",
            JS13,
            JS03,
            RS,
            PY,
        ];
        let all = curves(section, &subjects, ("append, ", " events"), "ms");
        plot::curves(
            COMMAND,
            "A stream of artifact chunks",
            ["events", "ms"],
            &all,
        )
    });
    let case = "message, 64 clients";
    add("messages", "server", &|section| {
        bars(
            section,
            case,
            "answers/s",
            "Messages a second, 64 clients (more is better)",
        )
    });
    let case = "task, 64 clients";
    add("tasks", "server", &|section| {
        bars(
            section,
            case,
            "answers/s",
            "Tasks a second, 64 clients (more is better)",
        )
    });
    add("gateway", "gateway", &|section| {
        let subjects = ["gateway", "WebSocket echo"];
        let all = curves(section, &subjects, ("", " agents, 16 in flight"), "p99 ms");
        plot::curves(
            COMMAND,
            "p99 of an exchange, 16 in flight",
            ["agents", "ms"],
            &all,
        )
    });
    add("handles", "handles", &|section| {
        let subjects = section.subjects();
        let all = curves(section, &subjects, ("", ""), "ns");
        plot::curves(
            COMMAND,
            "The store of task handles",
            ["handles", "ns an operation"],
            &all,
        )
    });
    all
}
