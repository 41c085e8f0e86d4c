"""`eredu generate`: decode one prompt, streaming its text as it is committed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from eredu.commands.arguments import (
    OUTPUT,
    SAMPLING,
    SPECULATION,
    AcceptanceOption,
    AssistantOption,
    DtypeOption,
    HeadOption,
    JsonOption,
    MaxTokensOption,
    MinPOption,
    ModelOption,
    PlacementOption,
    ProposalsOption,
    SeedOption,
    TopKOption,
    TopPOption,
)
from eredu.commands.console import message_console, print_json, print_note, print_table, versions
from eredu.commands.pair import encode_prompt, load_pair, require_drafter, speculates, why_plain
from eredu.contract.errors import OptionError
from eredu.contract.events import TokensCommitted
from eredu.contract.options import USUAL_PROPOSALS, AcceptanceRule, GenerationOptions, SamplingOptions
from eredu.contract.statistics import RequestStatistics, ScheduleStatistics
from eredu.files.aside_file import AsideFile
from eredu.model import Model
from eredu.prepared import PreparedRequest
from eredu.results import BatchResult
from eredu.scheduling.trace import TraceSink
from eredu.speculation import Speculation


def generate(
    prompt: Annotated[str, typer.Argument(help="What to say to the model; '-' reads it from standard input.")],
    *,
    model: ModelOption,
    assistant: AssistantOption = None,
    head: HeadOption = None,
    mtp: Annotated[
        bool | None,
        typer.Option(
            "--mtp/--no-mtp",
            help="--no-mtp leaves assistant and heads out: plain decoding on the same path. --mtp refuses to decode "
            "plainly. Without either, heads are used where they can be, and a line on stderr says where they cannot.",
            rich_help_panel=SPECULATION,
        ),
    ] = None,
    max_tokens: MaxTokensOption = 256,
    proposals: ProposalsOption = USUAL_PROPOSALS,
    temperature: Annotated[
        float, typer.Option(help="0 is greedy, 1 is the model's own distribution.", rich_help_panel=SAMPLING)
    ] = 0.7,
    top_k: TopKOption = 0,
    top_p: TopPOption = 1.0,
    min_p: MinPOption = 0.0,
    repetition_penalty: Annotated[
        float, typer.Option(help="Weakens ids seen lately; 1 is off.", rich_help_panel=SAMPLING)
    ] = 1.0,
    repeat_last_n: Annotated[
        int,
        typer.Option(help="Tokens that 'lately' means, prompt included; 0 is all of them.", rich_help_panel=SAMPLING),
    ] = 64,
    frequency_penalty: Annotated[
        float, typer.Option(help="Subtracted for each time an id was generated.", rich_help_panel=SAMPLING)
    ] = 0.0,
    presence_penalty: Annotated[
        float, typer.Option(help="Subtracted once from ids that were generated.", rich_help_panel=SAMPLING)
    ] = 0.0,
    logit_bias: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID:BIAS", help="Added to the logit of one id; may be repeated.", rich_help_panel=SAMPLING
        ),
    ] = None,
    seed: SeedOption = 0,
    acceptance: AcceptanceOption = AcceptanceRule.REJECTION,
    lookahead: Annotated[
        bool,
        typer.Option(help="Draft on while the target verifies. Never changes a token.", rich_help_panel=SPECULATION),
    ] = True,
    adaptive: Annotated[
        bool, typer.Option(help="Stop looking ahead where it does not pay.", rich_help_panel=SPECULATION)
    ] = True,
    lookahead_depth: Annotated[
        int | None, typer.Option(help="Tokens of a lookahead branch; K + 1 unless given.", rich_help_panel=SPECULATION)
    ] = None,
    stop: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="Text that ends the output, not printed; may be repeated.")
    ] = None,
    system: Annotated[str | None, typer.Option(metavar="TEXT", help="System text of the chat.")] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Continue the prompt as plain text, without the chat template.")
    ] = False,
    dtype: DtypeOption = "checkpoint",
    placement: PlacementOption = "auto",
    stats: Annotated[
        bool,
        typer.Option("--stats", help="Print the statistics of request and schedule on stderr.", rich_help_panel=OUTPUT),
    ] = False,
    trace: Annotated[
        Path | None,
        typer.Option(help="Write every action of the scheduler to this file, as JSON lines.", rich_help_panel=OUTPUT),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Generate text from a prompt, printed as it is committed.

    The defaults are reproducible: one seed, one text. With --acceptance coupled or --temperature 0 a drafter
    (an assistant, or prediction heads) cannot change a token, only the speed; with the other rules it keeps the
    target's distribution.

    Example: eredu generate -m smollm2 --assistant smollm2-draft "Write a story about a lighthouse."
    """
    options = GenerationOptions(
        max_tokens=max_tokens,
        sampling=SamplingOptions(
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            logit_bias=parse_biases(logit_bias or ()),
            repetition_penalty=repetition_penalty,
            repeat_last_n=repeat_last_n,
            frequency_penalty=frequency_penalty,
            presence_penalty=presence_penalty,
        ),
        seed=seed,
        acceptance=acceptance,
        max_proposals=proposals,
        lookahead_depth=lookahead_depth,
        stop_strings=tuple(stop or ()),
    )
    text = read_prompt(prompt)
    with open_trace(trace) as trace_sink:
        pair = load_pair(model, assistant, dtype=dtype, placement=placement, head=head, mtp=mtp is not False)
        say_if_plain(pair, mtp)
        request = PreparedRequest(prompt=encode_prompt(pair.tokenizer, text, system=system, raw=raw), options=options)
        speculation = Speculation(
            proposals=proposals if speculates(pair) else 0, lookahead=lookahead, adaptive_lookahead=adaptive
        )
        session = pair.session(speculation=speculation, trace=trace_sink)
        try:
            with session:
                session.add_prepared(request)
                for event in session:
                    if not as_json and isinstance(event, TokensCommitted):
                        _write(event.text)
                batch = session.results()
        except KeyboardInterrupt:
            if not as_json:
                _write("\n")
            message_console().print("interrupted")
            raise
    if as_json:
        print_json(describe(batch, model=model, assistant=assistant, head=head, pair=pair, seed=seed))
    else:
        _write("\n")
    if stats:
        print_statistics(batch.results[0].statistics, batch.schedule)


def say_if_plain(pair: Model, mtp: bool | None) -> None:  # noqa: FBT001 (what --mtp and --no-mtp gave)
    """One line on stderr where heads were to be expected and are not used. Raises `OptionError` with `--mtp`."""
    if mtp:
        require_drafter(pair)
    reason = None if mtp is False else why_plain(pair)
    if reason is not None:
        print_note(f"decoding plainly: {reason}")


def read_prompt(argument: str) -> str:
    """The prompt itself, or standard input for '-'. Raises `OptionError` for input that is not UTF-8."""
    if argument != "-":
        return argument
    try:
        return sys.stdin.buffer.read().decode("utf-8")
    except UnicodeDecodeError as error:
        raise OptionError(f"standard input is not UTF-8 text: {error}; convert it, for example with iconv") from error


def parse_biases(entries: Sequence[str]) -> dict[int, float]:
    """Biases by id from `ID:BIAS` texts. Raises `OptionError` for anything else and for an id given twice."""
    biases: dict[int, float] = {}
    for entry in entries:
        token, _, bias = entry.partition(":")
        try:
            parsed = int(token), float(bias)
        except ValueError:
            raise OptionError(f"--logit-bias was {entry!r}; expected ID:BIAS, for example 42:-1.5") from None
        if parsed[0] in biases:
            raise OptionError(f"--logit-bias names id {parsed[0]} twice; give each id once")
        biases[parsed[0]] = parsed[1]
    return biases


@contextmanager
def open_trace(path: Path | None) -> Iterator[TraceSink | None]:
    """A sink that writes JSON lines to `path`; None without one. Raises `OutputError` if it cannot be written.

    The trace of a generation that fails or is interrupted is kept: it tells how it came to that.
    """
    if path is None:
        yield None
        return
    with AsideFile(path, keeps_part=True) as file:
        yield lambda event: file.write(json.dumps(event) + "\n")


def describe(
    batch: BatchResult, *, model: str, assistant: str | None, head: str | None, pair: Model, seed: int
) -> dict[str, Any]:
    """The stable JSON form of one generation."""
    result = batch.results[0]
    return {
        "model": model,
        "assistant": assistant if pair.assistant is not None else None,
        "head": head if pair.loaded.backend.target.heads is not None else None,
        "mtp": speculates(pair),
        "seed": seed,
        "tokens": list(result.tokens),
        "text": result.text,
        "finish": str(result.finish),
        "statistics": result.statistics.to_json(),
        "schedule": batch.schedule.to_json(),
        "versions": versions(),
    }


def print_statistics(request: RequestStatistics, schedule: ScheduleStatistics) -> None:
    """Print the statistics on stderr. Times are diagnostic: nothing was decided by them."""
    print_table("Request", {name: _shown(value) for name, value in request.to_json().items()})
    counts = schedule.to_json()
    counts.pop("requests")
    print_table("Schedule", {name: _shown(value) for name, value in counts.items()})


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {count}" for name, count in value.items()) or "-"
    if isinstance(value, (list, tuple)):
        return " ".join(map(str, value)) or "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


def _write(text: str) -> None:
    if text:
        sys.stdout.write(text)
        sys.stdout.flush()
