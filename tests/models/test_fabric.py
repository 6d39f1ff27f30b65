"""Clusters: fabric classes of tiers, stated or derived."""

import pytest

from models.catalogue import cluster, cluster_names, resolve
from models.catalogue.collective_constants import link_class_names, links
from models.catalogue.fabric import partly_filled
from models.errors import InvalidField, UnknownEntry
from models.request import EvaluateRequest, SearchRequest
from search import evaluate

NVLINK = {"name": "nvlink", "gpus": 8, "bandwidth_bytes_per_s": 4.5e11}
NETWORK = {"name": "network", "bandwidth_bytes_per_s": 5e10}


def resolved(*tiers, gpus=64, **beside):
    """A question about a cluster of H100 with these tiers, its names looked up."""
    question = {"model": "llama-3-8b", "gpus": gpus, "cluster": {"gpu": "h100-sxm", "tiers": tiers} | beside}
    return resolve(
        SearchRequest.model_validate(question | {"workload": {"sequence_length": 8192, "global_batch": 2048}})
    )


def pointers(error):
    return [fault.field for fault in error.value.faults]


@pytest.mark.parametrize("name", cluster_names())
def test_every_tier_of_a_catalogue_cluster_names_its_fabric_class(name):
    stated = [tier.collective for tier in cluster(name).tiers]
    assert set(stated) <= set(link_class_names())
    assert len(links(cluster(name))) == len(stated)


def test_a_cut_generation_keeps_the_class_of_its_switch():
    """The H800 reaches 200 GB/s, by bandwidth alone an A100's; the switch is the H100's."""
    assert cluster("h800-8x400g").tiers[0].collective == "nvswitch-h100"
    assert cluster("a800-8x200g").tiers[0].collective == "nvswitch-a100"


def test_a_tier_takes_the_class_it_names_and_a_derived_one_is_told():
    got = resolved(NVLINK, NETWORK | {"collective": "roce"})
    assert [tier.collective for tier in got.cluster.tiers] == ["nvswitch-h100", "roce"]
    told = {a.field: a.value for a in got.assumptions if a.field.endswith("collective")}
    assert told == {"/cluster/tiers/0/collective": "nvswitch-h100"}


def test_a_tier_inside_the_server_is_no_network():
    pair = {"name": "pair", "gpus": 2, "bandwidth_bytes_per_s": 3e11}
    bus = {"name": "pcie", "gpus": 8, "bandwidth_bytes_per_s": 2.5e10}
    got = resolved(pair, bus, NETWORK, gpus_per_node=8)
    assert [tier.collective for tier in got.cluster.tiers] == ["nvswitch-a100", "pcie", "infiniband"]


def test_an_unknown_class_is_told_with_its_nearest_beside_every_other_fault():
    near = NVLINK | {"collective": "nvswitch-h10"}
    with pytest.raises(UnknownEntry, match="Try 'nvswitch-h100'") as error:
        resolved(near, NETWORK)
    assert pointers(error) == ["/cluster/tiers/0/collective"]
    with pytest.raises(InvalidField) as error:
        resolved(near, NETWORK | {"name": "nvlink", "collective": "ether"})
    assert sorted(pointers(error)) == [
        "/cluster/tiers/0/collective",
        "/cluster/tiers/1/collective",
        "/cluster/tiers/1/name",
    ]


@pytest.mark.parametrize(
    ("name", "units", "shares"),
    [
        ("alibaba-hpn", [8, 1024, 15360, None], [200, 50, 46.86, 3.125]),
        ("meta-24k-roce", [8, 16, 3072, None], [450, 50, 50, 7.14]),
        ("deepseek-h800", [8, 256, None], [200, 50, 50]),
        ("bytedance-megascale", [8, 512, None], [300, 25, 25]),
        ("dgx-h100", [8, 256, None], [450, 50, 50]),
        ("gb200-nvl72", [72, 576, None], [900, 50, 50]),
        ("a800-4x200g", [8, 160, None], [200, 12.5, 12.5]),
    ],
)
def test_published_fabrics_join_what_their_papers_say_and_leave_each_gpu_that_share(name, units, shares):
    tiers = cluster(name).tiers
    assert [tier.gpus for tier in tiers] == units
    left = [tier.bandwidth_bytes_per_s / tier.oversubscription / 1e9 for tier in tiers]
    assert left == pytest.approx(shares, rel=1e-3)


@pytest.mark.parametrize("name", cluster_names())
def test_rails_join_servers_and_take_as_many_gpus_of_each(name):
    entry = cluster(name)
    assert entry.tiers[0].rails is None
    for tier in entry.tiers:
        assert entry.gpus_per_node % (tier.rails or 1) == 0
    joined = [tier.rails or 1 for tier in entry.tiers[1:]]
    assert joined == sorted(joined, reverse=True), "planes that met do not part again"


@pytest.mark.parametrize(
    ("tiers", "fault"),
    [
        ([NVLINK | {"rails": 8}, NETWORK], "/cluster/tiers/0/rails"),
        ([NVLINK, NETWORK | {"rails": 3}], "/cluster/tiers/1/rails"),
        ([NVLINK, NETWORK | {"rails": 16}], "/cluster/tiers/1/rails"),
    ],
)
def test_rails_that_no_server_has_are_refused(tiers, fault):
    with pytest.raises(InvalidField) as error:
        resolved(*tiers)
    assert pointers(error) == [fault]


@pytest.mark.parametrize(
    ("name", "gpus", "told"),
    [
        ("dgx-h100", 2100, ["4 of 8", "fill 262"]),
        ("dgx-h100", 1440, []),
        ("dgx-h100", 4, []),
        ("gb200-nvl72", 256, ["40 of 72", "nvlink domain", "fill 3"]),
        ("gb200-nvl72", 144, []),
        ("gb200-nvl72", 6, ["2 of 4", "fill 1"]),
    ],
)
def test_a_job_that_leaves_part_of_its_last_server_or_rack_says_so(name, gpus, told):
    warnings = " ".join(partly_filled(cluster(name), gpus))
    assert bool(warnings) is bool(told)
    assert all(text in warnings for text in told)


def test_servers_of_six_with_sockets_of_three_are_a_cluster():
    """Summit's nodes: two sockets of three V100s on NVLink, one network."""
    socket = {"name": "socket", "gpus": 3, "bandwidth_bytes_per_s": 5e10}
    server = {"name": "server", "gpus": 6, "bandwidth_bytes_per_s": 3.2e10}
    got = resolved(socket, server, NETWORK, gpus_per_node=6, gpus=22)
    assert [tier.gpus for tier in got.cluster.tiers] == [3, 6, None]
    assert any("4 of 6" in warning for warning in got.warnings)


@pytest.mark.parametrize("named", [None, "infiniband"])
def test_one_network_takes_as_long_however_it_is_stated(named):
    """As the only tier of one-GPU servers, by name or by itself, or behind a tier of one GPU."""
    network = {"name": "ib", "bandwidth_bytes_per_s": 5e10} | ({"collective": named} if named else {})
    one = {"name": "none", "gpus": 1, "bandwidth_bytes_per_s": 4.5e11}
    times = []
    for tiers in ([network], [one, network]):
        request = EvaluateRequest(
            model="gpt3-175b",
            cluster={"gpu": "h100-sxm", "gpus_per_node": 1, "tiers": tiers},
            gpus=64,
            workload={"sequence_length": 2048, "global_batch": 64},
            layout={"tp": 8, "pp": 8, "micro_batch": 1},
        )
        times.append(evaluate(request, resolve(request)).candidate.time.tp_exposed_s)
    assert times[0] == pytest.approx(times[1], rel=0.02)
