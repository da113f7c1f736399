//! What a request asks for, read from its method and path alone.

use http::Method;
use machinery::names::path_segment_problems;
use machinery::selector::FieldSelector;
use smol_str::SmolStr;

use crate::query::{Query, decode};

/// A request's meaning, as authorization and routing see it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// Whether it is about objects: `/api/VERSION/…` or `/apis/GROUP/VERSION/…`.
    pub is_resource_request: bool,
    /// The path as sent.
    pub path: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`; the lower-case method for
    /// paths that are no resources.
    pub verb: SmolStr,
    /// The API group, empty for core.
    pub group: SmolStr,
    /// The API version.
    pub version: SmolStr,
    /// The namespace, empty for none (and for all).
    pub namespace: SmolStr,
    /// The plural resource name.
    pub resource: SmolStr,
    /// The subresource, empty for none.
    pub subresource: SmolStr,
    /// The object's name, empty for collections.
    pub name: SmolStr,
    /// The only name that a list's or watch's field selector lets through, empty for any: rights to one object are
    /// rights to list and watch it so.
    pub selected: SmolStr,
    /// What follows the subresource, for proxies: decoded path segments joined by `/`, without a leading one.
    pub rest: String,
}

impl RequestInfo {
    /// Reads a request's method, path and query.
    pub fn parse(method: &Method, path: &str, query: &Query) -> Self {
        let mut info = Self {
            path: path.to_owned(),
            verb: SmolStr::new(method.as_str().to_ascii_lowercase()),
            ..Self::default()
        };
        let segments: Vec<String> = path
            .trim_matches('/')
            .split('/')
            .map(|segment| decode(segment, false))
            .collect();
        let mut parts: &[String] = &segments;
        match parts.first().map(String::as_str) {
            Some("api") if parts.len() > 2 => {
                info.version = SmolStr::new(&parts[1]);
                parts = &parts[2..];
            }
            Some("apis") if parts.len() > 3 => {
                info.group = SmolStr::new(&parts[1]);
                info.version = SmolStr::new(&parts[2]);
                parts = &parts[3..];
            }
            _ => return info,
        }
        info.is_resource_request = true;
        info.verb = SmolStr::new_static(match *method {
            Method::POST => "create",
            Method::GET | Method::HEAD => "get",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ => "",
        });
        let old_watch = parts.len() > 1 && parts[0] == "watch";
        if old_watch {
            parts = &parts[1..];
        }
        if parts[0] == "namespaces" && parts.len() > 1 {
            info.namespace = SmolStr::new(&parts[1]);
            if parts.len() > 2 && !matches!(parts[2].as_str(), "status" | "finalize") {
                parts = &parts[2..];
            }
        }
        let part = |index: usize| parts.get(index).map(SmolStr::new).unwrap_or_default();
        info.resource = part(0);
        info.name = part(1);
        info.subresource = part(2);
        info.rest = parts.get(3..).unwrap_or_default().join("/");
        if info.name.is_empty() && info.verb == "get" {
            info.verb = SmolStr::new_static(if query.is_on("watch") { "watch" } else { "list" });
        } else if info.name.is_empty() && info.verb == "delete" {
            info.verb = SmolStr::new_static("deletecollection");
        }
        if info.name.is_empty() && matches!(info.verb.as_str(), "list" | "watch") {
            info.selected = selected(query);
        }
        if old_watch && matches!(info.verb.as_str(), "get" | "list") {
            info.verb = SmolStr::new_static("watch");
        }
        info
    }

    /// The resource with its subresource, as RBAC rules write it: `pods/log`.
    pub fn qualified_resource(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.to_string()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }
}

/// The one name that a query's field selector lets through, if it can be a name.
fn selected(query: &Query) -> SmolStr {
    let selector = query
        .get("fieldSelector")
        .and_then(|text| FieldSelector::parse(text).ok());
    selector
        .as_ref()
        .and_then(FieldSelector::exact_name)
        .filter(|name| path_segment_problems(name).is_empty())
        .map(SmolStr::new)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: &str, uri: &str, want: &str) {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let info = RequestInfo::parse(
            &Method::from_bytes(method.as_bytes()).unwrap(),
            path,
            &Query::parse(query),
        );
        let got = if info.is_resource_request {
            format!(
                "{} {}/{} {} ns={} name={} rest={}",
                info.verb,
                info.group,
                info.version,
                info.qualified_resource(),
                info.namespace,
                info.name,
                info.rest
            )
        } else {
            format!("{} path", info.verb)
        };
        assert_eq!(got, want, "{method} {uri}");
    }

    #[test]
    fn a_selector_may_leave_one_name() {
        for (method, uri, selected) in [
            ("GET", "/api/v1/pods?fieldSelector=metadata.name%3Da", "a"),
            ("GET", "/api/v1/pods?fieldSelector=metadata.name==a&watch=1", "a"),
            (
                "GET",
                "/api/v1/pods?fieldSelector=spec.nodeName%3Dn,metadata.name%3Da",
                "a",
            ),
            ("GET", "/api/v1/watch/pods?fieldSelector=metadata.name%3Da", "a"),
            ("GET", "/api/v1/pods", ""),
            ("GET", "/api/v1/pods?fieldSelector=metadata.name!%3Da", ""),
            ("GET", "/api/v1/pods?fieldSelector=metadata.name%3Da%252Fb", ""),
            ("GET", "/api/v1/pods?fieldSelector=metadata.name%3D..", ""),
            ("GET", "/api/v1/pods?fieldSelector=,", ""),
            (
                "GET",
                "/api/v1/namespaces/x/pods/b?fieldSelector=metadata.name%3Da",
                "",
            ),
            ("DELETE", "/api/v1/pods?fieldSelector=metadata.name%3Da", ""),
        ] {
            let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let info = RequestInfo::parse(&method, path, &Query::parse(query));
            assert_eq!(info.selected, selected, "{method} {uri}");
        }
    }

    #[test]
    fn reads_methods_and_paths() {
        check("GET", "/", "get path");
        check("GET", "/api", "get path");
        check("GET", "/api/v1", "get path");
        check("GET", "/apis/apps/v1", "get path");
        check("GET", "/apis/apps/v1/", "get path");
        check("POST", "/version", "post path");
        check("GET", "/api/v1/pods", "list /v1 pods ns= name= rest=");
        check("GET", "/api/v1/pods?watch=true", "watch /v1 pods ns= name= rest=");
        check("GET", "/api/v1/pods?watch=0", "list /v1 pods ns= name= rest=");
        check("GET", "/api/v1/watch/pods", "watch /v1 pods ns= name= rest=");
        check("GET", "/api/v1/namespaces", "list /v1 namespaces ns= name= rest=");
        check(
            "GET",
            "/api/v1/namespaces/a",
            "get /v1 namespaces ns=a name=a rest=",
        );
        check(
            "PUT",
            "/api/v1/namespaces/a/finalize",
            "update /v1 namespaces/finalize ns=a name=a rest=",
        );
        check(
            "POST",
            "/apis/apps/v1/namespaces/a/deployments",
            "create apps/v1 deployments ns=a name= rest=",
        );
        check(
            "PATCH",
            "/apis/apps/v1/namespaces/a/deployments/b/status",
            "patch apps/v1 deployments/status ns=a name=b rest=",
        );
        check(
            "DELETE",
            "/apis/apps/v1/namespaces/a/deployments",
            "deletecollection apps/v1 deployments ns=a name= rest=",
        );
        check(
            "GET",
            "/api/v1/namespaces/a/pods/b/proxy/x/y%20z",
            "get /v1 pods/proxy ns=a name=b rest=x/y z",
        );
        check("OPTIONS", "/api/v1/pods/x", " /v1 pods ns= name=x rest=");
    }
}
