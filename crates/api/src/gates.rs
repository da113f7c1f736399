//! Feature gates as the flag `--feature-gates` has them: `NAME=true|false` separated by commas.

use std::collections::BTreeMap;
use std::fmt;

/// Every gate of the peers'. A role takes all of them, so that one list serves all roles, and acts on its own.
const KNOWN: [&str; 13] = [
    "AllBeta",
    "AppPusher",
    "ClusterInit",
    "Deployer",
    "FailOver",
    "FeasibleClustersToleration",
    "FeedInUseProtection",
    "FeedInventory",
    "MultiClusterService",
    "Predictor",
    "Recovery",
    "ShadowAPI",
    "SocketConnection",
];
/// Sets all gates of a role that are not named.
const ALL: &str = "AllAlpha";

/// What is wrong with a list of feature gates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateError {
    /// It is no pair.
    Form(String),
    /// There is no such gate.
    Unknown {
        /// What was given.
        name: String,
        /// What there is.
        own: String,
    },
}

impl fmt::Display for GateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form(pair) => write!(f, "--feature-gates: {pair:?} is not NAME=true or NAME=false"),
            Self::Unknown { name, own } => {
                write!(
                    f,
                    "--feature-gates: there is no gate {name:?}: this role has {own}"
                )
            }
        }
    }
}

impl std::error::Error for GateError {}

/// Reads a list: what it sets of a role's own gates. What is named counts more than `AllAlpha`, wherever it stands.
///
/// # Errors
/// The first pair that makes no sense.
pub fn parse<'a>(text: &str, own: &[&'a str]) -> Result<BTreeMap<&'a str, bool>, GateError> {
    let (mut all, mut named) = (BTreeMap::new(), BTreeMap::new());
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (name, on) = match pair.split_once('=') {
            Some((name, "true")) => (name, true),
            Some((name, "false")) => (name, false),
            Some(_) | None => return Err(GateError::Form(pair.to_owned())),
        };
        if name == ALL {
            all = own.iter().map(|gate| (*gate, on)).collect();
        } else if let Some(gate) = own.iter().find(|gate| **gate == name) {
            named.insert(*gate, on);
        } else if !KNOWN.contains(&name) {
            return Err(GateError::Unknown {
                name: name.to_owned(),
                own: own.join(", "),
            });
        }
    }
    all.extend(named);
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_roles_own_gates() {
        let own = ["ClusterInit", "FeedInventory"];
        let read = |text: &str| {
            let gates = parse(text, &own).map_err(|error| error.to_string())?;
            Ok(gates.into_iter().collect::<Vec<_>>())
        };
        for (text, expected) in [
            ("", Ok(vec![])),
            (
                "FeedInventory=false, Recovery=true,",
                Ok(vec![("FeedInventory", false)]),
            ),
            (
                "ClusterInit=false,AllAlpha=true",
                Ok(vec![("ClusterInit", false), ("FeedInventory", true)]),
            ),
            (
                "ClusterInit",
                Err("--feature-gates: \"ClusterInit\" is not NAME=true or NAME=false".to_owned()),
            ),
            (
                "Init=true",
                Err(
                    "--feature-gates: there is no gate \"Init\": this role has ClusterInit, FeedInventory"
                        .to_owned(),
                ),
            ),
        ] {
            assert_eq!(read(text), expected, "{text:?}");
        }
    }
}
