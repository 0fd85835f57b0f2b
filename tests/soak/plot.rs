//! Curves over time as an SVG picture.

use std::fmt::Write as _;

const WIDTH: f64 = 760.0;
const PANEL: f64 = 150.0;
const MARGIN_LEFT: f64 = 60.0;
const TOP: f64 = 34.0;
const COLORS: [&str; 4] = ["#0969da", "#cf222e", "#1a7f37", "#8250df"];

/// One panel: a title with its unit, and a curve for each name.
pub(super) struct Panel<'a> {
    pub(super) title: &'a str,
    pub(super) curves: Vec<(&'a str, Vec<f64>)>,
}

/// Draws the panels one below the other, over `seconds`.
pub(super) fn svg(panels: &[Panel<'_>], seconds: f64) -> String {
    let height = (PANEL + TOP + 24.0) * panels.len() as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    for (at, panel) in panels.iter().enumerate() {
        let top = (PANEL + TOP + 24.0) * at as f64 + TOP;
        draw(&mut out, panel, top, seconds);
    }
    out + "</svg>\n"
}

fn draw(out: &mut String, panel: &Panel<'_>, top: f64, seconds: f64) {
    let all = panel.curves.iter().flat_map(|(_, values)| values);
    let most = all.fold(0.0_f64, |most, value| most.max(*value)) * 1.1;
    let width = WIDTH - MARGIN_LEFT - 20.0;
    let bottom = top + PANEL;
    let mut line = |text: String| writeln!(out, "{text}").expect("a string takes text");
    line(format!(
        "<text x=\"{MARGIN_LEFT}\" y=\"{}\" font-weight=\"bold\">{}</text>",
        top - 18.0,
        panel.title
    ));
    for part in 0..=4 {
        let (value, y) = (
            most * f64::from(part) / 4.0,
            bottom - PANEL * f64::from(part) / 4.0,
        );
        line(format!(
            "<path d=\"M{MARGIN_LEFT} {y:.1}h{width}\" stroke=\"#d0d7de\"/>"
        ));
        line(format!(
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{value:.0}</text>",
            MARGIN_LEFT - 6.0,
            y + 4.0
        ));
    }
    for part in 0..=6 {
        let x = MARGIN_LEFT + width * f64::from(part) / 6.0;
        let time = seconds / 60.0 * f64::from(part) / 6.0;
        line(format!(
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{time:.0} min</text>",
            bottom + 15.0
        ));
    }
    for (at, (name, values)) in panel.curves.iter().enumerate() {
        let color = COLORS[at % COLORS.len()];
        let last = values.len().saturating_sub(1).max(1) as f64;
        let points = values.iter().enumerate().map(|(at, value)| {
            let (x, y) = (
                MARGIN_LEFT + width * at as f64 / last,
                bottom - PANEL * value / most.max(1e-9),
            );
            format!("{x:.1},{y:.1} ")
        });
        let points: String = points.collect();
        line(format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\"/>",
            points.trim_end()
        ));
        let x = MARGIN_LEFT + 330.0 + 110.0 * at as f64;
        line(format!(
            "<text x=\"{x}\" y=\"{}\" fill=\"{color}\">{name}</text>",
            top - 18.0
        ));
    }
}
