"""Every worked number of the source texts comes out of the cost model's public functions."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from models.architecture import Architecture, MixtureOfExperts
from models.cost import candidate, matrix_report
from models.cost.flops import attention_flops, model_flops_per_token
from models.cost.kernels.compute import model_flops_utilisation
from models.cost.memory import activations as act
from models.cost.memory import state
from models.cost.network.collectives import (
    all_gather_sent,
    all_reduce_sent,
    all_to_all_sent,
    reduce_scatter_sent,
)
from models.cost.network.placement import dense_strides, group_ranks
from models.cost.network.routes import routes
from models.cost.parameters import count_parameters, padded_vocabulary
from models.cost.pipeline import schedule
from models.cost.published.context_balance import causal_blocks, imbalance
from models.cost.setting import Setting
from models.cost.slices import tensor_slices
from models.cost.table import CODES, LayoutTable
from models.cost.traffic.layers import cross_entropy_bytes, ep_traffic, key_value_bytes, tp_over_compute
from models.cost.traffic.traffic_report import WAITS
from models.estimate import Candidate
from models.layout import Layout
from tests.builders import GPT3, H100, LLAMA_405B, layout, setting, workload

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "worked_numbers.json").read_text())
ADAM = workload(gradient_reduce_dtype="bf16").recipe
FLAT, ONE_F_ONE_B = CODES["schedule"].index("gpipe"), CODES["schedule"].index("1f1b")

DEEPSEEK_V3 = Architecture(
    name="deepseek-v3",
    hidden=7168,
    layers=61,
    heads=128,
    kv_heads=128,
    head_size=128,
    ffn=18432,
    vocabulary=129280,
    nominal_active_parameters=37_000_000_000,
    mla={
        "query_lora_rank": 1536,
        "key_value_lora_rank": 512,
        "nope_head_size": 128,
        "rope_head_size": 64,
        "value_head_size": 128,
    },
    moe={
        "experts": 256,
        "experts_per_token": 8,
        "expert_ffn": 2048,
        "shared_expert_ffn": 2048,
        "dense_first": 3,
        "router_score_correction": True,
    },
)


def rows(block: str) -> list:
    found = GOLDEN[block]
    return found["rows"] if isinstance(found, dict) and "rows" in found else found


def close(row: dict, key: str = "bytes", **more):
    return pytest.approx(row[key], rel=row.get("rtol", 0.01), **more)


def named(value) -> str:
    return re.sub(r"\W+", "-", str(value.get("what", value)))[:60] if isinstance(value, dict) else str(value)


@pytest.mark.parametrize("row", rows("model_state_bytes_per_parameter"), ids=named)
def test_zero_shards_what_it_says(row):
    held = state.resident_bytes(row["zero"], ONE_F_ONE_B, 1, 0, row["D"], ADAM)
    assert held.total == row["bytes"]


@pytest.mark.parametrize("row", rows("model_state_total"), ids=named)
def test_sixteen_bytes_a_parameter_need_this_many_gpus(row):
    whole = float(state.resident_bytes(0, ONE_F_ONE_B, 0, 0, 1, ADAM).total) * row["parameters"]
    assert whole == row["bytes"]
    assert state.least_gpus(whole, 80e9) == row["min_gpus_80GB"]


@pytest.mark.parametrize("row", rows("activations"), ids=named)
def test_activations_of_llama_405b(row):
    given = row["inputs"]
    tokens = given["s"] * given["b"] / given.get("c", 1)
    if row["what"] == "checkpointed layer keeps 2*s*b*h":
        assert float(act.checkpoint_bytes(tokens, given["h"], 1)) == close(row)
        return
    layer = act.flat_layer_bytes(tokens, given["h"], given.get("t", 1), True)
    if isinstance(row["bytes"], list):
        held = schedule.in_flight(ONE_F_ONE_B, np.arange(16), given["p"], 16, 1, given["p"])
        assert layer * given["L"] / given["p"] * held == close(row)
        return
    layers = given.get("layers", given["L"] / given["p"] if "p" in given else 1)
    if row["what"] == "126 layers":
        layers = given["L"]
    assert float(layer * layers * given.get("in_flight", 1)) == close(row)


@pytest.mark.parametrize("row", rows("collectives_bytes_sent_per_gpu"), ids=lambda row: row["op"])
def test_ideal_collectives_send(row):
    sent = {
        "all_reduce": all_reduce_sent,
        "reduce_scatter": reduce_scatter_sent,
        "all_gather": all_gather_sent,
        "all_to_all": all_to_all_sent,
    }[row["op"]]
    assert sent(row["S"], row["N"]) == row["bytes"]


def formula(text: str, shards: int) -> float:
    return eval(text.replace("D", str(shards)), {})  # "2+14/D", from the golden file


ZERO_WAYS = {
    "accumulate, one all-reduce": ("1f1b", "once", "per_pass"),
    "accumulate, one reduce-scatter": ("1f1b", "once", "per_pass"),
    "all-forward-all-backward, one reduce-scatter per stage": ("gpipe", "once", "per_pass"),
    "reduce-scatter after every micro-batch": ("1f1b", "per_micro_batch", "per_pass"),
    "gather for forward and again for backward": ("1f1b", "per_micro_batch", "per_pass"),
    "accumulate locally, one reduce-scatter": ("1f1b", "once", "per_pass"),
    "keep weights from forward to backward": ("1f1b", "per_micro_batch", "keep_to_backward"),
    "keep weights for the whole step": ("1f1b", "per_micro_batch", "keep_for_step"),
}


@pytest.mark.parametrize("shards", [2, 4, 64])
@pytest.mark.parametrize(
    "row", rows("zero_traffic_in_units_of_fS"), ids=lambda row: f"zero{row['zero']}-{row['how']}"
)
def test_the_eight_ways_of_zero(row, shards):
    named_way = ZERO_WAYS[row["how"]]
    code = [
        CODES[kind].index(name)
        for kind, name in zip(("schedule", "gradient_reduce", "weight_gather"), named_way, strict=True)
    ]
    resident = float(state.resident_bytes(row["zero"], *code, shards, ADAM).total)
    extra = float(state.peak_extra_bytes(row["zero"], *code, ADAM).total)
    assert resident == pytest.approx(formula(row["resident_bytes"], shards))
    if "peak_bytes" in row:
        assert resident + extra == pytest.approx(formula(row["peak_bytes"], shards))
    assert extra == pytest.approx(
        row.get("peak_extra_bytes", formula(row.get("peak_bytes", row["resident_bytes"]), shards) - resident)
    )
    sent = float(state.traffic_bytes(row["zero"], code[1], code[2], shards, 8, ADAM))
    assert sent / ((shards - 1) / shards * ADAM.weight) == pytest.approx(row["traffic"])


@pytest.mark.parametrize(("name", "value"), GOLDEN["zero_traffic_in_units_of_fS"]["formulas"].items())
def test_zero_traffic_follows_its_formula_at_other_counts(name, value):
    ways = {"2fS": (1, 0, 0), "(G+1)fS": (2, 1, 0), "2GfS": (3, 1, 1), "3GfS": (3, 1, 0)}
    for count in (1, 8, 50):
        times = {"2fS": 2, "(G+1)fS": count + 1, "2GfS": 2 * count, "3GfS": 3 * count}[value]
        assert float(state.traffic_bytes(*ways[value], 4, count, ADAM)) == pytest.approx(times * 0.75 * 2)
        if count == 8:
            assert times == int(name)


def test_tensor_parallel_traffic_of_gpt3():
    row = GOLDEN["tensor_parallel_gpt3_175b"]
    batch = 1
    priced = candidate(
        layout(GPT3, batch, tp=row["t"]), setting(GPT3, gpus=8, workload=workload(row["tokens"], batch))
    )
    tp = priced.traffic[0]
    assert tp.message_bytes == close(row, "message_bytes")
    assert tp.sent_bytes_per_gpu / GPT3.layers == close(row, "bytes_per_layer_fwd_bwd")
    assert tp.seconds / GPT3.layers == close(row, "nvlink_s")
    assert tp.sent_bytes_per_gpu / GPT3.layers / row["nic_Bps"] == close(row, "nic_s")
    matmul = 72 * row["tokens"] * row["h"] ** 2 / row["t"]  # the file's formula, for its compute_s
    assert matmul / row["compute_rate"] == close(row, "compute_s")
    assert priced.time.compute_s / GPT3.layers == pytest.approx(
        row["compute_s"], rel=0.02
    )  # Psi 175 B nominal
    for link, share in (("nvlink_Bps", "comm_share_nvlink"), ("nic_Bps", "comm_share_nic")):
        ratio = tp_over_compute(row["t"], row["h"], row["compute_rate"], row[link])
        assert ratio / (1 + ratio) == pytest.approx(row[share], abs=row["share_atol"])


@pytest.mark.parametrize("row", rows("pipeline"), ids=named)
def test_pipeline_slots_bubbles_and_messages(row):
    what = row.get("what", "")
    if what.startswith("boundaries"):
        assert schedule.boundaries_crossed(row["p"], row["v"]) == row["boundaries"]
    elif what.startswith("layers of GPU 1"):
        assert schedule.layers_of_stage(0, 16, 4, 2) == row["layers"]
    elif what.startswith("boundary"):
        priced = candidate(layout(GPT3, 16, tp=8, pp=4), setting(GPT3, gpus=32, workload=workload(2048, 16)))
        pp = next(entry for entry in priced.traffic if entry.dimension == "pp")
        assert (pp.message_bytes if "message" in what else pp.sent_bytes_per_gpu) == close(row)
    else:
        assert_bubbles(row)


def assert_bubbles(row):
    shape = (row["p"], row["G"], row.get("v", 1))
    checks = {
        "bubble_of_total": lambda: schedule.bubble_of_total(*shape),
        "bubble_of_compute": lambda: schedule.bubble_of_compute(*shape),
        "slots": lambda: schedule.total_slots(*shape),
        "idle_slots_per_stage": lambda: schedule.idle_slots(row["p"]),
    }
    found = [key for key in checks if key in row]
    assert found
    for key in found:
        assert float(checks[key]()) == pytest.approx(row[key], rel=2e-4)


LONG = {"s": 131072, "c": 16, "t": 8, "p": 16, "D": 8, "b": 1, "G": 16}


@pytest.mark.parametrize("row", rows("context_parallel_llama3_405b"), ids=named)
def test_context_parallel_keys_values_and_balance(row):
    what = row["what"]
    if "blocks" in row:
        assert causal_blocks(4, "front-and-back" in what).tolist() == row["blocks"]
    elif "ratio" in row:
        assert imbalance(4, front_and_back=False) == row["ratio"]
    elif "kv_bytes" in row:
        ones = np.array([1.0])
        assert key_value_bytes(LLAMA_405B, ones, ones, 2.0) == row["kv_bytes"]
        assert act.checkpoint_bytes(1, LLAMA_405B.hidden, 1) == row["hidden_bytes"]
    else:
        cp = priced_layout(LONG).traffic[1]
        layers = LLAMA_405B.layers / LONG["p"]
        found = {
            "K and V": cp.message_bytes,
            "one all": cp.sent_bytes_per_gpu / cp.per_step,
            "per lay": cp.sent_bytes_per_gpu / (layers * LONG["G"]),
            "per ste": cp.sent_bytes_per_gpu,
        }
        assert found[what[:7]] == close(row)


def priced_layout(row: dict) -> Candidate:
    batch = row["G"] * row["b"] * row["D"]
    degrees = {"tp": row["t"], "cp": row["c"], "pp": row["p"], "dp": row["D"]}
    gpus = row["t"] * row["c"] * row["p"] * row["D"]
    question = setting(gpus=gpus, workload=workload(row["s"], batch))
    return candidate(layout(batch=batch, micro_batch=row["b"], **degrees), question)


def by_dimension(priced: Candidate) -> dict[str, int]:
    return {entry.dimension: entry.sent_bytes_per_gpu for entry in priced.traffic}


def network(priced: Candidate) -> tuple[float, float, float, float]:
    """Bytes and seconds on NVLink and on the NICs, a group over both spending all on the NICs."""
    inside = [entry for entry in priced.traffic if [tier.tier for tier in entry.tiers] == ["nvlink"]]
    across = [entry for entry in priced.traffic if entry not in inside]
    return tuple(  # type: ignore[return-value]
        sum(getattr(entry, what) for entry in part)
        for what in ("sent_bytes_per_gpu", "seconds")
        for part in (inside, across)
    )


@pytest.mark.parametrize("row", rows("combined_layouts"), ids=lambda row: f"{row['s']}-tokens")
def test_combined_layouts_of_llama_405b(row):
    priced = priced_layout(row)
    sent = by_dimension(priced)
    assert priced.traffic[0].per_step == row["tp_collectives"]
    assert sent["tp"] == close(row, "tp_bytes")
    assert sent.get("cp", 0) == close(row, "cp_bytes")
    assert sent["pp"] == close(row, "pp_bytes")
    assert sent["dp"] == close(row, "dp_bytes")
    weights = priced.memory.stages[0].weights_bytes
    assert weights / 2 == close(row, "params_per_gpu")
    for value, key in zip(network(priced), ("nvlink_bytes", "nic_bytes", "nvlink_s", "nic_s"), strict=True):
        assert value == close(row, key)


@pytest.mark.parametrize("row", rows("combined_layouts_more"), ids=named)
def test_combined_layouts_in_proportion(row):
    assert row["of"] == "8K layout"
    eight_k = GOLDEN["combined_layouts"][0]
    priced = priced_layout(eight_k)
    nvlink, nic, _, _ = network(priced)
    flops = priced.time.compute_s * 400e12
    found = {
        "TP seconds": priced.time.tp_exposed_s / priced.time.compute_s,
        "NVLink byt": nvlink / nic,
        "bytes leav": 8 * nic,
        "FLOPs per ": flops,
    }[row["what"][:10]]
    key = next(name for name in ("ratio", "bytes", "flops") if name in row)
    assert found == close(row, key)


def test_combined_layout_runs_its_flops_in_six_seconds():
    notes = GOLDEN["combined_layouts_notes"]
    flops, seconds = (
        float(re.search(pattern, notes)[1]) for pattern in (r"([\d.]+) PFLOP", r"([\d.]+) s at")
    )
    priced = priced_layout(GOLDEN["combined_layouts"][0])
    assert priced.time.compute_s == pytest.approx(seconds, rel=0.01)
    assert priced.time.compute_s * 400e12 == pytest.approx(flops * 1e15, rel=0.01)


@pytest.mark.parametrize("row", rows("model_state_of_layout"), ids=lambda row: f"zero{row['zero']}")
def test_model_state_of_the_layout(row):
    count = row["Psi"] / (row["t"] * row["p"])
    way = (row["zero"], FLAT if row["zero"] == 2 else ONE_F_ONE_B, 0, 0)
    resident = count * float(state.resident_bytes(*way, row["D"], ADAM).total)
    assert resident == close(row, "resident_bytes")
    if "peak_bytes" in row:
        peak = resident + count * float(state.peak_extra_bytes(*way, ADAM).total)
        assert peak == close(row, "peak_bytes")


@pytest.mark.parametrize("row", rows("published_runs"), ids=lambda row: f"{row['gpus']}-{row['s']}")
def test_published_runs_agree_on_mfu_and_zero_rule(row):
    found = model_flops_utilisation(row["tflops_per_gpu"] * 1e12, H100, "bf16")
    assert found == pytest.approx(row["mfu"], rel=0.02)
    assert state.zero_by_meta_rule(row["batch_per_D"], row["p"]) == row["zero_by_rule"]


def test_the_zero_rule_turns_at_two_sequences_a_stage():
    assert "bs >= 2*p" in GOLDEN["zero_rule"]
    assert [state.zero_by_meta_rule(count, 16) for count in (31, 32, 33)] == [2, 1, 1]


@pytest.mark.parametrize("row", rows("expert_parallel"), ids=named)
def test_expert_parallel_of_deepseek_v3(row):
    if "experts_per_gpu" in row:
        table = LayoutTable.of([layout(DEEPSEEK_V3, 16384, pp=16, dp=128, ep=64)])
        held = DEEPSEEK_V3.moe.experts / int(table.ep[0] * table.etp[0])
        assert held == row["experts_per_gpu"]
    elif "active" in row:
        assert model_flops_per_token(DEEPSEEK_V3, 4096, "six_psi") == row["flops"] == 6 * row["active"]
    elif "flops" in row:
        assert model_flops_per_token(DEEPSEEK_V3, 4096, "with_attention") == close(row, "flops")
        published = model_flops_per_token(LLAMA_405B, 4096, "with_attention")
        assert published == pytest.approx(row["llama3_405b_flops"], rel=row["rtol"])
    else:
        assert_dispatch_follows(row["formula"])


def assert_dispatch_follows(text: str):
    moe = MixtureOfExperts(experts=16, experts_per_token=3, expert_ffn=64)
    shape = {"hidden": 32, "heads": 4, "kv_heads": 4, "head_size": 8, "ffn": 64, "vocabulary": 128}
    sparse = Architecture(name="moe", layers=4, moe=moe, **shape)
    table = LayoutTable.of([layout(sparse, 8, dp=8, ep=4)])
    question = setting(sparse, gpus=8, workload=workload(128, 8))
    traffic = ep_traffic(table, question, routes(table, question))
    expected = eval(text, {"e": 4, "tokens": 128, "k": 3, "h": 32})
    assert traffic.sent.sparse / traffic.count.sparse == expected


@pytest.mark.parametrize("row", rows("rank_order"), ids=lambda row: "-".join(row["order"]))
def test_ranks_follow_the_order(row):
    order = (*row["order"][:2], "ep", *row["order"][2:])
    chosen = layout(tp=row["t"], cp=row["c"], pp=row["p"], dp=row["D"], rank_order=order)
    stride = {axis: int(value[0]) for axis, value in dense_strides(LayoutTable.of([chosen])).items()}
    assert row["rank"] == f"tp + {stride['pp']}*pp + {stride['dp']}*dp"
    assert sorted(group_ranks(row["t"], stride["tp"], row["of_rank"])) == row["tp_group"]
    pp = group_ranks(row["p"], stride["pp"], row["of_rank"])
    dp = group_ranks(row["D"], stride["dp"], row["of_rank"])
    assert (pp[:2], pp[-1]) == (row["pp_partners_first"], row["pp_partners_last"])
    assert (dp[:2], dp[-1]) == (row["dp_partners_first"], row["dp_partners_last"])


def test_megatron_pads_the_vocabulary():
    row = GOLDEN["megatron_2019"]["vocab"]
    padded = padded_vocabulary(row["raw"], np.array([row["t"], 1]), row["make_divisible_by"])
    assert padded.tolist() == [row["padded"], row["padded_at_t1"]]


@pytest.mark.parametrize("row", GOLDEN["megatron_2019"]["models"], ids=lambda row: f"{row['billions']}B")
def test_megatron_2019_models_have_their_size_and_fill_their_gpus(row):
    shape = {"hidden": row["h"], "layers": row["L"], "heads": row["heads"], "kv_heads": row["heads"]}
    gpt2 = Architecture(
        name="gpt2",
        **shape,
        head_size=row["h"] // row["heads"],
        ffn=4 * row["h"],
        gated_mlp=False,
        norm="layer",
        vocabulary=50257,
        learned_positions=1024,
        tied_embeddings=True,
        qkv_bias=True,
        attention_output_bias=True,
        mlp_bias=True,
    )
    assert count_parameters(gpt2).total / 1e9 == pytest.approx(row["billions"], abs=0.06)
    batch = GOLDEN["megatron_2019"]["global_batch"]
    chosen = layout(gpt2, batch, tp=row["t"], dp=row["gpus_dp"] // row["t"], micro_batch=8)
    assert chosen.gpus == row["gpus_dp"]
    assert chosen.micro_batches * chosen.micro_batch * chosen.dp == batch


def test_the_parallel_loss_sends_one_number_a_token():
    assert GOLDEN["megatron_2019"]["parallel_cross_entropy_message"].startswith("b*s elements")
    assert cross_entropy_bytes(np.array([8 * 1024.0])) / 4 == 8 * 1024


@pytest.mark.parametrize(
    "row", rows("bridge_layouts"), ids=lambda row: f"{row['model']}-{row['gpus']}-{row['gpu']}"
)
def test_bridge_layouts_fill_their_gpus_and_tokens(row):
    batch = row["G"] * row["b"] * row["D"]
    degrees = {"tp": row["t"], "cp": row["c"], "pp": row["p"], "dp": row["D"]}
    chosen = layout(batch=batch, micro_batch=row["b"], **degrees)
    assert chosen.gpus == row["gpus"]
    assert chosen.micro_batches == row["G"]
    assert workload(row["s"], batch).tokens_per_step == close(row, "tokens_per_step")


def test_data_parallel_traffic_of_70b_parameters():
    row = GOLDEN["data_parallel_70b"]
    gradient = 70e9 * ADAM.gradient
    assert gradient == close(row, "gradient_bytes")
    large = float(state.traffic_bytes(0, 0, 0, 1e6, 1, ADAM)) * 70e9
    assert large == close(row, "sent_bytes_large_D")


def test_tensor_slices_of_llama_405b():
    row = GOLDEN["tensor_slices_llama3_405b"]
    cut = tensor_slices(LLAMA_405B, row["t"])
    assert (cut.query_heads, cut.kv_heads, cut.ffn) == (
        row["query_heads_per_gpu"],
        row["kv_heads_per_gpu"],
        row["ffn_slice"],
    )
    assert [list(cut.query), list(cut.key), list(cut.output)] == [row["wq"], row["wk"], row["wo"]]


def between_servers(dimension: str, chosen: Layout, question: Setting) -> dict[tuple[int, int], int]:
    """Bytes of one dimension, or of all, between GPUs of different 8-GPU servers."""
    told = matrix_report(chosen, question, "gpu")
    named = {one.dimension: one for one in told["dimensions"]} | {"all": told["sum"]}
    cells = {(cell.from_, cell.to): cell.bytes for cell in named[dimension].cells}
    return {pair: bytes_ for pair, bytes_ in cells.items() if pair[0] // 8 != pair[1] // 8}


@pytest.mark.parametrize("row", rows("traffic_matrix"), ids=named)
def test_traffic_between_two_servers(row):
    if "EP over all" in row["what"]:
        chosen = layout(DEEPSEEK_V3, 16, dp=16, ep=16)
        pairs = between_servers("ep", chosen, setting(DEEPSEEK_V3, gpus=16, workload=workload(4096, 16)))
        assert sum(a % 8 != b % 8 for a, b in pairs) / len(pairs) == row["share"]
    else:
        chosen = layout(batch=16, tp=8, dp=2)
        pairs = between_servers("all", chosen, setting(gpus=16, workload=workload(8192, 16)))
        assert sum(a % 8 == b % 8 for a, b in pairs) / len(pairs) == row["share"]


def test_tp_cp_and_ep_wait_and_pp_and_dp_do_not():
    assert GOLDEN["waits"] == WAITS


COVERED = {
    "model_state_bytes_per_parameter", "model_state_total", "activations", "collectives_bytes_sent_per_gpu",
    "zero_traffic_in_units_of_fS", "tensor_parallel_gpt3_175b", "pipeline", "context_parallel_llama3_405b",
    "combined_layouts", "combined_layouts_notes", "combined_layouts_more", "model_state_of_layout",
    "published_runs", "zero_rule", "expert_parallel", "rank_order", "megatron_2019", "bridge_layouts",
    "data_parallel_70b", "tensor_slices_llama3_405b", "traffic_matrix", "waits",
}  # fmt: skip


def test_no_block_of_the_golden_file_is_left_out():
    prose = {"about", "symbols"}
    context = {
        name for name, block in GOLDEN.items() if isinstance(block, dict) and block.get("kind") == "context"
    }
    assert COVERED | prose | context == set(GOLDEN)
    assert attention_flops(LLAMA_405B, 0) == 0
