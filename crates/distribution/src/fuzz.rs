//! Bodies of the fuzz targets: what reads foreign objects must never panic.

use std::sync::Arc;

use serde_json::Value;

use crate::moves::{Situation, Tally};
use crate::overrides::Overrides;
use crate::protection::InUse;
use crate::replicas::OwnKinds;
use crate::{
    FeedIndex, base, description, division, floor, inventory, pack, policy, protection, release, services,
    stateful, status, subscription,
};

/// A JSON array of a Subscription, a Base, a template, a policy, a Description and a ManagedCluster: plans with them.
pub fn fuzz_plans(bytes: &[u8]) {
    let Ok(Value::Array(parts)) = serde_json::from_slice::<Value>(bytes) else {
        return;
    };
    let part = |index: usize| Arc::new(parts.get(index).cloned().unwrap_or_default());
    let (sub, a_base, template, policy, a_description, cluster) =
        (part(0), part(1), part(2), part(3), part(4), part(5));
    let mut feeds = FeedIndex::default();
    feeds.insert(&template);
    let namespace = machinery::meta::namespace(&a_base).to_owned();
    let (bases, policies) = ([Arc::clone(&a_base)], [policy]);
    let (descriptions, clusters) = ([Arc::clone(&a_description)], [cluster]);
    let division = division::of(Some(&sub), Some(&a_base), &namespace);
    let situation = Situation {
        subscription: &sub,
        inventory: Some(&a_base),
        namespace: &namespace,
        own: &descriptions,
        all: &|| descriptions.iter().map(|it| Arc::new(Tally::of(it))).collect(),
        clusters: &|_| clusters.to_vec(),
    };
    let (division, _) = stateful::delay(&situation, division);
    let (division, _) = floor::hold(&situation, division);
    let overrides = Overrides {
        globalizations: &policies,
        localizations: &policies,
        clusters: &clusters,
        division: Some(&division),
    };
    let plans = [
        subscription::plan(&subscription::View {
            subscription: &sub,
            namespace: &|name| (*name == namespace).then(|| Arc::clone(&a_base)),
            bases: &bases,
            template: &|feed| feeds.get(feed).cloned(),
            stays: &|base| {
                let namespace = machinery::meta::namespace(base);
                let situation = Situation {
                    namespace,
                    ..situation
                };
                floor::stays(&situation).first().map(ToString::to_string)
            },
            is_taken: &|_, _| false,
            standing: &crate::change_set::Standing::default(),
        }),
        base::plan(&base::View {
            base: &a_base,
            content: base::Content::Current,
            template: &|feed| feeds.get(feed).cloned(),
            descriptions: &descriptions,
            overrides: &overrides,
            packing: &pack::Packing {
                stored: Some(&|_| false),
                seal: None,
            },
        }),
        description::plan(&description::View {
            description: &a_description,
            clusters: &clusters,
            releases: &bases,
            unready_for: std::time::Duration::ZERO,
        }),
        release::plan(&release::View {
            description: &a_description,
            releases: &bases,
            named: &|_| clusters.first().cloned(),
        }),
        inventory::plan(&inventory::View {
            subscription: &sub,
            inventory: Some(&a_base),
            template: &|feed| feeds.get(feed).cloned(),
            own_kinds: &OwnKinds::default(),
        }),
        protection::plan(&protection::View {
            template: &template,
            subscriptions: &[Arc::clone(&sub)],
            bases: &bases,
            in_use: InUse::Drop,
        }),
        policy::plan(&policy::View {
            policy: &policies[0],
            template: Some(&template),
        }),
        status::plan(&status::View {
            subscription: &sub,
            descriptions: &descriptions,
            bases: &bases,
            cluster: &|_, _| clusters.first().cloned(),
            template: &|feed| feeds.get(feed).cloned(),
            now: jiff::Timestamp::UNIX_EPOCH,
        }),
    ];
    drop(plans);
    feeds.remove(&template);
}

/// A JSON array of a ServiceExport, a Service, an EndpointSlice, a copy of one, a ServiceImport, a Namespace and a
/// ManagedCluster: plans with them.
pub fn fuzz_services(bytes: &[u8]) {
    let Ok(Value::Array(parts)) = serde_json::from_slice::<Value>(bytes) else {
        return;
    };
    let part = |index: usize| Arc::new(parts.get(index).cloned().unwrap_or_default());
    let (export, service, import, namespace, cluster) = (part(0), part(1), part(4), part(5), part(6));
    let (imports, clusters, slices) = ([Arc::clone(&import)], [cluster], [part(2), part(3)]);
    let mut ids = vec![services::ServiceId::new(
        machinery::meta::namespace(&export),
        machinery::meta::name(&export),
    )];
    ids.extend(services::ServiceId::of_labels(&import));
    ids.extend(services::ServiceId::of_copy(&slices[1]));
    let home = |_: &str| services::import::home(Some(&namespace), &clusters);
    for id in &ids {
        for gate in [services::export::Service::On, services::export::Service::Off] {
            drop(services::export::plan(&services::export::View {
                id,
                service: gate,
                export: Some(&export),
                exported: Some(&service),
                slices: &slices,
                home: machinery::meta::name(&namespace),
                copies: &slices,
                now: jiff::Timestamp::UNIX_EPOCH,
            }));
        }
        drop(services::import::plan(&services::import::View {
            id,
            namespace: machinery::meta::namespace(&import),
            imports: &imports,
            slices: &slices,
            home: &home,
            service: Some(&service),
        }));
        drop(services::import::compare(id, &slices, &home));
    }
}
