"""Who sends how much to whom: rows are what an evaluation tells, to the byte; cells are where ranks are."""

import itertools
import time
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from models.architecture import Architecture
from models.catalogue.loader import architecture
from models.cost import candidate, matrix_report
from models.cost.setting import Setting
from models.cost.traffic.matrix import MOST_CELLS, MOST_UNITS
from models.hardware import Cluster, Tier
from models.layout import Layout
from models.stack import Stack
from models.traffic_matrix import DimensionMatrix, Level, Matrix
from tests.builders import GPT3, H100, LLAMA_405B, layout, setting, workload

DEEPSEEK = architecture("deepseek-v3")
MIXTRAL = architecture("mixtral-8x7b")
LLAMA_8B = architecture("llama-3-8b")
LLAMA_1B = architecture("llama-3.2-1b")


def cluster(node: int, *larger: int) -> Cluster:
    """Nodes on NVLink, then tiers that join so many GPUs each, then one that joins all."""
    names = ("leaf", "pod", "core")
    tiers = [Tier(name="nvlink", gpus=node, bandwidth_bytes_per_s=4e11)]
    tiers += [Tier(name=name, gpus=unit, bandwidth_bytes_per_s=5e10) for name, unit in zip(names, larger)]  # noqa: B905
    return Cluster(
        gpu=H100, gpus_per_node=node, tiers=(*tiers, Tier(name="spine", bandwidth_bytes_per_s=5e10))
    )


def question(model: Architecture, chosen: Layout, name: str = "calibrated", **more: Any) -> Setting:
    batch = chosen.micro_batches * chosen.micro_batch * chosen.dp
    known: dict[str, Any] = {"cluster": cluster(8), "workload": workload(4096, batch)}
    return setting(model, name, gpus=chosen.gpus, **(known | more))


def report(chosen: Layout, asked: Setting, level: Level = "gpu") -> dict[str, Any]:
    return matrix_report(chosen, asked, level)


def dense(matrix: Matrix, told: dict[str, Any]) -> np.ndarray:
    """The cells as an array of Python's integers."""
    found = np.zeros((len(told["units"]),) * 2, dtype=object)
    for cell in matrix.cells:
        assert cell.bytes > 0
        found[cell.from_, cell.to] += cell.bytes
    return found


def dimension(told: dict[str, Any], name: str) -> DimensionMatrix:
    return next(one for one in told["dimensions"] if one.dimension == name)


def coordinates(chosen: Layout, *, experts: bool = False) -> list[dict[str, int]]:
    """Each rank's place on the dense grid or on the experts', by counting through the order."""
    sizes = {"tp": chosen.tp, "cp": chosen.cp, "dp": chosen.dp, "pp": chosen.pp}
    if experts:
        sizes = {"tp": chosen.etp, "ep": chosen.ep, "dp": chosen.edp, "pp": chosen.pp}
    outermost_first = [axis for axis in reversed(chosen.rank_order) if axis in sizes]
    places = itertools.product(*(range(sizes[axis]) for axis in outermost_first))
    return [dict(zip(outermost_first, place, strict=True)) for place in places]


def partners(places: list[dict[str, int]], *along: str) -> list[set[int]]:
    """Ranks that differ from each one along the given axes only, itself left out."""
    groups: dict[tuple[tuple[str, int], ...], set[int]] = {}
    keys = [tuple((axis, at) for axis, at in place.items() if axis not in along) for place in places]
    for rank, key in enumerate(keys):
        groups.setdefault(key, set()).add(rank)
    return [groups[key] - {rank} for rank, key in enumerate(keys)]


CASES: dict[str, tuple[Architecture, dict[str, Any], dict[str, Any]]] = {
    "dense": (LLAMA_405B, {"tp": 8, "pp": 16, "dp": 2, "batch": 32}, {}),
    "interleaved": (LLAMA_405B, {"tp": 8, "pp": 4, "vpp": 3, "dp": 4, "batch": 64}, {}),
    "two stages interleaved": (LLAMA_8B, {"tp": 2, "pp": 2, "vpp": 4, "dp": 4, "batch": 64}, {}),
    "tied embedding": (GPT3, {"tp": 8, "pp": 8, "dp": 2, "batch": 32}, {}),
    "context parallel": (LLAMA_8B, {"tp": 2, "cp": 4, "pp": 2, "dp": 2, "batch": 16}, {}),
    "ulysses": (LLAMA_8B, {"tp": 1, "cp": 4, "dp": 6, "batch": 12, "cp_comm": "ulysses"}, {}),
    "ring": (LLAMA_8B, {"tp": 1, "cp": 4, "dp": 6, "batch": 12, "cp_comm": "ring"}, {}),
    "zero-3": (LLAMA_8B, {"tp": 2, "dp": 24, "zero": 3, "batch": 48}, {}),
    "hybrid sharding": (LLAMA_8B, {"tp": 2, "cp": 2, "dp": 8, "hsdp_shard": 4, "batch": 16}, {}),
    "zero-0": (LLAMA_8B, {"tp": 2, "pp": 2, "dp": 5, "zero": 0, "batch": 10}, {}),
    "experts": (DEEPSEEK, {"pp": 8, "dp": 16, "ep": 16, "batch": 256}, {}),
    "experts with MTP": (DEEPSEEK, {"pp": 4, "dp": 32, "ep": 8, "batch": 64}, {"stack": Stack(mtp=True)}),
    "experts deduplicated": (
        DEEPSEEK,
        {"pp": 4, "dp": 64, "ep": 32, "batch": 256},
        {"stack": Stack(dispatcher="deduplicating", imbalance=1.3)},
    ),
    "experts' own TP": (MIXTRAL, {"tp": 4, "etp": 2, "pp": 2, "dp": 8, "ep": 8, "batch": 32}, {}),
    "experts' TP beyond TP": (MIXTRAL, {"tp": 1, "etp": 2, "dp": 16, "ep": 8, "batch": 32}, {}),
    "experts in hybrid sharding": (
        MIXTRAL,
        {"tp": 2, "pp": 2, "dp": 16, "ep": 4, "hsdp_shard": 4, "batch": 32},
        {},
    ),
    "recompute of some layers": (
        LLAMA_8B,
        {"tp": 4, "pp": 4, "dp": 2, "batch": 16, "recompute": "full", "recompute_layers": 3},
        {},
    ),
    "recompute of other layers on each stage": (
        LLAMA_8B,
        {"tp": 4, "pp": 4, "dp": 2, "batch": 16, "recompute": "full", "recompute_stage_layers": (5, 3, 0, 1)},
        {},
    ),
    "layers as stated": (LLAMA_1B, {"tp": 2, "pp": 3, "dp": 2, "stage_layers": (9, 3, 4), "batch": 8}, {}),
}
EACH = pytest.mark.parametrize("case", CASES)


def posed(case: str, name: str = "calibrated") -> tuple[Layout, Setting]:
    model, knobs, more = CASES[case]
    chosen = layout(model, **knobs)
    return chosen, question(model, chosen, name, **more)


@EACH
@pytest.mark.parametrize("name", ["calibrated", "textbook"])
@pytest.mark.parametrize("level", ["gpu", "node"])
def test_rows_are_what_an_evaluation_says_a_gpu_sends_to_the_byte(case, name, level):
    chosen, asked = posed(case, name)
    told = report(chosen, asked, level)
    sent = {
        (one.dimension, one.operation): one.sent_bytes_per_gpu for one in candidate(chosen, asked).traffic
    }
    assert {(one.dimension, one.operation): one.sent_bytes_per_gpu for one in told["dimensions"]} == sent
    stage = np.array([place["pp"] for place in coordinates(chosen)])
    for one in told["dimensions"]:
        assert max(one.stage_sent_bytes_per_gpu) == one.sent_bytes_per_gpu
        each = np.array(one.stage_sent_bytes_per_gpu)[stage]
        rows = [each[unit.first_rank : unit.last_rank + 1].sum() for unit in told["units"]]
        assert dense(one, told).sum(axis=1).tolist() == list(one.sent_bytes) == rows


@EACH
def test_nodes_send_what_their_gpus_send(case):
    chosen, asked = posed(case)
    gpus, nodes = report(chosen, asked), report(chosen, asked, "node")
    assert gpus["unit"].gpus == 1
    assert nodes["unit"].gpus == 8
    node = np.arange(chosen.gpus) // 8
    count = len(nodes["units"])
    for small, large in zip(
        (*gpus["dimensions"], gpus["sum"]), (*nodes["dimensions"], nodes["sum"]), strict=True
    ):
        joined = np.zeros((count, count), dtype=object)
        np.add.at(joined, (node[:, None], node[None, :]), dense(small, gpus))
        assert (joined == dense(large, nodes)).all()
        assert small.nodes == large.nodes
        out = joined.sum(axis=1) - np.diag(joined)
        assert large.nodes.inside_bytes == np.diag(joined).sum()
        assert large.nodes.between_bytes == out.sum()
        assert large.nodes.busiest_node_out_bytes == out.max() == out[large.nodes.busiest_node]


@EACH
def test_the_sum_is_all_dimensions_and_nobody_sends_to_himself(case):
    chosen, asked = posed(case)
    told = report(chosen, asked)
    whole = sum(dense(one, told) for one in told["dimensions"])
    assert (whole == dense(told["sum"], told)).all()
    assert not np.diag(whole).any()


GROUPS = {
    "tp": (False, ("tp",)),
    "cp": (False, ("cp",)),
    "dp": (False, ("cp", "dp")),
    "ep": (True, ("ep",)),
}


@pytest.mark.parametrize(
    "case", ["dense", "context parallel", "ulysses", "ring", "zero-3", "zero-0", "tied embedding"]
)
def test_a_collective_goes_evenly_to_the_ranks_of_the_group_and_to_no_other(case):
    chosen, asked = posed(case)
    told = report(chosen, asked)
    for name in ("tp", "cp", "dp"):
        groups = partners(coordinates(chosen), *GROUPS[name][1])
        for one in told["dimensions"]:
            if one.dimension != name or "norm" in one.operation:
                continue
            for row, whom in zip(dense(one, told), groups, strict=True):
                assert set(np.flatnonzero(row)) == whom
                assert max(row) - min(row[list(whom)]) <= 1


def test_experts_are_reached_on_the_expert_grid():
    chosen, asked = posed("experts")
    told = report(chosen, asked)
    groups = partners(coordinates(chosen, experts=True), "ep")
    found = dense(dimension(told, "ep"), told)
    assert [set(np.flatnonzero(row)) for row in found] == groups
    assert (found == found.T).all()


def test_routed_gradients_go_over_edp_and_dense_ones_over_dp():
    """DeepSeek-V3's 16 replicas share 8 experts' ranks: two ranks hold the same experts."""
    chosen = layout(DEEPSEEK, batch=256, pp=8, dp=16, ep=8)
    told = report(chosen, question(DEEPSEEK, chosen))
    found = dense(dimension(told, "dp"), told)
    dense_partners = partners(coordinates(chosen), "dp")
    twins = partners(coordinates(chosen, experts=True), "dp")
    for row, whom, twin in zip(found, dense_partners, twins, strict=True):
        assert set(np.flatnonzero(row)) == whom
        (same,) = twin
        others = row[list(whom - twin)]
        assert max(others) - min(others) <= 1
        assert row[same] > 2 * max(others)


def test_hybrid_sharding_joins_a_shard_group_and_the_same_shard_of_every_other():
    """ZeRO over 4 of 16 ranks a tensor-parallel place: 3 shard partners get far more than 3 replicas."""
    chosen, asked = posed("hybrid sharding")
    told = report(chosen, asked)
    row = dense(dimension(told, "dp"), told)[0]
    assert np.flatnonzero(row).tolist() == [2, 4, 6, 8, 16, 24]
    assert min(row[[2, 4, 6]]) > 2 * max(row[[8, 16, 24]])


def test_plain_messages_go_forward_to_the_next_stage_and_back_to_the_one_before():
    chosen = layout(LLAMA_8B, batch=32, tp=2, pp=4, dp=2)
    told = report(chosen, question(LLAMA_8B, chosen))
    found = dense(dimension(told, "pp"), told)
    message = 2 * 4096 * 4096 // 2
    each = chosen.micro_batches * message
    assert np.flatnonzero(found[0]).tolist() == [4]
    assert np.flatnonzero(found[4]).tolist() == [0, 8]
    assert np.flatnonzero(found[12]).tolist() == [8]
    assert set(found[found > 0]) == {each}


def test_interleaved_messages_wrap_around_from_the_last_stage_to_the_first():
    """Three chunks a stage: 3 G messages to a neighbour, 2 G between the ends, each way."""
    chosen = layout(LLAMA_405B, batch=64, tp=8, pp=4, vpp=3, dp=4)
    told = report(chosen, question(LLAMA_405B, chosen))
    found = dense(dimension(told, "pp"), told)
    step = chosen.micro_batches * 2 * 4096 * 16384 // 8
    stage = 8 * 4
    assert found[0, stage] == found[stage, 0] == 3 * step
    assert found[0, 3 * stage] == found[3 * stage, 0] == 2 * step
    assert dimension(told, "pp").stage_sent_bytes_per_gpu == (5 * step, 6 * step, 6 * step, 5 * step)


def test_only_the_end_stages_share_an_embedding():
    chosen, asked = posed("tied embedding")
    told = report(chosen, asked)
    (shared,) = (one for one in told["dimensions"] if "embedding" in one.operation)
    found = dense(shared, told)
    apart = chosen.gpus - chosen.gpus // chosen.pp
    assert [tuple(pair) for pair in np.argwhere(found)] == [
        *((rank, rank + apart) for rank in range(16)), *((rank + apart, rank) for rank in range(16))
    ]  # fmt: skip


def by_tier(one: DimensionMatrix, told: dict[str, Any], asked: Setting, rank: int) -> dict[str, int]:
    """A rank's bytes by the innermost tier that joins it with the receiver."""
    found: dict[str, int] = {}
    for to, bytes_ in enumerate(dense(one, told)[rank]):
        joining = (t.name for t in asked.cluster.tiers if t.gpus is None or rank // t.gpus == to // t.gpus)
        name = next(joining)
        found[name] = found.get(name, 0) + int(bytes_)
    return {name: bytes_ for name, bytes_ in found.items() if bytes_}


@pytest.mark.parametrize(
    ("case", "leaf"),
    [("dense", 32), ("context parallel", 16), ("ulysses", 24), ("zero-3", 24), ("experts", 32)],
)
def test_the_texts_split_over_tiers_is_the_matrix_s(case, leaf):
    """Where every byte is spread evenly over partners, an evaluation's tiers are a row's."""
    model, knobs, _ = CASES[case]
    chosen = layout(model, **knobs)
    asked = question(model, chosen, "textbook", cluster=cluster(8, leaf))
    told = report(chosen, asked)
    for entry in candidate(chosen, asked).traffic:
        if entry.dimension == "pp":
            continue
        one = dimension(told, entry.dimension)
        found = by_tier(one, told, asked, int(np.argmax(one.sent_bytes)))
        assert found == pytest.approx({t.tier: t.sent_bytes_per_gpu for t in entry.tiers}, abs=chosen.gpus)


def test_a_deduplicating_dispatcher_s_tiers_are_kept():
    """DeepSeek-V3 over 8 nodes of 8: at most 4 copies cross, as an evaluation prices them."""
    chosen = layout(DEEPSEEK, batch=256, pp=4, dp=64, ep=64)
    asked = question(DEEPSEEK, chosen, cluster=cluster(8, 32), stack=Stack(dispatcher="deduplicating"))
    told = report(chosen, asked)
    (entry,) = (entry for entry in candidate(chosen, asked).traffic if entry.dimension == "ep")
    found = by_tier(dimension(told, "ep"), told, asked, int(np.argmax(dimension(told, "ep").sent_bytes)))
    assert found == pytest.approx({t.tier: t.sent_bytes_per_gpu for t in entry.tiers}, abs=256)
    plain = report(chosen, question(DEEPSEEK, chosen, cluster=cluster(8, 32)))
    far = dimension(told, "ep").nodes.between_bytes / dimension(plain, "ep").nodes.between_bytes
    assert far == pytest.approx(0.5)


def test_with_tensor_parallelism_over_a_node_all_that_leaves_it_joins_equal_places():
    chosen = layout(LLAMA_405B, batch=64, tp=8, cp=2, pp=4, dp=4, rank_order=("tp", "cp", "ep", "pp", "dp"))
    nodes = report(chosen, question(LLAMA_405B, chosen), "node")["sum"].nodes
    assert nodes.equal_local_rank_share == nodes.equal_local_rank_pairs == 1.0


def test_experts_over_nodes_join_different_places():
    """Of the partners in another node of 8 one has the same place."""
    chosen = layout(DEEPSEEK, batch=256, pp=8, dp=16, ep=16)
    told = report(chosen, question(DEEPSEEK, chosen), "node")
    assert dimension(told, "ep").nodes.equal_local_rank_share == pytest.approx(1 / 8)
    assert dimension(told, "ep").nodes.equal_local_rank_pairs == 0.0
    assert told["sum"].nodes.equal_local_rank_share < 0.5


def test_data_parallelism_inside_the_pipeline_moves_its_neighbours_to_farther_nodes():
    def distances(*order: str) -> set[int]:
        chosen = layout(LLAMA_405B, batch=64, tp=8, pp=4, dp=4, rank_order=order)
        told = report(chosen, question(LLAMA_405B, chosen), "node")
        return {abs(cell.from_ - cell.to) for cell in dimension(told, "pp").cells}

    assert distances("tp", "cp", "ep", "pp", "dp") == {1}
    assert distances("tp", "cp", "ep", "dp", "pp") == {4}


KNOBS = {
    "tp": st.integers(1, 3),
    "cp": st.integers(1, 3),
    "pp": st.integers(1, 3),
    "dp": st.integers(1, 6),
    "vpp": st.integers(1, 2),
    "ep": st.sampled_from([1, 2, 4, 8]),
    "etp": st.sampled_from([1, 2, 3]),
    "zero": st.integers(0, 3),
    "hsdp_shard": st.sampled_from([None, 2, 3, 4]),
    "rank_order": st.permutations(["tp", "cp", "ep", "dp", "pp"]).map(tuple),
    "micro_batch": st.just(1),
}


@settings(max_examples=100, deadline=None)
@given(
    knobs=st.fixed_dictionaries(KNOBS),
    sparse=st.booleans(),
    node=st.integers(1, 9),
    stack=st.sampled_from([Stack(), Stack(dispatcher="deduplicating")]),
    name=st.sampled_from(["calibrated", "textbook"]),
)
def test_on_odd_clusters_every_byte_sent_is_in_the_matrix_once(knobs, sparse, node, stack, name):
    if not sparse:
        knobs = knobs | {"ep": 1, "etp": 1}
    assume(knobs["tp"] * knobs["cp"] * knobs["dp"] % (knobs["ep"] * knobs["etp"]) == 0)
    if knobs["pp"] == 1:
        knobs = knobs | {"vpp": 1}
    model = MIXTRAL if sparse else LLAMA_1B
    chosen = layout(model, batch=12 * knobs["dp"], **knobs)
    asked = question(model, chosen, name, cluster=cluster(node, 3 * node), stack=stack)
    gpus, nodes = report(chosen, asked), report(chosen, asked, "node")
    assert gpus["unit"].gpus == 1
    sent = {
        (one.dimension, one.operation): one.sent_bytes_per_gpu for one in candidate(chosen, asked).traffic
    }
    assert {(one.dimension, one.operation): one.sent_bytes_per_gpu for one in gpus["dimensions"]} == sent
    stage = [place["pp"] for place in coordinates(chosen)]
    place = np.arange(chosen.gpus) // node
    for small, large in zip(gpus["dimensions"], nodes["dimensions"], strict=True):
        found = dense(small, gpus)
        assert found.sum(axis=1).tolist() == [small.stage_sent_bytes_per_gpu[at] for at in stage]
        assert not np.diag(found).any()
        joined = np.zeros((len(nodes["units"]),) * 2, dtype=object)
        np.add.at(joined, (place[:, None], place[None, :]), found)
        assert (joined == dense(large, nodes)).all()
        if small.dimension in ("tp", "cp") and knobs["etp"] == 1:
            assert abs(found - found.T).max() <= 1
        across = [
            (int(v), i % node == j % node) for (i, j), v in np.ndenumerate(found) if i // node != j // node
        ]
        total = sum(bytes_ for bytes_, _ in across)
        assert large.nodes.between_bytes == total
        if "norm" not in small.operation and total:
            equal = sum(bytes_ for bytes_, same in across if same)
            assert large.nodes.equal_local_rank_share == pytest.approx(equal / total, abs=1e-4)


LARGE: dict[str, tuple[Architecture, dict[str, Any], tuple[int, ...], Level]] = {
    "16,384 of Llama 3.1": (LLAMA_405B, {"tp": 8, "pp": 16, "dp": 128}, (8, 256), "gpu"),
    "its long context": (LLAMA_405B, {"tp": 8, "cp": 16, "pp": 16, "dp": 8}, (8, 16, 3072), "node"),
    "one group of 16,384": (LLAMA_8B, {"dp": 16384, "zero": 3}, (8, 256), "node"),
    "16,384 of DeepSeek-V3": (DEEPSEEK, {"pp": 16, "dp": 1024, "ep": 64}, (4, 72), "node"),
    "100,000": (LLAMA_8B, {"tp": 8, "dp": 12500}, (8, 256), "node"),
    "100,000 that nest in nothing": (
        LLAMA_8B,
        {"tp": 5, "cp": 2, "pp": 16, "dp": 625, "rank_order": ("pp", "cp", "tp", "dp", "ep")},
        (6,),
        "gpu",
    ),
    "100,000 of DeepSeek-V3": (DEEPSEEK, {"pp": 5, "dp": 20000, "ep": 32}, (4, 72), "gpu"),
}


@pytest.mark.parametrize("case", LARGE)
def test_a_large_job_is_answered_soon_in_few_cells(case):
    """About a second on a quiet machine, of which the test allows several."""
    model, knobs, units, level = LARGE[case]
    chosen = layout(model, batch=2 * knobs["dp"], **knobs)
    stack = Stack(dispatcher="deduplicating" if model is DEEPSEEK else "all_to_all")
    asked = question(model, chosen, cluster=cluster(*units), stack=stack)
    start = time.process_time()
    told = report(chosen, asked, level)
    assert time.process_time() - start < 5
    assert len(told["units"]) <= MOST_UNITS
    assert told["units"][-1].last_rank == chosen.gpus - 1
    matrices = (*told["dimensions"], told["sum"])
    assert sum(len(one.cells) for one in matrices) <= MOST_CELLS
    for one in matrices:
        rows = [0] * len(told["units"])
        for cell in one.cells:
            rows[cell.from_] += cell.bytes
        assert tuple(rows) == one.sent_bytes
    for one in told["dimensions"]:
        each = sum(one.stage_sent_bytes_per_gpu) * chosen.gpus // chosen.pp
        assert sum(one.sent_bytes) == each == one.nodes.inside_bytes + one.nodes.between_bytes


def test_the_memory_it_takes_is_bounded():
    """A dense matrix of 100,000 GPUs would hold 80 GB."""
    model, knobs, units, level = LARGE["100,000"]
    chosen = layout(model, batch=2 * knobs["dp"], **knobs)
    asked = question(model, chosen, cluster=cluster(*units))
    tracemalloc.start()
    report(chosen, asked, level)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 400e6


def test_blocks_of_nodes_are_told_with_the_ranks_they_hold():
    chosen = layout(LLAMA_405B, batch=2048, tp=8, pp=16, dp=128)
    told = report(chosen, question(LLAMA_405B, chosen, cluster=cluster(8, 256)), "node")
    assert told["unit"].model_dump() == {"kind": "node", "count": 4, "gpus": 32}
    assert "2,048 nodes" in told["aggregated"]
    assert "4 nodes" in told["aggregated"]
    assert told["units"][1].model_dump() == {"first_rank": 32, "last_rank": 63}


def test_a_last_node_may_be_partly_filled():
    chosen = layout(LLAMA_8B, batch=9, tp=1, pp=1, dp=9)
    told = report(chosen, question(LLAMA_8B, chosen), "node")
    assert told["units"][-1].model_dump() == {"first_rank": 8, "last_rank": 8}
    found = dense(dimension(told, "dp"), told)
    assert found[1, 1] == 0
    assert found[1, 0] == dimension(told, "dp").sent_bytes_per_gpu


def test_one_gpu_sends_nothing():
    chosen = layout(LLAMA_8B, batch=1)
    told = report(chosen, question(LLAMA_8B, chosen))
    assert told["dimensions"] == ()
    assert told["sum"].cells == ()
    assert told["sum"].sent_bytes == (0,)


def test_bytes_beyond_64_bits_are_told_to_the_byte():
    """Sixteen million tokens a sequence and a million sequences: 2^70 bytes a step."""
    chosen = layout(LLAMA_405B, batch=2**20, tp=8, pp=2, dp=4)
    asked = question(LLAMA_405B, chosen, workload=workload(2**24, 2**20))
    for level in ("gpu", "node"):
        told = report(chosen, asked, level)
        assert sum(told["sum"].sent_bytes) > 2**66
        for one in (*told["dimensions"], told["sum"]):
            assert dense(one, told).sum(axis=1).tolist() == list(one.sent_bytes)
    most = {one.dimension: one.sent_bytes_per_gpu for one in candidate(chosen, asked).traffic}
    assert dimension(told, "tp").sent_bytes_per_gpu == most["tp"]
