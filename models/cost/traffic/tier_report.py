"""How busy each tier of the fabric is over a step, and how much of the step waits for it."""

from collections.abc import Sequence

from models.cost.network.routes import wire
from models.cost.setting import Setting
from models.estimate import DimensionTraffic, TierLoad


def tier_loads(
    traffic: Sequence[DimensionTraffic], step_time_s: float, setting: Setting
) -> tuple[TierLoad, ...]:
    """Sum the dimensions by tier, innermost first; tiers nothing crosses are told with zeros.

    Utilisation is a GPU's bytes over what the tier could carry for it in the step, B_k T. A dimension's
    waiting is split over its tiers as its time on the wire is. Each dimension counts the GPU that sends
    the most in it, so a tier that several share is told no less than it carries.

    Parameters
    ----------
    traffic
        What each dimension sends.
    step_time_s
        T, the step. [s]
    setting
        The cluster, after oversubscription.
    """
    rates = wire(setting).bandwidth
    loads = []
    for tier, rate in zip(setting.cluster.tiers, rates, strict=True):
        parts = [(one, part) for one in traffic for part in one.tiers if part.tier == tier.name]
        sent = sum(part.sent_bytes_per_gpu for _, part in parts)
        passed = sum(part.forwarded_bytes_per_gpu for _, part in parts)
        waiting = sum(one.exposed_s * part.seconds / one.seconds for one, part in parts if one.seconds > 0)
        loads.append(
            TierLoad(
                tier=tier.name,
                bandwidth_bytes_per_s=float(rate),
                sent_bytes_per_gpu=sent,
                forwarded_bytes_per_gpu=passed,
                utilisation=(sent + passed) / (float(rate) * step_time_s),
                waiting_s=waiting,
                waiting_share=waiting / step_time_s,
            )
        )
    return tuple(loads)
