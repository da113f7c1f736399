//! Getting and listing templates.

use api::labels::{CONFIG_GROUP, CONFIG_KIND, CONFIG_NAME, CONFIG_NAMESPACE};
use apiserver::Body;
use apiserver::options::ListOptions;
use http::{Response, StatusCode};
use machinery::selector::FieldOp;
use machinery::{ApiError, ApiResource};
use serde_json::Value;

use super::parent::Parameters;
use super::template::{label_value, to_object};
use super::{Call, Shadow};

impl Shadow {
    pub(super) async fn get(&self, call: &Call<'_>) -> Result<Response<Body>, ApiError> {
        apiserver::options::get_revision(&call.query)?;
        let object = to_object(&self.manifest(call).await?);
        call.object(StatusCode::OK, object)
    }

    pub(super) async fn list(
        &self,
        call: &Call<'_>,
        options: &ListOptions,
    ) -> Result<Response<Body>, ApiError> {
        let list = self.read_list(call, options).await?;
        let items: Vec<Value> = items(&list).iter().map(to_object).collect();
        call.list(items, &list["metadata"])
    }

    /// The Manifests of one page, or of a list at a revision, as the client asks.
    pub(super) async fn read_list(&self, call: &Call<'_>, options: &ListOptions) -> Result<Value, ApiError> {
        let parameters = ["limit", "continue", "resourceVersion", "resourceVersionMatch"]
            .into_iter()
            .fold(Parameters::default(), |all, key| {
                all.add(key, call.query.get(key).unwrap_or_default())
            })
            .add("labelSelector", &selector(call, options)?);
        self.parent
            .list_manifests(parameters)
            .await
            .map_err(|error| call.translate(error, ""))
    }

    /// All Manifests that a client selects, as they are now.
    pub(super) async fn read_all(&self, call: &Call<'_>, options: &ListOptions) -> Result<Value, ApiError> {
        let parameters = Parameters::default().add("labelSelector", &selector(call, options)?);
        self.parent
            .list_manifests(parameters)
            .await
            .map_err(|error| call.translate(error, ""))
    }
}

pub(super) fn items(list: &Value) -> &[Value] {
    list["items"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The label selector over Manifests that says what a request selects.
pub(super) fn selector(call: &Call<'_>, options: &ListOptions) -> Result<String, ApiError> {
    select(call.resource(), call.namespace(), call.name(), options)
}

fn select(
    resource: &ApiResource,
    namespace: &str,
    name: &str,
    options: &ListOptions,
) -> Result<String, ApiError> {
    let mut terms = vec![
        format!("{CONFIG_KIND}={}", resource.kind),
        format!("{CONFIG_GROUP}={}", resource.group),
    ];
    if !namespace.is_empty() {
        terms.push(format!("{CONFIG_NAMESPACE}={}", label_value(namespace)));
    }
    if !name.is_empty() {
        terms.push(format!("{CONFIG_NAME}={}", label_value(name)));
    }
    for requirement in options.fields.requirements() {
        let label = match requirement.path.as_str() {
            "metadata.name" => CONFIG_NAME,
            "metadata.namespace" => CONFIG_NAMESPACE,
            other => {
                return Err(ApiError::bad_request(format!(
                    "field label not supported: {other}: templates select metadata.name and metadata.namespace"
                )));
            }
        };
        let op = match requirement.op {
            FieldOp::Eq => "=",
            FieldOp::NotEq => "!=",
        };
        terms.push(format!("{label}{op}{}", label_value(&requirement.value)));
    }
    if !options.labels.is_everything() {
        terms.push(options.labels.to_string());
    }
    Ok(terms.join(","))
}

#[cfg(test)]
mod tests {
    use apiserver::query::Query;

    use super::*;

    #[test]
    fn a_selection_names_kind_and_group() {
        let deployments = ApiResource::namespaced("apps", "v1", "deployments", "Deployment");
        let select = |namespace: &str, query: &str| {
            let options = ListOptions::of_query(false, &Query::parse(query))?;
            select(&deployments, namespace, "", &options)
        };
        let check = |namespace: &str, query: &str, rest: &str| {
            let expected = format!(
                "apps.clusternet.io/config.kind=Deployment,apps.clusternet.io/config.group=apps{rest}"
            );
            assert_eq!(select(namespace, query), Ok(expected));
        };
        check("", "", "");
        check("shop", "", ",apps.clusternet.io/config.namespace=shop");
        check("", "labelSelector=a in (b,c),!d", ",a in (b,c),!d");
        check(
            "",
            "fieldSelector=metadata.name=web",
            ",apps.clusternet.io/config.name=web",
        );
        check(
            "",
            "fieldSelector=metadata.namespace!=shop",
            ",apps.clusternet.io/config.namespace!=shop",
        );
        assert_eq!(select("", "fieldSelector=spec.x=1").unwrap_err().code, 400);
    }
}
