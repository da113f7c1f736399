//! Figures with goals of their own, one a line.

/// What is to be reached.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Goal {
    AtMost(f64),
    AtLeast(f64),
    None,
}

/// A list of figures that is printed as it grows, and as a table at the end.
#[derive(Debug, Default)]
pub(crate) struct Figures(Vec<(String, f64, Goal)>);

impl Figures {
    #[expect(clippy::print_stderr, reason = "progress of a run of minutes")]
    pub(crate) fn add(&mut self, title: impl Into<String>, figure: f64, goal: Goal) {
        let title = title.into();
        eprintln!("{title}: {figure:.2}");
        self.0.push((title, figure, goal));
    }

    #[expect(clippy::print_stdout, reason = "the result of a command line tool")]
    pub(crate) fn print(&self) {
        let width = self
            .0
            .iter()
            .map(|(title, ..)| title.chars().count())
            .max()
            .unwrap_or_default();
        println!("{:width$} {:>10}   {:10}", "", "tombolo", "goal");
        for (title, figure, goal) in &self.0 {
            let (goal, verdict) = match goal {
                Goal::AtMost(most) => (format!("<= {most}"), Some(figure <= most)),
                Goal::AtLeast(least) => (format!(">= {least}"), Some(figure >= least)),
                Goal::None => (String::new(), None),
            };
            let verdict = match verdict {
                Some(true) => "reached",
                Some(false) => "MISSED",
                None => "",
            };
            let digits = if *figure < 10.0 {
                2
            } else {
                usize::from(*figure < 1_000.0)
            };
            println!("{title:width$} {figure:>10.digits$}   {goal:10} {verdict}");
        }
    }
}

/// The value below which this share (0 to 1) of the values lies; 0 of none.
pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().saturating_sub(1);
    let index = (share * last as f64).round() as usize;
    sorted.get(index).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::quantile;

    #[test]
    fn quantiles_are_values() {
        let values: Vec<f64> = (1..=101).rev().map(f64::from).collect();
        for (share, expected) in [(0.0, 1.0), (0.5, 51.0), (0.99, 100.0), (1.0, 101.0)] {
            assert!(
                (quantile(&values, share) - expected).abs() < f64::EPSILON,
                "{share}"
            );
        }
        assert!(quantile(&[], 0.5).abs() < f64::EPSILON);
    }
}
