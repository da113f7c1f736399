//! The options of what stands behind a pod: its logs and ports.

use jiff::Timestamp;
use machinery::ApiError;
use serde_json::Value;

use crate::problems::Problems;
use crate::query::Query;

/// `PodLogOptions`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// The container, empty for the only one.
    pub container: String,
    /// Whether the log goes on as it is written.
    pub follow: bool,
    /// Whether it is the log of the container before this one.
    pub previous: bool,
    /// Only lines that are not older than so many seconds.
    pub since_seconds: Option<i64>,
    /// Only lines since then; the zero time is none.
    pub since: Option<Timestamp>,
    /// Whether lines begin with their time.
    pub timestamps: bool,
    /// Only so many of the last lines there are.
    pub tail_lines: Option<i64>,
    /// Only so many bytes.
    pub limit_bytes: Option<i64>,
}

impl LogOptions {
    /// From the query of a request for a pod's log.
    ///
    /// # Errors
    /// 400 for a number or time that cannot be read, 422 for values out of bounds or that do not go together.
    pub fn of_query(pod: &str, query: &Query) -> Result<Self, ApiError> {
        let since = query.get("sinceTime");
        let options = Self {
            container: query.get("container").unwrap_or_default().to_owned(),
            follow: query.is_on("follow"),
            previous: query.is_on("previous"),
            since_seconds: query.number("sinceSeconds")?,
            since: since.map(time).transpose()?.flatten(),
            timestamps: query.is_on("timestamps"),
            tail_lines: query.number("tailLines")?,
            limit_bytes: query.number("limitBytes")?,
        };
        let mut problems = Problems::default();
        let mut at_least = |field: &str, value: Option<i64>, least: i64, why: &str| {
            if let Some(value) = value.filter(|value| *value < least) {
                problems.invalid(field, &Value::from(value), why);
            }
        };
        at_least(
            "tailLines",
            options.tail_lines,
            0,
            "must be greater than or equal to 0",
        );
        at_least("limitBytes", options.limit_bytes, 1, "must be greater than 0");
        if since.is_none() {
            at_least("sinceSeconds", options.since_seconds, 1, "must be greater than 0");
        } else if options.since_seconds.is_some() {
            // It is about no field alone: Kubernetes calls that place so.
            let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            problems.forbidden("[]", why);
        }
        if query.get("stream").is_some() {
            problems.forbidden("stream", "may not be specified");
        }
        let causes = problems.into_causes();
        if causes.is_empty() {
            Ok(options)
        } else {
            Err(ApiError::invalid("", "PodLogOptions", pod, causes))
        }
    }
}

fn time(text: &str) -> Result<Option<Timestamp>, ApiError> {
    if matches!(text, "" | "null") {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| {
        ApiError::bad_request(format!(
            "parsing time {} as \"2006-01-02T15:04:05Z07:00\": it is no such time",
            Value::from(text)
        ))
    })
}

/// `PodPortForwardOptions`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForwardOptions {
    /// The ports that the client says it will use.
    pub ports: Vec<u16>,
}

impl ForwardOptions {
    /// From the query of a request to forward ports: lists of them, parted by commas.
    ///
    /// # Errors
    /// 400 for what is no port.
    pub fn of_query(query: &Query) -> Result<Self, ApiError> {
        let all = query.all("ports").flat_map(|list| list.split(','));
        let port = |text: &str| {
            let digits = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|_| digits).ok_or_else(|| {
                let why = if digits && !text.is_empty() {
                    "value out of range"
                } else {
                    "invalid syntax"
                };
                let text = Value::from(text);
                ApiError::bad_request(format!(
                    "cannot convert to []int32: strconv.ParseUint: parsing {text}: {why}"
                ))
            })
        };
        Ok(Self {
            ports: all.map(port).collect::<Result<_, _>>()?,
        })
    }
}
