//! The columns of built-in kinds, as data.
//!
//! A column reads `Name=CELL`, `Name*=CELL` where only wide output shows it, `Name:integer=CELL` for a type other
//! than text. A cell is a path (`.spec.holderIdentity`, `.x|<none>` with a text for absent values), a count of a
//! list's or map's entries (`#.data`), an age (`@.metadata.creationTimestamp`), or the name of a function (`!pod`).

/// The columns of a kind, behind its name.
type Columns = (&'static str, &'static [&'static str]);

const AGE: &str = "Age=@.metadata.creationTimestamp";
const CREATED: &str = "Created At:date=.metadata.creationTimestamp";
const CONTAINERS: &str = "Containers*=!containers";
const IMAGES: &str = "Images*=!images";
const SELECTOR: &str = "Selector*=!selector";

/// What kinds without columns of their own have.
pub(super) const PLAIN: &[&str] = &[AGE];

/// Of the `scale` subresource.
pub(super) const SCALE: &[&str] = &[
    "Desired:integer=.spec.replicas|0",
    "Available:integer=.status.replicas|0",
    AGE,
];

/// By storage name of the resource; the name itself is always the first column unless a line says `Name`.
pub(super) const COLUMNS: &[Columns] = &[
    ("configmaps", &["Data=#.data", AGE]),
    ("endpoints", &["Endpoints=!endpoints", AGE]),
    (
        "events",
        &[
            "Last Seen=!event-last",
            "Type=.type",
            "Reason=.reason",
            "Object=!event-object",
            "Subobject*=.involvedObject.fieldPath",
            "Source*=!event-source",
            "Message=.message",
            "First Seen*=!event-first",
            "Count*=!event-count",
            "Name*=.metadata.name",
        ],
    ),
    ("limitranges", &[CREATED]),
    ("namespaces", &["Status=.status.phase", AGE]),
    (
        "nodes",
        &[
            "Status=!node-status",
            "Roles=!node-roles",
            AGE,
            "Version=.status.nodeInfo.kubeletVersion",
            "Internal-IP*=!node-internal",
            "External-IP*=!node-external",
            "OS-Image*=.status.nodeInfo.osImage|<unknown>",
            "Kernel-Version*=.status.nodeInfo.kernelVersion|<unknown>",
            "Container-Runtime*=.status.nodeInfo.containerRuntimeVersion|<unknown>",
        ],
    ),
    (
        "persistentvolumeclaims",
        &[
            "Status=!phase",
            "Volume=.spec.volumeName",
            "Capacity=.status.capacity.storage",
            "Access Modes=!access-modes",
            "StorageClass=.spec.storageClassName",
            "VolumeAttributesClass=.spec.volumeAttributesClassName|<unset>",
            AGE,
            "VolumeMode*=.spec.volumeMode|<unset>",
        ],
    ),
    (
        "persistentvolumes",
        &[
            "Capacity=.spec.capacity.storage",
            "Access Modes=!access-modes",
            "Reclaim Policy=.spec.persistentVolumeReclaimPolicy",
            "Status=!phase",
            "Claim=!claim",
            "StorageClass=.spec.storageClassName",
            "VolumeAttributesClass=.spec.volumeAttributesClassName|<unset>",
            "Reason=.status.reason",
            AGE,
            "VolumeMode*=.spec.volumeMode|<unset>",
        ],
    ),
    (
        "pods",
        &[
            "Ready=!pod-ready",
            "Status=!pod-status",
            "Restarts=!pod-restarts",
            AGE,
            "IP*=.status.podIP|<none>",
            "Node*=.spec.nodeName|<none>",
            "Nominated Node*=.status.nominatedNodeName|<none>",
            "Readiness Gates*=!pod-gates",
        ],
    ),
    (
        "podtemplates",
        &[
            "Containers=!containers",
            "Images=!images",
            "Pod Labels=!pod-labels",
        ],
    ),
    (
        "replicationcontrollers",
        &[
            "Desired:integer=.spec.replicas|0",
            "Current:integer=.status.replicas|0",
            "Ready:integer=.status.readyReplicas|0",
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
    ),
    (
        "resourcequotas",
        &["Request=!quota-requests", "Limit=!quota-limits", AGE],
    ),
    ("secrets", &["Type=.type", "Data=#.data", AGE]),
    ("serviceaccounts", &["Secrets=#.secrets", AGE]),
    (
        "services",
        &[
            "Type=.spec.type",
            "Cluster-IP=.spec.clusterIP|<none>",
            "External-IP=!service-external",
            "Port(s)=!service-ports",
            AGE,
            "Selector*=!selector",
        ],
    ),
    (
        "admissionregistration.k8s.io/mutatingwebhookconfigurations",
        &["Webhooks:integer=#.webhooks", AGE],
    ),
    (
        "admissionregistration.k8s.io/validatingwebhookconfigurations",
        &["Webhooks:integer=#.webhooks", AGE],
    ),
    (
        "admissionregistration.k8s.io/validatingadmissionpolicies",
        &[
            "Validations:integer=#.spec.validations",
            "ParamKind=.spec.paramKind.kind|<unset>",
            AGE,
        ],
    ),
    (
        "admissionregistration.k8s.io/validatingadmissionpolicybindings",
        &[
            "PolicyName=.spec.policyName",
            "ParamRef=.spec.paramRef.name|<unset>",
            AGE,
        ],
    ),
    ("apiextensions.k8s.io/customresourcedefinitions", &[CREATED]),
    (
        "apiregistration.k8s.io/apiservices",
        &["Service=!api-service", "Available=!api-available", AGE],
    ),
    (
        "apps/controllerrevisions",
        &["Controller=!controller", "Revision=.revision", AGE],
    ),
    (
        "apps/daemonsets",
        &[
            "Desired:integer=.status.desiredNumberScheduled|0",
            "Current:integer=.status.currentNumberScheduled|0",
            "Ready:integer=.status.numberReady|0",
            "Up-to-date:integer=.status.updatedNumberScheduled|0",
            "Available:integer=.status.numberAvailable|0",
            "Node Selector=!node-selector",
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
    ),
    (
        "apps/deployments",
        &[
            "Ready=!replicas-ready",
            "Up-to-date=.status.updatedReplicas|0",
            "Available=.status.availableReplicas|0",
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
    ),
    (
        "apps/replicasets",
        &[
            "Desired:integer=.spec.replicas|0",
            "Current:integer=.status.replicas|0",
            "Ready:integer=.status.readyReplicas|0",
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
    ),
    (
        "apps/statefulsets",
        &["Ready=!replicas-ready", AGE, CONTAINERS, IMAGES],
    ),
    (
        "autoscaling/horizontalpodautoscalers",
        &[
            "Reference=!scale-target",
            "Targets=!scale-metrics",
            "MinPods=.spec.minReplicas|<unset>",
            "MaxPods=.spec.maxReplicas",
            "Replicas=.status.currentReplicas|0",
            AGE,
        ],
    ),
    (
        "batch/cronjobs",
        &[
            "Schedule=.spec.schedule",
            "Timezone=.spec.timeZone|<none>",
            "Suspend:boolean=.spec.suspend|False",
            "Active:integer=#.status.active",
            "Last Schedule=!last-schedule",
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
    ),
    (
        "batch/jobs",
        &[
            "Status=!job-status",
            "Completions=!job-completions",
            "Duration=!job-duration",
            AGE,
            CONTAINERS,
            IMAGES,
            SELECTOR,
        ],
    ),
    (
        "certificates.k8s.io/certificatesigningrequests",
        &[
            AGE,
            "SignerName=.spec.signerName",
            "Requestor=.spec.username",
            "RequestedDuration=!csr-duration",
            "Condition=!csr-condition",
        ],
    ),
    (
        "coordination.k8s.io/leases",
        &["Holder=.spec.holderIdentity", AGE],
    ),
    (
        "discovery.k8s.io/endpointslices",
        &[
            "AddressType=.addressType",
            "Ports=!slice-ports",
            "Endpoints=!slice-endpoints",
            AGE,
        ],
    ),
    (
        "flowcontrol.apiserver.k8s.io/flowschemas",
        &[
            "PriorityLevel=.spec.priorityLevelConfiguration.name",
            "MatchingPrecedence=.spec.matchingPrecedence",
            "DistinguisherMethod=.spec.distinguisherMethod.type|<none>",
            AGE,
            "MissingPL=!missing-level",
        ],
    ),
    (
        "flowcontrol.apiserver.k8s.io/prioritylevelconfigurations",
        &[
            "Type=.spec.type",
            "NominalConcurrencyShares=.spec.limited.nominalConcurrencyShares|<none>",
            "Queues=.spec.limited.limitResponse.queuing.queues|<none>",
            "HandSize=.spec.limited.limitResponse.queuing.handSize|<none>",
            "QueueLengthLimit=.spec.limited.limitResponse.queuing.queueLengthLimit|<none>",
            AGE,
        ],
    ),
    (
        "networking.k8s.io/ingressclasses",
        &["Controller=.spec.controller", "Parameters=!class-parameters", AGE],
    ),
    (
        "networking.k8s.io/ingresses",
        &[
            "Class=.spec.ingressClassName|<none>",
            "Hosts=!ingress-hosts",
            "Address=!ingress-address",
            "Ports=!ingress-ports",
            AGE,
        ],
    ),
    ("networking.k8s.io/ipaddresses", &["ParentRef=!parent"]),
    (
        "networking.k8s.io/networkpolicies",
        &["Pod-Selector=!pod-selector", AGE],
    ),
    ("networking.k8s.io/servicecidrs", &["CIDRs=!cidrs", AGE]),
    ("node.k8s.io/runtimeclasses", &["Handler=.handler", AGE]),
    (
        "policy/poddisruptionbudgets",
        &[
            "Min Available=.spec.minAvailable|N/A",
            "Max Unavailable=.spec.maxUnavailable|N/A",
            "Allowed Disruptions:integer=.status.disruptionsAllowed|0",
            AGE,
        ],
    ),
    (
        "rbac.authorization.k8s.io/clusterrolebindings",
        &[
            "Role=!role",
            AGE,
            "Users*=!users",
            "Groups*=!groups",
            "ServiceAccounts*=!accounts",
        ],
    ),
    ("rbac.authorization.k8s.io/clusterroles", &[CREATED]),
    (
        "rbac.authorization.k8s.io/rolebindings",
        &[
            "Role=!role",
            AGE,
            "Users*=!users",
            "Groups*=!groups",
            "ServiceAccounts*=!accounts",
        ],
    ),
    ("rbac.authorization.k8s.io/roles", &[CREATED]),
    (
        "scheduling.k8s.io/priorityclasses",
        &[
            "Value:integer=.value|0",
            "Global-Default:boolean=.globalDefault|false",
            AGE,
            "PreemptionPolicy=.preemptionPolicy",
        ],
    ),
    (
        "storage.k8s.io/csidrivers",
        &[
            "AttachRequired:boolean=.spec.attachRequired|true",
            "PodInfoOnMount:boolean=.spec.podInfoOnMount|false",
            "StorageCapacity:boolean=.spec.storageCapacity|false",
            "TokenRequests=!token-requests",
            "RequiresRepublish:boolean=.spec.requiresRepublish|false",
            "Modes=!modes",
            AGE,
        ],
    ),
    (
        "storage.k8s.io/csinodes",
        &["Drivers:integer=#.spec.drivers", AGE],
    ),
    ("storage.k8s.io/csistoragecapacities", &[CREATED]),
    (
        "storage.k8s.io/storageclasses",
        &[
            "Provisioner=.provisioner",
            "ReclaimPolicy=.reclaimPolicy",
            "VolumeBindingMode=.volumeBindingMode",
            "AllowVolumeExpansion=.allowVolumeExpansion|false",
            AGE,
        ],
    ),
    (
        "storage.k8s.io/volumeattachments",
        &[
            "Attacher=.spec.attacher",
            "PV=.spec.source.persistentVolumeName",
            "Node=.spec.nodeName",
            "Attached:boolean=.status.attached|false",
            AGE,
        ],
    ),
    (
        "storage.k8s.io/volumeattributesclasses",
        &["DriverName=.driverName", AGE],
    ),
];
