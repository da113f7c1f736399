//! Which form an answer takes: the `Accept` header against what can be spoken.

use std::borrow::Cow;

use machinery::{ApiError, Reason};
use serde_json::{Value, json};

/// How bytes are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// Kubernetes' protobuf.
    Protobuf,
}

impl Encoding {
    /// The `Content-Type` of a whole answer.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    /// The `Content-Type` of a stream of watch events.
    pub fn stream_content_type(self) -> &'static str {
        match self {
            Self::Json | Self::Yaml => "application/json",
            Self::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        }
    }
}

/// What of an object is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// All of it.
    Object,
    /// `meta.k8s.io/v1 Table`.
    Table,
    /// `meta.k8s.io/v1 PartialObjectMetadata` (or its list).
    Metadata,
}

/// What an answer is to look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    /// How its bytes are written.
    pub encoding: Encoding,
    /// What of it is wanted.
    pub form: Form,
    /// Whether tables and metadata are wanted in `meta.k8s.io/v1beta1`, which is `v1` under another name.
    pub beta: bool,
    /// Whether metadata are wanted as those of a list.
    pub of_list: bool,
}

impl Accepted {
    /// Whether what is wanted can be had of a list, or of one object.
    ///
    /// # Errors
    /// 406 for a list's metadata of one object, and for one object's of a list.
    pub fn fits(self, is_list: bool) -> Result<(), ApiError> {
        if self.form != Form::Metadata || self.of_list == is_list {
            return Ok(());
        }
        let text = if is_list {
            "you requested PartialObjectMetadata, but the requested object is a list"
        } else {
            "you requested PartialObjectMetadataList, but the requested object is not a list"
        };
        Err(ApiError::new(Reason::NotAcceptable, text.to_owned()))
    }

    /// What is about to be written, in the version that is wanted of tables and metadata.
    pub fn in_version(self, value: &Value) -> Cow<'_, Value> {
        if !self.beta {
            return Cow::Borrowed(value);
        }
        let mut value = value.clone();
        rename(&mut value);
        for row in value["rows"].as_array_mut().into_iter().flatten() {
            row.get_mut("object").map(rename);
        }
        let items = value.get_mut("items").and_then(Value::as_array_mut);
        items.into_iter().flatten().for_each(rename);
        Cow::Owned(value)
    }
}

fn rename(value: &mut Value) {
    if value["apiVersion"] == "meta.k8s.io/v1" {
        value["apiVersion"] = json!("meta.k8s.io/v1beta1");
    }
}

impl Default for Accepted {
    fn default() -> Self {
        Self {
            encoding: Encoding::Json,
            form: Form::Object,
            beta: false,
            of_list: false,
        }
    }
}

/// What can be spoken at one place.
#[derive(Debug, Clone, Copy)]
pub struct Offer {
    /// Kubernetes' protobuf.
    pub protobuf: bool,
    /// Tables and metadata alone.
    pub forms: bool,
}

/// Chooses by an `Accept` header; an empty one takes JSON.
///
/// # Errors
/// 406 if nothing that is offered is accepted.
pub fn negotiate(accept: &str, offer: Offer) -> Result<Accepted, ApiError> {
    if accept.trim().is_empty() {
        return Ok(Accepted::default());
    }
    clauses(accept)
        .into_iter()
        .find_map(|clause| accept_clause(clause, offer))
        .ok_or_else(|| not_acceptable(offer))
}

/// Chooses one of some media types, whose first is for those who want none in particular.
///
/// # Errors
/// 406 if none of them is accepted.
pub(crate) fn media_type(accept: &str, offered: &[&'static str]) -> Result<&'static str, ApiError> {
    let first = offered.first().copied();
    if accept.trim().is_empty() {
        return first.ok_or_else(|| only(offered));
    }
    let find = |clause: &str| match clause.split(';').next().unwrap_or_default().trim() {
        "*/*" | "application/*" => first,
        media => offered
            .iter()
            .find(|one| one.eq_ignore_ascii_case(media))
            .copied(),
    };
    clauses(accept)
        .into_iter()
        .find_map(find)
        .ok_or_else(|| only(offered))
}

/// What a client takes, best first.
fn clauses(accept: &str) -> Vec<&str> {
    let mut clauses: Vec<(f32, &str)> = accept
        .split(',')
        .map(|clause| (quality(clause), clause.trim()))
        .filter(|(quality, _)| *quality > 0.0)
        .collect();
    clauses.sort_by(|a, b| b.0.total_cmp(&a.0));
    clauses.into_iter().map(|(_, clause)| clause).collect()
}

fn quality(clause: &str) -> f32 {
    parameters(clause)
        .find(|(key, _)| *key == "q")
        .and_then(|(_, value)| value.parse().ok())
        .unwrap_or(1.0)
}

fn parameters(clause: &str) -> impl Iterator<Item = (&str, &str)> {
    clause
        .split(';')
        .skip(1)
        .filter_map(|parameter| parameter.split_once('='))
        .map(|(key, value)| (key.trim(), value.trim().trim_matches('"')))
}

fn accept_clause(clause: &str, offer: Offer) -> Option<Accepted> {
    let media = clause.split(';').next().unwrap_or_default().trim();
    let encoding = match media.to_ascii_lowercase().as_str() {
        "application/json" | "*/*" | "application/*" => Encoding::Json,
        "application/yaml" | "text/yaml" => Encoding::Yaml,
        "application/vnd.kubernetes.protobuf" if offer.protobuf => Encoding::Protobuf,
        _ => return None,
    };
    let parameter = |wanted: &str| {
        parameters(clause)
            .find(|(key, _)| *key == wanted)
            .map(|(_, value)| value)
    };
    let form = match parameter("as") {
        None => Form::Object,
        Some(_) if !offer.forms || parameter("g") != Some("meta.k8s.io") => return None,
        Some("Table") => Form::Table,
        Some("PartialObjectMetadata" | "PartialObjectMetadataList") => Form::Metadata,
        Some(_) => return None,
    };
    let beta = match (form, parameter("v")) {
        (Form::Object, _) | (_, Some("v1")) => false,
        (_, Some("v1beta1")) => true,
        (_, _) => return None,
    };
    if (form == Form::Table || beta) && encoding == Encoding::Protobuf {
        return None;
    }
    Some(Accepted {
        encoding,
        form,
        beta,
        of_list: parameter("as") == Some("PartialObjectMetadataList"),
    })
}

fn not_acceptable(offer: Offer) -> ApiError {
    let mut accepted = vec!["application/json", "application/yaml"];
    if offer.protobuf {
        accepted.push("application/vnd.kubernetes.protobuf");
    }
    only(&accepted)
}

fn only(accepted: &[&str]) -> ApiError {
    ApiError::new(
        Reason::NotAcceptable,
        format!(
            "only the following media types are accepted: {}",
            accepted.join(", ")
        ),
    )
}

/// Whether an `Accept-Encoding` header takes gzip.
pub(crate) fn accepts_gzip(header: &str) -> bool {
    header.split(',').any(|clause| {
        let name = clause.split(';').next().unwrap_or_default().trim();
        name.eq_ignore_ascii_case("gzip") && quality(clause) > 0.0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chooses_what_clients_ask_for() {
        let all = Offer {
            protobuf: true,
            forms: true,
        };
        let custom = Offer {
            protobuf: false,
            forms: true,
        };
        let check = |accept: &str, offer: Offer| match negotiate(accept, offer) {
            Ok(accepted) => format!("{:?} {:?}", accepted.encoding, accepted.form),
            Err(error) => error.code.to_string(),
        };
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(check("", all), "Json Object");
        assert_eq!(check("*/*", all), "Json Object");
        assert_eq!(check(kubectl, all), "Json Table");
        assert_eq!(
            check(
                kubectl,
                Offer {
                    protobuf: true,
                    forms: false
                }
            ),
            "Json Object"
        );
        let go = "application/vnd.kubernetes.protobuf, application/json";
        assert_eq!(check(go, all), "Protobuf Object");
        assert_eq!(check(go, custom), "Json Object");
        assert_eq!(check("application/vnd.kubernetes.protobuf", custom), "406");
        assert_eq!(
            check("application/json;q=0.5,application/yaml", all),
            "Yaml Object"
        );
        assert_eq!(
            check(
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                all
            ),
            "Protobuf Metadata"
        );
        assert_eq!(check("text/html", all), "406");
        let media = |accept: &str| media_type(accept, &["application/json", "application/x@v1"]).ok();
        assert_eq!(media(""), Some("application/json"));
        assert_eq!(media("text/html, */*;q=0.1"), Some("application/json"));
        assert_eq!(
            media("application/json;q=0.5, application/x@v1"),
            Some("application/x@v1")
        );
        assert_eq!(media("text/html"), None);
        assert!(accepts_gzip("deflate, gzip;q=0.8") && !accepts_gzip("gzip;q=0") && !accepts_gzip(""));
    }
}
