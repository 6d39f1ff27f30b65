"""Names, sources and the way from a request to objects."""

import tomllib
from itertools import pairwise
from pathlib import Path

import pytest

import models.catalogue
from models.catalogue import (
    architecture,
    architecture_names,
    cluster,
    cluster_names,
    gpu,
    gpu_names,
    resolve,
    sources,
)
from models.catalogue.collective_constants import link_class
from models.catalogue.software import machine_faults, recipe_faults
from models.errors import InvalidField, UnknownEntry
from models.request import ClusterRequest, EvaluateRequest, SearchRequest
from models.stack import StackRequest, default_kernel

FOLDER = Path(models.catalogue.__file__).parent
FILES = sorted(p for kind in ("architectures", "gpus", "clusters") for p in (FOLDER / kind).glob("*.toml"))
PROMISED_ARCHITECTURES = [
    "gpt3-175b",
    "gpt3-6.7b",
    "llama-2-7b",
    "llama-2-13b",
    "llama-2-70b",
    "llama-3-8b",
    "llama-3-70b",
    "llama-3.1-405b",
    "llama-3.2-1b",
    "llama-3.2-3b",
    "mistral-7b",
    "mixtral-8x7b",
    "mixtral-8x22b",
    "qwen2.5-7b",
    "qwen2.5-14b",
    "qwen2.5-72b",
    "qwen3-8b",
    "qwen3-32b",
    "qwen3-30b-a3b",
    "qwen3-235b-a22b",
    "deepseek-v2-lite",
    "deepseek-v3",
    "gpt-oss-20b",
    "gpt-oss-120b",
    "kimi-k2",
    "mt-nlg-530b",
    "gpt-1t",
]
PROMISED_GPUS = [
    "v100-16gb",
    "v100-32gb",
    "a100-40gb-sxm",
    "a100-80gb-sxm",
    "a100-80gb-pcie",
    "a800-sxm",
    "h100-sxm",
    "h100-pcie",
    "h800-sxm",
    "h20",
    "h200-sxm",
    "b200",
    "gb200",
    "b300",
    "gb300",
    "mi300x",
    "mi325x",
    "mi355x",
    "l40s",
    "rtx-4090",
]
PROMISED_CLUSTERS = [
    "dgx-v100",
    "dgx-a100",
    "dgx-h100",
    "dgx-h200",
    "dgx-b200",
    "gb200-nvl72",
    "gb300-nvl72",
    "h800-8x400g",
    "a800-8x200g",
    "mi300x-8x400g",
    "a100-pcie",
    "rtx4090-pcie",
]
TIER = {"bandwidth_bytes_per_s": 5e10}
WORKLOAD = {"sequence_length": 8192, "global_batch": 2048}


def search(**changes):
    base = {"model": "llama-3.1-405b", "cluster": "dgx-h100", "gpus": 16384, "workload": WORKLOAD}
    return SearchRequest.model_validate(base | changes)


def inline(gpu="h100-sxm", **changes):
    tiers = [
        {"name": "nvlink", "gpus": 8, "latency_s": 1e-6, "bandwidth_bytes_per_s": 4.5e11},
        {"name": "leaf", "gpus": 256, **TIER},
        {"name": "spine", **TIER},
    ]
    return ClusterRequest.model_validate({"gpu": gpu, "tiers": tiers} | changes)


def pointers(error):
    return sorted(fault.field for fault in error.value.faults)


def numbers(table, prefix=""):
    """Field of every number in a file; a field of the second level under its table's name."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from numbers(value, f"{key}.")
        elif isinstance(value, list):
            for item in value:
                yield from numbers(item, f"{key}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield prefix + key


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_every_number_has_a_source(path):
    entry = tomllib.loads(path.read_text())
    if "same_as" in entry:
        assert (path.parent / f"{entry['same_as']}.toml").exists()
        return
    stated = entry.pop("sources")
    assert all(text.strip() for text in stated.values())
    fields = set(numbers(entry))
    unsourced = {field for field in fields if field not in stated and "all" not in stated}
    assert not unsourced
    assert set(stated) - {"all", "gpu", "tiers.collective"} <= fields, "a source for nothing"


@pytest.mark.parametrize("name", architecture_names())
def test_every_architecture_loads(name):
    entry = architecture(name)
    assert sum(entry.sparse_layers()) > 0 or entry.moe is None
    assert bool(entry.sliding_window) == bool(entry.sliding_layers)
    assert entry.heads % entry.kv_heads == 0


@pytest.mark.parametrize("name", gpu_names())
def test_every_gpu_loads_and_its_usable_memory_is_near_its_label(name):
    entry = gpu(name)
    assert 0.9 < entry.usable_memory_bytes / entry.memory_bytes < 1.1
    assert entry.peak_fp16_flops


@pytest.mark.parametrize("name", cluster_names())
def test_every_cluster_nests_and_its_last_tier_joins_all(name):
    entry = cluster(name)
    joined = [tier.gpus for tier in entry.tiers[:-1]]
    assert None not in joined
    assert all(outer % inner == 0 and outer > inner for inner, outer in pairwise(joined))
    assert entry.tiers[-1].gpus is None
    assert entry.tiers[0].bandwidth_bytes_per_s >= entry.tiers[-1].bandwidth_bytes_per_s


def test_every_promised_name_is_there():
    assert set(PROMISED_ARCHITECTURES) <= set(architecture_names())
    assert set(PROMISED_GPUS) <= set(gpu_names())
    assert set(PROMISED_CLUSTERS) <= set(cluster_names())


def test_a_second_name_is_the_same_architecture():
    second = architecture("llama3-70b").model_dump(exclude={"name"})
    assert second == architecture("llama-3-70b").model_dump(exclude={"name"})
    assert sources("architectures", "llama3-70b") == sources("architectures", "llama-3-70b")


def test_the_h100_has_the_bytes_device_query_prints():
    assert gpu("h100-sxm").usable_memory_bytes == 85_045_477_376
    assert gpu("h100-sxm").memory_bytes == 80_000_000_000


def test_the_nvlink_domain_of_a_rack_is_not_its_server():
    rack = cluster("gb200-nvl72")
    assert (rack.tiers[0].gpus, rack.gpus_per_node) == (72, 4)


@pytest.mark.parametrize(
    ("look_up", "name", "nearest"),
    [
        (architecture, "lama-3.1-405b", "llama-3.1-405b"),
        (gpu, "h100-smx", "h100-sxm"),
        (cluster, "dgx-h1000", "dgx-h100"),
    ],
)
def test_an_unknown_name_suggests_the_nearest(look_up, name, nearest):
    with pytest.raises(UnknownEntry, match=f"Try '{nearest}'"):
        look_up(name)


@pytest.mark.parametrize("name", ["../gpus/h100-sxm", "", "h100-sxm.toml", "h100-sxm\0"])
def test_no_name_reaches_outside_the_catalogue(name):
    with pytest.raises(UnknownEntry):
        architecture(name)


def test_a_request_by_names_resolves_with_its_defaults_told():
    got = resolve(search())
    assert got.architecture.layers == 126
    assert got.memory_limit_bytes == 80_000_000_000
    told = {a.field: a.value for a in got.assumptions}
    assert told == {
        "/workload/precision": "bf16",
        "/workload/optimizer": "adam",
        "/workload/gradient_dtype": "fp32",
        "/workload/gradient_reduce_dtype": "fp32",
        "/workload/master_dtype": "fp32",
        "/constraints/memory_limit_bytes": 80_000_000_000,
        "/profile": "calibrated",
        "/framework": "any",
        "/stack/attention_kernel": "cudnn",
        "/stack/fused_loss": False,
        "/stack/dropout": False,
        "/stack/cuda_graph": "none",
        "/stack/activation_offload": False,
    }
    assert got.warnings == ()


def test_what_the_caller_states_is_not_told_back():
    workload = WORKLOAD | {
        "precision": "bf16",
        "optimizer": "adam",
        "gradient_dtype": "bf16",
        "gradient_reduce_dtype": "bf16",
        "master_dtype": "fp32",
    }
    got = resolve(
        search(
            workload=workload,
            profile="textbook",
            framework="any",
            stack={
                "attention_kernel": "cudnn",
                "fused_loss": True,
                "dropout": False,
                "cuda_graph": "none",
                "activation_offload": False,
            },
            constraints={"memory_limit_bytes": 85 * 10**9},
        )
    )
    assert got.assumptions == ()
    assert got.workload.gradient_dtype == "bf16"


@pytest.mark.parametrize(
    ("profile", "precision", "kept", "sent"),
    [
        ("textbook", "bf16", "bf16", "fp32"),
        ("textbook", "fp16", "fp16", "fp32"),
        ("textbook", "fp32", "fp32", "fp32"),
        ("calibrated", "bf16", "fp32", "fp32"),
        ("calibrated", "fp16", "fp32", "fp32"),
        ("calibrated", "fp32", "fp32", "fp32"),
    ],
)
def test_gradient_types_follow_profile_and_precision(profile, precision, kept, sent):
    got = resolve(search(profile=profile, workload=WORKLOAD | {"precision": precision})).workload
    assert (got.gradient_dtype, got.gradient_reduce_dtype) == (kept, sent)


def test_a_batch_in_tokens_becomes_sequences():
    got = resolve(search(workload={"sequence_length": 8192, "global_batch_tokens": 16 * 2**20}))
    assert got.workload.global_batch == 2048
    assert ("/workload/global_batch", 2048) in [(a.field, a.value) for a in got.assumptions]


@pytest.mark.parametrize(
    ("workload", "field"),
    [
        ({}, "/workload/global_batch"),
        ({"global_batch": 1, "global_batch_tokens": 8192}, "/workload/global_batch_tokens"),
        ({"global_batch_tokens": 8193}, "/workload/global_batch_tokens"),
        ({"global_batch_tokens": 8191}, "/workload/global_batch_tokens"),
    ],
)
def test_the_batch_is_stated_once_and_in_whole_sequences(workload, field):
    with pytest.raises(InvalidField) as error:
        resolve(search(workload={"sequence_length": 8192} | workload))
    assert pointers(error) == [field]


def test_the_limit_is_the_label_or_what_is_asked_less_the_reserve():
    assert resolve(search(constraints={"memory_reserve_bytes": 10**9})).memory_limit_bytes == 79 * 10**9
    asked = {"memory_limit_bytes": 50 * 10**9, "memory_reserve_bytes": 1}
    assert resolve(search(constraints=asked)).memory_limit_bytes == 50 * 10**9 - 1


def test_a_limit_above_what_can_be_allocated_warns():
    got = resolve(search(constraints={"memory_limit_bytes": 90 * 10**9}))
    assert "85045477376" in got.warnings[0]


def test_a_label_above_what_can_be_allocated_warns_too():
    assert any("usable" in w or "allocate" in w for w in resolve(search(cluster=inline("l40s"))).warnings)


@pytest.mark.parametrize("reserve", [80 * 10**9, 81 * 10**9])
def test_a_reserve_that_leaves_nothing_is_a_fault(reserve):
    with pytest.raises(InvalidField) as error:
        resolve(search(constraints={"memory_reserve_bytes": reserve}))
    assert pointers(error) == ["/constraints/memory_reserve_bytes"]


def test_a_layout_to_evaluate_states_its_limit_beside_the_layout():
    request = EvaluateRequest.model_validate(
        {"model": "llama-3-8b", "cluster": "dgx-h100", "gpus": 8, "workload": WORKLOAD, "layout": {}}
    )
    got = resolve(request)
    assert "/memory_limit_bytes" in [a.field for a in got.assumptions]
    with pytest.raises(InvalidField) as error:
        resolve(request.model_copy(update={"memory_reserve_bytes": 80 * 10**9}))
    assert pointers(error) == ["/memory_reserve_bytes"]


def test_a_sequence_longer_than_the_architecture_was_made_for_only_warns():
    workload = {"sequence_length": 16384, "global_batch": 8}
    assert "8192" in resolve(search(model="llama-3-8b", workload=workload)).warnings[0]


def test_a_stated_cluster_becomes_a_cluster_and_its_defaults_are_told():
    got = resolve(search(cluster=inline()))
    assert got.cluster.gpu == gpu("h100-sxm")
    assert got.cluster.gpus_per_node == 8
    told = {a.field: a.value for a in got.assumptions}
    assert told["/cluster/gpus_per_node"] == 8
    assert told["/cluster/tiers/1/latency_s"] == link_class("infiniband").step_s
    assert "/cluster/tiers/0/latency_s" not in told
    assert told["/cluster/tiers/0/oversubscription"] == 1.0


def test_the_last_tier_joins_all_whatever_it_says():
    tiers = [{"name": "nvlink", "gpus": 8, **TIER}, {"name": "leaf", "gpus": 4, **TIER}]
    assert resolve(search(cluster=inline(tiers=tiers))).cluster.tiers[-1].gpus is None


def test_a_gpu_stated_inline_takes_its_own_defaults():
    own = {"memory_bytes": 64 * 10**9, "memory_bandwidth_bytes_per_s": 2e12, "peak_bf16_flops": 3e14}
    got = resolve(search(cluster=inline(own)))
    assert got.cluster.gpu.usable_memory_bytes == got.memory_limit_bytes == 64 * 10**9
    assert got.cluster.gpu.peak_fp16_flops == 3e14
    assert {"/cluster/gpu/matmul_fraction", "/cluster/gpu/usable_memory_bytes"} <= {
        a.field for a in got.assumptions
    }


@pytest.mark.parametrize(
    ("tiers", "field"),
    [
        ([{"name": "a", "gpus": 8}, {"name": "b", "gpus": 20}, {"name": "c"}], "/cluster/tiers/1/gpus"),
        ([{"name": "a", "gpus": 8}, {"name": "b", "gpus": 8}, {"name": "c"}], "/cluster/tiers/1/gpus"),
        ([{"name": "a", "gpus": 8}, {"name": "b", "gpus": 4}, {"name": "c"}], "/cluster/tiers/1/gpus"),
        ([{"name": "a"}, {"name": "b"}], "/cluster/tiers/0/gpus"),
        ([{"name": "a", "gpus": 8}, {"name": "a"}], "/cluster/tiers/1/name"),
    ],
)
def test_tiers_nest(tiers, field):
    with pytest.raises(InvalidField) as error:
        resolve(search(cluster=inline(tiers=[tier | TIER for tier in tiers])))
    assert pointers(error) == [field]


def test_a_server_fits_the_first_tier():
    assert resolve(search(cluster=inline(gpus_per_node=4))).cluster.gpus_per_node == 4
    with pytest.raises(InvalidField) as error:
        resolve(search(cluster=inline(gpus_per_node=3)))
    assert pointers(error) == ["/cluster/gpus_per_node"]


def test_a_gpu_without_the_precision_is_a_fault_that_names_one_it_has():
    with pytest.raises(InvalidField, match="Try fp16 or fp32") as error:
        resolve(search(cluster="dgx-v100"))
    assert pointers(error) == ["/workload/precision"]


def test_unknown_names_alone_stay_unknown_names():
    with pytest.raises(UnknownEntry) as error:
        resolve(search(model="llama", cluster=inline("h100-smx")))
    assert pointers(error) == ["/cluster/gpu", "/model"]


def test_all_faults_of_a_request_are_told_at_once():
    tiers = [{"name": "a", **TIER}, {"name": "b", **TIER}]
    with pytest.raises(InvalidField) as error:
        resolve(
            search(
                model={"hidden_size": 0, "num_layers": 4},
                cluster=inline("h100-smx", tiers=tiers),
                workload={"sequence_length": 8192},
            )
        )
    assert {
        "/cluster/gpu",
        "/cluster/tiers/0/gpus",
        "/model/hidden_size",
        "/model/num_layers",
        "/model/vocab_size",
        "/workload/global_batch",
    } <= set(pointers(error))


def test_a_configuration_may_come_as_the_file_itself():
    config = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
    got = resolve(search(model={"hf_config": config | {"vocab_size": 100}}))
    assert got.architecture.hidden == 64
    assert "/model/hf_config/num_key_value_heads" in [a.field for a in got.assumptions]


@pytest.mark.parametrize(
    ("model", "field"),
    [
        ({"hf_config": {}, "layers": 3}, "/model/layers"),
        ({"hf_config": "config.json"}, "/model/hf_config"),
        ({"hf_config": None}, "/model/hf_config"),
    ],
)
def test_nothing_stands_beside_the_file_and_it_is_an_object(model, field):
    with pytest.raises(InvalidField) as error:
        resolve(search(model=model))
    assert field in pointers(error)


def test_software_knobs_that_move_an_expert_model_s_time_are_told_where_they_are_left_out():
    workload = {"sequence_length": 4096, "global_batch": 512, "precision": "fp8"}
    told = {a.field: a.value for a in resolve(search(model="deepseek-v3", workload=workload)).assumptions}
    assert told["/stack/cuda_graph"] == "none"
    assert told["/stack/ep_overlap"] is False
    assert told["/stack/fp8_recipe"] is None
    stated = {"cuda_graph": "full", "ep_overlap": True, "fp8_recipe": "rowwise"}
    again = resolve(search(model="deepseek-v3", workload=workload, stack=stated)).assumptions
    assert not {f"/stack/{name}" for name in stated} & {a.field for a in again}


def test_a_recipe_of_scaling_factors_needs_products_to_scale():
    with pytest.raises(InvalidField, match="not scaled") as error:
        resolve(search(stack={"fp8_recipe": "mx"}))
    assert pointers(error) == ["/stack/fp8_recipe"]


@pytest.mark.parametrize(
    ("precision", "recipe"), [("fp8", "nvfp4"), ("nvfp4", "mx"), ("nvfp4", "tensorwise")]
)
def test_blocks_of_sixteen_are_a_recipe_of_fp4_and_the_others_are_not(precision, recipe):
    workload = {"sequence_length": 4096, "global_batch": 512, "precision": precision}
    question = {"cluster": "gb200-nvl72", "gpus": 64, "workload": workload}
    with pytest.raises(InvalidField, match="not scaled so") as error:
        resolve(search(stack={"fp8_recipe": recipe}, **question))
    assert pointers(error) == ["/stack/fp8_recipe"]
    assert resolve(search(**question))


@pytest.mark.parametrize(
    ("card", "runs"),
    [("h100-sxm", False), ("l40s", False), ("b200", True), ("gb300", True), ("mi355x", True)],
)
def test_blocks_of_32_are_scaled_by_gpus_that_have_the_unit(card, runs):
    """MXFP8 needs Blackwell; it was priced on Hopper as if it ran there."""
    faults = recipe_faults(StackRequest(fp8_recipe="mx"), "fp8", gpu(card))
    assert (faults == []) is runs
    assert all("does not run on" in fault.reason for fault in faults)


@pytest.mark.parametrize(
    ("card", "kernel", "runs"),
    [
        ("v100-32gb", "flash2", False),
        ("v100-32gb", "cudnn", False),
        ("v100-32gb", "unfused", True),
        ("a100-80gb-sxm", "flash3", False),
        ("a100-80gb-sxm", "flash2", True),
        ("h100-sxm", "flash3", True),
        ("b200", "flash3", False),
        ("mi300x", "cudnn", False),
        ("mi300x", "flash2", True),
    ],
)
def test_an_attention_kernel_is_refused_on_gpus_it_was_not_written_for(card, kernel, runs):
    faults = machine_faults(StackRequest(attention_kernel=kernel), gpu(card))
    assert (faults == []) is runs
    assert all(fault.field == "/stack/attention_kernel" for fault in faults)


@pytest.mark.parametrize("card", gpu_names())
def test_the_kernel_taken_where_none_is_stated_runs_on_every_gpu(card):
    kernel = default_kernel(gpu(card).generation)
    assert machine_faults(StackRequest(attention_kernel=kernel), gpu(card)) == []


def test_fp4_is_a_precision_of_the_gpus_that_have_it():
    workload = {"sequence_length": 4096, "global_batch": 512, "precision": "nvfp4"}
    assert resolve(search(cluster="gb200-nvl72", gpus=64, workload=workload)).workload.precision == "nvfp4"
    with pytest.raises(InvalidField, match="no nvfp4 rate"):
        resolve(search(workload=workload))


def test_a_batch_of_more_sequences_than_anyone_may_state_is_a_fault_in_tokens_too():
    workload = {"sequence_length": 3, "global_batch_tokens": 3 * 1_048_577}
    with pytest.raises(InvalidField) as error:
        resolve(search(workload=workload))
    (fault,) = error.value.faults
    assert fault.field == "/workload/global_batch_tokens"
    assert fault.fix == f"{3 * 1_048_576} would do."
    assert (
        resolve(search(workload=workload | {"global_batch_tokens": 3 * 1_048_576})).workload.global_batch
        == 1_048_576
    )
