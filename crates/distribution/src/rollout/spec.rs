//! What a Rollout asks for, checked.

use std::time::Duration;

use api::clusters;
use machinery::cel;
use machinery::selector::LabelSelector;
use serde_json::Value;

/// How long a cluster has to become available, if nothing is said.
const PROGRESS_DEADLINE: Duration = Duration::from_mins(10);

/// What is wrong with a Rollout.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("spec.{field}: {problem}")]
pub struct Fault {
    field: String,
    problem: String,
}

/// A number, or a share of a hundred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Amount {
    Count(usize),
    Percent(usize),
}

impl Amount {
    /// How many that is of so many, a share being rounded up.
    pub(crate) fn of(self, all: usize) -> usize {
        match self {
            Self::Count(count) => count,
            Self::Percent(share) => all.saturating_mul(share).div_ceil(100),
        }
    }

    /// Whether so many of so many are more than this.
    pub(crate) fn is_less_than(self, some: usize, all: usize) -> bool {
        match self {
            Self::Count(count) => some > count,
            Self::Percent(share) => some.saturating_mul(100) > all.saturating_mul(share),
        }
    }

    fn parse(value: &Value, field: &str) -> Result<Option<Self>, Fault> {
        if value.is_null() {
            return Ok(None);
        }
        let read = || match value.as_str() {
            None => Some(Self::Count(usize::try_from(value.as_u64()?).ok()?)),
            Some(text) => match text.strip_suffix('%') {
                None => text.parse().ok().map(Self::Count),
                Some(share) => share
                    .parse()
                    .ok()
                    .filter(|share| *share <= 100)
                    .map(Self::Percent),
            },
        };
        let fault = || Fault {
            field: field.to_owned(),
            problem: format!("{value} is neither a number, such as 3, nor a share, such as 25%"),
        };
        read().map(Some).ok_or_else(fault)
    }
}

/// Which clusters a wave takes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Choice {
    Selector(LabelSelector),
    Amount(Amount),
    /// All that are left.
    Rest,
}

/// One wave.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wave {
    pub(crate) name: String,
    pub(crate) choice: Choice,
}

impl Wave {
    pub(crate) fn takes(&self, cluster: &Value) -> bool {
        match &self.choice {
            Choice::Selector(selector) => selector.matches(|key| clusters::label(cluster, key)),
            Choice::Amount(_) | Choice::Rest => true,
        }
    }
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Spec {
    /// With the implicit last one.
    pub(crate) waves: Vec<Wave>,
    /// None: all at a time.
    pub(crate) max_concurrent: Option<Amount>,
    pub(crate) success_time: Duration,
    pub(crate) progress_deadline: Duration,
    pub(crate) failure_threshold: Amount,
    pub(crate) rolls_back: bool,
    pub(crate) paused: bool,
}

impl Spec {
    pub(crate) fn of(rollout: &Value) -> Result<Self, Fault> {
        let spec = &rollout["spec"];
        let mut waves = Vec::new();
        for (index, wave) in spec["waves"].as_array().into_iter().flatten().enumerate() {
            let name = match wave["name"].as_str() {
                Some(name) if !name.is_empty() => name.to_owned(),
                Some(_) | None => format!("wave-{}", index + 1),
            };
            let fault = |problem: String| Fault {
                field: format!("waves[{index}]"),
                problem,
            };
            if waves.iter().any(|earlier: &Wave| earlier.name == name) {
                return Err(fault(format!("{name:?} is the name of another wave")));
            }
            let count = Amount::parse(&wave["count"], &format!("waves[{index}].count"))?;
            let choice = match (&wave["clusterSelector"], count) {
                (Value::Null, Some(count)) => Choice::Amount(count),
                (selector, None) if !selector.is_null() => Choice::Selector(
                    LabelSelector::from_value(selector)
                        .map_err(|error| fault(format!("clusterSelector: {error}")))?,
                ),
                (_, _) => return Err(fault("give either clusterSelector or count".to_owned())),
            };
            waves.push(Wave { name, choice });
        }
        let name = (1..)
            .map(|n| {
                if n == 1 {
                    "rest".to_owned()
                } else {
                    format!("rest-{n}")
                }
            })
            .find(|name| waves.iter().all(|wave| wave.name != *name))
            .expect("names never run out");
        let choice = Choice::Rest;
        waves.push(Wave { name, choice });
        let max_concurrent = Amount::parse(&spec["maxConcurrent"], "maxConcurrent")?;
        if matches!(max_concurrent, Some(Amount::Count(0) | Amount::Percent(0))) {
            return Err(Fault {
                field: "maxConcurrent".to_owned(),
                problem: "with 0 nothing ever moves; to hold a rollout set paused".to_owned(),
            });
        }
        let threshold = Amount::parse(&spec["failureThreshold"], "failureThreshold")?;
        Ok(Self {
            waves,
            max_concurrent,
            success_time: duration(spec, "successTime")?.unwrap_or(Duration::ZERO),
            progress_deadline: duration(spec, "progressDeadline")?.unwrap_or(PROGRESS_DEADLINE),
            failure_threshold: threshold.unwrap_or(Amount::Count(0)),
            rolls_back: match spec["onFailure"].as_str() {
                None | Some("RollBack") => true,
                Some("Pause") => false,
                Some(other) => {
                    return Err(Fault {
                        field: "onFailure".to_owned(),
                        problem: format!("{other:?} is neither RollBack nor Pause"),
                    });
                }
            },
            paused: spec["paused"] == true,
        })
    }
}

fn duration(spec: &Value, field: &str) -> Result<Option<Duration>, Fault> {
    if spec[field].is_null() {
        return Ok(None);
    }
    let read = spec[field].as_str().and_then(cel::duration);
    let fault = || Fault {
        field: field.to_owned(),
        problem: format!("{} is no duration such as 90s, 2m or 1h30m", spec[field]),
    };
    read.and_then(|it| Duration::try_from(it).ok())
        .map(Some)
        .ok_or_else(fault)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reads_amounts() {
        for (value, of_ten, expected) in [
            (json!(3), 3, Some(Amount::Count(3))),
            (json!("3"), 3, Some(Amount::Count(3))),
            (json!("25%"), 3, Some(Amount::Percent(25))),
            (json!("100%"), 10, Some(Amount::Percent(100))),
            (json!("0%"), 0, Some(Amount::Percent(0))),
            (json!("101%"), 0, None),
            (json!(-1), 0, None),
            (json!(1.5), 0, None),
            (json!("many"), 0, None),
            (json!(""), 0, None),
        ] {
            let read = Amount::parse(&value, "x");
            assert_eq!(read.clone().ok().flatten(), expected, "{value}");
            match expected {
                Some(amount) => assert_eq!(amount.of(10), of_ten, "{value}"),
                None => assert!(read.unwrap_err().to_string().contains(&value.to_string())),
            }
        }
        assert_eq!(Amount::parse(&Value::Null, "x"), Ok(None));
    }

    #[test]
    fn a_threshold_is_what_may_fail() {
        for (amount, failed, of, expected) in [
            (Amount::Count(0), 0, 5, false),
            (Amount::Count(0), 1, 5, true),
            (Amount::Count(1), 1, 5, false),
            (Amount::Percent(20), 1, 5, false),
            (Amount::Percent(20), 2, 5, true),
            (Amount::Percent(20), 1, 4, true),
            (Amount::Percent(100), 4, 4, false),
            (Amount::Percent(0), 1, 400, true),
        ] {
            assert_eq!(
                amount.is_less_than(failed, of),
                expected,
                "{amount:?} {failed}/{of}"
            );
        }
    }

    #[test]
    fn says_what_is_wrong() {
        for (spec, expected) in [
            (
                json!({"waves": [{}]}),
                "spec.waves[0]: give either clusterSelector or count",
            ),
            (
                json!({"waves": [{"count": 1, "clusterSelector": {}}]}),
                "spec.waves[0]: give either clusterSelector or count",
            ),
            (
                json!({"waves": [{"count": 1}, {"count": 1, "name": "wave-1"}]}),
                "spec.waves[1]: \"wave-1\" is the name of another wave",
            ),
            (
                json!({"waves": [{"count": "x"}]}),
                "spec.waves[0].count: \"x\" is neither a number, such as 3, nor a share, such as 25%",
            ),
            (
                json!({"maxConcurrent": 0}),
                "spec.maxConcurrent: with 0 nothing ever moves",
            ),
            (
                json!({"successTime": "soon"}),
                "spec.successTime: \"soon\" is no duration",
            ),
            (
                json!({"progressDeadline": "-1m"}),
                "spec.progressDeadline: \"-1m\" is no duration",
            ),
            (
                json!({"onFailure": "Cry"}),
                "spec.onFailure: \"Cry\" is neither RollBack nor Pause",
            ),
        ] {
            let fault = Spec::of(&json!({"spec": spec})).unwrap_err().to_string();
            assert!(fault.starts_with(expected), "{fault}");
        }
        let bad = json!({"matchExpressions": [{"key": "a", "operator": "Maybe"}]});
        let fault = Spec::of(&json!({"spec": {"waves": [{"clusterSelector": bad}]}})).unwrap_err();
        assert!(
            fault.to_string().starts_with("spec.waves[0]: clusterSelector: "),
            "{fault}"
        );
    }

    #[test]
    fn what_is_not_said_has_its_default() {
        let spec =
            Spec::of(&json!({"spec": {"subscription": "app", "waves": [{"count": 1, "name": "rest"}]}}));
        let spec = spec.unwrap();
        let names: Vec<&str> = spec.waves.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["rest", "rest-2"]);
        assert_eq!(spec.success_time, Duration::ZERO);
        assert_eq!(spec.progress_deadline, Duration::from_mins(10));
        assert_eq!(spec.failure_threshold, Amount::Count(0));
        assert!(spec.rolls_back && !spec.paused && spec.max_concurrent.is_none());
    }
}
