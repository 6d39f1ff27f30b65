"""What moves the time of a step moves it the right way, and stays inside what physics allows."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.catalogue import architecture, gpu
from models.catalogue.framework_memory import framework
from models.catalogue.profiles import coefficients, profile
from models.cost import candidate
from models.cost.kernels.gemms import Gemm, ProductPace, product_seconds, waves
from models.cost.kernels.pace import matmul_rate, peak_flops
from models.cost.step.band import UNSCALED, UNTRAINED
from models.cost.step.overlap import exposed, together
from models.hardware import Cluster
from models.stack import Stack
from tests.builders import DGX, GPT3, layout, setting, workload

CALIBRATED = profile("calibrated")
FITTED = {name: one for name, one in coefficients("calibrated").items() if one.prior is not None}
SIZES = st.integers(16, 65_536)


def priced(knobs=None, **more):
    """Llama 3.1 405B, eight layers a stage, in software of one's choice."""
    return candidate(
        layout(**{"tp": 8, "pp": 16, "dp": 128} | (knobs or {})), setting(name="calibrated", **more)
    )


def test_the_coefficients_are_few_and_none_is_a_model_s_or_a_run_s():
    assert len(FITTED) <= 40
    for name, one in FITTED.items():
        assert one.low <= one.value <= one.high, name
        assert one.low <= one.prior <= one.high, name
        assert "bench/fit.py" in one.source, name
        assert one.belief, name
        assert one.runs, name


@pytest.mark.parametrize("name", coefficients("calibrated"))
def test_every_coefficient_has_a_unit_a_range_and_a_source(name):
    one = coefficients("calibrated")[name]
    assert one.unit in ("1", "s", "B")
    assert one.low <= one.value <= one.high
    assert len(one.source) > 7


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(1, 20))
def test_two_things_at_once_take_no_less_than_either_and_no_more_than_both(one, other, norm):
    both = float(together(one, other, norm))
    assert max(one, other) * (1 - 1e-12) <= both <= (one + other) * (1 + 1e-12)
    assert -1e-6 <= float(exposed(one, other, norm)) <= other * (1 + 1e-9) + 1e-6


@given(SIZES, SIZES, st.integers(1, 200))
def test_waves_never_speed_a_product_up(rows, columns, processors):
    assert float(waves(rows, columns, processors)) >= 1


def test_a_product_of_many_waves_loses_next_to_nothing():
    assert float(waves(65_536, 65_536, 108)) < 1.01
    assert float(waves(128, 128, 108)) == pytest.approx(108 * 1.06)


@given(SIZES, SIZES, SIZES)
def test_a_product_never_beats_its_rate_and_a_backward_is_about_two_forwards(rows, columns, depth):
    gemm = Gemm(float(rows), float(columns), float(depth))
    pace = ProductPace(5e14, 5e14, 150.0, 0.8, 132)
    found = product_seconds(gemm, pace)
    assert float(found.forward) >= float(gemm.flops) / 5e14
    assert float(found.backward) >= 2 * float(gemm.flops) / 5e14


@given(SIZES, SIZES, st.integers(1, 64), st.booleans())
def test_fewer_rows_than_a_tile_has_take_no_longer_than_a_tile_of_them(columns, depth, experts, grouped):
    """Part-empty tiles were counted twice, and a product of one row took fifty times what 256 rows do."""
    pace = ProductPace(6e14, 4e14, 128.4, 0.59, 132)
    rows = np.array([1.0, 2.0, 8.0, 31.0, 64.0, 100.0, 127.0, 128.0])
    found = product_seconds(Gemm(rows, float(columns), float(depth), float(experts), grouped), pace)
    for seconds in (found.forward, found.input_gradient, found.weight_gradient):
        assert (np.diff(seconds) > 0).all()


def test_a_longer_sequence_takes_no_less_where_its_experts_see_few_tokens():
    """DeepSeek-V3 with all experts on every rank, 16 to 272 tokens an expert: 8,192 tokens took 11 % less."""
    model = architecture("deepseek-v3")
    chosen = layout(model, tp=8, pp=4, dp=16, batch=2048)
    dgx = Cluster(gpu=gpu("h100-sxm"), gpus_per_node=8, tiers=DGX.tiers)
    steps = [
        candidate(
            chosen, setting(model, "calibrated", cluster=dgx, gpus=512, workload=workload(length, 2048))
        ).step_time_s
        for length in (2048, 4096, 4608, 8192, 8704)
    ]
    assert steps == sorted(steps)


def test_products_of_a_training_step_stay_below_the_peak():
    rates = CALIBRATED.rates
    for name, precisions in (("a100-80gb-sxm", ["bf16"]), ("h100-sxm", ["bf16", "fp8"]),
                             ("gb200", ["bf16", "fp8", "nvfp4"]), ("mi300x", ["bf16", "fp8"])):  # fmt: skip
        for precision in precisions:
            assert 0.2 < matmul_rate(gpu(name), precision, rates) / peak_flops(gpu(name), precision) < 0.95


@pytest.mark.parametrize("generation", ["volta", "ampere", "hopper", "blackwell", "other"])
def test_no_step_is_faster_than_its_peak_whatever_fraction_of_it_a_caller_states(generation):
    """Training's products run 1.09 times an A100's benchmark: of a fraction of 1 that made an MFU of 1.02."""
    stated = {"generation": generation, "matmul_fraction": 1.0, "memory_bandwidth_bytes_per_s": 1e15}
    card = gpu("h100-sxm").model_copy(update=stated)
    cluster = Cluster(gpu=card, gpus_per_node=8, tiers=DGX.tiers)
    chosen = layout(GPT3, tp=8, dp=1, batch=512, micro_batch=64)
    question = setting(GPT3, "calibrated", cluster=cluster, gpus=8, workload=workload(2048, 512))
    assert 0 < candidate(chosen, question).mfu < 1


def test_a_small_micro_batch_costs_more_a_token():
    """Bloom's own sweep on 384 A100: 143, 134, 124 s at one, two and four sequences a micro-batch."""
    a100 = Cluster(gpu=gpu("a100-80gb-sxm"), gpus_per_node=8, tiers=DGX.tiers)
    compute = [
        priced(cluster=a100, knobs={"micro_batch": b}, workload=workload(2048, 2048)).time.compute_s
        for b in (1, 2, 4)
    ]
    assert compute[0] > 1.03 * compute[1] > 1.03 * compute[2]


@pytest.mark.parametrize("kernel", ["flash-triton", "flash2", "cudnn", "flash3"])
def test_a_fused_attention_beats_an_unfused_one(kernel):
    fused, unfused = (priced(stack=Stack(attention_kernel=one)).time.compute_s for one in (kernel, "unfused"))
    assert fused < unfused


def test_graphs_help_where_the_host_is_slow():
    """512 tokens a micro-batch on eight ranks: a layer's kernels take less than their launches."""
    chosen = layout(GPT3, tp=8, pp=16, dp=128, batch=2048)
    none, partial, full = (
        candidate(
            chosen, setting(GPT3, "calibrated", stack=Stack(cuda_graph=kind), workload=workload(512, 2048))
        ).step_time_s
        for kind in ("none", "partial", "full")
    )
    assert none > partial > full


def test_full_recompute_repeats_a_forward_and_selective_only_its_modules():
    kept, attention, mlp, full = (
        priced(knobs=knobs).time.recompute_s
        for knobs in (
            {},
            {"recompute": "selective"},
            {"recompute": "selective", "recompute_modules": ("mlp",)},
            {"recompute": "full"},
        )
    )
    assert kept == 0 < attention < mlp < full
    assert full == pytest.approx(priced().time.compute_s / 3, rel=0.2)


def test_fsdp_s_copies_grow_with_the_micro_batches_and_vanish_where_units_are_gathered_in_place():
    def other(name, batch):
        chosen = layout(tp=1, dp=64, batch=batch, zero=3, gradient_reduce="per_micro_batch")
        question = setting(
            name="calibrated", gpus=64, workload=workload(4096, batch), framework=framework(name)
        )
        return candidate(chosen, question).time.other_s

    copied, twice, in_place = other("composer-fsdp", 64), other("composer-fsdp", 128), other("megatron", 64)
    assert twice == pytest.approx(2 * copied, rel=0.2)
    assert in_place < copied / 2


def test_a_gpu_without_measured_runs_takes_what_the_catalogue_says_and_a_wide_band():
    amd, dgx = (Cluster(gpu=gpu(name), gpus_per_node=8, tiers=DGX.tiers) for name in ("mi300x", "h100-sxm"))
    known, unknown = priced(cluster=dgx), priced(cluster=amd)
    assert matmul_rate(amd.gpu, "bf16", CALIBRATED.rates) == pytest.approx(
        peak_flops(amd.gpu, "bf16") * amd.gpu.matmul_fraction
    )
    widths = [one.step_time_high_s / one.step_time_low_s for one in (known, unknown)]
    assert widths[1] > widths[0] > 1
    assert any("Extrapolated" in text for text in unknown.warnings)


def width(**more):
    """How wide the band is, and what is told to be extrapolated."""
    one = priced(**more)
    told = [text for text in one.warnings if text.startswith("Extrapolated")]
    return one.step_time_high_s / one.step_time_low_s, told


def test_a_gpu_of_no_known_generation_is_extrapolated_to():
    """`other` has a number in every table: what stands for generations that were never measured."""
    unknown = gpu("h100-sxm").model_copy(update={"generation": "other"})
    inline = Cluster(gpu=unknown, gpus_per_node=8, tiers=DGX.tiers)
    wide, told = width(cluster=inline)
    assert wide == pytest.approx(np.exp(2 * CALIBRATED.bands.unmeasured))
    assert any("bf16 matrix products on this generation of GPUs (other)" in text for text in told)
    assert any("attention kernel on this generation of GPUs (other)" in text for text in told)


@pytest.mark.parametrize(
    ("precision", "recipe", "what"),
    [("fp32", None, "fp32 matrix products"), ("fp8", "rowwise", "the rowwise scaling")],
)
def test_what_no_run_of_the_fit_trains_in_is_extrapolated_to(precision, recipe, what):
    dgx = Cluster(gpu=gpu("h100-sxm"), gpus_per_node=8, tiers=DGX.tiers)
    stack = Stack(attention_kernel="cudnn", fp8_recipe=recipe)
    wide, told = width(cluster=dgx, stack=stack, workload=workload(8192, 2048, precision=precision))
    assert wide == pytest.approx(np.exp(2 * CALIBRATED.bands.unmeasured))
    assert [what in text for text in told] == [True]


def test_what_is_said_to_have_no_runs_has_none_of_those_the_fit_takes():
    with (Path(__file__).parents[2] / "bench/data/runs.csv").open(encoding="utf-8") as file:
        taken = [row for row in csv.DictReader(file) if row["confidence"] != "low"]
    assert not {row["precision"] for row in taken} & UNTRAINED
    assert not {row["fp8_recipe"] for row in taken} & UNSCALED
    assert {"bf16", "fp16", "fp8", "nvfp4"} == {row["precision"] for row in taken}


def test_the_band_holds_the_prediction_and_the_texts_have_none():
    one = priced()
    assert one.step_time_low_s < one.step_time_s < one.step_time_high_s
    assert np.sqrt(one.step_time_low_s * one.step_time_high_s) == pytest.approx(one.step_time_s)
    text = candidate(layout(tp=8, pp=16, dp=128), setting())
    assert (text.step_time_low_s, text.step_time_high_s) == (None, None)


def test_stragglers_cost_more_the_more_gpus_wait_for_each_other():
    """The same work a GPU on 1,024 and on 16,384 of them."""
    shares = [
        priced(gpus=gpus, knobs={"dp": gpus // 128, "batch": gpus // 8}, workload=workload(8192, gpus // 8))
        for gpus in (1024, 16384)
    ]
    assert shares[1].time.other_s > shares[0].time.other_s


def test_a_slower_network_lengthens_what_leaves_the_servers_and_nothing_inside():
    """At 0.5 of the rate, PP and DP wait longer, TP inside the server exactly as long; at 1, as ever."""

    def times(network):
        under = setting(name="calibrated")
        profiled = under.profile.model_copy(update={"network_collectives": network})
        return candidate(layout(tp=8, pp=16, dp=128), replace(under, profile=profiled)).time

    slow, plain, fast = times(0.5), times(1.0), times(1.25)
    assert plain == priced().time
    assert slow.tp_exposed_s == plain.tp_exposed_s == fast.tp_exposed_s
    assert slow.dp_exposed_s > plain.dp_exposed_s >= fast.dp_exposed_s
    assert slow.compute_s == plain.compute_s
