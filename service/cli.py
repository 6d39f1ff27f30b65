"""The command line: the API's questions in process, tables for people, JSON for programs.

Exit status: 0 answered with a layout, 3 none fits, 2 the question was wrong, 1 our fault.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from models.base import Schema
from models.errors import LayoutError
from models.request import EvaluateRequest, SearchRequest
from service import flags, listings, running, tables
from service.evaluation import print_evaluation
from service.faults import lines, problem
from service.measured import read_file
from service.measured import validate as validate_runs
from service.measured.fitted_file import check_output, write_calibration
from service.measured.tables import print_validation
from service.openapi import VERSION
from service.options import (
    AsJson,
    Batch,
    Calibration,
    Cluster,
    File,
    Fit,
    Framework,
    Gpus,
    Kept,
    LayoutText,
    Limit,
    Model,
    Name,
    Objective,
    Optimizer,
    Precision,
    Profile,
    Sent,
    Sequence,
    Set,
    Stack,
    TimeLimit,
    Top,
)
from service.questions import read_question

ANSWERED, OUR_FAULT, WRONG_QUESTION, NONE_FITS = 0, 1, 2, 3

app = typer.Typer(
    name="layout-search",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    """Print the version and leave, before any command is looked for."""
    if asked:
        sys.stdout.write(f"layout-search {VERSION}\n")
        raise typer.Exit(ANSWERED)


@app.callback()
def top(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave."),
    ] = False,
) -> None:
    """How to lay an LLM training run over its GPUs: every layout that fits, priced and ranked."""


@app.command()
def search(
    context: typer.Context, model: Model = None, cluster: Cluster = None, gpus: Gpus = None,
    sequence: Sequence = None, global_batch: Batch = None, precision: Precision = None,
    optimizer: Optimizer = None, gradient_dtype: Kept = None, gradient_reduce_dtype: Sent = None,
    framework: Framework = None, profile: Profile = None, calibration: Calibration = None,
    stack: Stack = None, request: File = None, set_: Set = None, memory_limit_bytes: Limit = None,
    objective: Objective = None, top: Top = None, time_limit: TimeLimit = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Find the layouts that fit and rank them."""

    def ask() -> int:
        body = flags.merge(flags.question(context.params), {
            "constraints": flags.constraints(set_ or (), memory_limit_bytes),
            "top_k": top, "objective": objective, "time_limit_s": time_limit,
        })  # fmt: skip
        answer = running.search(read_question(SearchRequest, body), _progress(as_json))
        _print(answer, as_json, lambda console: tables.print_search(console, answer))
        return ANSWERED if answer.shortlist else NONE_FITS

    _told(ask, as_json)


@app.command()
def evaluate(
    context: typer.Context, model: Model = None, cluster: Cluster = None, gpus: Gpus = None,
    sequence: Sequence = None, global_batch: Batch = None, precision: Precision = None,
    optimizer: Optimizer = None, gradient_dtype: Kept = None, gradient_reduce_dtype: Sent = None,
    framework: Framework = None, profile: Profile = None, calibration: Calibration = None,
    stack: Stack = None, request: File = None, layout: LayoutText = None, memory_limit_bytes: Limit = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Price one layout and list every rule it breaks."""

    def ask() -> int:
        knobs = {"layout": flags.layout(layout or ()), "memory_limit_bytes": memory_limit_bytes}
        body = flags.merge(flags.question(context.params), knobs)
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
    profile: Profile = None, fit: Fit = None, as_json: AsJson = False,
) -> None:  # fmt: skip
    """Predict measured runs and print predicted beside measured; with --fit, adapt to them as well."""

    def ask() -> int:
        found = read_file(runs)
        if fit:
            check_output(fit, runs, profile)
        answer = validate_runs(found.runs, profile or "calibrated", found.unknown_columns, fit=bool(fit))
        if fit and answer.calibration:
            write_calibration(fit, answer.calibration)
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
        faults = error.faults
    if as_json:
        sys.stdout.write(problem(422, faults).model_dump_json() + "\n")
    else:
        sys.stderr.write(lines(faults))
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
