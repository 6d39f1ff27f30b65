"""How busy each tier is, and who waits for it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.cost import candidate
from models.hardware import Cluster
from tests.builders import DGX, layout, setting


@given(
    tp=st.sampled_from((1, 4, 8, 16)),
    pp=st.sampled_from((1, 2, 16)),
    zero=st.integers(0, 2),
    slow=st.sampled_from((1.0, 4.0)),
    name=st.sampled_from(("textbook", "calibrated")),
)
def test_tiers_add_up_what_the_dimensions_send_and_wait_for(tp, pp, zero, slow, name):
    network = DGX.tiers[1].model_copy(update={"oversubscription": slow})
    where = Cluster(gpu=DGX.gpu, gpus_per_node=8, tiers=(DGX.tiers[0], network))
    chosen = layout(tp=tp, pp=pp, dp=1024 // (tp * pp), zero=zero)
    found = candidate(chosen, setting(name=name, gpus=1024, cluster=where))
    assert [load.tier for load in found.tiers] == ["nvlink", "network"]
    sent = sum(one.sent_bytes_per_gpu for one in found.traffic)
    assert sum(load.sent_bytes_per_gpu for load in found.tiers) == sent
    exposed = sum(getattr(found.time, f"{d}_exposed_s") for d in ("tp", "cp", "ep", "pp", "dp"))
    assert sum(load.waiting_s for load in found.tiers) == pytest.approx(exposed)
    for load, tier in zip(found.tiers, where.tiers, strict=True):
        assert load.bandwidth_bytes_per_s == tier.bandwidth_bytes_per_s / tier.oversubscription
        assert load.waiting_share == pytest.approx(load.waiting_s / found.step_time_s)
        if name == "calibrated":
            assert 0 <= load.utilisation < 1


def test_a_slower_network_is_told_busier_and_waited_for_longer():
    loads = []
    for slow in (1.0, 2.0, 4.0):
        network = DGX.tiers[1].model_copy(update={"oversubscription": slow})
        where = Cluster(gpu=DGX.gpu, gpus_per_node=8, tiers=(DGX.tiers[0], network))
        found = candidate(layout(tp=8, pp=16, dp=128), setting(name="calibrated", cluster=where))
        loads.append(found.tiers[1])
    assert [load.waiting_s for load in loads] == sorted(load.waiting_s for load in loads)
    assert loads[0].utilisation < loads[1].utilisation < loads[2].utilisation


def test_each_dimension_names_what_runs_it():
    split, whole = (
        candidate(
            layout(tp=16, pp=16, dp=64, zero=0, sequence_parallel=sp), setting(name="calibrated")
        ).traffic
        for sp in (True, False)
    )
    assert [one.algorithm for one in split][:3] == ["ring", "direct", "ring"]
    assert whole[0].algorithm == "hierarchical"
