//! The small simulation: some seeds that must go well, and the promise that a seed is a run.

use std::time::Duration;

use assembly::sim::{SimConfig, SimReport, run, run_together};

fn well(config: SimConfig) -> SimReport {
    run(&config).unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn a_fleet_without_faults_does_its_job() {
    let report = well(SimConfig {
        faults: 0,
        ..SimConfig::new(1)
    });
    assert_eq!(report.faults, Vec::<String>::new());
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let (first, second) = (well(SimConfig::new(2)), well(SimConfig::new(2)));
    for (number, (left, right)) in first.trace.iter().zip(&second.trace).enumerate() {
        assert_eq!(left, right, "line {number} differs");
    }
    assert_eq!(first, second);
}

/// Case D12: replicas and weights 10 ms apart, in either order, restart nothing; a feed that is taken out at once stays out.
#[test]
fn edits_that_are_made_together_take_effect_together() {
    run_together(5).unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn a_larger_fleet_lives_for_a_while() {
    let report = well(SimConfig {
        clusters: 6,
        lasts: Some(Duration::from_mins(5)),
        ..SimConfig::new(1)
    });
    assert!(report.virtual_seconds > 300.0, "{report}");
}

#[test]
fn children_whose_clocks_are_minutes_wrong_are_not_taken_for_lost() {
    let [one, other] = [4, 6].map(|seed| well(SimConfig::new(seed)));
    assert_ne!(one.trace_hash, other.trace_hash, "another seed is another run");
}

#[test]
fn a_report_that_another_overwrites_is_made_again() {
    well(SimConfig::new(1_796_071_198));
}

#[test]
fn nothing_counts_as_well_while_the_parent_says_that_something_is_not_applied() {
    well(SimConfig {
        faults: 6,
        ..SimConfig::new(1_796_101_213)
    });
}
