"""How the product reckons each published split of layers, from the entry's inputs alone."""

from itertools import count

from models.cost.pipeline.looped import group_allowed
from models.cost.pipeline.split_forms import read_layout
from models.cost.splits import balanced_split
from search.groups import strides
from search.stage_problem import StageProblem
from search.stages import StageSplit, assign_layers
from tests.builders import layout
from tests.models.published.facts import Given, Ways

HEAD_405B = 0.66
"""Llama 3.1 405B's head and loss over one of its layers: 128,256 x 16,384 weights over 3.19e9."""


def layout_string(given: Given) -> dict[str, object]:
    found = read_layout(given["layout"], given["p"])
    return {
        "virtual_stages": len(found.chunks),
        "layers_per_virtual_stage": found.layers,
        "layers_per_rank": found.rank_layers,
        "total_layers": sum(found.layers),
        "mtp_on_rank": found.ranks_with("m"),
        "loss_on_rank": found.ranks_with("L"),
    }


def best(layers: int, pp: int, vpp: int = 1) -> tuple[int, ...]:
    found = assign_layers(StageProblem.uniform(layers, pp, vpp, last_time=HEAD_405B))
    assert isinstance(found, StageSplit)
    return found.layers


def llama_stages(given: Given) -> dict[str, object]:
    """One layer less at the ends comes out by itself, and with one-layer chunks empty ends do."""
    layers, pp = given["L"], given["p"]
    split = best(layers, pp)
    chunks = next(v for v in count(1) if pp * v >= layers and max(best(layers, pp, v)) == 1)
    return {"layers_per_rank": split, "sum": sum(split), "v_if_one_layer_chunks": chunks}


def llama_axes(given: Given) -> dict[str, object]:
    """TP8 CP1 PP16 DP64, DP128, and CP16 DP8: the axes of the paper's table 4."""
    degrees = [{"cp": 1, "dp": 64}, {"cp": 1, "dp": 128}, {"cp": 16, "dp": 8}]
    found = [layout(tp=8, pp=16, **each).gpus for each in degrees]
    assert found == given["gpus"]
    return {"products": found}


def rank_order(given: Given) -> dict[str, object]:
    sizes = dict(zip(("tp", "cp", "pp", "dp"), (given[name] for name in "tcpD"), strict=True))
    found = strides(given["order"], sizes)
    partners = {f"{axis}_partner": found[axis] for axis in sizes}
    return partners | {"strides": [found[axis] for axis in given["order"]]}


def remainder(given: Given) -> list[bool]:
    return [group_allowed(given["p"], g, n) for g, n in given["cases_G_N"]]


def trillion(given: Given) -> dict[str, object]:
    rows = list(zip(given["n"], given["t"], given["p"], given["l"], strict=True))
    degrees = [n // (t * p) for n, t, p, _ in rows]
    shapes = zip(rows, degrees, strict=True)
    assert given["n"] == [layout(tp=t, pp=p, dp=dp).gpus for (_, t, p, _), dp in shapes]
    return {"D": degrees, "layers_per_stage": [max(balanced_split(layers, p)) for _, _, p, layers in rows]}


def lighter_ends(given: Given) -> list[int]:
    """The most layers whose longest stage takes k when both ends count as one."""
    return [most_layers(given["p"], k) for k in given["k"]]


def most_layers(pp: int, longest: int) -> int:
    for layers in count(pp):
        found = assign_layers(StageProblem.uniform(layers, pp, first_time=1, last_time=1))
        assert isinstance(found, StageSplit)
        if max(found.rank_s) > longest:
            return layers - 1
    raise AssertionError


SPLITS: Ways = {
    "layout-": layout_string,
    "llama405b-stages": llama_stages,
    "llama405b-axes": llama_axes,
    "llama3-fig5-rank-order": rank_order,
    "megatron-remainder-rule": remainder,
    "narayanan-1t-stages": trillion,
    "zb-layers-recommendation": lighter_ends,
}
