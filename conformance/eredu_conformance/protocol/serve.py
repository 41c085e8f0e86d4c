"""Turning any Python subject into a program that speaks the protocol.

The program's real standard output is set aside for answers and replaced by standard error, so that an engine's progress
bars and prints can't break the protocol.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any, TextIO

from eredu.files.json_reading import parse_json
from eredu_conformance.protocol.errors import MessageError
from eredu_conformance.protocol.messages import (
    PROTOCOL_VERSION,
    Message,
    encode,
    read_run,
    run_reply,
    start_reply,
)
from eredu_conformance.protocol.subject import Errored, Outcome, Subject, attempt


def serve(subject: Subject, *, commands: TextIO, answers: TextIO) -> int:
    """Answer commands until `stop` or the end of the input; return the exit status (0, or 2 after nonsense)."""
    capabilities = None
    for line in commands:
        message = _parse(line)
        command = None if message is None else message.get("cmd")
        if command == "stop":
            subject.stop()
            return 0
        if command == "start" and message is not None and message.get("version") == PROTOCOL_VERSION:
            capabilities = subject.start()
            _write(answers, start_reply(capabilities))
        elif command == "run" and message is not None and capabilities is not None:
            try:
                seq, run = read_run(message)
            except MessageError as error:
                _write(answers, run_reply(int(message.get("seq", 0)), Errored(message=str(error))))
                continue
            outcome: Outcome = attempt(subject, capabilities, run)
            _write(answers, run_reply(seq, outcome))
        else:
            sys.stderr.write(f"not a command of protocol {PROTOCOL_VERSION}, or before start: {line!r}\n")
            return 2
    subject.stop()
    return 0


def serve_stdio(subject: Subject) -> int:
    """`serve` on the process's own stdin and stdout; everything that is printed meanwhile goes to stderr."""
    sys.stdout.flush()
    commands = os.fdopen(os.dup(0), encoding="utf-8", newline="\n")
    with commands, os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        return serve(subject, commands=commands, answers=answers)


def subject_named(place: str) -> Subject:
    """The subject that `package.module:Factory` makes."""
    module, _, factory = place.partition(":")
    if not factory:
        raise MessageError(f"{place!r} names no subject; expected package.module:Factory")
    made: Subject = getattr(importlib.import_module(module), factory)()
    return made


def _parse(line: str) -> dict[str, Any] | None:
    try:
        message = parse_json(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None


def _write(answers: TextIO, message: Message) -> None:
    answers.write(encode(message) + "\n")
    answers.flush()
