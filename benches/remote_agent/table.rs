//! The table that a run ends with.

/// Rows of a name, a figure and what it is held against.
#[derive(Default)]
pub(crate) struct Table(Vec<[String; 3]>);

impl Table {
    pub(crate) fn row(&mut self, what: impl Into<String>, figure: String, held_against: String) {
        let row = [what.into(), figure, held_against];
        println!("{}", row.join("  "));
        self.0.push(row);
    }

    pub(crate) fn print(&self) {
        let width = |column: usize| {
            self.0
                .iter()
                .map(|row| row[column].chars().count())
                .max()
                .unwrap_or(0)
        };
        let [what, figure] = [width(0), width(1)];
        println!("\nmedians of {} rounds", crate::ROUNDS);
        for [name, value, note] in &self.0 {
            println!("{name:<what$}  {value:>figure$}  {note}");
        }
    }
}

/// A duration in seconds with a unit that suits it.
pub(crate) fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1e-6 => format!("{:.0} ns", s * 1e9),
        s if s < 1e-3 => format!("{:.2} us", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}
