//! What the built-in kinds and their fields are for, in the words of the library that holds their types. Nothing is
//! kept: the texts are put together when somebody asks for them.

use k8s_openapi::api::{
    admissionregistration::v1 as admissionregistration_v1, apps::v1 as apps_v1,
    authentication::v1 as authentication_v1, authorization::v1 as authorization_v1,
    autoscaling::v1 as autoscaling_v1, autoscaling::v2 as autoscaling_v2, batch::v1 as batch_v1,
    certificates::v1 as certificates_v1, coordination::v1 as coordination_v1, core::v1 as core_v1,
    discovery::v1 as discovery_v1, events::v1 as events_v1, flowcontrol::v1 as flowcontrol_v1,
    networking::v1 as networking_v1, node::v1 as node_v1, policy::v1 as policy_v1, rbac::v1 as rbac_v1,
    resource::v1 as resource_v1, scheduling::v1 as scheduling_v1, storage::v1 as storage_v1,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions_v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta_v1;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1 as apiregistration_v1;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// A kind by its name in OpenAPI, and how a generator gets to know it and all that it refers to.
type Root = (fn() -> std::borrow::Cow<'static, str>, fn(&mut SchemaGenerator));

macro_rules! roots {
    ($($module:ident { $($kind:ident)* })*) => {
        [$($((
            <$module::$kind as JsonSchema>::schema_name,
            |generator| drop(generator.subschema_for::<$module::$kind>()),
        ),)*)*]
    };
}

const ROOTS: &[Root] = &roots! {
    core_v1 {
        Binding ComponentStatus ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume
        PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret Service ServiceAccount
    }
    admissionregistration_v1 {
        MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding
        ValidatingWebhookConfiguration
    }
    apiextensions_v1 { CustomResourceDefinition }
    apiregistration_v1 { APIService }
    apps_v1 { ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet }
    authentication_v1 { SelfSubjectReview TokenRequest TokenReview }
    authorization_v1 {
        LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview
    }
    autoscaling_v1 { HorizontalPodAutoscaler Scale }
    autoscaling_v2 { HorizontalPodAutoscaler }
    batch_v1 { CronJob Job }
    certificates_v1 { CertificateSigningRequest }
    coordination_v1 { Lease }
    discovery_v1 { EndpointSlice }
    events_v1 { Event }
    flowcontrol_v1 { FlowSchema PriorityLevelConfiguration }
    networking_v1 { IPAddress Ingress IngressClass NetworkPolicy ServiceCIDR }
    node_v1 { RuntimeClass }
    policy_v1 { Eviction PodDisruptionBudget }
    rbac_v1 { ClusterRole ClusterRoleBinding Role RoleBinding }
    resource_v1 { DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice }
    scheduling_v1 { PriorityClass }
    storage_v1 { CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment VolumeAttributesClass }
    meta_v1 { APIResourceList DeleteOptions ObjectMeta Status }
};

/// Adds descriptions to the schemas of an OpenAPI document (by their names: `io.k8s.api.core.v1.Pod`), where they have
/// none.
pub fn describe(schemas: &mut Map<String, Value>) {
    let mut generator = SchemaGenerator::default();
    for (name, add) in ROOTS {
        if schemas.contains_key(name().as_ref()) {
            add(&mut generator);
        }
    }
    let mut known = generator.take_definitions(false);
    for (name, schema) in schemas {
        if let (Some(schema), Some(Value::Object(mut known))) = (schema.as_object_mut(), known.remove(name)) {
            describe_type(schema, &mut known);
        }
    }
}

fn describe_type(schema: &mut Map<String, Value>, known: &mut Map<String, Value>) {
    let fields = known.remove("properties");
    take_over(schema, known);
    let (Some(Value::Object(own)), Some(Value::Object(mut fields))) = (schema.get_mut("properties"), fields)
    else {
        return;
    };
    for (name, field) in own {
        if let (Some(field), Some(Value::Object(known))) = (field.as_object_mut(), fields.get_mut(name)) {
            // in OpenAPI v3 nothing may stand beside a reference
            let in_v3 = field
                .get("$ref")
                .and_then(Value::as_str)
                .is_some_and(|reference| reference.starts_with("#/components/"));
            if in_v3 && let Some(reference) = field.remove("$ref") {
                field.insert("allOf".to_owned(), json!([{"$ref": reference}]));
            }
            take_over(field, known);
        }
    }
}

fn take_over(schema: &mut Map<String, Value>, known: &mut Map<String, Value>) {
    if let Some(description) = known.remove("description") {
        schema.entry("description").or_insert(description);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn says_what_kinds_and_fields_are_for() {
        let mut document = machinery::openapi::v3("apps", "v1", &[]);
        let schemas = document["components"]["schemas"].as_object_mut().unwrap();
        let before = schemas.clone();
        describe(schemas);
        let deployment = &schemas["io.k8s.api.apps.v1.Deployment"];
        let words = |value: &Value| value["description"].as_str().unwrap_or_default().len();
        assert!(words(deployment) > 10 && words(&deployment["properties"]["spec"]) > 10);
        assert_eq!(
            deployment["properties"]["spec"]["allOf"][0],
            before["io.k8s.api.apps.v1.Deployment"]["properties"]["spec"]["$ref"]
                .as_str()
                .map_or_else(
                    || before["io.k8s.api.apps.v1.Deployment"]["properties"]["spec"]["allOf"][0].clone(),
                    |reference| json!({ "$ref": reference })
                )
        );
        assert!(words(&schemas["io.k8s.api.core.v1.Container"]["properties"]["image"]) > 10);
        assert!(
            words(&schemas["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]["properties"]["labels"]) > 10
        );
    }

    #[test]
    fn knows_every_built_in_kind() {
        let known: BTreeSet<String> = ROOTS.iter().map(|(name, _)| name().into_owned()).collect();
        for resource in machinery::builtin::resources() {
            let name = format!(".{}.{}", resource.version, resource.kind);
            assert!(known.iter().any(|known| known.ends_with(&name)), "{name}");
        }
    }
}
