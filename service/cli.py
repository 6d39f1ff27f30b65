"""The command line: the API's questions in process, tables for people, JSON for programs.

Exit status: 0 answered with a layout, 3 none fits, 2 the question was wrong, 1 our fault.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from models.base import Schema
from models.errors import LayoutError
from models.request import EvaluateRequest, SearchRequest
from service import flags, listings, running, tables
from service.evaluation import print_evaluation
from service.faults import problem
from service.measured import read_runs
from service.measured import validate as validate_runs
from service.measured.tables import print_validation
from service.questions import read_question

ANSWERED, OUR_FAULT, WRONG_QUESTION, NONE_FITS = 0, 1, 2, 3

app = typer.Typer(
    name="layout-search",
    help="How to lay an LLM training run over its GPUs: every layout that fits, priced and ranked.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Model = Annotated[str | None, typer.Option("--model", help="Catalogue name, or a path to a config.json.")]
Cluster = Annotated[str | None, typer.Option("--cluster", help="Catalogue name, or a path to a JSON file.")]
Gpus = Annotated[int | None, typer.Option("--gpus", help="GPUs the job gets.")]
Sequence = Annotated[int | None, typer.Option("--sequence", help="Tokens of one sequence.")]
Batch = Annotated[int | None, typer.Option("--global-batch", help="Sequences of one optimizer step.")]
Framework = Annotated[str | None, typer.Option("--framework", help="Whose rules a layout must keep.")]
Profile = Annotated[str | None, typer.Option("--profile", help="calibrated or textbook.")]
Limit = Annotated[int | None, typer.Option("--memory-limit-bytes", help="Bytes a GPU may use.")]
File = Annotated[str | None, typer.Option("--request", help="Request as JSON; '-' is stdin.")]
AsJson = Annotated[bool, typer.Option("--json", help="The API's JSON instead of tables.")]
Top = Annotated[int | None, typer.Option("--top", help="Layouts on the shortlist.")]
Set = Annotated[list[str] | None, typer.Option("--set", help="KNOB=VALUE, KNOB=a,b or KNOB=a..b.")]
LayoutText = Annotated[list[str] | None, typer.Option("--layout", help="tp=8,pp=16,…")]
Objective = Annotated[str | None, typer.Option("--objective", help="step_time, memory or traffic.")]
TimeLimit = Annotated[float | None, typer.Option("--time-limit", help="Seconds the search may take.")]
Name = Annotated[str | None, typer.Argument(help="One entry, with its sources; all of them when left out.")]


@app.command()
def search(
    model: Model = None, cluster: Cluster = None, gpus: Gpus = None, sequence: Sequence = None,
    global_batch: Batch = None, framework: Framework = None, top: Top = None, set_: Set = None,
    request: File = None, profile: Profile = None, objective: Objective = None,
    memory_limit_bytes: Limit = None, time_limit: TimeLimit = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Find the layouts that fit and rank them."""

    def ask() -> int:
        base = _base(request, model, cluster, gpus, sequence, global_batch, framework, profile)
        constraints = dict(map(flags.knob, set_ or ())) | {"memory_limit_bytes": memory_limit_bytes}
        rest = {"top_k": top, "objective": objective, "time_limit_s": time_limit}
        body = flags.merge(base, rest | {"constraints": constraints})
        answer = running.search(read_question(SearchRequest, body), _progress(as_json))
        _print(answer, as_json, lambda console: tables.print_search(console, answer))
        return ANSWERED if answer.shortlist else NONE_FITS

    _told(ask, as_json)


@app.command()
def evaluate(
    model: Model = None, cluster: Cluster = None, gpus: Gpus = None, sequence: Sequence = None,
    global_batch: Batch = None, framework: Framework = None, layout: LayoutText = None,
    request: File = None, profile: Profile = None, memory_limit_bytes: Limit = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Price one layout and list every rule it breaks."""

    def ask() -> int:
        base = _base(request, model, cluster, gpus, sequence, global_batch, framework, profile)
        stated = flags.layout(layout or ())
        body = flags.merge(base, {"layout": stated, "memory_limit_bytes": memory_limit_bytes})
        if isinstance(body, dict):
            body.setdefault("layout", {})
        answer = running.evaluate(read_question(EvaluateRequest, body))
        _print(answer, as_json, lambda console: print_evaluation(console, answer))
        fits = answer.candidate.memory.headroom_bytes >= 0 and not answer.broken_rules
        return ANSWERED if fits else NONE_FITS

    _told(ask, as_json)


@app.command()
def validate(
    runs: Annotated[Path, typer.Argument(help="CSV file of measured runs.", metavar="RUNS.csv")],
    profile: Profile = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Predict measured runs and print predicted beside measured."""

    def ask() -> int:
        answer = validate_runs(read_runs(runs), profile or "calibrated")
        _print(answer, as_json, lambda console: print_validation(console, answer))
        return ANSWERED

    _told(ask, as_json)


@app.command()
def models(
    name: Annotated[str | None, typer.Argument(
        metavar="NAME | import", help="One entry, in full; all of them when left out.")] = None,
    file: Annotated[str | None, typer.Argument(
        metavar="FILE", help="With import: a config.json to read; '-' is stdin.")] = None,
    sequence: Sequence = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """List the models known by name, show one of them, or what a config.json becomes."""
    _told(lambda: listings.models(tables.console(), name, file, sequence, as_json), as_json)


@app.command()
def gpus(name: Name = None, as_json: AsJson = False) -> None:
    """List the GPUs known by name."""
    _told(lambda: listings.gpus(tables.console(), name, as_json), as_json)


@app.command()
def clusters(name: Name = None, as_json: AsJson = False) -> None:
    """List the clusters known by name."""
    _told(lambda: listings.clusters(tables.console(), name, as_json), as_json)


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on; else LAYOUT_SEARCH_HOST.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; else LAYOUT_SEARCH_PORT.")] = None,
) -> None:
    """Serve the API; Swagger UI is at /docs."""
    from service import serving

    _told(lambda: serving.serve(host, port), as_json=False)


@app.command()
def openapi(
    output: Annotated[Path | None, typer.Option(help="File to write; else standard output.")] = None,
) -> None:
    """Write the OpenAPI description."""
    from service.serving import description

    if output:
        output.write_text(description(), encoding="utf-8")
    else:
        sys.stdout.write(description())


def _base(
    file: str | None, model: str | None, cluster: str | None, gpus: int | None, sequence: int | None,
    batch: int | None, framework: str | None, profile: str | None,
) -> Any:  # fmt: skip
    """Lay the flags that every question has over the request file."""
    base = flags.read_file(file, "--request") if file else {}
    return flags.merge(base, {
        "model": flags.name_or_file(model, "--model", "hf_config") if model else None,
        "cluster": flags.name_or_file(cluster, "--cluster") if cluster else None,
        "gpus": gpus,
        "workload": {"sequence_length": sequence, "global_batch": batch},
        "framework": framework,
        "profile": profile,
    })  # fmt: skip


def _progress(as_json: bool) -> Console | None:
    return Console(stderr=True) if sys.stderr.isatty() and not as_json else None


def _print(answer: Schema, as_json: bool, table: Callable[[Console], None]) -> None:
    if as_json:
        sys.stdout.write(answer.model_dump_json(by_alias=True) + "\n")
    else:
        table(tables.console())


def _told(ask: Callable[[], int | None], as_json: bool) -> None:
    """Answer, or tell every fault: one a line on standard error, or the API's problem as JSON."""
    try:
        raise typer.Exit(ask() or ANSWERED)
    except LayoutError as error:
        told = problem(422, error.faults)
    if as_json:
        sys.stdout.write(told.model_dump_json() + "\n")
    else:
        for fault in told.faults:
            given = "" if fault.value is None else f" = {fault.value!r}"
            sys.stderr.write(f"{fault.field or 'request'}{given}: {fault.reason}. {fault.fix}\n")
    raise typer.Exit(WRONG_QUESTION)


def main() -> None:
    """Run the command line; whatever nobody foresaw is our fault and told in one line."""
    try:
        app()
    except Exception as error:
        if os.environ.get("LAYOUT_SEARCH_LOG_LEVEL") == "debug":
            raise
        sys.stderr.write(f"layout-search failed, and it is our fault: {error!r}. Please report it.\n")
        sys.exit(OUR_FAULT)


if __name__ == "__main__":
    main()
