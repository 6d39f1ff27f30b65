"""The cluster a run's columns describe: the GPU by its label, the tiers by their sizes and rates."""

from functools import cache

from models import catalogue
from models.catalogue.racks import taken_of_domain
from models.hardware import Cluster, Tier
from service.measured.run import MeasuredRun
from service.measured.told import CannotPredict, Told

MACHINES: dict[str, tuple[str, str]] = {
    "V100-SXM2-16GB": ("v100-16gb", "dgx-v100"),
    "V100-SXM2-32GB": ("v100-32gb", "dgx-v100"),
    "A100-40GB": ("a100-40gb-sxm", "dgx-a100"),
    "A100-80GB": ("a100-80gb-sxm", "dgx-a100"),
    "A100-PCIe-80GB": ("a100-80gb-pcie", "a100-pcie"),
    "A800": ("a800-sxm", "a800-8x200g"),
    "H100": ("h100-sxm", "dgx-h100"),
    "H100-96GB-HBM2e": ("h100-96gb-hbm2e", "dgx-h100"),
    "H200": ("h200-sxm", "dgx-h200"),
    "H800": ("h800-sxm", "h800-8x400g"),
    "B200": ("b200", "dgx-b200"),
    "B300": ("b300", "dgx-b300"),
    "GB200": ("gb200", "gb200-nvl72"),
    "GB300": ("gb300", "gb300-nvl72"),
}
"""Label of the `gpu` column to the catalogue's GPU, and to the cluster whose fast tier and latencies
it has. Sizes and network rates are the file's own columns."""


def cluster_of(run: MeasuredRun, told: Told) -> Cluster:
    """Rebuild the cluster: the NVLink domain, then one flat network at the rate the file states."""
    gpu, machine = MACHINES.get(run.gpu) or (run.gpu, _machine_with(run.gpu))
    fast, *_, far = catalogue.cluster(machine).tiers
    network = Tier(name="network", bandwidth_bytes_per_s=run.nic_bytes_per_s, collective=far.collective)
    return Cluster(
        name=run.id,
        gpu=catalogue.gpu(gpu),
        tiers=(*_inner(run, fast, told), network),
        gpus_per_node=run.gpus_per_node,
    )


@cache
def _machine_with(gpu: str) -> str:
    """The cluster of the labels, else the catalogue's first, with a GPU the column calls by its own name."""
    if gpu not in catalogue.gpu_names():
        known = f"{len(MACHINES)} known labels: {', '.join(MACHINES)}; nor is it a GPU of the catalogue"
        raise CannotPredict(f"gpu {gpu!r} is not one of the {known}")
    usual = dict(MACHINES.values())
    of_it = (name for name in catalogue.cluster_names() if catalogue.cluster(name).gpu.name == gpu)
    found = usual.get(gpu) or next(of_it, None)
    if found is None:
        raise CannotPredict(f"no cluster of the catalogue has gpu {gpu!r}, so its fast tier is not known")
    return found


def _inner(run: MeasuredRun, fast: Tier, told: Told) -> list[Tier]:
    """The fast tier. A card without a switch has a pair at most, whatever the server holds."""
    if run.nvlink_domain_gpus == 1:
        pair = min(fast.gpus or 1, run.gpus_per_node) if fast.name == "nvlink-pair" else 1
        return [_sized(fast, pair)] if pair > 1 else []
    whole = _sized(fast, run.nvlink_domain_gpus)
    taken = taken_of_domain(run.gpus, run.nvlink_domain_gpus, run.gpus_per_node)
    if taken != run.nvlink_domain_gpus:
        told.assume("GPUs taken of an NVLink domain", taken, "as many of each, in whole nodes")
    return [_sized(whole, taken)]


def _sized(tier: Tier, gpus: int) -> Tier:
    return Tier(**(tier.model_dump() | {"gpus": gpus}))
