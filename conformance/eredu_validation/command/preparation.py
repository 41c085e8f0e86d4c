"""A validation made ready: its models, its prompts, and the other engine where there is one."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace

from eredu.checkpoints.names import cache_directory, resolve_checkpoint
from eredu.checkpoints.opening import open_checkpoint
from eredu.commands.console import versions
from eredu.commands.pair import load_pair, require_drafter
from eredu.contract.errors import OptionError
from eredu_validation.command.request import ValidationRequest
from eredu_validation.evidence import SubjectIdentity
from eredu_validation.foreign.engine import ConformanceEngine
from eredu_validation.foreign.opening import EngineSettings, open_engine
from eredu_validation.measures.prompts import PROMPTS, encode_prompts, prompts_digest, read_prompts
from eredu_validation.measures.subject import Subject
from eredu_validation.session.goal import Goal
from eredu_validation.session.session import Session
from eredu_validation.workers.sharded_ranks import ShardedRanks

LONGEST = 2048
"""Prompt tokens at the most."""


def prepare(request: ValidationRequest, goal: Goal, sharded: ShardedRanks | None = None) -> Session:
    """Load the subject and its prompts. Raises `OptionError` for settings that cannot be validated."""
    if request.subject is None:
        return _prepare(request, goal, None, sharded)
    engine = engine_of(request)
    try:
        return _prepare(request, goal, engine, sharded)
    except BaseException:
        engine.close()
        raise


def engine_of(request: ValidationRequest) -> ConformanceEngine:
    """The engine that a validation names, started. Raises `OptionError` for options that only eredu's own takes."""
    if request.dtype != "checkpoint":
        raise OptionError(
            f"--dtype was {request.dtype!r}, and another engine reads the checkpoint as it is; leave --dtype out"
        )
    if "placement" in request.given:
        raise OptionError("--placement is about eredu's own engine; leave it out with --subject")
    target = resolve_checkpoint(request.target)
    names = (request.assistant, request.head)
    assistant, head = (None if name is None else resolve_checkpoint(name) for name in names)
    options, given = request.options, request.given
    return open_engine(
        EngineSettings(
            named=request.subject or "",
            timeout_s=request.subject_timeout,
            target=target,
            assistant=assistant,
            head=head,
            own_heads=open_checkpoint(target).report().heads.capability.is_ready,
            proposals=options.max_proposals if "proposals" in given else None,
            usual_proposals=options.max_proposals,
            acceptance=str(options.acceptance) if "acceptance" in given else None,
            lookahead=request.schedule.lookahead if "lookahead" in given else None,
            sampling=options.sampling,
        )
    )


def _prepare(
    request: ValidationRequest, goal: Goal, engine: ConformanceEngine | None, sharded: ShardedRanks | None
) -> Session:
    texts = PROMPTS if request.prompts is None else read_prompts(request.prompts)
    pair = load_pair(
        request.target,
        request.assistant,
        dtype=request.dtype,
        placement=request.placement,
        head=request.head,
        mtp=engine is None or engine.report.drafter != "none",
        split=None if sharded is None or request.shard is None else sharded.split(request.shard),
    )
    options = request.options
    if engine is None:
        require_drafter(pair)
    else:
        engine = engine.ending_at(pair.loaded.backend.eos_ids)
        options = replace(options, max_proposals=engine.report.proposals)
    subject = Subject(
        model=pair.loaded, assistant=pair.assistant, options=options, schedule=request.schedule, engine=engine
    )
    room = subject.target.context - request.options.max_tokens
    prompts = encode_prompts(
        texts, pair.tokenizer, rows=subject.target.vocabulary_size, longest=max(1, min(LONGEST, room))
    )
    identity = subject.identity(
        head=None if request.head is None else resolve_checkpoint(request.head),
        versions=versions(),
        settings={
            "dtype": request.dtype,
            "prompts": prompts_digest(prompts),
            **({} if engine is None else engine.settings),
            **({} if sharded is None else {"shard": f"{request.shard} over {sharded.group.size()} ranks"}),
        },
    )
    if engine is not None:
        engine.probe(prompts[0].tokens)
    return Session(
        subject=subject,
        prompts=prompts,
        identity=identity,
        goal=goal,
        alpha=request.alpha,
        tolerance=request.tolerance,
        seed=request.seed,
        batch=request.batch,
        place=request.place or cache_directory() / "validations" / _folder(request, identity),
        skip=request.skip,
        models=request.models,
        sharded=sharded,
    )


def _folder(request: ValidationRequest, subject: SubjectIdentity) -> str:
    """Name of a validation's folder among others: the target, drafter and settings, and the seed."""
    engine = "" if request.subject is None else re.sub(r"[^\w.-]+", "-", request.subject)[-40:] + "-"
    rest = hashlib.sha256(json.dumps([subject.drafter, subject.record()["settings"]]).encode()).hexdigest()
    return f"{subject.target[:12]}-{rest[:6]}-{engine}{request.seed}"
