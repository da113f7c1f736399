//! Objects as the rows of a `Table`, which is what `kubectl get` prints: columns by JSONPath (as in a
//! CustomResourceDefinition) or computed, and ages as people read them. The time is an argument.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use crate::jsonpath::{self, JsonPath};

/// What a column's cells are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CellType {
    /// Text.
    String,
    /// Whole numbers.
    Integer,
    /// Numbers.
    Number,
    /// True or false.
    Boolean,
    /// A time, shown as its age.
    Date,
}

impl CellType {
    /// The name in `columnDefinitions`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Date => "date",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [
            Self::String,
            Self::Integer,
            Self::Number,
            Self::Boolean,
            Self::Date,
        ]
        .into_iter()
        .find(|kind| kind.as_str() == text)
    }
}

/// Computes a cell from an object.
pub type Compute = fn(&Value, Timestamp) -> Value;

/// Where a cell comes from.
#[derive(Debug, Clone)]
pub enum Source {
    /// The first result of a path.
    Path(JsonPath),
    /// A function of the object and the time.
    Computed(Compute),
}

/// One column.
#[derive(Debug, Clone)]
pub struct Column {
    /// The heading.
    pub name: String,
    /// The cells' type.
    pub kind: CellType,
    /// An OpenAPI format; `name` marks the object's name.
    pub format: String,
    /// For people.
    pub description: String,
    /// Above 0: shown by `-o wide` only.
    pub priority: i64,
    /// Where cells come from.
    pub source: Source,
}

/// Why an `additionalPrinterColumns` entry cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ColumnError {
    /// The type is not one of the five.
    #[error(
        "unknown column type {0:?}: supported values: \"boolean\", \"date\", \"integer\", \"number\", \"string\""
    )]
    Type(String),
    /// The path is none.
    #[error("unrecognized column definition {path:?}")]
    Path {
        /// The path's text.
        path: String,
        /// What is wrong with it.
        source: jsonpath::JsonPathError,
    },
}

const NAME: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
const CREATED: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

impl Column {
    /// A column whose cells are computed.
    pub fn computed(name: &str, kind: CellType, compute: Compute) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            format: String::new(),
            description: String::new(),
            priority: 0,
            source: Source::Computed(compute),
        }
    }

    /// The first column of every table: the object's name.
    pub fn object_name() -> Self {
        Self {
            format: "name".to_owned(),
            description: NAME.to_owned(),
            ..Self::computed("Name", CellType::String, |object, _| {
                json!(crate::meta::name(object))
            })
        }
    }

    /// The object's age.
    pub fn age() -> Self {
        Self {
            description: CREATED.to_owned(),
            ..Self::computed("Age", CellType::Date, |object, now| {
                json!(age(crate::meta::creation_timestamp(object), now))
            })
        }
    }

    /// From an entry of `additionalPrinterColumns`.
    ///
    /// # Errors
    /// [`ColumnError`]
    pub fn from_crd(entry: &Value) -> Result<Self, ColumnError> {
        let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        let (kind, path) = (text("type"), text("jsonPath"));
        let compiled = JsonPath::parse(&path).map_err(|source| ColumnError::Path {
            path: path.clone(),
            source,
        })?;
        let mut description = text("description");
        if description.is_empty() {
            description = format!("Custom resource definition column (in JSONPath format): {path}");
        }
        Ok(Self {
            name: text("name"),
            kind: CellType::parse(&kind).ok_or(ColumnError::Type(kind))?,
            format: text("format"),
            description,
            priority: entry["priority"].as_i64().unwrap_or_default(),
            source: Source::Path(compiled),
        })
    }

    /// The columns of a custom resource: its name, then what its definition lists, else the age. Entries that cannot
    /// be used are left out.
    pub fn of_crd(entries: &[Value]) -> Vec<Self> {
        let mut columns = vec![Self::object_name()];
        if entries.is_empty() {
            columns.push(Self::age());
        }
        columns.extend(entries.iter().filter_map(|entry| Self::from_crd(entry).ok()));
        columns
    }

    /// The entry of `columnDefinitions`.
    pub fn definition(&self) -> Value {
        json!({
            "name": self.name, "type": self.kind.as_str(), "format": self.format,
            "description": self.description, "priority": self.priority,
        })
    }

    /// One cell; null where there is nothing to show.
    pub fn cell(&self, object: &Value, now: Timestamp) -> Value {
        match &self.source {
            Source::Computed(compute) => compute(object, now),
            Source::Path(path) => path
                .first(object)
                .map_or(Value::Null, |value| typed_cell(self.kind, value, now)),
        }
    }
}

fn typed_cell(kind: CellType, value: &Value, now: Timestamp) -> Value {
    if value.is_null() && kind != CellType::String {
        return Value::Null;
    }
    match kind {
        CellType::String => json!(jsonpath::to_text(value)),
        CellType::Integer => match (value.as_i64(), value.as_f64()) {
            (Some(whole), _) => json!(whole),
            (None, Some(float)) => json!(float as i64),
            (None, None) => Value::Null,
        },
        CellType::Number => value.as_f64().map_or(Value::Null, Value::from),
        CellType::Boolean => value.as_bool().map_or(Value::Null, Value::from),
        CellType::Date => match value {
            Value::String(text) => match text.parse::<Timestamp>() {
                Ok(_) => json!(age(text, now)),
                Err(_) => json!("<invalid>"),
            },
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                Value::Null
            }
        },
    }
}

/// What a row carries of its object (`?includeObject=`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IncludeObject {
    /// Nothing.
    None,
    /// A `PartialObjectMetadata`.
    #[default]
    Metadata,
    /// All of it.
    Object,
}

/// The object's metadata alone.
pub fn partial_metadata(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": object.get("metadata").cloned().unwrap_or_else(|| json!({})),
    })
}

/// One row.
pub fn row(columns: &[Column], object: &Value, include: IncludeObject, now: Timestamp) -> Value {
    let cells: Vec<Value> = columns.iter().map(|column| column.cell(object, now)).collect();
    let mut row = Map::from_iter([("cells".to_owned(), Value::Array(cells))]);
    match include {
        IncludeObject::None => {}
        IncludeObject::Metadata => {
            row.insert("object".to_owned(), partial_metadata(object));
        }
        IncludeObject::Object => {
            row.insert("object".to_owned(), object.clone());
        }
    }
    Value::Object(row)
}

/// A `Table` of `meta.k8s.io/v1`. `metadata` is the list's; without `headers` the column definitions are left out,
/// as in the later events of a watch.
pub fn table<'a>(
    columns: &[Column],
    objects: impl IntoIterator<Item = &'a Value>,
    metadata: Value,
    headers: bool,
    include: IncludeObject,
    now: Timestamp,
) -> Value {
    let rows: Vec<Value> = objects
        .into_iter()
        .map(|object| row(columns, object, include, now))
        .collect();
    let definitions: Value = if headers {
        columns.iter().map(Column::definition).collect()
    } else {
        Value::Null
    };
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        "columnDefinitions": definitions, "rows": rows,
    })
}

/// How long ago a timestamp was, as kubectl says it; `<unknown>` for an empty or unreadable one.
pub fn age(timestamp: &str, now: Timestamp) -> String {
    match timestamp.parse::<Timestamp>() {
        Ok(then) => human_duration(now.duration_since(then)),
        Err(_) => "<unknown>".to_owned(),
    }
}

/// A duration as kubectl says it, in two or three digits: `119s`, `2m3s`, `5h2m`, `3d4h`, `2y30d`.
pub fn human_duration(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    const HOUR: i64 = 3_600;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    let two = |large: i64, unit: char, small: i64, small_unit: char| {
        if small == 0 {
            format!("{large}{unit}")
        } else {
            format!("{large}{unit}{small}{small_unit}")
        }
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(seconds / 60, 'm', seconds % 60, 's'),
        600..10_800 => format!("{}m", seconds / 60),
        10_800..28_800 => two(seconds / HOUR, 'h', seconds / 60 % 60, 'm'),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => two(seconds / DAY, 'd', seconds / HOUR % 24, 'h'),
        _ if seconds < 2 * YEAR => format!("{}d", seconds / DAY),
        _ if seconds < 8 * YEAR => two(seconds / YEAR, 'y', seconds / DAY % 365, 'd'),
        _ => format!("{}y", seconds / YEAR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_durations_as_kubectl_does() {
        for (seconds, want) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (599, "9m59s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (11_000, "3h3m"),
            (28_800, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (180_000, "2d2h"),
            (691_200, "8d"),
            (63_072_000, "2y"),
            (66_000_000, "2y33d"),
            (252_288_000, "8y"),
        ] {
            assert_eq!(
                human_duration(SignedDuration::from_secs(seconds)),
                want,
                "{seconds}"
            );
        }
    }

    #[test]
    fn makes_the_table_of_a_custom_resource() {
        let entries = [
            json!({"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}),
            json!({"name": "N", "type": "integer", "jsonPath": ".spec.n", "priority": 1}),
            json!({"name": "Seen", "type": "date", "jsonPath": ".status.seen"}),
            json!({"name": "Labels", "type": "string", "jsonPath": ".metadata.labels"}),
            json!({"name": "Bad", "type": "date", "jsonPath": ".metadata.name"}),
            json!({"name": "On", "type": "boolean", "jsonPath": ".spec.on"}),
        ];
        let columns = Column::of_crd(&entries);
        let object = json!({"metadata": {"name": "x", "labels": {"a": "b"}}, "spec": {"n": 3},
            "status": {"conditions": [{"type": "Ready", "status": "True"}], "seen": "2024-01-01T00:00:00Z"}});
        let now: Timestamp = "2024-01-01T00:05:00Z".parse().expect("a time");
        let made = table(
            &columns,
            [&object],
            json!({"resourceVersion": "7"}),
            true,
            IncludeObject::None,
            now,
        );
        assert_eq!(
            made["rows"][0]["cells"],
            json!(["x", "True", 3, "5m", "{\"a\":\"b\"}", "<invalid>", null])
        );
        assert_eq!(made["columnDefinitions"][2]["priority"], json!(1));
        assert_eq!(Column::of_crd(&[])[1].cell(&object, now), json!("<unknown>"));
        let error = Column::from_crd(&json!({"type": "string", "jsonPath": ".a["})).expect_err("no path");
        assert_eq!(error.to_string(), "unrecognized column definition \".a[\"");
    }
}
