//! The measured numbers of every round, stored as JSON. Tables and plots can be drawn again without measuring.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use serde::{Deserialize, Serialize};

/// The numbers of one run of a section.
#[derive(Serialize, Deserialize, Clone, Default)]
pub(crate) struct Section {
    /// The command that measured it.
    pub(crate) command: String,
    /// The duration of the run in seconds.
    pub(crate) seconds: f64,
    pub(crate) rounds: usize,
    /// The processor, the kernel and the software versions.
    pub(crate) machine: BTreeMap<String, String>,
    pub(crate) series: Vec<Series>,
}

/// The values of one metric of one subject in one case.
#[derive(Serialize, Deserialize, Clone)]
pub(crate) struct Series {
    pub(crate) case: String,
    pub(crate) subject: String,
    /// The metric, with its unit in the name.
    pub(crate) metric: String,
    /// One value per round.
    pub(crate) values: Vec<f64>,
}

impl Section {
    /// Adds the value of one round, with five significant digits, which exceed the precision of the measurement. Tables
    /// drawn now and from the stored values thus agree.
    pub(crate) fn add(&mut self, case: &str, subject: &str, metric: &str, value: f64) {
        let value = format!("{value:.4e}").parse().unwrap();
        let matches = |series: &&mut Series| {
            series.case == case && series.subject == subject && series.metric == metric
        };
        match self.series.iter_mut().find(matches) {
            Some(series) => series.values.push(value),
            None => self.series.push(Series {
                case: case.to_owned(),
                subject: subject.to_owned(),
                metric: metric.to_owned(),
                values: vec![value],
            }),
        }
    }

    /// Returns the values of all rounds; `None` if the combination was not measured.
    pub(crate) fn values(&self, case: &str, subject: &str, metric: &str) -> Option<&[f64]> {
        let matches = |series: &&Series| {
            series.case == case && series.subject == subject && series.metric == metric
        };
        Some(&self.series.iter().find(matches)?.values)
    }

    /// Returns the median over the rounds.
    pub(crate) fn median(&self, case: &str, subject: &str, metric: &str) -> Option<f64> {
        self.values(case, subject, metric).map(median)
    }

    /// Returns the median over the rounds of the ratio of two values of the same round.
    pub(crate) fn ratio(&self, numerator: [&str; 3], denominator: [&str; 3]) -> Option<f64> {
        let [case, subject, metric] = numerator;
        let numerator = self.values(case, subject, metric)?;
        let [case, subject, metric] = denominator;
        let denominator = self.values(case, subject, metric)?;
        let ratios: Vec<f64> = numerator
            .iter()
            .zip(denominator)
            .map(|(a, b)| a / b)
            .collect();
        Some(median(&ratios))
    }

    /// Returns the subjects in the order of measurement.
    pub(crate) fn subjects(&self) -> Vec<&str> {
        distinct(self.series.iter().map(|series| series.subject.as_str()))
    }

    /// Returns the cases in the order of measurement.
    pub(crate) fn cases(&self) -> Vec<&str> {
        distinct(self.series.iter().map(|series| series.case.as_str()))
    }
}

fn distinct<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for item in all {
        if !seen.contains(&item) {
            seen.push(item);
        }
    }
    seen
}

/// Returns the median.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        0 => f64::midpoint(values[middle - 1], values[middle]),
        _ => values[middle],
    }
}

/// The sections by name.
pub(crate) type Measured = BTreeMap<String, Section>;

/// Reads the values of earlier runs.
pub(crate) fn read(path: &Path) -> Measured {
    fs::read(path).map_or_else(
        |_| Measured::new(),
        |bytes| serde_json::from_slice(&bytes).unwrap(),
    )
}

/// Writes the values, one series per line.
pub(crate) fn write(path: &Path, measured: &Measured) {
    let mut text = String::from("{\n");
    for (at, (name, section)) in measured.iter().enumerate() {
        let comma = if at == 0 { "" } else { ",\n" };
        let head = serde_json::to_string(&Section {
            series: Vec::new(),
            ..section.clone()
        });
        let head = head.unwrap();
        let head = head.strip_suffix("[]}").unwrap();
        let series = section.series.iter();
        let lines = series.map(|series| serde_json::to_string(series).unwrap());
        let lines = lines.collect::<Vec<_>>().join(",\n");
        text += &format!("{comma}{name:?}: {head}[\n{lines}\n]}}");
    }
    text += "\n}\n";
    fs::write(path, text).unwrap();
}

/// Returns the properties of the machine that affect the values.
pub(crate) fn machine(node: &Path) -> BTreeMap<String, String> {
    let output = |program: &Path, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        text.unwrap_or_default()
    };
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("unknown", |text| text.trim_matches([' ', '\t', ':']));
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = memory.lines().next().and_then(|line| {
        let kilobytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
        Some(format!("{:.0} GB", kilobytes / 1e6))
    });
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let profile = if cfg!(debug_assertions) {
        "dev: not optimized, so the numbers only show that the report works"
    } else {
        "release"
    };
    BTreeMap::from([
        ("profile".to_owned(), profile.to_owned()),
        ("processor".to_owned(), format!("{processors} × {model}")),
        ("memory".to_owned(), memory.unwrap_or_default()),
        ("kernel".to_owned(), output(Path::new("uname"), &["-sr"])),
        (
            "rustc".to_owned(),
            output(Path::new("rustc"), &["--version"]),
        ),
        ("node".to_owned(), output(node, &["--version"])),
        (
            "python".to_owned(),
            output(Path::new("python3"), &["--version"]),
        ),
    ])
}
