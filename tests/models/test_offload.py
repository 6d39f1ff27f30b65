"""Activations that wait in the host's memory: what leaves the GPU, what the copies cost, what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.catalogue import gpu, gpu_names, resolve
from models.cost import candidate
from models.cost.memory.offload import held_up, resident_bytes
from models.cost.memory.stage_bytes import kept_bytes, peak_bytes
from models.cost.stages import stage_kinds
from models.cost.step.pipeline_time import Work
from models.cost.table import LayoutTable
from models.errors import InvalidField
from models.estimate import Candidate
from models.hardware import Gpu
from models.layout import Layout
from models.request import SearchRequest
from models.stack import Stack
from tests.builders import DGX, LLAMA_405B, layout, setting, workload

ONE = np.ones((1, 1))
SHAPE = LLAMA_405B.model_copy(update={"layers": 8, "nominal_parameters": None})


def asked(share: float = 0.0, link: float = 5.5e10, batch: int = 32, **more):
    card = gpu("h100-sxm").model_copy(update={"host_bandwidth_bytes_per_s": link})
    return setting(
        SHAPE,
        "calibrated",
        gpus=32,
        cluster=DGX.model_copy(update={"gpu": card}),
        workload=workload(8192, batch),
        stack=Stack(activation_offload=share > 0, offload_share=share or 1.0),
        **more,
    )


def chosen(batch: int = 32, **knobs) -> Layout:
    return layout(SHAPE, batch, **({"tp": 8, "dp": 4} | knobs))


def priced(share: float = 0.0, link: float = 5.5e10, **knobs) -> Candidate:
    return candidate(chosen(**knobs), asked(share, link))


def activations(answer: Candidate, stage: int = 0) -> int:
    return answer.memory.stages[stage].details["layer_activations"]


def test_half_of_eight_layers_leave_and_two_stay_for_the_copies():
    """4 of 8 layers stay, and two of those that leave are on their way."""
    whole, half = activations(priced()), activations(priced(0.5))
    assert half == pytest.approx(whole * 6 / 8, rel=1e-9)


def test_all_of_eight_layers_leave_but_two():
    assert activations(priced(1.0)) == pytest.approx(activations(priced()) * 2 / 8, rel=1e-9)


def test_a_pipeline_keeps_two_layers_however_many_micro_batches_are_in_flight():
    """The first of 4 stages holds 4 micro-batches of 2 layers: 8 layers' activations, of which 2 stay."""
    knobs = {"pp": 4, "dp": 1}
    assert activations(priced(1.0, **knobs)) == pytest.approx(activations(priced(**knobs)) / 4, rel=1e-9)
    last = activations(priced(1.0, **knobs), 3), activations(priced(**knobs), 3)
    assert last[0] == last[1], "one micro-batch of two layers is all on its way"


def test_weights_gradients_and_logits_stay():
    before, after = priced().memory.stages[0], priced(1.0).memory.stages[0]
    same = set(before.details) - {"layer_activations", "fragmentation"}
    assert all(before.details[name] == after.details[name] for name in same)
    assert after.total_bytes < before.total_bytes


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_what_recompute_keeps_is_what_is_offloaded(recompute):
    kept, rows = chosen(recompute=recompute), LayoutTable.of([chosen(recompute=recompute)])
    whole = kept_bytes(rows, stage_kinds(rows, asked()), asked())[0, 0]
    gone = activations(candidate(kept, asked())) - activations(candidate(kept, asked(1.0)))
    assert gone == pytest.approx(whole * 6 / 8, rel=1e-6)


def test_a_link_without_end_costs_nothing():
    assert priced(1.0, 1e15).step_time_s == priced().step_time_s


def test_a_link_slower_than_everything_is_all_the_micro_batches_take():
    """Out and back once for each of 8 micro-batches, nothing hidden but the compute behind it."""
    rows = LayoutTable.of([chosen()])
    copied = kept_bytes(rows, stage_kinds(rows, asked()), asked())[0, 0] / 1e8
    slow = priced(1.0, 1e8)
    rest = slow.time.dp_exposed_s + slow.time.optimizer_s
    assert slow.step_time_s - rest == pytest.approx(8 * 2 * copied, rel=0.03)
    assert slow.time.other_s > slow.time.compute_s


def test_pcie_hides_the_copies_of_long_compute_and_not_of_an_older_generation():
    """A layer of Llama 3.1 405B, TP 8, runs forward in 12 ms and keeps 0.53 GB: 10 ms at 55 GB/s."""
    assert priced(1.0, 5.5e10).step_time_s == pytest.approx(priced().step_time_s, rel=0.01)
    assert priced(1.0, 1.37e10).step_time_s > 1.5 * priced().step_time_s


def test_parts_still_add_up_to_the_step():
    for knobs in ({}, {"pp": 2, "dp": 2}, {"pp": 4, "dp": 1, "vpp": 2}):
        slow = priced(1.0, 1e9, **knobs)
        assert sum(slow.time.model_dump().values()) == pytest.approx(slow.step_time_s, rel=1e-9)


@given(st.floats(0, 40), st.floats(0, 1e12), st.floats(0, 1e11), st.floats(0, 1), st.floats(0, 1))
def test_more_offloaded_never_holds_more_and_nothing_holds_more_than_all(held, kept, layer, one, other):
    low, high = sorted((one, other))
    layer = min(layer, kept)
    bytes_of = [resident_bytes(held * ONE, kept * ONE, layer * ONE, share).item() for share in (0, low, high)]
    assert bytes_of[0] == held * kept
    assert bytes_of[0] * (1 + 1e-12) >= bytes_of[1]
    assert bytes_of[1] * (1 + 1e-12) >= bytes_of[2] >= 0


@given(*[st.floats(0, 1e3)] * 4)
def test_copies_never_shorten_a_micro_batch_and_never_add_more_than_both_ways(forward, back, weight, copied):
    before = Work(forward * ONE, back * ONE, weight * ONE, 0 * ONE)
    after = held_up(before, copied * ONE).pace.item()
    whole = before.pace.item()
    assert whole <= after * (1 + 1e-12)
    assert after <= (whole + 2 * copied) * (1 + 1e-12)
    assert after >= 2 * copied * (1 - 1e-12)


def test_the_heaviest_stage_is_still_the_first_of_its_kind():
    """What the solver bounds by: one stage of each kind is the heaviest of all."""
    one = chosen(pp=4, dp=1)
    told = candidate(one, asked(0.5)).memory
    assert peak_bytes(LayoutTable.of([one]), asked(0.5))[0] == max(s.total_bytes for s in told.stages)


def test_the_hosts_share_is_told():
    (said,) = [text for text in priced(1.0).warnings if "host's memory" in text]
    assert said.startswith(f"{activations(priced()) / 1e9:.1f} GB")


def question(**more) -> SearchRequest:
    stated = {"sequence_length": 8192, "global_batch": 64}
    return SearchRequest.model_validate(
        {"model": "llama-3-8b", "cluster": "dgx-h100", "gpus": 8, "workload": stated} | more
    )


def test_the_share_is_told_where_it_is_left_out():
    told = {a.field: a.value for a in resolve(question(stack={"activation_offload": True})).assumptions}
    assert told["/stack/offload_share"] == 1.0
    assert "/stack/activation_offload" not in told


def test_a_share_of_nothing_is_a_fault():
    with pytest.raises(InvalidField, match="no activations are offloaded"):
        resolve(question(stack={"offload_share": 0.5}))


def test_a_stated_gpu_without_a_link_to_the_host_offloads_nothing():
    card = {"memory_bytes": 80_000_000_000, "memory_bandwidth_bytes_per_s": 3e12, "peak_bf16_flops": 9e14}
    tiers = [{"name": "nvlink", "bandwidth_bytes_per_s": 4.5e11}]
    stack = {"activation_offload": True}
    with pytest.raises(InvalidField) as error:
        resolve(question(cluster={"gpu": card, "tiers": tiers}, stack=stack))
    assert [fault.field for fault in error.value.faults] == ["/cluster/gpu/host_bandwidth_bytes_per_s"]
    linked = card | {"host_bandwidth_bytes_per_s": 5.5e10}
    assert resolve(question(cluster={"gpu": linked, "tiers": tiers}, stack=stack))


def test_every_gpu_of_the_catalogue_has_a_link_slower_than_its_memory():
    for name in gpu_names():
        card: Gpu = gpu(name)
        assert card.host_bandwidth_bytes_per_s is not None, name
        assert card.host_bandwidth_bytes_per_s < card.memory_bandwidth_bytes_per_s / 8, name
