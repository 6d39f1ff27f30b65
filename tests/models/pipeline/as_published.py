"""How the product reckons each published schedule and split, from the entry's inputs alone."""

from models.cost.pipeline import published, schedule
from models.cost.pipeline.actions import Pair, Schedule
from models.cost.pipeline.controllable import v_half, v_min
from models.cost.pipeline.folded import dualpipe, dualpipe_v, zb_v
from models.cost.pipeline.held import peaks
from models.cost.pipeline.looped import (
    gpipe,
    interleaved,
    interleaved_zero_bubble,
    interleaving_table,
    looped_breadth_first,
    one_f_one_b,
    round_size,
    warm_up_forwards,
)
from models.cost.pipeline.simulate import Durations, simulate
from models.cost.pipeline.zero_bubble_greedy import zero_bubble_greedy
from tests.models.published.facts import Given, Ways

BY_NAME = {
    "GPipe": lambda p, v, g: gpipe(p, g),
    "1F1B": lambda p, v, g: one_f_one_b(p, g),
    "Interleaved1F1B": lambda p, v, g: interleaved(p, g, v, round_size(p, g)),
    "LoopedBFS": lambda p, v, g: looped_breadth_first(p, g, v),
    "InterleavedZeroBubble": lambda p, v, g: interleaved_zero_bubble(p, g, v),
    "ZBVZeroBubble": lambda p, v, g: zb_v(p, g),
    "DualPipeV": lambda p, v, g: dualpipe_v(p, g),
}
SPLIT = ("InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV")
"""Schedules with split backwards, run again with uneven halves."""
SHOWN = 4
"""Ranks an entry shows of a long pipeline."""


def pytorch(given: Given) -> dict[str, object]:
    made = BY_NAME[given["schedule"]](given["p"], given["v"], given["G"])
    timeline = simulate(made)
    found = {
        "ops_per_rank": [len(order) for order in made.orders],
        "max_inflight_chunks": peaks(made),
        "slots": timeline.span,
        "idle_per_rank": timeline.idle,
        "idle_between_own_first_and_last": timeline.idle_inside,
    }
    if given["schedule"] == "InterleavedZeroBubble":
        found["max_inflight_if_freed_at_input_grad"] = peaks(made, freed_at_input=1)
    if given["schedule"] in SPLIT:
        uneven = simulate(made, Durations.of(made.stages, 1, 1.2, 0.8))
        found["slots_with_I1.2_W0.8"] = round(uneven.span, 9)
    return found


def megatron(given: Given) -> dict[str, object]:
    p, v, g, n = (given[name] for name in ("p", "v", "G", "N"))
    made = interleaved(p, g, v, n)
    timeline = simulate(made)
    shown = SHOWN if p > 16 else p
    return {
        "warmup_forwards": [warm_up_forwards(rank, p, g, v, n) for rank in range(shown)],
        "max_inflight_chunks": peaks(made)[:shown],
        "slots": timeline.span,
        "idle_per_rank": timeline.idle[:shown],
    }


def megatron_table(given: Given) -> dict[str, list[int]]:
    chunks, micro_batches = zip(*interleaving_table(given["M"], given["v"], given["N"]), strict=True)
    return {"microbatch_id": list(micro_batches), "model_chunk_id": list(chunks)}


def both_ways(given: Given) -> dict[str, object]:
    made = dualpipe(given["p"], given["G"])
    plain = simulate(made)
    hidden = simulate(made, Durations.of(made.stages, pair_share=2.5 / 3))
    return {
        "ops_per_rank": [len(order) for order in made.orders],
        "overlapped_pairs": [sum(isinstance(slot, Pair) for slot in order) for order in made.orders],
        "max_inflight": peaks(made),
        "slots_pair3": plain.span,
        "idle_pair3": plain.idle,
        "slots_pair2_5": hidden.span,
        "idle_pair2_5": hidden.idle,
    }


def controllable(given: Given) -> dict[str, object]:
    make = {"V-half": v_half, "V-min": v_min}[given["schedule"]]
    made = make(given["p"], given["G"])
    timeline = simulate(made, Durations.of(made.stages, send=given["c_cost"]))
    longest, busy = timeline.own_spans.max(), timeline.busy.max()
    return {
        "longest_device_time": longest,
        "busy": busy,
        "bubble_rate": (longest - busy) / longest,
        "max_inflight_chunks": peaks(made),
    }


def greedy(given: Given) -> dict[str, float]:
    durations = Durations.of(given["p"], given["TF"], given["TB"], given["TW"])
    timeline = simulate(zero_bubble_greedy(given["p"], given["G"], durations, given["cap"]), durations)
    longest = float(timeline.own_spans.max())
    bubble = longest - float(timeline.busy.max())
    return {"longest_device_time": longest, "bubble": bubble, "span": timeline.span}


def zero_bubble_table(given: Given) -> dict[str, float]:
    found = published.zero_bubble_table(given["p"], given["TF"], given["TB"], given["TW"])
    plain, h1, h2 = found.peaks
    waits = {"b_1f1b": found.one_f_one_b, "b_h1": found.h1, "b_h2": found.h2}
    return waits | {"peak_1f1b": plain, "peak_h1": h1, "peak_h2": h2}


def zero_bubble_halves(given: Given) -> dict[str, float]:
    inputs, weights, needed = published.zero_bubble_halves(given["s"], given["h"], given["a"])
    return {"B_over_F": inputs, "W_over_F": weights, "MW_over_MB": needed}


def zero_bubble_memory(given: Given) -> dict[str, float]:
    h1, h2 = published.zero_bubble_memory(given["p"], given["i"], given["MW_over_MB"])
    return {"h1": h1, "h2": h2}


def zero_bubble_comparison(given: Given) -> dict[str, object]:
    found = published.zero_bubble_comparison(given["p"], given["m"])
    names = ("b_1f1b", "zb1p", "zb2p", "zbv", "v_half", "v_min")
    bubbles = dict(zip(names, found.bubble, strict=True))
    return bubbles | {"memory": found.memory, "traffic": found.traffic}


def dualpipe_table(given: Given) -> dict[str, object]:
    times = (given[name] for name in ("F", "B", "W", "FandB"))
    found = published.dualpipe_table(given["PP"], *times)
    plain, zb1p, both, _ = found.bubble
    kept = {"weights": found.weights, "activations": found.activations, "devices": found.devices}
    return {"b_1f1b": plain, "b_zb1p": zb1p, "b_dualpipe": both} | kept


def interleaved_bubble(given: Given) -> dict[str, float]:
    p, v, g = given["p"], given["v"], given["G"]
    made = interleaved(p, g, v, p)
    crossed = schedule.boundaries_crossed(p, v) + 1
    return {
        "bubble_over_compute": simulate(made).bubble_of_compute,
        "traffic_factor": crossed / (schedule.boundaries_crossed(p, 1) + 1),
    }


def breadth_first(given: Given) -> dict[str, float]:
    made: Schedule = looped_breadth_first(given["p"], given["G"], given["v"])
    bubble = simulate(made).bubble_of_compute
    return {"bubble_over_compute": bubble, "inflight_chunks": peaks(made).max()}


def batch(given: Given) -> float:
    micro_batches = given["B"] // given["d"] // given["b"]
    return published.batch_seconds(given["p"], micro_batches, given["tf"], given["tb"])


RUNS: Ways = {
    "pt-": pytorch,
    "megatron-interleaved-": megatron,
    "megatron-table-": megatron_table,
    "dualpipe-run-": both_ways,
    "v-half-": controllable,
    "v-min-": controllable,
    "zb1p-": greedy,
    "zb2p-": greedy,
}
FORMULAS: Ways = {
    "zb-table2-": zero_bubble_table,
    "zb-table1-": zero_bubble_halves,
    "zb-worker-memory-": zero_bubble_memory,
    "zb-readme-": zero_bubble_comparison,
    "dualpipe-table-": dualpipe_table,
    "interleaved-bubble-": interleaved_bubble,
    "bfs-bubble-": breadth_first,
    "narayanan-microbatch-time": batch,
}
