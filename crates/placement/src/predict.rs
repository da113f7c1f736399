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
    /// It says of it what is no address.
    Nowhere,
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
        let Some((scheme, rest)) = address.split_once("://").filter(|it| is_place(*it)) else {
            return Self::Nowhere;
        };
        if status["predictorDirectAccess"] == true {
            return Self::Direct(address.to_owned());
        }
        let id = cluster["spec"]["clusterId"].as_str().unwrap_or_default();
        if status["useSocket"] != true || machinery::names::is_dns1123_subdomain(id).is_err() {
            return Self::Unreachable;
        }
        let (group, version) = (api::proxies::GROUP, api::proxies::VERSION);
        Self::Tunnel(format!(
            "/apis/{group}/{version}/sockets/{id}/proxy/{scheme}/{rest}"
        ))
    }
}

/// Whether an http or https URL, scheme and rest, is a host and perhaps a path, and nothing that would lead out of the
/// path that it becomes a part of: the cluster says it, and the scheduler asks with rights of its own.
fn is_place((scheme, rest): (&str, &str)) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~:[]/".contains(c);
    let mut segments = rest.split('/');
    matches!(scheme, "http" | "https")
        && rest.chars().all(is_plain)
        && segments.next().is_some_and(|host| !host.is_empty())
        && rest.split('/').all(|segment| !matches!(segment, "." | ".."))
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
        // It ends up in events and on terminals.
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        text.trim()
            .chars()
            .take(QUOTE_LIMIT)
            .map(plain)
            .collect::<String>()
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
    }

    #[test]
    fn an_address_leads_nowhere_but_to_its_own_cluster() {
        let find = |address: &str, direct: bool| {
            Predictor::from_value(&json!({"spec": {"clusterId": "id-1"}, "status": {
                "predictorEnabled": true, "useSocket": true, "predictorDirectAccess": direct,
                "predictorAddress": address}}))
        };
        for address in [
            "x",
            "ftp://x",
            "http://",
            "http:///replicas",
            "http://x/../../id-2/proxy/direct/api",
            "http://../../id-2/proxy/direct/api",
            "http://x/./y",
            "http://x/%2e%2e/y",
            "http://x?",
            "http://x/y?a=b",
            "http://x#y",
            "http://user@x",
            "http://x y",
            "http://x\r\nHost: y",
            "http://x\\y",
        ] {
            for direct in [false, true] {
                assert_eq!(find(address, direct), Predictor::Nowhere, "{address:?} {direct}");
            }
        }
        for address in ["http://x", "https://[::1]:8443/a/b", "http://10.0.0.1:80/a..b"] {
            assert_eq!(find(address, true), Predictor::Direct(address.to_owned()));
            assert!(matches!(find(address, false), Predictor::Tunnel(_)), "{address}");
        }
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
            (
                500,
                "\u{1b}[31mall\r\nis well",
                Err("its predictor answers 500:  [31mall  is well"),
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
