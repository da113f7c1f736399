//! The scheduler's configuration file: profiles and their plugins.
//!
//! The plugins are a fixed list; the file chooses among them. Merging with the defaults follows the peers' rules: a
//! disabled `*` clears the defaults, a disabled name removes one, an enabled name that is there is replaced where it
//! stands, others are appended.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use serde_json::Value;

/// A plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Plugin {
    /// Filters and scores by taints.
    TaintToleration,
    /// Asks clusters how many replicas they have room for.
    Predictor,
    /// Divides by weight.
    StaticAssigner,
    /// Divides by capacity.
    DynamicAssigner,
    /// Writes the binding.
    DefaultBinder,
}

impl Plugin {
    const ALL: [Self; 5] = [
        Self::TaintToleration,
        Self::Predictor,
        Self::StaticAssigner,
        Self::DynamicAssigner,
        Self::DefaultBinder,
    ];

    /// Its name in files, events and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::TaintToleration => "TaintToleration",
            Self::Predictor => "Predictor",
            Self::StaticAssigner => "StaticAssigner",
            Self::DynamicAssigner => "DynamicAssigner",
            Self::DefaultBinder => "DefaultBinder",
        }
    }

    fn serves(self, point: Point) -> bool {
        match self {
            Self::TaintToleration => matches!(point, Point::Filter | Point::Score),
            Self::Predictor => point == Point::Predict,
            Self::StaticAssigner => point == Point::Assign,
            Self::DynamicAssigner => matches!(point, Point::PreAssign | Point::Assign),
            Self::DefaultBinder => point == Point::Bind,
        }
    }
}

impl fmt::Display for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A moment of the cycle that plugins can join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Point {
    /// Before filtering.
    PreFilter,
    /// Takes clusters out.
    Filter,
    /// When nothing fits.
    PostFilter,
    /// Before predicting.
    PrePredict,
    /// Counts free replicas.
    Predict,
    /// Before scoring.
    PreScore,
    /// Orders clusters.
    Score,
    /// Before assigning.
    PreAssign,
    /// Divides replicas.
    Assign,
    /// Keeps room.
    Reserve,
    /// May hold a decision back.
    Permit,
    /// Before binding.
    PreBind,
    /// Binds.
    Bind,
    /// After binding.
    PostBind,
}

impl Point {
    /// Every point, in the order of the cycle.
    pub const ALL: [Self; 14] = [
        Self::PreFilter,
        Self::Filter,
        Self::PostFilter,
        Self::PrePredict,
        Self::Predict,
        Self::PreScore,
        Self::Score,
        Self::PreAssign,
        Self::Assign,
        Self::Reserve,
        Self::Permit,
        Self::PreBind,
        Self::Bind,
        Self::PostBind,
    ];

    /// Its key under `plugins`.
    pub fn key(self) -> &'static str {
        match self {
            Self::PreFilter => "preFilter",
            Self::Filter => "filter",
            Self::PostFilter => "postFilter",
            Self::PrePredict => "prePredict",
            Self::Predict => "predict",
            Self::PreScore => "preScore",
            Self::Score => "score",
            Self::PreAssign => "preAssign",
            Self::Assign => "assign",
            Self::Reserve => "reserve",
            Self::Permit => "permit",
            Self::PreBind => "preBind",
            Self::Bind => "bind",
            Self::PostBind => "postBind",
        }
    }

    fn defaults(self) -> Vec<Enabled> {
        let plain = |plugin| Enabled { plugin, weight: 0 };
        match self {
            Self::Filter => vec![plain(Plugin::TaintToleration)],
            Self::Predict => vec![plain(Plugin::Predictor)],
            Self::Score => vec![Enabled {
                plugin: Plugin::TaintToleration,
                weight: 3,
            }],
            Self::PreAssign => vec![plain(Plugin::DynamicAssigner)],
            Self::Assign => vec![plain(Plugin::StaticAssigner), plain(Plugin::DynamicAssigner)],
            Self::Bind => vec![plain(Plugin::DefaultBinder)],
            Self::PreFilter
            | Self::PostFilter
            | Self::PrePredict
            | Self::PreScore
            | Self::Reserve
            | Self::Permit
            | Self::PreBind
            | Self::PostBind => Vec::new(),
        }
    }
}

/// A plugin in use at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enabled {
    /// Which.
    pub plugin: Plugin,
    /// What its scores are multiplied by; only read at [`Point::Score`].
    pub weight: i64,
}

/// A scheduler name and its plugins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// The `schedulerName` of the Subscriptions it handles.
    pub scheduler_name: String,
    /// How predictors are asked.
    pub predictor: PredictorArgs,
    plugins: BTreeMap<Point, Vec<Enabled>>,
}

/// The arguments of the plugin Predictor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PredictorArgs {
    /// `timeoutSeconds`: how long one question may take. Default 20, 1 to 300.
    pub timeout: Duration,
    /// `addresses`: http or https URLs of predictors that are asked about every cluster, beside its own; the least
    /// answer counts. Default none.
    pub addresses: Vec<String>,
}

impl Default for PredictorArgs {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(20),
            addresses: Vec::new(),
        }
    }
}

impl Profile {
    /// The default plugins under a name.
    pub fn new(scheduler_name: impl Into<String>) -> Self {
        let plugins = Point::ALL
            .into_iter()
            .map(|point| (point, point.defaults()))
            .collect();
        Self {
            scheduler_name: scheduler_name.into(),
            predictor: PredictorArgs::default(),
            plugins,
        }
    }

    /// The plugins at a point, in their order.
    pub fn enabled(&self, point: Point) -> impl Iterator<Item = &Enabled> {
        self.plugins.get(&point).into_iter().flatten()
    }
}

/// A checked configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    profiles: Vec<Profile>,
    /// `percentageOfClustersToScore`, 0 to 100; 0 means that their number decides.
    pub percentage_to_score: u8,
    /// `percentageOfClustersToTolerate`, 0 to 100, default 10.
    pub percentage_to_tolerate: u8,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            profiles: vec![Profile::new("default")],
            percentage_to_score: 0,
            percentage_to_tolerate: 10,
        }
    }
}

/// One fault of a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct ConfigError {
    /// The path of the field.
    pub field: String,
    /// What is wrong.
    pub problem: String,
}

impl Config {
    /// The profile for a scheduler name.
    pub fn profile(&self, scheduler_name: &str) -> Option<&Profile> {
        self.profiles
            .iter()
            .find(|profile| profile.scheduler_name == scheduler_name)
    }

    /// All profiles.
    pub fn profiles(&self) -> impl Iterator<Item = &Profile> {
        self.profiles.iter()
    }

    /// From the parsed file.
    ///
    /// # Errors
    /// Every fault in it.
    pub fn parse(file: &Value) -> Result<Self, Vec<ConfigError>> {
        let mut errors = Vec::new();
        if !file.is_object() && !file.is_null() {
            return Err(vec![fault("", "must be a mapping")]);
        }
        let mut names = BTreeSet::new();
        let mut profiles = Vec::new();
        for (index, value) in file["profiles"].as_array().into_iter().flatten().enumerate() {
            let path = format!("profiles[{index}]");
            let name = value["schedulerName"].as_str().unwrap_or_default();
            if name.is_empty() {
                errors.push(fault(format!("{path}.schedulerName"), "must not be empty"));
            } else if !names.insert(name.to_owned()) {
                errors.push(fault(
                    format!("{path}.schedulerName"),
                    format!("\"{name}\" is used twice"),
                ));
            }
            let mut profile = profile(name, &value["plugins"], &path, &mut errors);
            profile.predictor = plugin_config(&value["pluginConfig"], &path, &mut errors);
            profiles.push(profile);
        }
        if profiles.is_empty() {
            profiles.push(Profile::new("default"));
        }
        let percentage_to_score = percentage(file, "percentageOfClustersToScore", 0, &mut errors);
        let percentage_to_tolerate = percentage(file, "percentageOfClustersToTolerate", 10, &mut errors);
        if errors.is_empty() {
            Ok(Self {
                profiles,
                percentage_to_score,
                percentage_to_tolerate,
            })
        } else {
            Err(errors)
        }
    }
}

fn fault(field: impl Into<String>, problem: impl Into<String>) -> ConfigError {
    ConfigError {
        field: field.into(),
        problem: problem.into(),
    }
}

/// A percentage under its name or, as the peers' parser wants it, the same in lower case.
fn percentage(file: &Value, name: &str, default: u8, errors: &mut Vec<ConfigError>) -> u8 {
    let value = if file[name].is_null() {
        &file[name.to_lowercase()]
    } else {
        &file[name]
    };
    if value.is_null() {
        return default;
    }
    match value.as_u64().and_then(|n| u8::try_from(n).ok()) {
        Some(n) if n <= 100 => n,
        Some(_) | None => {
            errors.push(fault(
                name,
                format!("{value} is not a whole number from 0 to 100"),
            ));
            default
        }
    }
}

fn profile(name: &str, sets: &Value, path: &str, errors: &mut Vec<ConfigError>) -> Profile {
    let mut profile = Profile::new(name);
    for (key, _) in sets.as_object().into_iter().flatten() {
        if !Point::ALL.iter().any(|point| point.key() == key) {
            errors.push(fault(format!("{path}.plugins.{key}"), "no such extension point"));
        }
    }
    for point in Point::ALL {
        let path = format!("{path}.plugins.{}", point.key());
        let plugins = profile.plugins.entry(point).or_default();
        merge(point, plugins, &sets[point.key()], &path, errors);
        if point == Point::Bind && plugins.is_empty() {
            errors.push(fault(path.clone(), "at least one plugin is needed"));
        }
        for enabled in plugins
            .iter()
            .filter(|enabled| point == Point::Score && enabled.weight < 1)
        {
            errors.push(fault(
                path.clone(),
                format!("{} needs a weight of at least 1", enabled.plugin),
            ));
        }
    }
    profile
}

/// Reads `pluginConfig`. Only the Predictor takes arguments; those of the others must be empty.
fn plugin_config(items: &Value, path: &str, errors: &mut Vec<ConfigError>) -> PredictorArgs {
    let mut predictor = PredictorArgs::default();
    for (index, item) in items.as_array().into_iter().flatten().enumerate() {
        let path = format!("{path}.pluginConfig[{index}]");
        let name = item["name"].as_str().unwrap_or_default();
        match Plugin::ALL.into_iter().find(|plugin| plugin.name() == name) {
            Some(Plugin::Predictor) => predictor = predictor_args(&item["args"], &path, errors),
            Some(
                plugin @ (Plugin::TaintToleration
                | Plugin::StaticAssigner
                | Plugin::DynamicAssigner
                | Plugin::DefaultBinder),
            ) => {
                for (key, _) in item["args"].as_object().into_iter().flatten() {
                    errors.push(fault(
                        format!("{path}.args.{key}"),
                        format!("{plugin} takes no such argument"),
                    ));
                }
            }
            None => errors.push(fault(
                format!("{path}.name"),
                format!("there is no plugin \"{name}\""),
            )),
        }
    }
    predictor
}

fn predictor_args(args: &Value, path: &str, errors: &mut Vec<ConfigError>) -> PredictorArgs {
    let mut predictor = PredictorArgs::default();
    for (key, value) in args.as_object().into_iter().flatten() {
        let path = format!("{path}.args.{key}");
        match key.as_str() {
            "timeoutSeconds" => match value.as_u64() {
                Some(seconds @ 1..=300) => predictor.timeout = Duration::from_secs(seconds),
                Some(_) | None => {
                    errors.push(fault(
                        path,
                        format!("{value} is not a whole number from 1 to 300"),
                    ));
                }
            },
            "addresses" => {
                for (index, address) in value.as_array().into_iter().flatten().enumerate() {
                    match address.as_str().map(|it| it.trim_end_matches('/')) {
                        Some(url) if url.starts_with("http://") || url.starts_with("https://") => {
                            predictor.addresses.push(url.to_owned());
                        }
                        Some(_) | None => {
                            errors.push(fault(
                                format!("{path}[{index}]"),
                                format!("{address} is no http or https URL"),
                            ));
                        }
                    }
                }
            }
            _ => errors.push(fault(path, "Predictor takes no such argument")),
        }
    }
    predictor
}

fn merge(point: Point, plugins: &mut Vec<Enabled>, set: &Value, path: &str, errors: &mut Vec<ConfigError>) {
    for item in set["disabled"].as_array().into_iter().flatten() {
        let name = item["name"].as_str().unwrap_or_default();
        if name == "*" {
            plugins.clear();
        } else {
            plugins.retain(|enabled| enabled.plugin.name() != name);
        }
    }
    for (index, item) in set["enabled"].as_array().into_iter().flatten().enumerate() {
        let path = format!("{path}.enabled[{index}]");
        let name = item["name"].as_str().unwrap_or_default();
        let Some(plugin) = Plugin::ALL.into_iter().find(|plugin| plugin.name() == name) else {
            errors.push(fault(
                format!("{path}.name"),
                format!("there is no plugin \"{name}\""),
            ));
            continue;
        };
        if !plugin.serves(point) {
            errors.push(fault(
                format!("{path}.name"),
                format!("{plugin} does not serve {}", point.key()),
            ));
            continue;
        }
        let weight = item["weight"].as_i64().unwrap_or(0);
        match plugins.iter_mut().find(|enabled| enabled.plugin == plugin) {
            Some(enabled) => enabled.weight = weight,
            None => plugins.push(Enabled { plugin, weight }),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors(file: &Value) -> Vec<String> {
        Config::parse(file)
            .unwrap_err()
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn has_the_peers_defaults() {
        let config = Config::parse(&Value::Null).unwrap();
        assert_eq!(config, Config::default());
        let profile = config.profile("default").unwrap();
        let assign: Vec<Plugin> = profile
            .enabled(Point::Assign)
            .map(|enabled| enabled.plugin)
            .collect();
        assert_eq!(assign, [Plugin::StaticAssigner, Plugin::DynamicAssigner]);
        assert_eq!(profile.enabled(Point::Score).next().unwrap().weight, 3);
        assert!(config.profile("").is_none());
    }

    #[test]
    fn takes_both_spellings_of_the_percentages() {
        let upper = json!({"percentageOfClustersToScore": 40, "percentageOfClustersToTolerate": 5});
        let lower = json!({"percentageofclusterstoscore": 40, "percentageofclusterstotolerate": 5});
        assert_eq!(Config::parse(&upper), Config::parse(&lower));
        assert_eq!(Config::parse(&upper).unwrap().percentage_to_score, 40);
        assert_eq!(
            errors(&json!({"percentageOfClustersToScore": 101})),
            ["percentageOfClustersToScore: 101 is not a whole number from 0 to 100"]
        );
    }

    #[test]
    fn names_every_fault() {
        let nameless = json!({"profiles": [{"schedulerName": ""}]});
        assert_eq!(
            errors(&nameless),
            ["profiles[0].schedulerName: must not be empty"],
            "Q13"
        );
        let many = json!({"profiles": [
            {"schedulerName": "a", "plugins": {
                "score": {"enabled": [{"name": "TaintToleration", "weight": 0}]},
                "bind": {"disabled": [{"name": "*"}]},
                "filter": {"enabled": [{"name": "Predictor"}, {"name": "Nobody"}]},
                "postAssign": {},
            }},
            {"schedulerName": "a"},
        ]});
        assert_eq!(
            errors(&many),
            [
                "profiles[0].plugins.postAssign: no such extension point",
                "profiles[0].plugins.filter.enabled[0].name: Predictor does not serve filter",
                "profiles[0].plugins.filter.enabled[1].name: there is no plugin \"Nobody\"",
                "profiles[0].plugins.score: TaintToleration needs a weight of at least 1",
                "profiles[0].plugins.bind: at least one plugin is needed",
                "profiles[1].schedulerName: \"a\" is used twice",
            ]
        );
    }

    #[test]
    fn reads_the_plugins_arguments() {
        let file = |args: Value| json!({"profiles": [{"schedulerName": "a", "pluginConfig": [{"name": "Predictor", "args": args}]}]});
        let read = |args: Value| {
            Config::parse(&file(args))
                .unwrap()
                .profile("a")
                .unwrap()
                .predictor
                .clone()
        };
        assert_eq!(read(json!({})), PredictorArgs::default());
        let args = read(json!({"timeoutSeconds": 5, "addresses": ["http://predictor:8080/"]}));
        assert_eq!(args.timeout, Duration::from_secs(5));
        assert_eq!(args.addresses, ["http://predictor:8080"]);
        assert_eq!(
            errors(&file(json!({"timeoutSeconds": 0, "addresses": ["x"], "more": 1}))),
            [
                "profiles[0].pluginConfig[0].args.addresses[0]: \"x\" is no http or https URL",
                "profiles[0].pluginConfig[0].args.more: Predictor takes no such argument",
                "profiles[0].pluginConfig[0].args.timeoutSeconds: 0 is not a whole number from 1 to 300",
            ]
        );
        let others = json!({"profiles": [{"schedulerName": "a", "pluginConfig": [
            {"name": "DefaultBinder", "args": {"x": 1}}, {"name": "Nobody"}, {"name": "TaintToleration"},
        ]}]});
        assert_eq!(
            errors(&others),
            [
                "profiles[0].pluginConfig[0].args.x: DefaultBinder takes no such argument",
                "profiles[0].pluginConfig[1].name: there is no plugin \"Nobody\"",
            ]
        );
    }

    #[test]
    fn merges_with_the_defaults() {
        let config = Config::parse(&json!({"profiles": [{"schedulerName": "mine", "plugins": {
            "assign": {"disabled": [{"name": "StaticAssigner"}], "enabled": [{"name": "StaticAssigner"}]},
            "score": {"enabled": [{"name": "TaintToleration", "weight": 9}]},
            "filter": {"disabled": [{"name": "*"}]},
        }}]}))
        .unwrap();
        let profile = config.profile("mine").unwrap();
        let names = |point| {
            profile
                .enabled(point)
                .map(|enabled| enabled.plugin.name())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(Point::Assign), ["DynamicAssigner", "StaticAssigner"]);
        assert_eq!(names(Point::Filter), [] as [&str; 0]);
        assert_eq!(profile.enabled(Point::Score).next().unwrap().weight, 9);
    }
}
