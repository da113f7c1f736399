//! The table at the end.

use std::collections::BTreeMap;

use crate::servers::Kind;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Metric {
    Creates,
    Patches,
    Gets,
    Deletes,
    Lists,
    StartToReady,
    ResidentMib,
    WatchSeconds,
    WatchPercent,
}

impl Metric {
    const ALL: [Self; 9] = [
        Self::Creates,
        Self::Patches,
        Self::Gets,
        Self::Deletes,
        Self::Lists,
        Self::StartToReady,
        Self::ResidentMib,
        Self::WatchSeconds,
        Self::WatchPercent,
    ];

    fn title(self) -> &'static str {
        match self {
            Self::Creates => "durable creates / s",
            Self::Patches => "durable merge patches / s",
            Self::Gets => "gets / s",
            Self::Deletes => "durable deletes / s",
            Self::Lists => "lists of 4,000 objects / s",
            Self::StartToReady => "start to ready, s",
            Self::ResidentMib => "resident with 10,000 objects, MiB",
            Self::WatchSeconds => "1,000 watchers x 1,000 creates, s",
            Self::WatchPercent => "events of those that arrived, %",
        }
    }

    fn more_is_better(self) -> bool {
        match self {
            Self::Creates | Self::Patches | Self::Gets | Self::Deletes | Self::Lists | Self::WatchPercent => true,
            Self::StartToReady | Self::ResidentMib | Self::WatchSeconds => false,
        }
    }
}

/// Figures by metric and server.
#[derive(Debug, Default)]
pub(crate) struct Report(BTreeMap<(Metric, Kind), f64>);

impl Report {
    #[expect(clippy::print_stderr, reason = "progress of a run of minutes")]
    pub(crate) fn add(&mut self, metric: Metric, kind: Kind, figure: f64) {
        eprintln!("{kind:?}: {}: {figure:.2}", metric.title());
        self.0.insert((metric, kind), figure);
    }

    #[expect(clippy::print_stdout, reason = "the result of a command line tool")]
    pub(crate) fn print(&self) {
        println!("32 clients, 1 KiB objects, HTTP/2 over TLS with client certificates, identity encoding");
        println!(
            "{:36} {:>12} {:>12} {:>16} {:>10} {:>12}",
            "", "null server", "tombolo", "etcd+apiserver", "x theirs", "% of null"
        );
        for metric in Metric::ALL {
            let figure = |kind: Kind| self.0.get(&(metric, kind)).copied();
            let show = |figure: Option<f64>| figure.map_or("-".to_owned(), |figure| format!("{figure:.2}"));
            let (null, ours, theirs) = (figure(Kind::Null), figure(Kind::Tombolo), figure(Kind::Kubernetes));
            let ratio = ours.zip(theirs).map(|(ours, theirs)| {
                if metric.more_is_better() { ours / theirs } else { theirs / ours }
            });
            let share = ours.zip(null).filter(|_| metric.more_is_better()).map(|(ours, null)| ours / null * 100.0);
            println!(
                "{:36} {:>12} {:>12} {:>16} {:>10} {:>12}",
                metric.title(),
                show(null),
                show(ours),
                show(theirs),
                show(ratio),
                show(share)
            );
        }
    }
}
