//! When a cluster became ready and when it stopped: the annotation [`READY_TURNS`] of a ManagedCluster, by which clusters
//! that come and go all the time are known.

use machinery::meta;
use serde_json::Value;

use crate::annotations::READY_TURNS;

/// How many are kept: more than make a cluster one that comes and goes.
pub const KEPT: usize = 8;

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn<'a> {
    /// Whether the cluster was ready from then on.
    pub ready: bool,
    /// When, in RFC 3339.
    pub at: &'a str,
}

/// The turns of a cluster, oldest first: `+TIME` where it became ready, `-TIME` where it stopped, separated by commas.
pub fn of(cluster: &Value) -> impl Iterator<Item = Turn<'_>> {
    let text = meta::annotation(cluster, READY_TURNS).unwrap_or_default();
    text.split(',').filter_map(|turn| {
        let (ready, at) = match turn.strip_prefix('+') {
            Some(at) => (true, at),
            None => (false, turn.strip_prefix('-')?),
        };
        Some(Turn { ready, at })
    })
}

/// What the annotation is to say once a cluster is seen to be ready, or not; `None` if it does.
pub fn noted(cluster: &Value, ready: bool, now: &str) -> Option<String> {
    let mut turns: Vec<Turn<'_>> = of(cluster).collect();
    if turns.last().is_some_and(|last| last.ready == ready) {
        return None;
    }
    turns.push(Turn { ready, at: now });
    let turns = turns[turns.len().saturating_sub(KEPT)..].iter();
    let sign = |turn: &Turn<'_>| if turn.ready { '+' } else { '-' };
    let turns: Vec<String> = turns.map(|turn| format!("{}{}", sign(turn), turn.at)).collect();
    Some(turns.join(","))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn notes_each_turn_once_and_the_last_few() {
        let mut cluster = json!({"metadata": {}});
        let mut note = |ready: bool, now: &str| {
            let noted = noted(&cluster, ready, now);
            if let Some(text) = &noted {
                meta::set_annotation(&mut cluster, READY_TURNS, text);
            }
            noted
        };
        assert_eq!(note(true, "1").as_deref(), Some("+1"));
        assert_eq!(note(true, "2"), None);
        assert_eq!(note(false, "3").as_deref(), Some("+1,-3"));
        for turn in 4..=20 {
            note(turn % 2 == 0, &turn.to_string());
        }
        let turns: Vec<Turn<'_>> = of(&cluster).collect();
        assert_eq!(turns.len(), KEPT);
        assert_eq!(
            turns[0],
            Turn {
                ready: false,
                at: "13"
            }
        );
        assert_eq!(
            turns[KEPT - 1],
            Turn {
                ready: true,
                at: "20"
            }
        );
        meta::set_annotation(&mut cluster, READY_TURNS, "junk,+5,");
        assert_eq!(of(&cluster).count(), 1, "what is none is passed over");
    }
}
