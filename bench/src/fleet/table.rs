//! The fleet's table.

use std::collections::BTreeMap;

use crate::report::{Goal, shown};
use crate::servers::Kind;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Figure {
    Seconds,
    ProcessorSeconds,
    PeakMb,
    EmbeddedSeconds,
    EmbeddedProcessorSeconds,
    ReplicationMicros,
    ReplicationFewMicros,
    DynamicMicros,
    DynamicAllMicros,
    ChangeMicros,
    ChangeWakes,
    ChangeDecides,
}

impl Figure {
    const ALL: [Self; 12] = [
        Self::Seconds,
        Self::ProcessorSeconds,
        Self::PeakMb,
        Self::EmbeddedSeconds,
        Self::EmbeddedProcessorSeconds,
        Self::ReplicationMicros,
        Self::ReplicationFewMicros,
        Self::DynamicMicros,
        Self::DynamicAllMicros,
        Self::ChangeMicros,
        Self::ChangeWakes,
        Self::ChangeDecides,
    ];

    fn title(self) -> &'static str {
        match self {
            Self::Seconds => "etcd+apiserver: all bound, s",
            Self::ProcessorSeconds => "  processor time of the scheduler, s",
            Self::PeakMb => "  its memory at its peak, MB",
            Self::EmbeddedSeconds => "embedded parent: all bound, s",
            Self::EmbeddedProcessorSeconds => "  processor time of all of it, s",
            Self::ReplicationMicros => "decision, replicated to all of 5,000, us",
            Self::ReplicationFewMicros => "  to 500 of them, us",
            Self::DynamicMicros => "  divided by room, the usual sample, us",
            Self::DynamicAllMicros => "  divided by room among all of them, us",
            Self::ChangeMicros => "a cluster is relabelled: index, us",
            Self::ChangeWakes => "  Subscriptions of 2,000 looked at",
            Self::ChangeDecides => "  of these it really concerns",
        }
    }

    fn goal(self) -> Goal {
        match self {
            Self::Seconds => Goal::TimesLess(10.0),
            Self::PeakMb => Goal::TimesLess(2.0),
            Self::EmbeddedSeconds => Goal::TimesLess(30.0),
            Self::ReplicationMicros => Goal::AtMost(100.0),
            Self::DynamicMicros => Goal::AtMost(500.0),
            Self::ProcessorSeconds
            | Self::EmbeddedProcessorSeconds
            | Self::ReplicationFewMicros
            | Self::DynamicAllMicros
            | Self::ChangeMicros
            | Self::ChangeWakes
            | Self::ChangeDecides => Goal::None,
        }
    }
}

/// Figures of ours and of upstream's, which is listed under the parent that it needs.
#[derive(Debug, Default)]
pub(super) struct Table(BTreeMap<(Figure, Kind), f64>);

impl Table {
    #[expect(clippy::print_stderr, reason = "progress of a run of minutes")]
    pub(super) fn add(&mut self, figure: Figure, kind: Kind, value: f64) {
        let whose = if kind == Kind::Tombolo {
            "tombolo"
        } else {
            "upstream"
        };
        eprintln!("{whose}: {}: {value:.2}", figure.title().trim());
        self.0.insert((figure, kind), value);
    }

    #[expect(clippy::print_stdout, reason = "the result of a command line tool")]
    pub(super) fn print(&self) {
        println!(
            "3,000 ready clusters, 2,000 waiting Subscriptions of 300 clusters each; all on one machine"
        );
        println!(
            "{:40} {:>10} {:>10} {:>9}   {:8}",
            "", "tombolo", "upstream", "x theirs", "goal"
        );
        for figure in Figure::ALL {
            let of = |kind: Kind| self.0.get(&(figure, kind)).copied();
            let (ours, theirs) = (of(Kind::Tombolo), of(Kind::Kubernetes));
            let ratio = ours.zip(theirs).map(|(ours, theirs)| theirs / ours);
            let goal = figure.goal();
            println!(
                "{:40} {:>10} {:>10} {:>9}   {:8} {}",
                figure.title(),
                shown(ours),
                shown(theirs),
                shown(ratio),
                goal.text(),
                goal.verdict(ours, ratio, None),
            );
        }
    }
}
