//! Draws plots as SVG, legible on light and dark pages.

use std::fmt::Write as _;

const WIDTH: f64 = 720.0;
/// The left edge of bars and curves. Labels are left of it.
const LEFT: f64 = 210.0;
const STYLE: &str = "<style>text{font:13px system-ui,sans-serif;fill:#1f2328}.title{font-weight:600;font-size:15px}.grid{stroke:#8c959f;stroke-opacity:.35}@media(prefers-color-scheme:dark){text{fill:#e6edf3}}</style>";
const OWN_COLOR: &str = "#3b82f6";
const OTHER_COLOR: &str = "#8b949e";
const PALETTE: [&str; 7] = [
    "#3b82f6", "#f59e0b", "#10b981", "#ef4444", "#a855f7", "#8b949e", "#ec4899",
];

/// One bar with its spread.
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) median: f64,
    pub(crate) minimum: f64,
    pub(crate) maximum: f64,
    /// Whether the bar belongs to this project.
    pub(crate) own: bool,
}

/// Draws horizontal bars, labeled with the median. A thin line shows the range of all rounds.
pub(crate) fn bars(command: &str, title: &str, all: &[Bar]) -> String {
    const ROW: f64 = 26.0;
    const RIGHT: f64 = 80.0;
    let height = 44.0 + ROW * all.len() as f64;
    let maximum = all.iter().map(|bar| bar.maximum).fold(0.0, f64::max);
    let scale = (WIDTH - LEFT - RIGHT) / maximum;
    let mut body = String::new();
    for (index, bar) in all.iter().enumerate() {
        let y = 36.0 + ROW * index as f64;
        let width = bar.median * scale;
        let color = if bar.own { OWN_COLOR } else { OTHER_COLOR };
        let (start, end) = (LEFT + bar.minimum * scale, LEFT + bar.maximum * scale);
        let (label, middle, text_y) = (escape(&bar.label), y + 9.0, y + 14.0);
        let (label_x, text_x) = (LEFT - 8.0, end.max(LEFT + width) + 6.0);
        let number = super::render::number(bar.median);
        let _ = writeln!(
            body,
            "<text x=\"{label_x}\" y=\"{text_y}\" text-anchor=\"end\">{label}</text>\
             <rect x=\"{LEFT}\" y=\"{y}\" width=\"{width:.1}\" height=\"18\" rx=\"2\" fill=\"{color}\"/>\
             <path class=\"grid\" style=\"stroke-opacity:1\" d=\"M{start:.1} {middle}H{end:.1}\"/>\
             <text x=\"{text_x:.1}\" y=\"{text_y}\">{number}</text>"
        );
    }
    document(command, title, height, &body)
}

/// A curve through points.
pub(crate) struct Curve {
    pub(crate) label: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Draws curves with logarithmic axes. The axis names include the units.
pub(crate) fn curves(command: &str, title: &str, axes: [&str; 2], all: &[Curve]) -> String {
    const TOP: f64 = 48.0;
    const HEIGHT: f64 = 300.0;
    const RIGHT: f64 = 20.0;
    const PLOT_LEFT: f64 = 70.0;
    // The legend uses the space on the right; the labels of bars use that on the left.
    let width = WIDTH - PLOT_LEFT - RIGHT - LEFT;
    let bounds = |values: &dyn Fn(&(f64, f64)) -> f64| {
        let values = || all.iter().flat_map(|curve| &curve.points).map(values);
        let (minimum, maximum) = (
            values().fold(f64::INFINITY, f64::min),
            values().fold(0.0, f64::max),
        );
        (
            minimum.log10().floor(),
            maximum.log10().ceil().max(minimum.log10().floor() + 1.0),
        )
    };
    let (x_bounds, y_bounds) = (bounds(&|point| point.0), bounds(&|point| point.1));
    let log_fraction = |value: f64, (minimum, maximum): (f64, f64)| {
        (value.log10() - minimum) / (maximum - minimum)
    };
    let x = |value: f64| PLOT_LEFT + width * log_fraction(value, x_bounds);
    let y = |value: f64| TOP + HEIGHT * (1.0 - log_fraction(value, y_bounds));
    let mut body = String::new();
    let powers = |(minimum, maximum): (f64, f64)| {
        (minimum as i32..=maximum as i32).map(|power| 10_f64.powi(power))
    };
    for value in powers(x_bounds) {
        let (index, label_y, number) = (x(value), TOP + HEIGHT, super::render::number(value));
        let text_y = label_y + 18.0;
        let _ = writeln!(
            body,
            "<path class=\"grid\" d=\"M{index:.1} {TOP}V{label_y}\"/><text x=\"{index:.1}\" y=\"{text_y}\" text-anchor=\"middle\">{number}</text>"
        );
    }
    for value in powers(y_bounds) {
        let (index, right, number) = (y(value), PLOT_LEFT + width, super::render::number(value));
        let (text_x, text_y) = (PLOT_LEFT - 6.0, index + 4.0);
        let _ = writeln!(
            body,
            "<path class=\"grid\" d=\"M{PLOT_LEFT} {index:.1}H{right}\"/><text x=\"{text_x}\" y=\"{text_y:.1}\" text-anchor=\"end\">{number}</text>"
        );
    }
    for (index, curve) in all.iter().enumerate() {
        let color = PALETTE[index % PALETTE.len()];
        let points: Vec<String> = curve
            .points
            .iter()
            .map(|point| format!("{:.1},{:.1}", x(point.0), y(point.1)))
            .collect();
        let legend = TOP + 10.0 + 22.0 * index as f64;
        let (start, end) = (PLOT_LEFT + width + 18.0, PLOT_LEFT + width + 40.0);
        let (text_x, text_y, label) = (end + 6.0, legend + 4.0, escape(&curve.label));
        let _ = writeln!(
            body,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2.5\"/>\
             <path d=\"M{start} {legend}H{end}\" stroke=\"{color}\" stroke-width=\"2.5\"/>\
             <text x=\"{text_x}\" y=\"{text_y}\">{label}</text>",
            points.join(" ")
        );
    }
    let (middle, label_y) = (PLOT_LEFT + width / 2.0, TOP + HEIGHT + 38.0);
    let _ = writeln!(
        body,
        "<text x=\"{middle}\" y=\"{label_y}\" text-anchor=\"middle\">{}</text><text x=\"12\" y=\"{}\">{}</text>",
        escape(axes[0]),
        TOP - 10.0,
        escape(axes[1])
    );
    document(command, title, TOP + HEIGHT + 50.0, &body)
}

fn document(command: &str, title: &str, height: f64, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!-- generated by: {} -->\n<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\">{STYLE}\n<text class=\"title\" x=\"12\" y=\"20\">{title}</text>\n{body}</svg>\n",
        // XML comments must not contain two consecutive hyphens.
        command.replace("--", "- -")
    )
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
