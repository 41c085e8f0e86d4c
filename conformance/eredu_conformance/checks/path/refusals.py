"""What a subject doesn't declare, it must refuse when asked: an option that is silently ignored is a wrong answer.

The suite never asks undeclared things elsewhere, so here the subject is asked directly.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from eredu.files.json_reading import read_json
from eredu_conformance.checks.check import Check, Needs
from eredu_conformance.checks.finding import CheckFailure, Observation
from eredu_conformance.checks.reference_twin import ENGINES
from eredu_conformance.checks.subject_session import SubjectSession
from eredu_conformance.checks.trial import Trial
from eredu_conformance.crafted import crafted_pair
from eredu_conformance.protocol import Acceptance, Checkpoint, Run, RunOptions, Schedule, SkippedRunError

_ASKED: Mapping[str, Mapping[str, Any]] = {
    "top_k": {"top_k": 2, "temperature": 1.0},
    "top_p": {"top_p": 0.5, "temperature": 1.0},
    "min_p": {"min_p": 0.2, "temperature": 1.0},
    "logit_bias": {"logit_bias": ((1, 4.0),)},
    "repetition_penalty": {"repetition_penalty": 2.0},
    "frequency_penalty": {"frequency_penalty": 1.0},
    "presence_penalty": {"presence_penalty": 1.0},
    "eos_ids": {"eos_ids": (1,)},
    "stop_sequences": {"stop_sequences": ((1, 2),)},
    "grammar": {"grammar": (((1, 1),), ())},
}
_SCHEDULED: Mapping[str, Schedule] = {
    "lookahead": Schedule(lookahead=True),
    "prefill_chunk": Schedule(prefill_chunk=1),
    "max_in_flight": Schedule(max_in_flight=1),
}


Candidates = Callable[[SubjectSession], Iterator[tuple[str, Run]]]


def _run(candidates: Candidates, session: SubjectSession, seed: int) -> Observation:  # noqa: ARG001
    asked = [(name, run) for name, run in candidates(session) if session.capabilities.obstacle(run) is not None]
    if not asked:
        raise SkippedRunError(f"{session.capabilities.name} declares all of them")
    ignored = [name for name, run in asked if not _refuses(session, run)]
    if ignored:
        trial = _trial()
        raise CheckFailure(
            f"asked for {', '.join(ignored)}, which it doesn't declare, the subject answered as if it did; "
            "raise or skip instead",
            history=trial.requests[0].prompt,
            case={"asked": ignored, **trial.describe()},
        )
    return Observation(text=f"{len(asked)} undeclared requests refused: {', '.join(name for name, _ in asked)}")


def _refuses(session: SubjectSession, run: Run) -> bool:
    try:
        session.subject.run(run)
    except Exception:  # Whatever an engine raises is a refusal.
        return True
    return False


def _trial() -> Trial:
    return Trial.of(crafted_pair("table-near"), RunOptions(max_tokens=6, max_proposals=2))


def _options(session: SubjectSession) -> Iterator[tuple[str, Run]]:
    trial = _trial()
    place = session.place(trial.pair)
    request = trial.requests[0]
    for name, settings in _ASKED.items():
        asked = replace(request, options=replace(request.options, **settings))
        yield name, replace(trial, requests=(asked,)).run(place)
    for name, schedule in _SCHEDULED.items():
        yield name, replace(trial, schedule=schedule).run(place)


def _calls(session: SubjectSession) -> Iterator[tuple[str, Run]]:
    trial = _trial()
    place = session.place(trial.pair)
    request = trial.requests[0]
    for rule in Acceptance:
        options = replace(request.options, acceptance=rule, temperature=1.0)
        yield f"the rule {rule.value}", replace(trial, requests=(replace(request, options=options),)).run(place)
    deeper = replace(request.options, max_proposals=session.capabilities.max_proposals + 1)
    yield "a larger K", replace(trial, requests=(replace(request, options=deeper),)).run(place)
    yield "injected randomness", replace(trial.run(place), choices=())
    yield "cancellation", replace(trial, requests=(replace(request, cancel_after=2),)).run(place)
    yield "a second request", replace(trial, requests=(request, request)).run(place)


def _foreign_drafts(session: SubjectSession) -> Iterator[tuple[str, Run]]:
    """Drafts whose ids are not the target's: of another size, and with another string for an id."""
    pair, smaller = crafted_pair("table-eos"), crafted_pair("table-near")
    place, small = session.place(pair), session.place(smaller)
    run = Trial.of(pair, RunOptions(max_tokens=1, max_proposals=2)).run(place)
    yield "a draft of more ids", replace(run, checkpoint=Checkpoint(target=small.target, draft=place.draft))
    renamed = session.directory / "renamed-draft"
    shutil.copytree(place.draft, renamed, dirs_exist_ok=True)
    tokenizer = renamed / "tokenizer.json"
    content = read_json(tokenizer)
    first, second, *_ = vocabulary = content["model"]["vocab"]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    tokenizer.write_text(json.dumps(content), encoding="utf-8")
    yield "a draft of another tokenizer", replace(run, checkpoint=Checkpoint(target=place.target, draft=renamed))


def _refuse_drafts(session: SubjectSession, seed: int) -> Observation:  # noqa: ARG001
    taken = [name for name, run in _foreign_drafts(session) if not _refuses(session, run)]
    if taken:
        raise CheckFailure(f"it decoded with {' and with '.join(taken)}", case={"pair": "table-eos"})
    return Observation(text="drafts of other sizes and of another tokenizer refused")


def checks() -> Iterator[Check]:
    """One check for options, one for rules and sizes, one for drafts that belong to another target."""
    yield Check(
        id="path.foreign-draft-is-refused",
        rule="capability.same-vocabulary",
        about="A draft whose ids mean other tokens than the target's is refused.",
        needs=Needs(proposals=2, engines=ENGINES),
        run=_refuse_drafts,
    )
    yield Check(
        id="path.undeclared-option-is-refused",
        rule="capability.no-silent-fallback",
        about="An option that the subject doesn't declare is refused when it is asked for with proposals.",
        needs=Needs(proposals=2),
        run=partial(_run, _options),
    )
    yield Check(
        id="path.undeclared-call-is-refused",
        rule="capability.no-silent-fallback",
        about="Rules, injected randomness and a K that the subject doesn't declare are refused when asked for.",
        needs=Needs(proposals=2),
        run=partial(_run, _calls),
    )
