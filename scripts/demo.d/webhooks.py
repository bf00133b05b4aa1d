"""Points Cluster API's webhooks at managers that are processes of this machine.

Reads objects as JSON, one after another, from stdin, writes them as a list to stdout. Arguments: a file with the
certificate that the managers show, then SERVICE=PORT for each.
"""

import base64
import json
import sys

certificate = base64.b64encode(open(sys.argv[1], "rb").read()).decode()
ports = dict(pair.split("=") for pair in sys.argv[2:])


def point(config):
    service = config.pop("service", None)
    if service:
        port = ports[service["name"]]
        config["url"] = f"https://127.0.0.1:{port}{service.get('path', '/')}"
    config["caBundle"] = certificate


text, objects = sys.stdin.read().strip(), []
while text:
    one, end = json.JSONDecoder().raw_decode(text)
    text = text[end:].lstrip()
    objects.append(one)
for one in objects:
    if one["kind"] == "CustomResourceDefinition":
        conversion = one["spec"].get("conversion", {}).get("webhook")
        if conversion:
            point(conversion["clientConfig"])
    for webhook in one.get("webhooks", []):
        point(webhook["clientConfig"])
json.dump({"apiVersion": "v1", "kind": "List", "items": objects}, sys.stdout)
