"""Does Cluster API's part for clusters and machines, through the API server, and counts the calls
that the manager made to the cloud.

usage: machines.py clusters CLUSTERS   makes them, and waits until they have their networks
       machines.py make MACHINES       makes so many in each; then says that the networks are
                                       there, and waits until every machine runs
       machines.py drop                deletes all machines, and waits until they are gone
       machines.py end                 deletes all clusters, and waits until they are gone
       machines.py calls FROM [TO]     the calls of the journal between these bytes of it

Prints what it measured, NAME=VALUE a line. From the environment: KUBE_SERVER, KUBE_CA, KUBE_TOKEN,
NAMESPACE, TRAFFIC (the journal).
"""

import collections
import concurrent.futures
import http.client
import json
import os
import ssl
import sys
import threading
import time

CORE = "/apis/cluster.x-k8s.io/v1beta2"
OURS = "/apis/infrastructure.cluster.x-k8s.io/v1beta1"
# Three members, as who has fifty machines has them.
CONTROL_PLANE = 3
PATIENCE = 900
# Bootstrap data as long as kubeadm's for a worker: its scripts, files and certificates.
FILE = "\n".join(f"    line {number:03} of a file that a node is given" for number in range(100))
BOOTSTRAP = f"""## template: jinja
#cloud-config
write_files:
- path: /run/kubeadm/kubeadm-join-config.yaml
  permissions: '0640'
  content: |
    name: '{{{{ ds.meta_data.local_hostname }}}}'
{FILE}
runcmd:
- kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml
"""

here = threading.local()


def connection():
    if not hasattr(here, "connection"):
        host, _, port = os.environ["KUBE_SERVER"].removeprefix("https://").partition(":")
        trust = ssl.create_default_context(cafile=os.environ["KUBE_CA"])
        here.connection = http.client.HTTPSConnection(host, int(port), context=trust, timeout=PATIENCE)
    return here.connection


def headers(content="application/json"):
    return {"Authorization": f"Bearer {os.environ['KUBE_TOKEN']}", "Content-Type": content}


def ask(method, path, body=None, content="application/json"):
    text = None if body is None else json.dumps(body)
    connection().request(method, path, text, headers(content))
    answer = connection().getresponse()
    said = answer.read()
    if answer.status >= 300:
        sys.exit(f"{method} {path}: {answer.status} {said.decode()}")
    return json.loads(said)


def place(group, kind, name=""):
    slash = f"/{name}" if name else ""
    return f"{group}/namespaces/{os.environ['NAMESPACE']}/{kind}{slash}"


def listed(kind):
    return ask("GET", place(OURS, kind))["items"]


def is_provisioned(found):
    return found is not None and found.get("status", {}).get("initialization", {}).get("provisioned", False)


def owner(found):
    meta = found["metadata"]
    return {"apiVersion": found["apiVersion"], "kind": found["kind"]} | {
        key: meta[key] for key in ("name", "uid")
    }


def ref(kind, name, group="infrastructure"):
    return {"apiGroup": f"{group}.cluster.x-k8s.io", "kind": kind, "name": name}


def create(group, kind, what):
    return ask("POST", place(group, kind), what)


def create_cluster(number):
    name = f"c-{number:02}"
    label = {"cluster.x-k8s.io/cluster-name": name}
    cluster = create(CORE, "clusters", {
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": name},
        "spec": {
            "clusterNetwork": {"pods": {"cidrBlocks": ["10.244.0.0/16"]}},
            "infrastructureRef": ref("VCOCluster", name),
            "controlPlaneRef": ref("KubeadmControlPlane", name, "controlplane"),
        },
    })
    create(OURS, "vcoclusters", {
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "VCOCluster",
        "metadata": {"name": name, "labels": label, "ownerReferences": [owner(cluster)]},
        "spec": {"location": f"loc-{number:03}", "credentialSecretRef": {"name": "credentials"}},
    })


def create_machine(which):
    cluster, number = which
    name = f"c-{cluster:02}-m-{number:03}"
    labels = {"cluster.x-k8s.io/cluster-name": f"c-{cluster:02}"}
    if number <= CONTROL_PLANE:
        labels["cluster.x-k8s.io/control-plane"] = ""
    create("/api/v1", "secrets", {
        "apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
        "metadata": {"name": name},
        "stringData": {"value": BOOTSTRAP, "format": "cloud-config"},
    })
    machine = create(CORE, "machines", {
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "clusterName": f"c-{cluster:02}", "version": "v1.36.3",
            "bootstrap": {"dataSecretName": name},
            "infrastructureRef": ref("VCOMachine", name),
        },
    })
    create(OURS, "vcomachines", {
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "VCOMachine",
        "metadata": {"name": name, "labels": labels, "ownerReferences": [owner(machine)]},
        "spec": {"imageId": cluster * 100, "vcpus": 2, "memoryMiB": 2048, "bootDiskGiB": 20},
    })


def tell(name):
    done = {"status": {"initialization": {"infrastructureProvisioned": True}}}
    path = place(CORE, "clusters", name) + "/status"
    ask("PATCH", path, done, "application/merge-patch+json")


def at_once(work, what):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        return list(pool.map(work, what))


def until(holds):
    begun = time.monotonic()
    while not holds():
        if time.monotonic() - begun > PATIENCE:
            sys.exit(f"not within {PATIENCE} s")
        time.sleep(0.5)


class Followed:
    """The machines, followed by a watch from now on: who lists a thousand of them again and again
    keeps the API server from others."""

    def __init__(self):
        self.left = set(self.look())

    def look(self):
        """The machines as they are now, by name; the watch goes on from here."""
        found = ask("GET", place(OURS, "vcomachines"))
        self.version = found["metadata"]["resourceVersion"]
        return {one["metadata"]["name"]: one for one in found["items"]}

    def until(self, holds):
        """Waits until this held of each machine, or of None once it is gone; when that was."""
        begun = time.monotonic()
        while self.left:
            if time.monotonic() - begun > PATIENCE:
                sys.exit(f"not within {PATIENCE} s: {len(self.left)} machines are left")
            for name, one in self.changes():
                if holds(one):
                    self.left.discard(name)
                if not self.left:
                    break
        here.connection.close()
        del here.connection
        return time.monotonic()

    def changes(self):
        """Names and machines as they change, until the API server ends the watch, which it does
        with who is slow; then all as they are."""
        path = place(OURS, "vcomachines") + f"?watch=1&resourceVersion={self.version}"
        connection().request("GET", path, None, headers())
        answer = connection().getresponse()
        for line in answer:
            event = json.loads(line)
            if event["type"] == "ERROR":
                break
            one = event["object"]
            yield one["metadata"]["name"], None if event["type"] == "DELETED" else one
        here.connection.close()
        now = self.look()
        for name in list(self.left):
            yield name, now.get(name)


def clusters(count):
    at_once(create_cluster, range(1, count + 1))
    until(lambda: all(map(is_provisioned, listed("vcoclusters"))))


def make(each):
    names = [one["metadata"]["name"] for one in listed("vcoclusters")]
    numbers = range(1, len(names) + 1)
    at_once(create_machine, [(cluster, machine) for cluster in numbers for machine in range(1, each + 1)])
    # Each has been looked at before, and waits for its network.
    until(lambda: all(one.get("status", {}).get("conditions") for one in listed("vcomachines")))
    followed = Followed()
    journal, begun = os.path.getsize(os.environ["TRAFFIC"]), time.monotonic()
    at_once(tell, names)
    ended = followed.until(is_provisioned)
    print(f"journal={journal}\nseconds={ended - begun:.1f}")


def drop():
    followed = Followed()
    journal, begun = os.path.getsize(os.environ["TRAFFIC"]), time.monotonic()
    ask("DELETE", place(OURS, "vcomachines"))
    ended = followed.until(lambda one: one is None)
    print(f"journal={journal}\nseconds={ended - begun:.1f}")


def end():
    ask("DELETE", place(OURS, "vcoclusters"))
    until(lambda: not listed("vcoclusters"))


def calls(first, last=None):
    with open(os.environ["TRAFFIC"], "rb") as file:
        file.seek(int(first))
        lines = file.read() if last is None else file.read(int(last) - int(first))
    all_of_them = [json.loads(line) for line in lines.splitlines()]
    places = collections.Counter(one.get("location") for one in all_of_them)
    kinds = collections.Counter(one["operation"] for one in all_of_them)
    lists = collections.Counter(
        one["path"] for one in all_of_them if one["operation"] == "listCloudspaceVirtualMachines"
    )
    print(f"calls={len(all_of_them)}\nbusiest={max(places.values(), default=0)}")
    print(f"refused={sum(one['status'] == 429 for one in all_of_them)}")
    print(f"lists={sum(lists.values())}\nmost_lists={max(lists.values(), default=0)}")
    told = " · ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    print(f"kinds='{told}'")


verb, *words = sys.argv[1:]
{
    "clusters": lambda: clusters(int(words[0])),
    "make": lambda: make(int(words[0])),
    "drop": drop,
    "end": end,
    "calls": lambda: calls(*words),
}[verb]()
