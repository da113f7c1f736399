//! Where a request goes on the hub's shadow API instead of on the parent itself: what `kubectl clusternet` (and our
//! own commands) do to the URLs that kubectl makes.

const SHADOW: &str = "/apis/shadow/v1alpha1";

/// Rewrites the path (and query, kept as it is) of a request about objects. `prefix` is the path that the server's own
/// URL carries, usually empty. Discovery, groups of ours, and what is no API path stay unchanged; so does the shadow
/// API itself.
pub fn rewrite(prefix: &str, path_and_query: &str) -> String {
    let unchanged = || path_and_query.to_owned();
    let (path, query) = match path_and_query.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (path_and_query, None),
    };
    let prefix = prefix.trim_end_matches('/');
    let Some(rest) = path.strip_prefix(prefix) else {
        return unchanged();
    };
    let rest = if let Some(rest) = rest.strip_prefix("/api/") {
        after_version(rest)
    } else if let Some((group, rest)) = rest.strip_prefix("/apis/").and_then(|rest| rest.split_once('/')) {
        if group == "shadow" || group.ends_with(".clusternet.io") {
            return unchanged();
        }
        after_version(rest)
    } else {
        None
    };
    let Some(rest) = rest else { return unchanged() };
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    format!("{prefix}{SHADOW}/{rest}{query}")
}

/// What follows the version, which is one path part and never looked for further along.
fn after_version(rest: &str) -> Option<&str> {
    rest.split_once('/')
        .map(|(_, rest)| rest)
        .filter(|rest| !rest.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(prefix: &str, from: &str, to: &str) {
        assert_eq!(rewrite(prefix, from), to, "{from}");
    }

    #[test]
    fn rewrites_what_is_about_objects() {
        let proxy = "/apis/proxies.clusternet.io/v1alpha1/sockets/x/proxy/direct/api/v1/pods";
        for (row, prefix, from, to) in [
            (
                "U1",
                "",
                "/api/v1/namespaces?watch=true",
                "/apis/shadow/v1alpha1/namespaces?watch=true",
            ),
            (
                "U2",
                "",
                "/api/v1/namespaces/abc/serviceaccounts/abc",
                "/apis/shadow/v1alpha1/namespaces/abc/serviceaccounts/abc",
            ),
            (
                "U3",
                "",
                "/apis/far/v2/namespaces/abc/foos/abc?resourceVersion=0&watch=true",
                "/apis/shadow/v1alpha1/namespaces/abc/foos/abc?resourceVersion=0&watch=true",
            ),
            ("U4", "", "/apis/far/vbar/foos", "/apis/shadow/v1alpha1/foos"),
            (
                "U5",
                "",
                "/apis/far.clusternet.io/v2/foos/abc",
                "/apis/far.clusternet.io/v2/foos/abc",
            ),
            ("U6", "/abc", "/abc/api/v1/foos", "/abc/apis/shadow/v1alpha1/foos"),
            ("U7", "", proxy, proxy),
        ] {
            assert_eq!(rewrite(prefix, from), to, "{row}");
        }
    }

    #[test]
    fn d2_resource_names_that_start_with_v() {
        check(
            "",
            "/apis/far/v1bar/namespaces/abc/virtualmachines/abc",
            "/apis/shadow/v1alpha1/namespaces/abc/virtualmachines/abc",
        );
        check(
            "",
            "/apis/demo.io/v1/namespaces/vault/volumes/v2",
            "/apis/shadow/v1alpha1/namespaces/vault/volumes/v2",
        );
    }

    #[test]
    fn discovery_and_the_rest_stay() {
        for path in [
            "/api",
            "/apis",
            "/api/v1",
            "/apis/apps",
            "/apis/apps/v1",
            "/apis/apps/v1/",
            "/version",
            "/",
        ] {
            check("", path, path);
        }
        check("", "/apis/shadow/v1alpha1/pods", "/apis/shadow/v1alpha1/pods");
        check("/abc", "/api/v1/pods", "/api/v1/pods");
    }
}
