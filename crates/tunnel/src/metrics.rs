//! Counters of a hub's tunnels.

use std::fmt::Write as _;
use std::time::Duration;

/// The upper bounds of session lengths, in seconds: 60, times 4 each.
const BOUNDS: [u64; 8] = [60, 240, 960, 3_840, 15_360, 61_440, 245_760, 983_040];

/// What happened since start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Sessions now.
    pub sessions: u64,
    /// Sessions accepted.
    pub sessions_total: u64,
    /// Sessions that a newer one of the same cluster took over.
    pub replaced_total: u64,
    /// Streams opened.
    pub dials_total: u64,
    /// Streams that could not be opened.
    pub dial_failures_total: u64,
    /// Ended sessions by length: at most the bound of the same place, and longer ones.
    lengths: [u64; BOUNDS.len() + 1],
    length_sum_seconds: u64,
}

impl Metrics {
    pub(crate) fn ended(&mut self, after: Duration) {
        let seconds = after.as_secs();
        let place = BOUNDS
            .iter()
            .position(|bound| seconds <= *bound)
            .unwrap_or(BOUNDS.len());
        self.lengths[place] += 1;
        self.length_sum_seconds += seconds;
    }

    /// The text that Prometheus scrapes, as OpenMetrics has it.
    pub fn render(&self) -> String {
        let mut out = String::new();
        let mut put = |name: &str, kind: &str, value: u64| {
            // OpenMetrics: a counter's samples have an ending that its family lacks.
            let family = name.strip_suffix("_total").unwrap_or(name);
            writeln!(out, "# TYPE {family} {kind}\n{name} {value}").expect("a string takes every write");
        };
        put("clusternet_socket_connections_count", "gauge", self.sessions);
        put("tombolo_tunnel_sessions_total", "counter", self.sessions_total);
        put("tombolo_tunnel_replaced_total", "counter", self.replaced_total);
        put("tombolo_tunnel_dials_total", "counter", self.dials_total);
        put(
            "tombolo_tunnel_dial_failures_total",
            "counter",
            self.dial_failures_total,
        );
        let name = "clusternet_socket_connections_duration_seconds";
        out.push_str("# TYPE clusternet_socket_connections_duration_seconds histogram\n");
        let mut sum = 0;
        for (place, count) in self.lengths.iter().enumerate() {
            sum += count;
            let bound = BOUNDS
                .get(place)
                .map_or_else(|| "+Inf".to_owned(), u64::to_string);
            writeln!(out, "{name}_bucket{{le=\"{bound}\"}} {sum}").expect("a string takes every write");
        }
        writeln!(out, "{name}_sum {}\n{name}_count {sum}", self.length_sum_seconds)
            .expect("a string takes every write");
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_lengths_fall_into_their_bucket() {
        let mut metrics = Metrics::default();
        for seconds in [1, 60, 61, 2_000_000] {
            metrics.ended(Duration::from_secs(seconds));
        }
        let text = metrics.render();
        assert!(text.contains("duration_seconds_bucket{le=\"60\"} 2\n"), "{text}");
        assert!(text.contains("duration_seconds_bucket{le=\"240\"} 3\n"), "{text}");
        assert!(
            text.contains("duration_seconds_bucket{le=\"+Inf\"} 4\n"),
            "{text}"
        );
        assert!(text.contains("clusternet_socket_connections_count 0\n"), "{text}");
        let counter = "# TYPE tombolo_tunnel_dials counter\ntombolo_tunnel_dials_total 0\n";
        assert!(text.contains(counter), "{text}");
    }
}
