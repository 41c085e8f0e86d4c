"""The messages on the wire, one JSON object a line, and their one translation from and to values.

`schemas/` says the same in JSON Schema, for adapters in other languages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from eredu_conformance.protocol.capabilities import Capabilities, Feature
from eredu_conformance.protocol.errors import MessageError
from eredu_conformance.protocol.options import Acceptance, RunOptions, Schedule
from eredu_conformance.protocol.run import Answer, Checkpoint, Finish, Request, Round, Run, RunResult
from eredu_conformance.protocol.shape import (
    Reader,
    count,
    flag,
    mapping,
    maybe,
    member,
    number,
    record,
    several,
    text,
    whole,
)
from eredu_conformance.protocol.subject import Errored, Ok, Outcome, Skipped

PROTOCOL_VERSION = 1
"""Raised when a message changes in a way that an older adapter can't ignore."""

Message = dict[str, Any]


def _pair(first: Reader[Any], second: Reader[Any]) -> Reader[tuple[Any, Any]]:
    def read(value: Any, path: str) -> tuple[Any, Any]:
        if not isinstance(value, list) or len(value) != 2:
            raise MessageError(f"{path} is {value!r}; expected an array of two")
        return first(value[0], f"{path}[0]"), second(value[1], f"{path}[1]")

    return read


OPTION_READERS: Mapping[str, Reader[Any]] = {
    "max_tokens": count,
    "temperature": number,
    "top_k": count,
    "top_p": number,
    "min_p": number,
    "logit_bias": several(_pair(count, number)),
    "repetition_penalty": number,
    "repeat_last_n": count,
    "frequency_penalty": number,
    "presence_penalty": number,
    "seed": maybe(count),
    "max_proposals": count,
    "acceptance": maybe(member(Acceptance)),
    "lookahead_depth": maybe(count),
    "eos_ids": several(count),
    "stop_sequences": several(several(count)),
    "grammar": maybe(several(several(_pair(count, count)))),
}
SCHEDULE_READERS: Mapping[str, Reader[Any]] = {
    "lookahead": flag,
    "adaptive_lookahead": flag,
    "adaptive_window": maybe(count),
    "prefill_chunk": maybe(count),
    "max_in_flight": maybe(count),
    "max_branches": maybe(count),
    "max_group": maybe(count),
}


def _object(kind: type[Any], readers: Mapping[str, Reader[Any]], *optional: str) -> Reader[Any]:
    def read(value: Any, path: str) -> Any:
        return kind(**record(value, path, readers, optional=frozenset(optional)))

    return read


def _names(value: Any, path: str) -> frozenset[str]:
    return frozenset(several(text)(value, path))


def _features(value: Any, path: str) -> frozenset[Feature]:
    return frozenset(several(member(Feature))(value, path))


def _notes(value: Any, path: str) -> dict[str, str]:
    return {name: text(note, f"{path}.{name}") for name, note in mapping(value, path).items()}


def _path(value: Any, path: str) -> Path:
    return Path(text(value, path))


_CAPABILITIES = _object(
    Capabilities,
    {
        "name": text,
        "version": text,
        "architectures": _names,
        "features": _features,
        "options": _names,
        "acceptance": several(member(Acceptance)),
        "max_proposals": count,
        "max_batch": count,
        "own_semantics": _notes,
    },
    *("features", "options", "acceptance", "max_proposals", "max_batch", "own_semantics"),
)
_REQUEST = _object(
    Request,
    {
        "prompt": several(count),
        "options": _object(RunOptions, OPTION_READERS, *OPTION_READERS),
        "cancel_after": maybe(count),
    },
    *("options", "cancel_after"),
)
_RUN_READERS: Mapping[str, Reader[Any]] = {
    "checkpoint": _object(
        Checkpoint, {"target": _path, "draft": maybe(_path), "heads": maybe(_path)}, "draft", "heads"
    ),
    "requests": several(_REQUEST),
    "schedule": _object(Schedule, SCHEDULE_READERS, *SCHEDULE_READERS),
    "seed": maybe(count),
    "choices": maybe(several(count)),
}
_ROUND = _object(Round, {"proposals": count, "emitted": count, "promoted": flag}, "promoted")
_ANSWER = _object(
    Answer,
    {
        "tokens": several(whole),
        "finish": member(Finish),
        "statistics": maybe(mapping),
        "rounds": maybe(several(_ROUND)),
    },
    *("statistics", "rounds"),
)
_RESULT_READERS: Mapping[str, Reader[Any]] = {
    "answers": several(_ANSWER),
    "trace": maybe(several(mapping)),
    "decisions": maybe(several(several(number))),
}


def encode(message: Message) -> str:
    """One line, without its end."""
    return json.dumps(message, allow_nan=False, separators=(",", ":"), default=_plain)


def _plain(value: Any) -> Any:
    """What the JSON encoder doesn't know: paths, sets, rounds."""
    if isinstance(value, Path):
        return str(value.absolute())
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, Round):
        return asdict(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no place in a message")


def start_command() -> Message:
    """The first line to a program."""
    return {"cmd": "start", "version": PROTOCOL_VERSION}


def stop_command() -> Message:
    """The last line to a program; it exits with status 0 and answers nothing."""
    return {"cmd": "stop"}


def run_command(seq: int, run: Run) -> Message:
    """The line that asks for a run; `seq` comes back in the answer.

    Heads are named only to a subject that declared them: an older one may know no such member.
    """
    message = {"cmd": "run", "seq": seq, **asdict(run)}
    if run.checkpoint.heads is None:
        del message["checkpoint"]["heads"]
    return message


def read_run(message: Mapping[str, Any]) -> tuple[int, Run]:
    """The number and the run of a run command."""
    body = {name: value for name, value in message.items() if name not in {"cmd", "seq"}}
    optional = frozenset({"schedule", "seed", "choices"})
    return count(message.get("seq"), "run.seq"), Run(**record(body, "run", _RUN_READERS, optional=optional))


def start_reply(capabilities: Capabilities) -> Message:
    """A program's answer to `start`."""
    return {"ok": True, "version": PROTOCOL_VERSION, "capabilities": dict(vars(capabilities))}


def read_start_reply(message: Mapping[str, Any]) -> Capabilities:
    """The declaration in an answer to `start`."""
    readers: Mapping[str, Reader[Any]] = {"ok": flag, "version": count, "capabilities": _CAPABILITIES}
    members = record(message, "start reply", readers, optional=frozenset())
    if not members["ok"] or members["version"] != PROTOCOL_VERSION:
        raise MessageError(
            f"start reply has ok {members['ok']} and version {members['version']}; expected true and {PROTOCOL_VERSION}"
        )
    capabilities: Capabilities = members["capabilities"]
    return capabilities


def run_reply(seq: int, outcome: Outcome) -> Message:
    """A program's answer to `run`."""
    match outcome:
        case Ok(result=result):
            answers = [dict(vars(answer)) for answer in result.answers]
            return {"seq": seq, "outcome": "ok", **vars(result), "answers": answers}
        case Skipped(reason=reason):
            return {"seq": seq, "outcome": "skipped", "reason": reason}
        case Errored(message=message, detail=detail):
            return {"seq": seq, "outcome": "errored", "message": message, "detail": detail}


def read_run_reply(message: Mapping[str, Any], seq: int) -> Outcome:
    """The outcome in an answer to the run command `seq`."""
    if message.get("seq") != seq:
        raise MessageError(f"run reply has seq {message.get('seq')!r}; expected {seq}, the one that was asked")
    outcome = text(message.get("outcome"), "run reply.outcome")
    body = {name: value for name, value in message.items() if name not in {"seq", "outcome"}}
    if outcome == "ok":
        optional = frozenset({"trace", "decisions"})
        return Ok(result=RunResult(**record(body, "run reply", _RESULT_READERS, optional=optional)))
    if outcome == "skipped":
        return Skipped(**record(body, "run reply", {"reason": text}, optional=frozenset()))
    if outcome == "errored":
        readers: Mapping[str, Reader[Any]] = {"message": text, "detail": text}
        return Errored(**record(body, "run reply", readers, optional=frozenset({"detail"})))
    raise MessageError(f"run reply.outcome is {outcome!r}; expected ok, skipped or errored")
