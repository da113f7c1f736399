//! The plugin Predictor: how many more replicas of each feed a cluster has room for.
//!
//! Nothing here asks anybody: the scheduler does, with what this module says to send, and hands the answers in. The
//! wire protocol is the peers' (`POST /replicas/predict`), so that external predictors work as they are.

use serde_json::{Value, json};

/// The path below a predictor's address.
pub const PATH: &str = "/replicas/predict";
/// The header that tells a predictor which cluster it is asked about.
pub const CLUSTER_HEADER: &str = "Cluster-ID";
/// The only key of an answer that is read; others are for topology domains.
const DEFAULT_KEY: &str = "default";
/// As much of a foreign text as an error repeats.
const QUOTE_LIMIT: usize = 200;

/// For each feed of the inventory how many more replicas there is room for; `None` where nobody asked.
pub type Room = Vec<Option<u32>>;

/// What came of asking about one cluster: its room, or why it is not known, for people.
pub type Prediction = Result<Room, String>;

/// Where a cluster's own predictor is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Predictor {
    /// It has none.
    #[default]
    Off,
    /// It has one that nobody outside reaches: neither directly nor through a tunnel.
    Unreachable,
    /// At this URL.
    Direct(String),
    /// At this path of the parent's API, through the tunnel.
    Tunnel(String),
}

impl Predictor {
    /// From a ManagedCluster.
    pub fn from_value(cluster: &Value) -> Self {
        let status = &cluster["status"];
        let address = status["predictorAddress"].as_str().unwrap_or_default();
        let address = address.trim_end_matches('/');
        if status["predictorEnabled"] != true || address.is_empty() {
            return Self::Off;
        }
        if status["predictorDirectAccess"] == true {
            return Self::Direct(address.to_owned());
        }
        let id = cluster["spec"]["clusterId"].as_str().unwrap_or_default();
        match address.split_once("://") {
            Some((scheme @ ("http" | "https"), rest)) if status["useSocket"] == true && !id.is_empty() => {
                let (group, version) = (api::proxies::GROUP, api::proxies::VERSION);
                Self::Tunnel(format!(
                    "/apis/{group}/{version}/sockets/{id}/proxy/{scheme}/{rest}"
                ))
            }
            Some(_) | None => Self::Unreachable,
        }
    }
}

/// What a predictor is asked about one feed.
pub fn question(requirements: &Value) -> Value {
    let part = |field: &str, none: Value| {
        let given = &requirements[field];
        if given.is_null() { none } else { given.clone() }
    };
    json!({
        "nodeSelector": part("nodeSelector", json!({})), "tolerations": part("tolerations", json!([])),
        "affinity": part("affinity", json!({})), "resources": part("resources", json!({})),
    })
}

/// Reads a predictor's answer.
///
/// # Errors
/// Why it is none, for people.
pub fn answer(status: u16, body: &[u8]) -> Result<u32, String> {
    let quote = || {
        let text = String::from_utf8_lossy(body);
        text.trim().chars().take(QUOTE_LIMIT).collect::<String>()
    };
    if status != 200 {
        return Err(format!("its predictor answers {status}: {}", quote()));
    }
    let value: Value = serde_json::from_slice(body).unwrap_or_default();
    let room = value["replicas"][DEFAULT_KEY].as_i64();
    let room = room.ok_or_else(|| format!("its predictor's answer says no number: {}", quote()))?;
    Ok(u32::try_from(room.max(0)).unwrap_or(u32::MAX))
}

/// The answer of the built-in predictor.
pub fn answer_body(room: u32) -> Value {
    json!({"replicas": {DEFAULT_KEY: room}})
}

/// What several predictors say together: the least, feed by feed. Where one says nothing nothing is known; what only
/// one of them reaches is as that one says.
pub fn merge(a: &[Option<u32>], b: &[Option<u32>]) -> Room {
    let (long, short) = if a.len() < b.len() { (b, a) } else { (a, b) };
    let both = long.iter().zip(short).map(|(a, b)| Some((*a)?.min((*b)?)));
    both.chain(long[short.len()..].iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `5 _ 3`.
    fn room(text: &str) -> Room {
        text.split_whitespace().map(|word| word.parse().ok()).collect()
    }

    #[test]
    fn takes_the_least_of_several_predictors() {
        for (row, a, b, expected) in [
            ("P1", "_ _ _ _ _", "_ _ _ _ _", "_ _ _ _ _"),
            ("P2", "_ _ _", "2 3 4", "_ _ _"),
            ("P3", "2 3 4", "_ _ _", "_ _ _"),
            ("P4", "1 5", "2 3 4", "1 3 4"),
            ("P5", "2 3 4", "1 5", "1 3 4"),
            ("P6", "2 3 4", "1 5 1", "1 3 1"),
            ("P7", "2 3 _", "1 _ 1", "1 _ _"),
        ] {
            assert_eq!(merge(&room(a), &room(b)), room(expected), "{row}");
        }
    }

    #[test]
    fn finds_the_predictor_of_a_cluster() {
        let find =
            |status: Value| Predictor::from_value(&json!({"spec": {"clusterId": "id-1"}, "status": status}));
        assert_eq!(find(json!({})), Predictor::Off);
        assert_eq!(find(json!({"predictorEnabled": true})), Predictor::Off);
        let with = |more: &Value| {
            let mut status = json!({"predictorEnabled": true, "predictorAddress": "http://localhost:8080/"});
            machinery::patch::merge_patch(&mut status, more);
            find(status)
        };
        assert_eq!(with(&json!({})), Predictor::Unreachable);
        assert_eq!(
            with(&json!({"predictorDirectAccess": true})),
            Predictor::Direct("http://localhost:8080".to_owned())
        );
        let path = "/apis/proxies.clusternet.io/v1alpha1/sockets/id-1/proxy/http/localhost:8080";
        assert_eq!(
            with(&json!({"useSocket": true})),
            Predictor::Tunnel(path.to_owned())
        );
        assert_eq!(
            with(&json!({"useSocket": true, "predictorAddress": "ftp://x"})),
            Predictor::Unreachable
        );
    }

    #[test]
    fn asks_and_reads_in_the_peers_form() {
        let asked = question(&json!({"nodeSelector": {"a": "b"}}));
        assert_eq!(
            asked,
            json!({"nodeSelector": {"a": "b"}, "tolerations": [], "affinity": {}, "resources": {}})
        );
        for (status, body, expected) in [
            (200, r#"{"replicas": {"default": 7}}"#, Ok(7)),
            (200, r#"{"replicas": {"default": -7}}"#, Ok(0)),
            (
                200,
                r#"{"replicas": {"default": 7, "topology.kubernetes.io/zone=z": 3}}"#,
                Ok(7),
            ),
            (200, "{}", Err("its predictor's answer says no number: {}")),
            (
                500,
                "no feasible nodes\n",
                Err("its predictor answers 500: no feasible nodes"),
            ),
            // Where the peers' scheduler would take the body for an answer.
            (
                500,
                r#"{"replicas": {"default": 7}}"#,
                Err("its predictor answers 500: {\"replicas\": {\"default\": 7}}"),
            ),
        ] {
            let expected = expected.map_err(str::to_owned);
            assert_eq!(answer(status, body.as_bytes()), expected, "{status} {body}");
        }
        assert_eq!(answer(200, answer_body(4).to_string().as_bytes()), Ok(4));
    }
}
