//! The built-in resources, as data.

use smol_str::SmolStr;

use super::{ALL_VERBS, ScalePaths, SchemaRef, Served, Subresource, api_version};
use crate::strategy;

/// One line a resource: group (`-` for core), version, plural, singular, kind, scope (`n`amespaced or `c`luster),
/// short names, categories, subresources (`-` for none).
const RESOURCES: &[&str] = &[
    "- v1 bindings binding Binding n - - -",
    "- v1 configmaps configmap ConfigMap n cm - -",
    "- v1 endpoints endpoints Endpoints n ep - -",
    "- v1 events event Event n ev - -",
    "- v1 limitranges limitrange LimitRange n limits - -",
    "- v1 namespaces namespace Namespace c ns - finalize,status",
    "- v1 nodes node Node c no - proxy,status",
    "- v1 persistentvolumeclaims persistentvolumeclaim PersistentVolumeClaim n pvc - status",
    "- v1 persistentvolumes persistentvolume PersistentVolume c pv - status",
    "- v1 pods pod Pod n po all attach,binding,ephemeralcontainers,eviction,exec,log,portforward,proxy,resize,status",
    "- v1 podtemplates podtemplate PodTemplate n - - -",
    "- v1 replicationcontrollers replicationcontroller ReplicationController n rc all scale,status",
    "- v1 resourcequotas resourcequota ResourceQuota n quota - status",
    "- v1 secrets secret Secret n - - -",
    "- v1 serviceaccounts serviceaccount ServiceAccount n sa - token",
    "- v1 services service Service n svc all proxy,status",
    "apiregistration.k8s.io v1 apiservices apiservice APIService c - api-extensions status",
    "apps v1 controllerrevisions controllerrevision ControllerRevision n - - -",
    "apps v1 daemonsets daemonset DaemonSet n ds all status",
    "apps v1 deployments deployment Deployment n deploy all scale,status",
    "apps v1 replicasets replicaset ReplicaSet n rs all scale,status",
    "apps v1 statefulsets statefulset StatefulSet n sts all scale,status",
    "events.k8s.io v1 events event Event n ev - -",
    "authentication.k8s.io v1 selfsubjectreviews selfsubjectreview SelfSubjectReview c - - -",
    "authentication.k8s.io v1 tokenreviews tokenreview TokenReview c - - -",
    "authorization.k8s.io v1 localsubjectaccessreviews localsubjectaccessreview LocalSubjectAccessReview n - - -",
    "authorization.k8s.io v1 selfsubjectaccessreviews selfsubjectaccessreview SelfSubjectAccessReview c - - -",
    "authorization.k8s.io v1 selfsubjectrulesreviews selfsubjectrulesreview SelfSubjectRulesReview c - - -",
    "authorization.k8s.io v1 subjectaccessreviews subjectaccessreview SubjectAccessReview c - - -",
    "autoscaling v2 horizontalpodautoscalers horizontalpodautoscaler HorizontalPodAutoscaler n hpa all status",
    "batch v1 cronjobs cronjob CronJob n cj all status",
    "batch v1 jobs job Job n - all status",
    "certificates.k8s.io v1 certificatesigningrequests certificatesigningrequest CertificateSigningRequest c csr - approval,status",
    "networking.k8s.io v1 ingressclasses ingressclass IngressClass c - - -",
    "networking.k8s.io v1 ingresses ingress Ingress n ing - status",
    "networking.k8s.io v1 ipaddresses ipaddress IPAddress c ip - -",
    "networking.k8s.io v1 networkpolicies networkpolicy NetworkPolicy n netpol - -",
    "networking.k8s.io v1 servicecidrs servicecidr ServiceCIDR c - - status",
    "policy v1 poddisruptionbudgets poddisruptionbudget PodDisruptionBudget n pdb - status",
    "rbac.authorization.k8s.io v1 clusterrolebindings clusterrolebinding ClusterRoleBinding c - - -",
    "rbac.authorization.k8s.io v1 clusterroles clusterrole ClusterRole c - - -",
    "rbac.authorization.k8s.io v1 rolebindings rolebinding RoleBinding n - - -",
    "rbac.authorization.k8s.io v1 roles role Role n - - -",
    "storage.k8s.io v1 csidrivers csidriver CSIDriver c - - -",
    "storage.k8s.io v1 csinodes csinode CSINode c - - -",
    "storage.k8s.io v1 csistoragecapacities csistoragecapacity CSIStorageCapacity n - - -",
    "storage.k8s.io v1 storageclasses storageclass StorageClass c sc - -",
    "storage.k8s.io v1 volumeattachments volumeattachment VolumeAttachment c - - status",
    "storage.k8s.io v1 volumeattributesclasses volumeattributesclass VolumeAttributesClass c vac - -",
    "admissionregistration.k8s.io v1 mutatingwebhookconfigurations mutatingwebhookconfiguration MutatingWebhookConfiguration c - api-extensions -",
    "admissionregistration.k8s.io v1 validatingadmissionpolicies validatingadmissionpolicy ValidatingAdmissionPolicy c - api-extensions status",
    "admissionregistration.k8s.io v1 validatingadmissionpolicybindings validatingadmissionpolicybinding ValidatingAdmissionPolicyBinding c - api-extensions -",
    "admissionregistration.k8s.io v1 validatingwebhookconfigurations validatingwebhookconfiguration ValidatingWebhookConfiguration c - api-extensions -",
    "apiextensions.k8s.io v1 customresourcedefinitions customresourcedefinition CustomResourceDefinition c crd,crds api-extensions status",
    "scheduling.k8s.io v1 priorityclasses priorityclass PriorityClass c pc - -",
    "coordination.k8s.io v1 leases lease Lease n - - -",
    "node.k8s.io v1 runtimeclasses runtimeclass RuntimeClass c - - -",
    "discovery.k8s.io v1 endpointslices endpointslice EndpointSlice n - - -",
    "flowcontrol.apiserver.k8s.io v1 flowschemas flowschema FlowSchema c - - status",
    "flowcontrol.apiserver.k8s.io v1 prioritylevelconfigurations prioritylevelconfiguration PriorityLevelConfiguration c - - status",
];

/// Resources that can only be created: their objects are answers, not stored.
const REVIEWS: &[&str] = &[
    "bindings",
    "selfsubjectreviews",
    "tokenreviews",
    "localsubjectaccessreviews",
    "selfsubjectaccessreviews",
    "selfsubjectrulesreviews",
    "subjectaccessreviews",
];

/// The fields that field selectors know, by group and plural, besides name and namespace.
const SELECTABLE: &[(&str, &str, &[&str])] = &[
    (
        "",
        "pods",
        &[
            "spec.hostNetwork",
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "status.nominatedNodeName",
            "status.phase",
            "status.podIP",
        ],
    ),
    (
        "",
        "events",
        &[
            "involvedObject.apiVersion",
            "involvedObject.fieldPath",
            "involvedObject.kind",
            "involvedObject.name",
            "involvedObject.namespace",
            "involvedObject.resourceVersion",
            "involvedObject.uid",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
    ),
    ("", "secrets", &["type"]),
    ("", "namespaces", &["status.phase"]),
    ("", "nodes", &["spec.unschedulable"]),
    ("", "replicationcontrollers", &["status.replicas"]),
    ("", "services", &["spec.clusterIP", "spec.type"]),
    ("apps", "replicasets", &["status.replicas"]),
    ("batch", "jobs", &["status.successful"]),
    ("certificates.k8s.io", "certificatesigningrequests", &["spec.signerName"]),
];

const READ_WRITE: &[&str] = &["get", "patch", "update"];
const CONNECT: &[&str] = &["create", "get"];
const PROXY: &[&str] = &["create", "delete", "get", "patch", "update"];
const CREATE: &[&str] = &["create"];

/// Every built-in resource.
pub(crate) fn all() -> Vec<Served> {
    RESOURCES.iter().map(|line| parse(line)).collect()
}

fn parse(line: &str) -> Served {
    let fields: Vec<&str> = line.split(' ').map(|field| if field == "-" { "" } else { field }).collect();
    let [group, version, plural, singular, kind, scope, short_names, categories, subresources] = fields[..]
    else {
        unreachable!("the table's lines have nine fields");
    };
    let list = |text: &str| -> Vec<SmolStr> {
        text.split(',').filter(|word| !word.is_empty()).map(SmolStr::new).collect()
    };
    // Events of both groups are the same objects, spoken in two ways.
    let (storage_group, storage_version) = if group == "events.k8s.io" { ("", "v1") } else { (group, version) };
    let verbs = if REVIEWS.contains(&plural) {
        CREATE
    } else if plural == "namespaces" {
        &["create", "delete", "get", "list", "patch", "update", "watch"]
    } else {
        ALL_VERBS
    };
    let subresources: Vec<Subresource> = list(subresources)
        .into_iter()
        .map(|name| subresource(kind, name))
        .collect();
    let has = |name: &str| subresources.iter().any(|subresource| subresource.name == name);
    Served {
        group: SmolStr::new(group),
        version: SmolStr::new(version),
        plural: SmolStr::new(plural),
        singular: SmolStr::new(singular),
        kind: SmolStr::new(kind),
        list_kind: smol_str::format_smolstr!("{kind}List"),
        short_names: list(short_names),
        categories: list(categories),
        namespaced: scope == "n",
        verbs,
        api_version: api_version(group, version),
        storage_version: api_version(storage_group, storage_version),
        storage: source::Resource::new(storage_group, plural),
        has_status: has("status"),
        scale: has("scale").then(scale_paths),
        schema: schema(group, version, kind),
        selectable: SELECTABLE
            .iter()
            .find(|(of, name, _)| *of == storage_group && *name == plural)
            .map(|(_, _, fields)| fields.iter().map(|field| SmolStr::new_static(field)).collect())
            .unwrap_or_default(),
        strategy: strategy::of(storage_group, plural),
        custom: None,
        subresources,
    }
}

fn schema(group: &str, version: &str, kind: &str) -> Option<SchemaRef> {
    crate::interim::builtin::schema(&machinery::Gvk {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
    })
    .map(SchemaRef::Static)
}

fn subresource(kind: &str, name: SmolStr) -> Subresource {
    let group_version = |group: &'static str, version: &'static str| {
        Some((SmolStr::new_static(group), SmolStr::new_static(version)))
    };
    let (kind, group_version, verbs) = match name.as_str() {
        "scale" => (SmolStr::new_static("Scale"), group_version("autoscaling", "v1"), READ_WRITE),
        "eviction" => (SmolStr::new_static("Eviction"), group_version("policy", "v1"), CREATE),
        "token" => (
            SmolStr::new_static("TokenRequest"),
            group_version("authentication.k8s.io", "v1"),
            CREATE,
        ),
        "binding" => (SmolStr::new_static("Binding"), None, CREATE),
        "log" => (SmolStr::new(kind), None, &["get"] as &[&str]),
        "finalize" => (SmolStr::new(kind), None, &["update"] as &[&str]),
        "proxy" => (smol_str::format_smolstr!("{kind}ProxyOptions"), None, PROXY),
        "exec" => (SmolStr::new_static("PodExecOptions"), None, CONNECT),
        "attach" => (SmolStr::new_static("PodAttachOptions"), None, CONNECT),
        "portforward" => (SmolStr::new_static("PodPortForwardOptions"), None, CONNECT),
        _ => (SmolStr::new(kind), None, READ_WRITE),
    };
    Subresource {
        name,
        kind,
        group_version,
        verbs,
    }
}

fn scale_paths() -> ScalePaths {
    let path = |text: &str| text.split('.').map(str::to_owned).collect();
    ScalePaths {
        replicas: path("spec.replicas"),
        status_replicas: path("status.replicas"),
        selector: Some(path("spec.selector")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_can_be_read_and_its_selectable_fields_are_sorted() {
        let all = all();
        assert!(all.len() > 50);
        for served in &all {
            assert!(served.selectable.is_sorted(), "{}", served.plural);
            assert!(served.kind.starts_with(|c: char| c.is_ascii_uppercase()));
        }
        for (group, plural, _) in SELECTABLE {
            assert!(
                all.iter().any(|served| served.group == *group && served.plural == *plural),
                "{plural}"
            );
        }
    }
}
