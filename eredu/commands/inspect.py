"""`eredu inspect`: what a checkpoint is, read from its headers alone."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated, Any

import typer
from rich.table import Table

from eredu.checkpoints.heads import HeadReport
from eredu.checkpoints.matching import AssistantFit, ModelSide, match_assistant
from eredu.checkpoints.opening import open_named, require_same_width
from eredu.checkpoints.report import CheckpointReport
from eredu.checkpoints.tensors import bytes_by_dtype
from eredu.commands.arguments import DtypeOption, HeadOption
from eredu.contract.errors import CheckpointError
from eredu.files.plain_console import PlainConsole


def inspect_named(name: str) -> CheckpointReport:
    """Report on a checkpoint given by name or path.

    Raises `CheckpointError` for anything missing, cut short, damaged, contradictory, pickled or of unknown family.
    """
    from eredu.engine.checkpoint import why_not_loaded  # noqa: PLC0415 (MLX, once the headers are known to be whole)

    opened = open_named(name)
    report = opened.report()
    return replace(report, not_loaded=why_not_loaded(opened))


def fit_named(target: str, assistant: str) -> AssistantFit:
    """Whether an assistant fits a target, both by name or path. Raises as `match_assistant` says."""
    return match_assistant(_side(target), _side(assistant))


def _side(name: str) -> ModelSide:
    opened = open_named(name)
    report = opened.report()
    return ModelSide(name, opened.tokenizer.vocabulary, report.vocabulary_rows, report.context_limit)


def head_named(target: str, name: str) -> HeadReport:
    """What a directory of heads has for a target. Raises `CheckpointError` for heads of another width."""
    opened = open_named(name)
    require_same_width(open_named(target), opened)
    return opened.report().heads


def report_table(report: CheckpointReport) -> Table:
    """The report as two columns, most important first."""
    rows = {
        "family": f"{report.family} ({report.container}, {len({t.file for t in report.tensors})} file(s))",
        "parameters": "not stated" if report.parameter_count is None else f"{report.parameter_count:,}",
        "size": f"{report.size_bytes / 1e6:,.1f} MB in {len(report.tensors)} tensors",
        "types": ", ".join(f"{kind} {size / 1e6:,.1f} MB" for kind, size in bytes_by_dtype(report.tensors).items()),
        "quantization": report.quantization or "none",
        "layers": str(report.layers),
        "hidden size": str(report.hidden_size),
        "heads": f"{report.attention_heads} query, {report.key_value_heads} key and value",
        "vocabulary rows": f"{report.vocabulary_rows:,} ({'tied' if report.tied_embeddings else 'separate'} output)"
        if report.vocabulary_rows
        else "the target's",
        "context limit": "not stated" if report.context_limit is None else f"{report.context_limit:,} tokens",
        "caches": "\n".join(_cache_line(cache.to_json()) for cache in report.caches) or "none of its own",
        "loads": "yes" if report.not_loaded is None else f"no: {report.not_loaded}",
        "exact rollback": "yes" if report.rolls_back_exactly else "no: speculation with it as target is refused",
        **head_rows(report.heads),
    }
    return _two_columns(report.path, rows)


def head_rows(heads: HeadReport) -> dict[str, str]:
    """What is said of heads, a target's own or beside it."""
    depth = f"{heads.usable_depth} proposals a round, or more where --probe finds iterating worth it"
    return {
        "multi-token prediction": f"{' '.join(heads.capability.to_json().values())}: {heads.reason}",
        "usable depth": depth if heads.usable_depth else "none",
    }


def _two_columns(title: str, rows: dict[str, str]) -> Table:
    """Labels and values; a long value (a path, a hash) goes on in the next line and is never cut."""
    table = Table(show_header=False, title=title, title_justify="left")
    table.add_column()
    table.add_column(overflow="fold")
    for label, value in rows.items():
        table.add_row(label, value)
    return table


def _cache_line(cache: dict[str, Any]) -> str:
    layers = "some layers" if cache["layers"] is None else f"{cache['layers']} layers"
    window = "" if cache["window"] is None else f" of {cache['window']} tokens"
    return f"{layers}: {cache['kind']}{window}, rollback {cache['rollback']}"


def fit_table(fit: AssistantFit) -> Table:
    """The fit as two columns."""
    early = " (proposals end there)" if fit.proposals_end_early else ""
    rows = {
        "tokenizer": f"{fit.fingerprint.vocabulary_size:,} ids, SHA-256 {fit.fingerprint.digest}",
        "rows": f"target {fit.target.rows:,}, assistant {fit.assistant.rows:,}",
        "proposable": f"ids below {fit.proposable_rows:,}",
        "context": f"target {fit.target.context}, assistant {fit.assistant.context}{early}",
    }
    return _two_columns("assistant fits", rows)


def inspect(
    checkpoint: Annotated[str, typer.Argument(help="A Hugging Face directory, a GGUF file, or a name: smollm2.")],
    *,
    assistant: Annotated[
        str | None, typer.Option(help="Also check whether this checkpoint fits as the draft model.")
    ] = None,
    head: HeadOption = None,
    probe: Annotated[
        bool,
        typer.Option(
            "--probe",
            help="Load the model, and measure on a short text how its heads follow it under each wiring, and how deep.",
        ),
    ] = False,
    dtype: DtypeOption = "checkpoint",
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Show what a checkpoint is, from its headers alone: without --probe no weight is read, and never is code run.

    Says which caches the layers have and whether a rejected suffix can be taken back exactly, and whether the
    prediction heads that the config claims are really there. If none of them are, the report is shown all the same, and
    the exit status is 2.
    """
    report = inspect_named(checkpoint)
    fit = None if assistant is None else fit_named(checkpoint, assistant)
    beside = None if head is None else head_named(checkpoint, head)
    found = None
    if probe:
        from eredu.commands.probing import probe_named, probe_table  # noqa: PLC0415 (MLX: headers need none)

        found = probe_named(checkpoint, head, dtype=dtype)
    claim = beside or report.heads
    broken = claim.claimed > 0 and not claim.tensors
    if as_json:
        more = {"assistant_fit": fit, "head": beside, "probe": found}
        shown = {name: value.to_json() for name, value in more.items() if value is not None}
        typer.echo(json.dumps({**report.to_json(), **shown}, indent=2))
    else:
        console = PlainConsole()
        console.print(report_table(report))
        if fit is not None:
            console.print(fit_table(fit))
        if beside is not None:
            console.print(_two_columns(f"heads in {head}", head_rows(beside)))
        if found is not None:
            console.print(probe_table(found))
    if broken:
        raise CheckpointError(f"{report.path}: {claim.reason}; decode it plainly, or fetch a conversion with the heads")
