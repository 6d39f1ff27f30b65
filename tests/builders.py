"""Small real objects the tests share."""

from typing import Any

from models.architecture import Architecture
from models.catalogue.collective_constants import links
from models.catalogue.framework_memory import framework
from models.catalogue.profiles import profile
from models.catalogue.recipes import recipe
from models.cost.setting import Setting
from models.cost.splits import balanced_split
from models.hardware import Cluster, Gpu, Tier
from models.layout import LAUNCHABLE_ORDERS, Layout
from models.workload import Workload

LLAMA_405B = Architecture(
    name="llama-3.1-405b",
    hidden=16384,
    layers=126,
    heads=128,
    kv_heads=8,
    head_size=128,
    ffn=53248,
    vocabulary=128256,
    nominal_parameters=405_000_000_000,
)
GPT3 = Architecture(
    name="gpt3-175b",
    hidden=12288,
    layers=96,
    heads=96,
    kv_heads=96,
    head_size=128,
    ffn=49152,
    gated_mlp=False,
    vocabulary=50257,
    learned_positions=2048,
    norm="layer",
    qkv_bias=True,
    attention_output_bias=True,
    mlp_bias=True,
    tied_embeddings=True,
    nominal_parameters=175_000_000_000,
)
H100 = Gpu(
    name="h100",
    memory_bytes=80_000_000_000,
    usable_memory_bytes=85_045_477_376,
    memory_bandwidth_bytes_per_s=3.35e12,
    peak_bf16_flops=989.4e12,
    peak_fp16_flops=989.4e12,
    peak_fp32_flops=67e12,
    matmul_fraction=0.784,
)
DGX = Cluster(
    name="dgx",
    gpu=H100,
    gpus_per_node=8,
    tiers=(
        Tier(name="nvlink", gpus=8, bandwidth_bytes_per_s=450e9),
        Tier(name="network", bandwidth_bytes_per_s=50e9),
    ),
)


def workload(sequence: int = 8192, batch: int = 2048, **more: Any) -> Workload:
    """A BF16 Adam run; gradients kept in BF16 and sent in FP32, as the texts reckon."""
    known = {
        "precision": "bf16",
        "gradient_dtype": "bf16",
        "gradient_reduce_dtype": "fp32",
        "optimizer": "adam",
    }
    full = known | more
    bytes_of = recipe(
        full["precision"], full["gradient_dtype"], full["gradient_reduce_dtype"], full["optimizer"]
    )
    return Workload(sequence_length=sequence, global_batch=batch, recipe=bytes_of, **full)


def setting(architecture: Architecture = LLAMA_405B, name: str = "textbook", **more: Any) -> Setting:
    """A question on 8-GPU nodes under a profile."""
    known: dict[str, Any] = {
        "cluster": DGX,
        "gpus": 16384,
        "workload": workload(),
        "memory_limit_bytes": 80_000_000_000,
        "framework": framework("any"),
    }
    full = known | more
    full.setdefault("links", links(full["cluster"]))
    return Setting(architecture=architecture, profile=profile(name), **full)


def layout(architecture: Architecture = LLAMA_405B, batch: int = 2048, **knobs: Any) -> Layout:
    """A layout from its degrees, everything else as a search derives it."""
    known: dict[str, Any] = dict.fromkeys(("tp", "cp", "pp", "vpp", "dp", "ep", "etp", "micro_batch"), 1)
    known |= {
        "zero": 1,
        "recompute": "none",
        "cp_comm": "all_gather",
        "gradient_reduce": "once",
        "weight_gather": "per_pass",
        "tp_overlap": False,
        "dp_overlap": True,
        "rank_order": LAUNCHABLE_ORDERS[0],
    }
    full = known | knobs
    tp, cp, pp, dp = full["tp"], full["cp"], full["pp"], full["dp"]
    derived = {
        "schedule": "none" if pp == 1 else "1f1b" if full["vpp"] == 1 else "interleaved",
        "sequence_parallel": tp > 1,
        "micro_batch_group": pp,
        "gpus": tp * cp * pp * dp,
        "edp": tp * cp * dp // (full["etp"] * full["ep"]),
        "micro_batches": batch // (full["micro_batch"] * dp),
        "stage_layers": balanced_split(architecture.layers, pp * full["vpp"]),
    }
    return Layout(**(derived | full))
