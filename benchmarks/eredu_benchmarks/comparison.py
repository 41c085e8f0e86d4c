"""One `eredu bench` from its arguments to its report."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from rich.progress import Progress

from eredu.checkpoints.names import resolve_checkpoint
from eredu.commands.console import versions, work_progress
from eredu.commands.pair import encode_prompt, load_pair, require_drafter
from eredu.contract.errors import OptionError
from eredu.contract.options import GenerationOptions
from eredu.files.aside_file import require_writable, write_json
from eredu_benchmarks.benchmark import BenchmarkPlan, align_all, compare
from eredu_benchmarks.held_out import HeldOutChats
from eredu_benchmarks.machine import describe_machine
from eredu_benchmarks.mlx_vlm_peer import VlmPeer
from eredu_benchmarks.pair import BenchmarkPair, EncodedPrompt
from eredu_benchmarks.prompts import PROMPTS, read_prompts
from eredu_benchmarks.report import BenchmarkReport


def run_comparison(
    *,
    model: str,
    assistant: str | None,
    head: str | None,
    dtype: str,
    placement: str,
    prompts: Path | None,
    proposals: tuple[int, ...],
    temperatures: tuple[float, ...],
    options: GenerationOptions,
    repeats: int,
    seed: int,
    peers: bool,
    alignment: Path | None,
    alignment_chats: int | None,
    output: Path | None,
) -> BenchmarkReport:
    """Load the models, measure, and report; see `eredu bench --help` for what the arguments mean.

    Raises `OptionError` for what cannot be measured, and whatever loading raises.
    """
    plan = BenchmarkPlan(
        proposals=proposals,
        temperatures=temperatures,
        options=options,
        repeats=repeats,
        seed=seed,
        peers=peers,
        chats=None if alignment is None else HeldOutChats.read(alignment),
        chat_count=alignment_chats,
    )
    chosen = PROMPTS if prompts is None else read_prompts(prompts)
    if output is not None:
        require_writable(output)
    target = load_pair(model, assistant, dtype=dtype, placement=placement, head=head)
    require_drafter(target)
    if peers and head is not None:
        raise OptionError("--peers cannot give heads of another directory to mlx-vlm; leave one of the two out")
    encoded = tuple(EncodedPrompt(p.name, encode_prompt(target.tokenizer, p.text, system=p.system)) for p in chosen)
    vlm = VlmPeer.load(resolve_checkpoint(model), dtype=dtype) if peers and target.assistant is None else None
    pair = BenchmarkPair(target.loaded, target.assistant, vlm)
    with work_progress() as bar:
        step = partial(begin_step, bar)
        comparisons, alignments = compare(pair, encoded, plan, step), align_all(pair, plan, step)
    facts = {
        "model": model,
        "assistant": assistant,
        "head": head,
        "dtype": dtype,
        "placement": str(target.loaded.backend.placement.kind),
        "acceptance": str(options.acceptance),
        "max_tokens": options.max_tokens,
        "repeats": repeats,
        "seed": seed,
        "prompts": [prompt.name for prompt in chosen],
        "versions": versions(),
        "machine": describe_machine(),
    }
    report = BenchmarkReport(facts, comparisons, alignments)
    if output is not None:
        write_json(output, report.to_json())
    return report


def begin_step(bar: Progress, name: str, total: int) -> Callable[[], None]:
    """Begin a line of the progress bar; the result moves it on by one."""
    return partial(bar.advance, bar.add_task(name, total=total))
