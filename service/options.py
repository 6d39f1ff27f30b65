"""The flags of the command line that questions share, each with what --help says of it."""

from pathlib import Path
from typing import Annotated

import typer

Model = Annotated[str | None, typer.Option("--model", help="Catalogue name, or a path to a config.json.")]
Cluster = Annotated[str | None, typer.Option("--cluster", help="Catalogue name, or a path to a JSON file.")]
Gpus = Annotated[int | None, typer.Option("--gpus", help="GPUs the job gets.")]
Sequence = Annotated[int | None, typer.Option("--sequence", help="Tokens of one sequence.")]
Batch = Annotated[int | None, typer.Option("--global-batch", help="Sequences of one optimizer step.")]
Precision = Annotated[str | None, typer.Option("--precision", help="bf16, fp16, fp8, nvfp4 or fp32.")]
Optimizer = Annotated[str | None, typer.Option("--optimizer", help="Whose state is kept: adam, sgd, lion, …")]
Kept = Annotated[str | None, typer.Option("--gradient-dtype", help="Type gradients are kept in.")]
Sent = Annotated[str | None, typer.Option("--gradient-reduce-dtype", help="Type gradients are sent in.")]
Stack = Annotated[
    list[str] | None, typer.Option("--stack", help="KNOB=VALUE of the software; may stand several times.")
]
Framework = Annotated[str | None, typer.Option("--framework", help="Whose rules a layout must keep.")]
Profile = Annotated[str | None, typer.Option("--profile", help="calibrated or textbook.")]
Calibration = Annotated[
    str | None,
    typer.Option(
        "--calibration",
        help="What own runs make of the profile: a file that validate --fit wrote, or a CSV file of runs.",
    ),
]
Limit = Annotated[int | None, typer.Option("--memory-limit-bytes", help="Bytes a GPU may use.")]
File = Annotated[
    str | None, typer.Option("--request", help="Request as JSON, flags lie over it; '-' is stdin.")
]
Fit = Annotated[
    Path | None,
    typer.Option("--fit", metavar="OUT.json", help="Adapt the profile to the runs, and write it here."),
]
AsJson = Annotated[bool, typer.Option("--json", help="The API's JSON instead of tables.")]
Top = Annotated[int | None, typer.Option("--top", help="Layouts on the shortlist.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="KNOB=VALUE, KNOB=a,b for one of some, KNOB=a..b for a range; may stand several times. "
        "A value that is a list is joined by dashes: rank_order=tp-cp-ep-dp-pp.",
    ),
]
LayoutText = Annotated[
    list[str] | None,
    typer.Option(
        "--layout",
        help="tp=8,pp=3,… A value that is a list is joined by dashes, since commas part the knobs: "
        "stage_layers=7-8-8, rank_order=tp-cp-ep-dp-pp.",
    ),
]
Objective = Annotated[str | None, typer.Option("--objective", help="step_time, memory or traffic.")]
TimeLimit = Annotated[float | None, typer.Option("--time-limit", help="Seconds the search may take.")]
Name = Annotated[str | None, typer.Argument(help="One entry, with its sources; all of them when left out.")]
