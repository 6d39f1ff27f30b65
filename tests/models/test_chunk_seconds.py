"""Each chunk's passes add up to what the step's price says its stage takes, whatever makes it long."""

from dataclasses import replace

import numpy as np
import pytest

from models.architecture import Architecture, MixtureOfExperts
from models.cost.pipeline.known import KNOWN, Size
from models.cost.pipeline.simulate import simulate
from models.cost.price import price
from models.cost.step.chunk_seconds import chunk_durations
from models.cost.step.host import slowed
from models.cost.table import LayoutTable
from tests.builders import LLAMA_405B, layout, setting

MOE = Architecture(
    name="moe", hidden=4096, layers=32, heads=32, kv_heads=8, head_size=128, ffn=14336, vocabulary=128_256,
    moe=MixtureOfExperts(experts=8, experts_per_token=2, expert_ffn=14336, dense_first=2),
)  # fmt: skip
CASES = {
    "plain": (LLAMA_405B, {"tp": 8, "pp": 16, "dp": 128}),
    "sequence unsplit": (LLAMA_405B, {"tp": 8, "pp": 16, "dp": 128, "sequence_parallel": False}),
    "selective": (LLAMA_405B, {"tp": 8, "pp": 16, "dp": 128, "recompute": "selective"}),
    "full": (LLAMA_405B, {"tp": 8, "pp": 16, "dp": 128, "recompute": "full"}),
    "some layers": (LLAMA_405B, {"tp": 8, "pp": 16, "dp": 128, "recompute": "full", "recompute_layers": 3}),
    "fewer on later stages": (
        LLAMA_405B,
        {"tp": 8, "pp": 4, "dp": 512, "recompute": "full", "recompute_stage_layers": (31, 20, 9, 0)},
    ),
    "context": (LLAMA_405B, {"tp": 8, "cp": 4, "pp": 16, "dp": 32}),
    "ring": (LLAMA_405B, {"tp": 8, "cp": 4, "pp": 16, "dp": 32, "cp_comm": "ring"}),
    "ulysses": (LLAMA_405B, {"tp": 2, "cp": 4, "pp": 16, "dp": 128, "cp_comm": "ulysses"}),
    "overlapped": (LLAMA_405B, {"tp": 8, "pp": 16, "dp": 128, "tp_overlap": True}),
    "experts": (MOE, {"tp": 2, "pp": 4, "dp": 64, "ep": 8}),
    "split experts": (MOE, {"tp": 2, "etp": 2, "pp": 4, "dp": 64, "ep": 4, "recompute": "full"}),
}


def priced(architecture, knobs, profile="calibrated"):
    under = setting(
        architecture, profile, gpus=int(np.prod([knobs.get(n, 1) for n in ("tp", "cp", "pp", "dp")]))
    )
    chosen = layout(architecture, **knobs)
    return chosen, under


def besides(time, chosen, under):
    """What slows the whole step and its own fixed cost: no stage's. [s]."""
    if under.profile.rates is None:
        return 0.0
    whole = float(time.total[0] - time.parts["optimizer_s"][0])
    slower = float(slowed(LayoutTable.of([chosen]), under)[0])
    return whole - (whole - under.profile.rates.step_seconds) / slower


def totals(durations):
    return np.array([durations.forward, durations.input_gradient, durations.weight_gradient]).sum(axis=0)


@pytest.mark.parametrize("profile", ["calibrated", "textbook"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_passes_of_the_slowest_stage_are_the_pace_of_the_step(case, profile):
    chosen, under = priced(*case, profile)
    durations = chunk_durations(chosen, under)
    _, _, time = price(LayoutTable.of([chosen]), under)
    parts = ("compute_s", "recompute_s", "tp_exposed_s", "cp_exposed_s", "ep_exposed_s", "other_s")
    running = sum(float(time.parts[name][0]) for name in parts) - besides(time, chosen, under)
    pace = running / chosen.micro_batches
    assert totals(durations).max() == pytest.approx(pace)
    assert min(durations.forward) > 0
    assert min(durations.weight_gradient) > 0
    assert all(i > 0 for i in durations.input_gradient)


ALIKE = ("plain", "selective", "full", "context", "ulysses", "overlapped")
"""Cases whose layers are all alike and hide nothing behind each other."""


@pytest.mark.parametrize("name", ALIKE)
def test_chunks_of_a_stage_take_together_what_the_stage_takes(name):
    chosen, under = priced(*CASES[name])
    first = tuple(each // 2 for each in chosen.stage_layers)
    second = tuple(each - half for each, half in zip(chosen.stage_layers, first, strict=True))
    chunked = layout(LLAMA_405B, **CASES[name][1], vpp=2, stage_layers=first + second)
    whole, parts = (chunk_durations(each, under) for each in (chosen, chunked))
    # a host that launches hides a little otherwise behind two halves than behind the whole
    assert totals(parts).reshape(2, -1).sum(axis=0) == pytest.approx(totals(whole), rel=0.002)


def test_a_backward_takes_twice_its_forward_and_more_for_attention_and_recompute():
    chosen, under = priced(LLAMA_405B, {"tp": 1, "pp": 16, "dp": 1024})
    plain = chunk_durations(chosen, under)
    backward = np.add(plain.input_gradient, plain.weight_gradient)
    assert (backward[1:-1] > 2 * np.array(plain.forward[1:-1])).all()
    assert (backward[1:-1] < 2.2 * np.array(plain.forward[1:-1])).all()
    again = chunk_durations(chosen.model_copy(update={"recompute": "full"}), under)
    assert again.forward == pytest.approx(plain.forward)
    assert again.weight_gradient == pytest.approx(plain.weight_gradient)
    more = np.subtract(again.input_gradient, plain.input_gradient)
    assert more[1:-1] == pytest.approx(np.array(plain.forward[1:-1]))


def test_the_textbooks_three_passes_take_the_same_and_its_messages_nothing():
    chosen, under = priced(LLAMA_405B, {"tp": 1, "pp": 16, "dp": 1024}, "textbook")
    durations = chunk_durations(chosen, under)
    assert durations.forward == pytest.approx(durations.input_gradient)
    assert durations.forward == pytest.approx(durations.weight_gradient)
    assert set(durations.send) == {0.0}


def test_the_head_is_on_the_last_chunk_only():
    chosen, under = priced(LLAMA_405B, {"tp": 8, "pp": 2, "vpp": 63, "dp": 1024})
    durations = chunk_durations(chosen, under)
    middle, last = durations.forward[1:-1], durations.forward[-1]
    assert max(middle) == pytest.approx(min(middle))
    assert 1.3 < last / middle[0] < 2.2  # the head is about 0.66 of a layer


def test_a_pipeline_without_messages_takes_what_the_step_is_priced_at():
    """1F1B whose last stage limits: G t_max and once through the others, as the price says."""
    shape = LLAMA_405B.model_copy(update={"layers": 128})
    chosen, under = priced(shape, {"tp": 8, "pp": 16, "dp": 128})
    durations = chunk_durations(chosen, under)
    order = KNOWN["1f1b"].make(Size(16, chosen.micro_batches), durations)
    silent = simulate(order, replace(durations, send=(0.0,) * 15))
    assert silent.busy.argmax() == 15
    _, _, time = price(LayoutTable.of([chosen]), under)
    follows = sum(float(time.parts[name][0]) for name in ("dp_exposed_s", "optimizer_s", "pp_exposed_s"))
    follows += besides(time, chosen, under)
    assert silent.span == pytest.approx(float(time.total[0]) - follows)
    waits = simulate(order, durations).span - silent.span
    assert 0 < waits <= float(time.parts["pp_exposed_s"][0])
