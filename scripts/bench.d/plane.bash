# shellcheck shell=bash
# A management cluster of processes: etcd, an API server, and Cluster API's managers. To be sourced
# after servers.bash; who does has the folder $work, and $KUBE_TOKEN, which opens everything.

# start_plane: etcd and an API server. $work/kubeconfig leads there, $KUBE_SERVER is its address,
# $KUBE_CA its certificate, which it makes for itself.
start_plane() {
  local client peer port
  read -r client peer port < <(free_ports 3)
  serve etcd "http://127.0.0.1:$client/health" etcd --name=default --data-dir="$work/etcd" \
    --listen-client-urls="http://127.0.0.1:$client" --advertise-client-urls="http://127.0.0.1:$client" \
    --listen-peer-urls="http://127.0.0.1:$peer" --initial-advertise-peer-urls="http://127.0.0.1:$peer" \
    --initial-cluster="default=http://127.0.0.1:$peer" --unsafe-no-fsync
  # Without addresses and a version kubeadm and the API server look for some outside.
  cat >"$work/kubeadm.yaml" <<CONFIG
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: 192.0.2.1}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.36.3
certificatesDir: $work/plane
CONFIG
  kubeadm init phase certs sa --config "$work/kubeadm.yaml" >"$work/answer" 2>&1 ||
    { cat "$work/answer" >&2; exit 1; }
  (umask 077 && echo "$KUBE_TOKEN,admin,admin,system:masters" >"$work/tokens")
  export KUBE_SERVER=https://127.0.0.1:$port KUBE_CA=$work/plane/apiserver.crt
  serve kube-apiserver "$KUBE_SERVER/livez" kube-apiserver --etcd-servers="http://127.0.0.1:$client" \
    --bind-address=127.0.0.1 --secure-port="$port" --advertise-address=192.0.2.1 \
    --cert-dir="$work/plane" --token-auth-file="$work/tokens" --authorization-mode=RBAC \
    --service-account-key-file="$work/plane/sa.pub" \
    --service-account-signing-key-file="$work/plane/sa.key" \
    --service-account-issuer=https://kubernetes.default.svc --service-cluster-ip-range=10.0.0.0/24 \
    --disable-admission-plugins=ServiceAccount --endpoint-reconciler-type=none
  (umask 077 && cat >"$work/kubeconfig") <<CONFIG
{"apiVersion": "v1", "kind": "Config", "current-context": "management",
 "clusters": [{"name": "management", "cluster": {"server": "$KUBE_SERVER", "certificate-authority": "$KUBE_CA"}}],
 "users": [{"name": "admin", "user": {"token": "$KUBE_TOKEN"}}],
 "contexts": [{"name": "management", "context": {"cluster": "management", "user": "admin"}}]}
CONFIG
  until kubectl --kubeconfig "$work/kubeconfig" get --raw /readyz >"$work/answer" 2>&1; do sleep 0.2; done
}

# of_kind KIND-PATTERN: those among the objects on stdin
of_kind() {
  awk -v kind="^kind: ($1)\$" '
    function flush() { if (wanted) printf "---\n%s", text; text = ""; wanted = 0 }
    /^---/ { flush(); next }
    $0 ~ kind { wanted = 1 }
    { text = text $0 "\n" }
    END { flush() }'
}

# start_theirs NAME WEBHOOK-PORT: one of Cluster API's managers, its webhooks behind the API server's
# own certificate
start_theirs() {
  local health
  health=$(free_ports 1)
  mkdir -p "$work/webhooks"
  cp "$KUBE_CA" "$work/webhooks/tls.crt"
  cp "${KUBE_CA%.crt}.key" "$work/webhooks/tls.key"
  serve "capi-$1" "http://127.0.0.1:$health/healthz" "capi-$1-manager" \
    --kubeconfig="$work/kubeconfig" --leader-elect=false --webhook-cert-dir="$work/webhooks" \
    --webhook-port="$2" --diagnostics-address=127.0.0.1:0 --health-addr="127.0.0.1:$health"
  until curl -sf -o "$work/answer" "http://127.0.0.1:$health/readyz"; do sleep 0.2; done
}
