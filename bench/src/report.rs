//! The table at the end.

use std::collections::BTreeMap;

use crate::servers::Kind;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Metric {
    Creates,
    Patches,
    Deletes,
    Gets,
    Lists,
    StartToReady,
    ResidentMib,
    ResidentLaterMib,
    WatchSeconds,
    WatchPercent,
    DemoSeconds,
    DemoPeakMb,
}

/// What is to be reached.
pub(crate) enum Goal {
    /// This many times as much as theirs, or 70 % of the null server's.
    Times(f64),
    /// This many times less than theirs.
    TimesLess(f64),
    AtMost(f64),
    AtLeast(f64),
    None,
}

/// Which share of the null server's figure is enough, in per cent: the rest is the client's.
const SHARE: f64 = 70.0;

impl Metric {
    const ALL: [Self; 12] = [
        Self::Creates,
        Self::Patches,
        Self::Deletes,
        Self::Gets,
        Self::Lists,
        Self::StartToReady,
        Self::ResidentMib,
        Self::ResidentLaterMib,
        Self::WatchSeconds,
        Self::WatchPercent,
        Self::DemoSeconds,
        Self::DemoPeakMb,
    ];

    fn title(self) -> &'static str {
        match self {
            Self::Creates => "durable creates / s",
            Self::Patches => "durable merge patches / s",
            Self::Deletes => "durable deletes / s",
            Self::Gets => "gets / s",
            Self::Lists => "lists of 4,000 objects / s",
            Self::StartToReady => "first start to ready, s",
            Self::ResidentMib => "resident with 10,000 objects, MiB",
            Self::ResidentLaterMib => "the same after the load above, MiB",
            Self::WatchSeconds => "1,000 watchers x 1,000 creates, s",
            Self::WatchPercent => "  events that arrived, %",
            Self::DemoSeconds => "up --demo: 3 clusters ready, s",
            Self::DemoPeakMb => "  memory at its peak, MB",
        }
    }

    fn goal(self) -> Goal {
        match self {
            Self::Creates | Self::Patches | Self::Deletes => Goal::Times(10.0),
            Self::Gets | Self::Lists => Goal::Times(5.0),
            Self::StartToReady => Goal::AtMost(0.3),
            Self::ResidentMib => Goal::TimesLess(10.0),
            Self::ResidentLaterMib => Goal::None,
            Self::WatchSeconds => Goal::AtMost(20.0),
            Self::WatchPercent => Goal::AtLeast(100.0),
            Self::DemoSeconds => Goal::AtMost(5.0),
            Self::DemoPeakMb => Goal::AtMost(120.0),
        }
    }

    fn more_is_better(self) -> bool {
        match self {
            Self::Creates | Self::Patches | Self::Gets | Self::Deletes | Self::Lists | Self::WatchPercent => {
                true
            }
            Self::StartToReady
            | Self::ResidentMib
            | Self::ResidentLaterMib
            | Self::WatchSeconds
            | Self::DemoSeconds
            | Self::DemoPeakMb => false,
        }
    }
}

impl Goal {
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Times(times) => format!("{times}x or {SHARE} %"),
            Self::TimesLess(times) => format!("1/{times}"),
            Self::AtMost(most) => format!("<= {most}"),
            Self::AtLeast(least) => format!(">= {least}"),
            Self::None => String::new(),
        }
    }

    /// `None` where nothing is to be reached or a figure is missing.
    fn is_reached(&self, ours: Option<f64>, ratio: Option<f64>, share: Option<f64>) -> Option<bool> {
        match self {
            Self::Times(times) => {
                let enough = |found: Option<f64>, wanted: f64| found.map(|found| found >= wanted);
                match (enough(ratio, *times), enough(share, SHARE)) {
                    (None, None) => None,
                    (one, other) => Some(one == Some(true) || other == Some(true)),
                }
            }
            Self::TimesLess(times) => ratio.map(|ratio| ratio >= *times),
            Self::AtMost(most) => ours.map(|ours| ours <= *most),
            Self::AtLeast(least) => ours.map(|ours| ours >= *least),
            Self::None => None,
        }
    }
}

impl Goal {
    /// What the last column says.
    pub(crate) fn verdict(&self, ours: Option<f64>, ratio: Option<f64>, share: Option<f64>) -> &'static str {
        match self.is_reached(ours, ratio, share) {
            Some(true) => "reached",
            Some(false) => "MISSED",
            None => "",
        }
    }
}

/// A figure with as many digits as are of use.
pub(crate) fn shown(figure: Option<f64>) -> String {
    let digits = |figure: f64| {
        if figure < 10.0 {
            2
        } else {
            usize::from(figure < 1_000.0)
        }
    };
    figure.map_or("-".to_owned(), |figure| format!("{figure:.*}", digits(figure)))
}

/// Figures by metric and server.
#[derive(Debug, Default)]
pub(crate) struct Report(BTreeMap<(Metric, Kind), f64>);

impl Report {
    #[expect(clippy::print_stderr, reason = "progress of a run of minutes")]
    pub(crate) fn add(&mut self, metric: Metric, kind: Kind, figure: f64) {
        eprintln!("{kind:?}: {}: {figure:.2}", metric.title().trim());
        self.0.insert((metric, kind), figure);
    }

    #[expect(clippy::print_stdout, reason = "the result of a command line tool")]
    pub(crate) fn print(&self) {
        println!(
            "32 clients, 1 KiB objects, HTTP/2 over TLS with client certificates, identity encoding; all on one machine"
        );
        println!(
            "{:36} {:>11} {:>10} {:>14} {:>9} {:>9}   {:14}",
            "", "null server", "tombolo", "etcd+apiserver", "x theirs", "% of null", "goal"
        );
        for metric in Metric::ALL {
            let figure = |kind: Kind| self.0.get(&(metric, kind)).copied();
            let (null, ours, theirs) = (
                figure(Kind::Null),
                figure(Kind::Tombolo),
                figure(Kind::Kubernetes),
            );
            let ratio = ours.zip(theirs).map(|(ours, theirs)| {
                if metric.more_is_better() {
                    ours / theirs
                } else {
                    theirs / ours
                }
            });
            let share = ours
                .zip(null)
                .filter(|_| metric.more_is_better())
                .map(|(ours, null)| ours / null * 100.0);
            let goal = metric.goal();
            let verdict = goal.verdict(ours, ratio, share);
            println!(
                "{:36} {:>11} {:>10} {:>14} {:>9} {:>9}   {:14} {verdict}",
                metric.title(),
                shown(null),
                shown(ours),
                shown(theirs),
                shown(ratio),
                shown(share),
                goal.text(),
            );
        }
    }
}
