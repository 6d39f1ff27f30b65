"""Bus bandwidth, latency-bandwidth models, hierarchical rings and NCCL's own model."""

import re

import numpy as np

from models.cost.network import collective_models
from models.cost.network.collectives import all_reduce_sent, hierarchical_shares
from models.cost.published import bus_bandwidth, nccl_model
from tests.models.published.facts import Given, Ways


def bus_factors(given: Given) -> np.ndarray:
    operation = re.sub(r"(?<!^)(?=[A-Z])", "_", given["op"]).lower()
    return bus_bandwidth.bus_factor(operation, given["n"])


def measured(given: Given) -> dict[str, float]:
    size, seconds = given["S"], given["t"]
    return {
        "algbw": float(bus_bandwidth.algorithm_bandwidth(size, seconds)) / 1e9,
        "busbw": float(bus_bandwidth.bus_bandwidth("all_reduce", size, given["n"], seconds)) / 1e9,
    }


def link(given: Given) -> tuple[float, int, float, float]:
    return given["n"], given["p"], given["alpha"], 1 / given["beta"]


def all_reduces(given: Given) -> dict[str, np.ndarray]:
    shape = link(given)
    return {
        "recursive_doubling": collective_models.recursive_doubling_all_reduce_seconds(*shape),
        "rabenseifner": collective_models.rabenseifner_all_reduce_seconds(*shape),
        "ring": collective_models.ring_all_reduce_seconds(*shape),
    }


def hierarchical(given: Given) -> dict[str, float]:
    members = np.array([[given["g"], given["g"] * given["nodes"]]])
    sent, shares = all_reduce_sent([given["S"]], members[0, -1]), hierarchical_shares(members)
    return {
        "time": float(
            collective_models.hierarchical_all_reduce_seconds(
                given["S"], given["g"], given["nodes"], given["B_intra"], given["B_nic"]
            )
        ),
        "bytes_per_nic": float(sent[0] * shares[0, 1]),
        "flat_ring_bytes_per_gpu": float(sent[0]),
    }


def nccl_latency(given: Given) -> dict[str, float]:
    shape = (given["gpus_per_node"], given["nodes"])
    return {
        f"{algorithm}_{name}": 1e6 * float(latency(protocol))
        for algorithm, latency in (
            ("ring", lambda protocol: nccl_model.ring_latency_seconds("all_reduce", *shape, protocol)),
            ("tree", lambda protocol: nccl_model.tree_latency_seconds(*shape, protocol)),
        )
        for name, protocol in (("LL", "LL"), ("simple", "Simple"))
    }


def nccl_bandwidth(given: Given) -> dict[str, float]:
    n = given["n"]
    return {
        "ring_allreduce": float(nccl_model.algorithm_share("ring", "all_reduce", n)),
        "ring_allgather": float(nccl_model.algorithm_share("ring", "all_gather", n)),
        "tree_allreduce": float(nccl_model.algorithm_share("tree", "all_reduce", n)),
        "tree_bus_factor": nccl_model.TREE_BUS_FACTOR,
        "ll128_ring": nccl_model.LL128_RING_FACTOR,
        "nvls_hopper": nccl_model.NVLS_EFFICIENCY["hopper"],
        "nvls_blackwell": nccl_model.NVLS_EFFICIENCY["blackwell"],
    }


WAYS: Ways = {
    "busbw-AllReduce": bus_factors,
    "busbw-ReduceScatter": bus_factors,
    "busbw-AllGather": bus_factors,
    "busbw-Broadcast": bus_factors,
    "busbw-Reduce": bus_factors,
    "busbw-worked": measured,
    "alpha-beta-allreduce-": all_reduces,
    "alpha-beta-bcast": lambda given: collective_models.scatter_all_gather_broadcast_seconds(*link(given)),
    "hier-allreduce-": hierarchical,
    "nccl-latency-": nccl_latency,
    "nccl-bw-ratio": nccl_bandwidth,
}
