"""What the network cards of each server send in a step, by the algorithms that run.

A collective's bytes cross the tiers in the shares the traffic report tells: a ring enters a server once,
whatever number of partners it has there. Messages of the pipeline are followed from rank to rank. Bytes
are out where they leave both the server and the NVLink domain: between the servers of a rack that NVLink
joins they go over no card.

The traffic matrix (`models.cost.traffic.placed_traffic`) spreads a collective's bytes evenly over partners
instead, which says who needs whose data, not what a card carries.

Symbols: M GPUs of a server, U GPUs joined without the network (a server, or an NVLink domain of
several), p stages, K tiers.
"""

import numpy as np
from numpy.typing import NDArray

from models.cost.network.placement import dense_strides
from models.cost.setting import Setting
from models.cost.stages import every_stage
from models.cost.step.step_time import Traffic, all_traffic
from models.cost.table import LayoutTable
from models.cost.traffic.stage_sent import ALL, ENDS, NEXT, PREVIOUS, sent_by_stage, stage_to
from models.hardware import Cluster
from models.layout import Layout

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]


def busiest_node(layout: Layout, setting: Setting) -> tuple[int, int]:
    """Return the server that sends the most out in a step, the first of several, and those bytes. [B]."""
    out = np.rint(node_out(layout, setting))
    return int(out.argmax()), int(out.max())


def node_out(layout: Layout, setting: Setting) -> Array:
    """Bytes each server of a job sends over its network cards in a step, (ceil(gpus / M),). [B].

    A rank sends what its stage sends in each group, times the share of the group that crosses the network.
    """
    table = LayoutTable.of([layout])
    code = int(table.schedule[0])
    stages = every_stage(layout.pp, layout.vpp, setting, layout.stage_layers, code, table.recomputed)
    traffic = all_traffic(table, stages, setting)
    network, domain = network_tiers(setting.cluster, layout.gpus)
    rank, stride = np.arange(layout.gpus), int(dense_strides(table)["pp"][0])
    stage = rank // stride % layout.pp
    collectives, out = np.zeros(layout.pp), np.zeros(layout.gpus)
    for one in sent_by_stage(layout, table, stages, traffic, setting):
        for to, sent in one.over.items():
            bytes_ = np.array(sent, dtype=np.float64)
            if to in (NEXT, PREVIOUS, ENDS):
                target = rank + (stage_to(to, stage, layout.pp) - stage) * stride
                out += np.where(rank // domain != target // domain, bytes_[stage], 0.0)
            else:
                collectives += bytes_ * _shares(to, traffic, layout.pp)[:, network].sum(axis=1)
    node = rank // setting.cluster.gpus_per_node
    return np.asarray(np.bincount(node, weights=out + collectives[stage]), dtype=np.float64)


def network_tiers(cluster: Cluster, gpus: int) -> tuple[Bools, int]:
    """Which tiers are of the network, (K,), and U, the GPUs that need no network among them. [GPUs].

    The first tier never is; of the others those that join more than a server. The last joins the whole job.

    >>> from models.catalogue import loader
    >>> [network_tiers(loader.cluster(name), 1152)[1] for name in ("dgx-h100", "gb200-nvl72", "h100-pcie")]
    [8, 72, 8]
    """
    joined = np.array([tier.gpus or gpus for tier in cluster.tiers])
    joined[-1] = max(joined[-1], gpus)
    network: Bools = joined > cluster.gpus_per_node
    network[0] = False
    return network, max(cluster.gpus_per_node, int(joined[~network].max()))


def _shares(group: str, traffic: Traffic, pp: int) -> Array:
    """Share of a group's bytes on each tier, by stage, (p, K). [1]."""
    if group in traffic.dp.over:
        return _data_shares(group, traffic)
    if group == ALL:
        return np.repeat(traffic.gradient_norm.shares, pp, axis=0)
    layered = {"tp": traffic.tp.flows[0:1], "etp": traffic.tp.flows[1:], "cp": traffic.cp.flows}
    flows = layered.get(group, traffic.ep.flows)
    return np.repeat(flows[0].shares, pp, axis=0)


def _data_shares(group: str, traffic: Traffic) -> Array:
    """The shares of DP's groups, each stage's by the algorithm that runs its gradients, (p, K). [1]."""
    codes, which = np.unique(traffic.dp.algorithm[group][0], return_inverse=True)
    return np.concatenate([traffic.routes.shares(group, codes[i : i + 1]) for i in range(len(codes))])[which]
