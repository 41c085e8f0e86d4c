"""`eredu validate`: evidence that speculation does not change what a real checkpoint says, and what it gains."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from eredu.commands.arguments import (
    MODELS,
    OUTPUT,
    SAMPLING,
    SPECULATION,
    AcceptanceOption,
    AssistantOption,
    DtypeOption,
    HeadOption,
    MinPOption,
    PlacementOption,
    ProposalsOption,
    TopKOption,
    TopPOption,
)
from eredu.contract.options import (
    USUAL_PROPOSALS,
    AcceptanceRule,
    GenerationOptions,
    MtpSchedulerOptions,
    SamplingOptions,
)
from eredu_validation.command.output import Outputs
from eredu_validation.command.request import AUTO, ValidationRequest
from eredu_validation.evidence import LEDGER_NAME, merge, read_ledger, result_of_merged
from eredu_validation.session.result import whole_result

EVIDENCE = "Evidence"
ENGINE = "Another engine"
MERGE = "merge"


class _RunOrMerge(TyperGroup):
    """`eredu validate TARGET …` is `eredu validate run TARGET …`; only `merge` is a word of its own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the word in that everybody leaves out."""
        if not args or args[0] not in self.commands:
            args = ["run", *args]
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed


validate = typer.Typer(
    name="validate",
    cls=_RunOrMerge,
    help="Measure whether speculation changes the output of a checkpoint, and what it gains.",
)


@validate.callback()
def describe() -> None:
    """Measure whether speculation changes the output of a checkpoint, and what it gains."""


@validate.command(
    epilog="Exit status: 0 no deviation; 1 a deviation was found; 3 inconclusive; 2 could not run; 130 interrupted, "
    "the evidence kept. `eredu validate merge A B …` multiplies the evidence of independent runs."
)
def run(
    ctx: typer.Context,
    target: Annotated[
        str,
        typer.Argument(metavar="TARGET", help="A Hugging Face directory, a GGUF file of the llama family, or a name."),
    ],
    *,
    assistant: AssistantOption = None,
    head: HeadOption = None,
    subject: Annotated[
        str | None,
        typer.Option(
            metavar="CMD_OR_NAME",
            help="Validate another engine's sampling of the checkpoint: mlx-lm, eredu, package.module:Factory, or a "
            "program that speaks the conformance suite's protocol. Probabilities still come from plain decoding here.",
            rich_help_panel=ENGINE,
        ),
    ] = None,
    subject_timeout: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", help="Silence after which a program of --subject is given up.", rich_help_panel=ENGINE
        ),
    ] = 600.0,
    prompts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.jsonl",
            help='JSON lines with "prompt" or "tokens", and "name" and "system" if wanted; a varied set of its own '
            "unless given.",
            rich_help_panel=EVIDENCE,
        ),
    ] = None,
    tokens: Annotated[
        int | None, typer.Option(help="Stop after about so many tokens.", rich_help_panel=EVIDENCE)
    ] = None,
    resolve: Annotated[
        float | None,
        typer.Option(
            metavar="TV",
            help="Stop once this total variation per token is resolved; 0.05 unless --tokens is given.",
            rich_help_panel=EVIDENCE,
        ),
    ] = None,
    alpha: Annotated[
        float,
        typer.Option(
            help="Chance of reporting a deviation of a right checkpoint, at the most.", rich_help_panel=EVIDENCE
        ),
    ] = 1e-6,
    tolerance: Annotated[
        float | None,
        typer.Option(
            metavar="TV",
            help="Total variation per token that arithmetic may cause; twice what the audit measures unless given.",
            rich_help_panel=EVIDENCE,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Root of all randomness; fresh unless given, and written down. Runs with different seeds merge.",
            rich_help_panel=EVIDENCE,
        ),
    ] = None,
    batch: Annotated[int, typer.Option(help="Requests decoded together.", rich_help_panel=EVIDENCE)] = 2,
    max_tokens: Annotated[
        int, typer.Option(help="Output tokens of one request at the most.", rich_help_panel=EVIDENCE)
    ] = 256,
    workers: Annotated[
        str,
        typer.Option(
            metavar="N",
            help="Processes of this machine that draw. auto: on a CPU as many as there are cores, at most 4 and as "
            "memory has room for; on a GPU one. The evidence is the same with any number.",
            rich_help_panel=EVIDENCE,
        ),
    ] = AUTO,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="KIND",
            help="Let the ranks of `mlx.launch` hold one target together: tensor cuts every layer, pipeline gives each "
            "rank some of them. Else every rank holds all of it and draws outputs of its own.",
            rich_help_panel=MODELS,
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder of the evidence: gone on with where it holds some, which must be about the same checkpoints, "
            "versions and settings; else begun there. One of the cache's own unless given.",
            rich_help_panel=EVIDENCE,
        ),
    ] = None,
    skip: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PART",
            help="Leave out numerics, state, path or benefit; may be repeated.",
            rich_help_panel=EVIDENCE,
        ),
    ] = None,
    proposals: ProposalsOption = USUAL_PROPOSALS,
    acceptance: AcceptanceOption = AcceptanceRule.REJECTION,
    lookahead: Annotated[
        bool, typer.Option(help="Draft on while the target verifies.", rich_help_panel=SPECULATION)
    ] = True,
    temperature: Annotated[
        float, typer.Option(help="Above 0; 1 is the model's own distribution.", rich_help_panel=SAMPLING)
    ] = 1.0,
    top_k: TopKOption = 0,
    top_p: TopPOption = 1.0,
    min_p: MinPOption = 0.0,
    dtype: DtypeOption = "checkpoint",
    placement: PlacementOption = "auto",
    json_file: Annotated[
        Path | None,
        typer.Option(
            "--json", metavar="FILE", help="Write the result to this file; '-' is stdout.", rich_help_panel=OUTPUT
        ),
    ] = None,
    html_file: Annotated[
        Path | None,
        typer.Option(
            "--html", metavar="FILE", help="Write a report with plots, all in one file.", rich_help_panel=OUTPUT
        ),
    ] = None,
) -> None:
    """Measure whether speculation changes the output of a checkpoint, and what it gains.

    Every emitted token is held against the distribution that plain decoding has at its place. The evidence may be
    stopped and gone on with at any time, and says what deviation it would have found.

    Example: eredu validate tiny-qwen3.5
    """
    from eredu_validation.command.run import run_validation  # noqa: PLC0415 (MLX: neither --help nor merge needs it)

    options = GenerationOptions(
        max_tokens=max_tokens,
        sampling=SamplingOptions(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p),
        acceptance=acceptance,
        max_proposals=proposals,
    )
    request = ValidationRequest(
        target=target,
        assistant=assistant,
        head=head,
        prompts=prompts,
        tokens=tokens,
        resolve=resolve,
        alpha=alpha,
        tolerance=tolerance,
        seed=secrets.randbits(63) if seed is None else seed,
        batch=batch,
        workers=workers,
        shard=shard,
        place=resume,
        skip=frozenset(skip or ()),
        options=options,
        schedule=MtpSchedulerOptions(lookahead=lookahead),
        dtype=dtype,
        placement=placement,
        outputs=Outputs(json_file, html_file),
        subject=subject,
        subject_timeout=subject_timeout,
        given=_given(ctx),
    )
    raise typer.Exit(run_validation(request))


def _given(ctx: typer.Context) -> frozenset[str]:
    """Names of the options that stood on the command line."""
    sources = {name: ctx.get_parameter_source(name) for name in ctx.params}
    return frozenset(name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE")


@validate.command(name=MERGE)
def merge_runs(
    runs: Annotated[
        list[Path], typer.Argument(metavar="A B …", help="Folders of runs, or their ledgers: one subject, other seeds.")
    ],
    *,
    tokens: Annotated[int | None, typer.Option(help="Tokens that they must have together.")] = None,
    resolve: Annotated[
        float | None, typer.Option(metavar="TV", help="Total variation that they must resolve together.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the result to this file; '-' is stdout.")
    ] = None,
) -> None:
    """Multiply the evidence of independent runs about one subject.

    Exit status: as for a single run.
    """
    outputs = Outputs(json_file)
    outputs.check()
    contents = [read_ledger(run / LEDGER_NAME if run.is_dir() else run) for run in runs]
    law = result_of_merged(merge(contents), resolve=resolve, planned=tokens)
    outputs.give(whole_result(law, {}))
    raise typer.Exit(law["verdict"]["exit_status"])
