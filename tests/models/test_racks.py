"""What a job takes of racks whose servers share NVLink."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.catalogue import cluster, resolve
from models.catalogue.racks import spread_over_racks, taken_of_domain
from models.request import EvaluateRequest
from search import evaluate


@given(gpus=st.integers(1, 100_000), node=st.sampled_from((1, 2, 4, 8)), nodes=st.integers(1, 18))
def test_every_rack_gives_the_same_whole_servers_or_racks_are_filled_in_turn(gpus, node, nodes):
    domain = node * nodes
    taken = taken_of_domain(gpus, domain, node)
    assert taken == domain or (domain // 2 < taken < domain and taken % node == 0 and gpus % taken == 0)


@pytest.mark.parametrize(("gpus", "taken"), [(64, 72), (144, 72), (256, 64), (1152, 72), (2048, 64)])
def test_a_job_of_a_power_of_two_takes_64_of_each_nvl72_rack_and_tells_so(gpus, taken):
    found, told = spread_over_racks(cluster("gb200-nvl72"), gpus)
    assert found.tiers[0].gpus == taken
    assert found.tiers[1].gpus == 8 * taken
    assert bool(told) == (taken != 72)


def test_every_tier_the_job_takes_a_part_of_is_told():
    """1,024 GPUs: 64 of the 72 of a rack, so 512 of the 576 under a leaf; the last tier joins all anyway."""
    found, told = spread_over_racks(cluster("gb200-nvl72"), 1024)
    assert [(one.field, one.value) for one in told] == [
        ("/cluster/tiers/0/gpus", 64),
        ("/cluster/tiers/1/gpus", 512),
    ]
    assert "576" in told[1].why
    assert [tier.gpus for tier in found.tiers] == [64, 512, None]


def test_servers_of_eight_are_never_thinned():
    assert spread_over_racks(cluster("dgx-h100"), 12) == (cluster("dgx-h100"), ())


def test_experts_over_64_gpus_stay_on_a_racks_nvlink():
    request = EvaluateRequest(
        model="deepseek-v3",
        cluster="gb200-nvl72",
        gpus=256,
        workload={"sequence_length": 4096, "global_batch": 4096},
        layout={"ep": 64, "pp": 4, "dp": 64},
    )
    answer = evaluate(request, resolve(request))
    exchange = next(one for one in answer.candidate.traffic if one.dimension == "ep")
    assert [part.tier for part in exchange.tiers] == ["nvlink"]
    assert any(a.field == "/cluster/tiers/0/gpus" and a.value == 64 for a in answer.assumptions)
