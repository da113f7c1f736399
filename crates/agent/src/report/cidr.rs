//! The addresses of pods and services, found in the arguments of the control plane's pods.

use machinery::meta;
use serde_json::Value;

/// The addresses that were found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cidrs {
    /// Of pods.
    pub cluster: Option<String>,
    /// Of services.
    pub service: Option<String>,
}

/// Looks through the pods of the control plane. Services: the API server's argument, then the controller manager's;
/// pods: the controller manager's, then kube-proxy's.
pub fn find<'a>(pods: impl IntoIterator<Item = &'a Value> + Clone) -> Cidrs {
    let of = |component: &str, flag: &str| {
        pods.clone()
            .into_iter()
            .filter(|pod| is_component(pod, component))
            .find_map(|pod| argument(pod, flag))
    };
    Cidrs {
        cluster: of("kube-controller-manager", "--cluster-cidr")
            .or_else(|| of("kube-proxy", "--cluster-cidr")),
        service: of("kube-apiserver", "--service-cluster-ip-range")
            .or_else(|| of("kube-controller-manager", "--service-cluster-ip-range")),
    }
}

fn is_component(pod: &Value, component: &str) -> bool {
    ["component", "app.kubernetes.io/component", "k8s-app"]
        .into_iter()
        .any(|key| meta::label(pod, key) == Some(component))
}

/// The value of `--flag=value` or `--flag value` among a pod's commands and arguments.
fn argument(pod: &Value, flag: &str) -> Option<String> {
    let containers = pod["spec"]["containers"].as_array()?;
    for container in containers {
        let words: Vec<&str> = ["command", "args"]
            .into_iter()
            .filter_map(|field| container[field].as_array())
            .flatten()
            .filter_map(Value::as_str)
            // A shell's one long word holds many.
            .flat_map(str::split_whitespace)
            .collect();
        for (index, word) in words.iter().enumerate() {
            let value = match word.strip_prefix(flag) {
                Some("") => words.get(index + 1).copied(),
                Some(rest) => rest.strip_prefix('='),
                None => None,
            };
            if let Some(value) = value
                .map(|value| value.trim_matches(['"', '\'']))
                .filter(|value| value.contains('/'))
            {
                return Some(value.to_owned());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(label: &str, component: &str, field: &str, words: &[&str]) -> Value {
        json!({"metadata": {"labels": {label: component}}, "spec": {"containers": [{field: words}]}})
    }

    #[test]
    fn i1_finds_the_pods_addresses_in_both_layouts() {
        let manager = pod(
            "component",
            "kube-controller-manager",
            "command",
            &["kube-controller-manager", "--cluster-cidr=2.0.0.0/8"],
        );
        assert_eq!(find([&manager]).cluster.as_deref(), Some("2.0.0.0/8"));
        let proxy = pod(
            "k8s-app",
            "kube-proxy",
            "args",
            &["kube-proxy", "--cluster-cidr", "2.0.0.0/8"],
        );
        assert_eq!(find([&proxy]).cluster.as_deref(), Some("2.0.0.0/8"));
        let shell = pod(
            "app.kubernetes.io/component",
            "kube-controller-manager",
            "args",
            &["exec kube-controller-manager --cluster-cidr=2.0.0.0/8 --v=2"],
        );
        assert_eq!(find([&shell]).cluster.as_deref(), Some("2.0.0.0/8"));
        let other = pod("k8s-app", "kube-proxy", "args", &["--cluster-cidr=3.0.0.0/8"]);
        for both in [[&manager, &other], [&other, &manager]] {
            assert_eq!(
                find(both).cluster.as_deref(),
                Some("2.0.0.0/8"),
                "the manager knows best"
            );
        }
    }

    #[test]
    fn the_api_server_knows_best_about_services() {
        let server = pod(
            "component",
            "kube-apiserver",
            "command",
            &["x", "--service-cluster-ip-range=10.96.0.0/12"],
        );
        let manager = pod(
            "component",
            "kube-controller-manager",
            "command",
            &["x", "--service-cluster-ip-range=10.0.0.0/12"],
        );
        assert_eq!(find([&manager, &server]).service.as_deref(), Some("10.96.0.0/12"));
        assert_eq!(find([&manager]).service.as_deref(), Some("10.0.0.0/12"));
        assert_eq!(
            find([&pod("app", "web", "args", &["--cluster-cidr=1.0.0.0/8"])]),
            Cidrs::default()
        );
    }
}
