#!/usr/bin/env bash
# fake-nodes.sh N KUBECONFIG KUBECTL   N nodes for kwok
set -euo pipefail
for i in $(seq 0 $(($1 - 1))); do cat <<K
---
apiVersion: v1
kind: Node
metadata:
  name: fake-$i
  annotations: {kwok.x-k8s.io/node: fake, node.alpha.kubernetes.io/ttl: "0"}
  labels: {type: kwok, kubernetes.io/hostname: fake-$i, kubernetes.io/os: linux, kubernetes.io/arch: amd64, kubernetes.io/role: agent}
spec: {}
status:
  allocatable: {cpu: "32", memory: 256Gi, pods: "110"}
  capacity: {cpu: "32", memory: 256Gi, pods: "110"}
  nodeInfo: {architecture: amd64, operatingSystem: linux, kubeletVersion: fake, bootID: "", containerRuntimeVersion: "", kernelVersion: "", kubeProxyVersion: "", machineID: "", osImage: "", systemUUID: ""}
K
done | "$3" --kubeconfig "$2" apply -f - >/dev/null
