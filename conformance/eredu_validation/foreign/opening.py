"""`eredu validate --subject`: another engine by its name or command, and what it is asked to do.

That is settled before anything is measured: which drafter, how many proposals, which rule. What the engine has no way
to do is refused with its own reason; only what nobody asked for is left out, and then it is told.
"""

from __future__ import annotations

import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from eredu.contract.errors import EngineError, OptionError
from eredu.contract.options import SamplingOptions
from eredu_conformance.protocol import (
    SUBJECTS,
    Acceptance,
    Capabilities,
    Checkpoint,
    ConformanceError,
    Feature,
    ProgramSubject,
    Request,
    Run,
    RunOptions,
    Schedule,
    Subject,
    SubjectSource,
)
from eredu_validation.foreign.answers import EngineReport
from eredu_validation.foreign.engine import ConformanceEngine

START_S = 120.0
"""Seconds that a program may take to start, at the least: imports and devices take theirs."""


@dataclass(frozen=True, kw_only=True)
class EngineSettings:
    """What is asked of an engine.

    Attributes:
        named: A subject of the suite, `package.module:Factory`, or a command.
        timeout_s: Seconds that a program may take for one answer.
        target: The checkpoint.
        assistant: The draft model, or None.
        head: Heads that were named, or None.
        own_heads: Whether the target has usable heads inside.
        proposals: K that was asked for; None takes `usual_proposals`, or fewer where the engine takes fewer.
        usual_proposals: K where none was asked for.
        acceptance: The rule that was asked for; None takes the engine's own.
        lookahead: Whether branches were asked for; None takes them where the engine has them.
        sampling: The processed law.
    """

    named: str
    timeout_s: float
    target: Path
    assistant: Path | None
    head: Path | None
    own_heads: bool
    proposals: int | None
    usual_proposals: int
    acceptance: str | None
    lookahead: bool | None
    sampling: SamplingOptions


def open_engine(settings: EngineSettings) -> ConformanceEngine:
    """Start an engine and settle what is asked of it.

    Raises `OptionError` for what it has no way to do, and `EngineError` where it does not start.
    """
    subject = _subject(settings)
    try:
        capabilities = subject.start()
    except ConformanceError as error:
        raise EngineError(str(error)) from error
    except Exception as error:  # an engine may raise anything
        raise EngineError(f"--subject {settings.named} did not start: {error!r}") from error
    try:
        report, checkpoint = _settle(settings, capabilities)
        lookahead = settings.lookahead
        if lookahead is None:
            lookahead = report.drafter != "none" and Feature.LOOKAHEAD in capabilities.features
        template = Run(
            checkpoint=checkpoint,
            requests=(Request(prompt=(0,), options=_options(settings, report)),),
            schedule=Schedule(lookahead=lookahead),
        )
        obstacle = capabilities.obstacle(template) or _other_wording(template.requests[0].options, capabilities)
        if obstacle is not None:
            raise OptionError(f"--subject {settings.named}: {obstacle}")
    except BaseException:
        subject.stop()
        raise
    return ConformanceEngine(subject=subject, capabilities=capabilities, report=report, template=template)


def is_command(named: str) -> bool:
    """Whether `--subject` names a program and not a subject of Python."""
    return named not in SUBJECTS and re.fullmatch(r"[\w.]+:\w+", named) is None


def _subject(settings: EngineSettings) -> Subject:
    named = settings.named
    if is_command(named):
        words = shlex.split(named)
        if not words or shutil.which(words[0]) is None:
            raise OptionError(
                f"--subject was {named!r}; expected one of {', '.join(SUBJECTS)}, package.module:Factory, or a program "
                "that speaks the conformance suite's protocol, with its arguments"
            )
        return ProgramSubject(words, start_timeout_s=max(START_S, settings.timeout_s), run_timeout_s=settings.timeout_s)
    try:
        return SubjectSource(name=named).open()
    except Exception as error:  # whatever a stranger's module raises
        raise OptionError(f"--subject was {named!r}, and making it failed: {error!r}") from error


def _settle(settings: EngineSettings, capabilities: Capabilities) -> tuple[EngineReport, Checkpoint]:
    """Who proposes, how much, by which rule."""
    name, notes = capabilities.name, []
    has_heads = Feature.HEADS in capabilities.features
    if capabilities.max_proposals == 0 and (settings.assistant or settings.head or settings.proposals):
        raise OptionError(
            f"{name} declares no speculative decoding; leave --assistant, --head and --proposals out, and its plain "
            "decoding is validated"
        )
    if settings.proposals == 0 and (settings.assistant or settings.head):
        raise OptionError("--proposals was 0, which is plain decoding; leave --assistant and --head out, or give more")
    checkpoint = Checkpoint(target=settings.target)
    if settings.proposals != 0 and capabilities.max_proposals > 0:
        if settings.assistant is not None:
            checkpoint = Checkpoint(target=settings.target, draft=settings.assistant)
        elif settings.head is not None or (settings.own_heads and has_heads):
            checkpoint = Checkpoint(target=settings.target, heads=settings.head or settings.target)
    drafter = "assistant" if checkpoint.draft else "heads" if checkpoint.heads else "none"
    if drafter == "none" and settings.own_heads and settings.proposals != 0:
        notes.append(f"the target's own heads are left aside, for {name} declares no use of them")
    if Feature.SEEDS not in capabilities.features:
        notes.append("it has no seeds, so its outputs cannot be drawn again")
    usual = min(settings.usual_proposals, capabilities.max_proposals)
    rule = settings.acceptance or next((each.value for each in capabilities.acceptance), None)
    report = EngineReport(
        name=name,
        version=capabilities.version,
        drafter=drafter,
        proposals=0 if drafter == "none" else usual if settings.proposals is None else settings.proposals,
        acceptance=None if drafter == "none" else rule,
        seeds=Feature.SEEDS in capabilities.features,
        notes=tuple(notes),
    )
    return report, checkpoint


def _options(settings: EngineSettings, report: EngineReport) -> RunOptions:
    """The options of every request, but for seed and number of tokens."""
    sampling = settings.sampling
    return RunOptions(
        temperature=sampling.temperature,
        top_k=sampling.top_k,
        top_p=sampling.top_p,
        min_p=sampling.min_p,
        max_proposals=report.proposals,
        acceptance=None if report.acceptance is None else Acceptance(report.acceptance),
    )


def _other_wording(options: RunOptions, capabilities: Capabilities) -> str | None:
    """Why the law of an engine that words an asked option in its own way is not the one it would be held to."""
    for name in sorted(options.asked() & capabilities.own_semantics.keys()):
        return f"{capabilities.name} words {name} in its own way ({capabilities.own_semantics[name]})"
    return None
