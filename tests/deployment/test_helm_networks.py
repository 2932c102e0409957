"""The network policies of the chart let pass what the networks of docker-compose.yml let pass, and little else."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

import pytest
import yaml

from tests.deployment.compose import ROOT
from tests.deployment.helm import Helm, pods
from tests.deployment.test_helm_chart import ELSEWHERE, EVERYTHING, OF_COMPOSE

ANY_PORT = 12345


@dataclass(frozen=True)
class Peer:
    """A pod of the namespace of these labels, or with `address` who is no pod."""

    labels: Mapping[str, str] = field(default_factory=dict)
    namespace: str = "default"
    address: str = ""


INTERNET = Peer(address="203.0.113.5")
STRANGER = Peer({"app": "another"})
KEDA = Peer({"app": "keda-operator"}, "keda")
PROMETHEUS = Peer({"app": "prometheus"}, "monitoring")
NAMES = Peer({"k8s-app": "kube-dns"}, "kube-system")


def _selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    assert selector.keys() <= {"matchLabels"}
    return selector.get("matchLabels", {}).items() <= labels.items()


def _is(said: Mapping[str, Any], peer: Peer) -> bool:
    """Whether a peer of a rule is this one; the policies lie in the namespace default."""
    if "ipBlock" in said:
        return bool(peer.address) and ipaddress.ip_address(peer.address) in ipaddress.ip_network(
            said["ipBlock"]["cidr"]
        )
    if peer.address:
        return False
    if "namespaceSelector" in said:
        there = _selects(said["namespaceSelector"], {"kubernetes.io/metadata.name": peer.namespace})
    else:
        there = peer.namespace == "default"
    return there and _selects(said.get("podSelector", {}), peer.labels)


class Policies:
    """What the policies of rendered objects say."""

    def __init__(self, objects: list[dict[str, Any]]) -> None:
        self._specs = [item["spec"] for item in objects if item["kind"] == "NetworkPolicy"]
        self.peers = {name: Peer(each["metadata"]["labels"]) for name, each in pods(objects).items()}

    def reaches(self, sender: Peer, receiver: Peer, port: int = ANY_PORT) -> bool:
        return self._lets("Egress", sender, receiver, port) and self._lets("Ingress", receiver, sender, port)

    def who_reaches(self, receiver: Peer, port: int = ANY_PORT) -> set[str]:
        return {name for name, peer in self.peers.items() if self.reaches(peer, receiver, port)}

    def reached_by(self, sender: Peer, port: int) -> set[str]:
        return {name for name, peer in self.peers.items() if self.reaches(sender, peer, port)}

    def _lets(self, way: str, pod: Peer, other: Peer, port: int) -> bool:
        specs = [spec for spec in self._specs if not pod.address and pod.namespace == "default"]
        specs = [spec for spec in specs if way in spec["policyTypes"] and _selects(spec["podSelector"], pod.labels)]
        rules = [rule for spec in specs for rule in spec.get(way.lower(), [])]
        return not specs or any(self._matches(rule, "to" if way == "Egress" else "from", other, port) for rule in rules)

    @staticmethod
    def _matches(rule: Mapping[str, Any], side: str, other: Peer, port: int) -> bool:
        """A rule without peers, or with an empty list of them, is for everybody."""
        ports = [item["port"] for item in rule.get("ports", [])]
        return (not ports or port in ports) and (not rule.get(side) or any(_is(item, other) for item in rule[side]))


@pytest.fixture(scope="module")
def policies(helm: Helm) -> Policies:
    return Policies(helm.objects(EVERYTHING))


def test_processes_reach_each_other_where_they_share_a_network_of_compose(policies: Policies) -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    networks = {OF_COMPOSE.get(name, name): {*each["networks"]} - {"outside"} for name, each in services.items()}
    del networks["cpu-worker"]
    for one, other in permutations(networks, 2):
        reaches = policies.reaches(policies.peers[one], policies.peers[other])
        assert reaches == bool(networks[one] & networks[other]), f"{one} → {other}"


def test_each_reaches_what_it_needs_and_people_the_front_alone(policies: Policies, helm: Helm) -> None:
    assert policies.who_reaches(NAMES, 53) == policies.peers.keys()
    assert policies.who_reaches(NAMES, 443) == {"notifier"}
    assert policies.who_reaches(STRANGER) == {"notifier"}
    assert policies.reached_by(STRANGER, ANY_PORT) == set()
    for port in (8080, 8443):
        assert policies.reached_by(INTERNET, port) == {"front"}
    for port in (6379, 8000, 8001, 5432):
        assert policies.reached_by(INTERNET, port) == set()
    assert policies.who_reaches(INTERNET, 443) == {"notifier"}
    outside = Policies(helm.objects({"gpuWorkersOutside": True}))
    assert outside.who_reaches(INTERNET, 443) == {"notifier", "gpu-h200"}
    assert policies.reached_by(KEDA, 6379) == {"redis"}
    assert policies.reached_by(KEDA, 5432) == policies.reached_by(KEDA, 8000) == set()
    reached = [policies.reached_by(PROMETHEUS, port) for port in (8000, 8001, 8080, 6379)]
    assert reached == [{"web"}, {"worker-api"}, {"front", "serve-llama"}, set()]
    closed = Policies(helm.objects())
    assert closed.reached_by(PROMETHEUS, 8000) == closed.reached_by(PROMETHEUS, 8001) == set()
    policies = Policies(helm.objects(ELSEWHERE))
    web = {"web", "worker-api", "ledger", "intake", "notifier", "beat", "migrate"}
    assert policies.who_reaches(Peer(address="10.1.0.5"), 5432) == web
    assert policies.who_reaches(Peer(address="10.2.0.5"), 6379) == web | {"gpu-h200"}
    assert policies.who_reaches(Peer(address="10.1.0.5"), 22) == {"notifier"}


def test_clients_that_are_named_reach_a_plans_server(policies: Policies, helm: Helm) -> None:
    assert policies.reached_by(STRANGER, 8080) == {"front", "serve-llama"}
    (server,) = EVERYTHING["servers"]
    nobody = {"dns": [], "keda": [], "prometheus": []}
    closed = Policies(helm.objects({"servers": [{**server, "clients": []}], "networkPolicy": nobody}))
    assert closed.reached_by(STRANGER, 8080) == {"front"}
    assert closed.reached_by(KEDA, 6379) == set()
    assert closed.who_reaches(NAMES, 53) == {"notifier"}
