"""A subject that is a program: any engine, in any language, that speaks JSON lines on stdin and stdout."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from eredu.files.json_reading import parse_json
from eredu_conformance.protocol.capabilities import Capabilities
from eredu_conformance.protocol.errors import MessageError, SkippedRunError, SubjectError
from eredu_conformance.protocol.messages import (
    Message,
    encode,
    read_run_reply,
    read_start_reply,
    run_command,
    start_command,
    stop_command,
)
from eredu_conformance.protocol.pipe import LinePipe
from eredu_conformance.protocol.run import Run, RunResult
from eredu_conformance.protocol.subject import Errored, Ok, Skipped


class ProgramSubject:
    """Starts the program, asks it, and after any breach of the protocol kills it and starts it anew.

    Args:
        command: The program and its arguments.
        start_timeout_s: Seconds for the answer to `start` (imports and device start included).
        run_timeout_s: Seconds for the answer to one `run` (loading included).
        environment: Environment of the program; None passes on the caller's.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        start_timeout_s: float = 120.0,
        run_timeout_s: float = 120.0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.command = tuple(command)
        self.start_timeout_s = start_timeout_s
        self.run_timeout_s = run_timeout_s
        self._environment = environment
        self._pipe: LinePipe | None = None
        self._seq = 0

    def start(self) -> Capabilities:
        """Start the program (again) and return its declaration.

        Raises:
            SubjectError: it could not be started, ended, hung, or answered nonsense.
        """
        self.stop()
        self._pipe = LinePipe(self.command, environment=self._environment)
        reply = self._ask(self._pipe, start_command(), timeout_s=self.start_timeout_s, to="start")
        try:
            return read_start_reply(reply)
        except MessageError as error:
            raise self._breach(self._pipe, error, reply) from error

    def run(self, run: Run) -> RunResult:
        """Do one run.

        Raises:
            SkippedRunError: the program skipped it.
            SubjectError: the program reported an error, ended, hung, or answered nonsense.
        """
        if self._pipe is None:
            self.start()
        pipe = self._pipe
        assert pipe is not None
        self._seq += 1
        reply = self._ask(pipe, run_command(self._seq, run), timeout_s=self.run_timeout_s, to=f"run {self._seq}")
        try:
            outcome = read_run_reply(reply, self._seq)
        except MessageError as error:
            raise self._breach(pipe, error, reply) from error
        match outcome:
            case Ok(result=result):
                return result
            case Skipped(reason=reason):
                raise SkippedRunError(reason)
            case Errored(message=message, detail=detail):
                raise SubjectError(message, detail=detail)

    def stop(self) -> None:
        """Ask the program to end, and see to it that it does."""
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            pipe.send(encode(stop_command()))
            pipe.finish()

    def _ask(self, pipe: LinePipe, message: Message, *, timeout_s: float, to: str) -> Mapping[str, Any]:
        pipe.send(encode(message))
        try:
            line = pipe.receive(timeout_s=timeout_s, to=to)
            try:
                reply = parse_json(line)
            except ValueError:
                raise pipe.garbage("is not JSON", line) from None
            if not isinstance(reply, dict):
                raise pipe.garbage("is no JSON object", line)
        except SubjectError:
            self._drop(pipe)
            raise
        return reply

    def _breach(self, pipe: LinePipe, error: MessageError, reply: Mapping[str, Any]) -> SubjectError:
        garbage = pipe.garbage(f"breaks the protocol ({error})", json.dumps(reply))
        self._drop(pipe)
        return garbage

    def _drop(self, pipe: LinePipe) -> None:
        self._pipe = None
        pipe.kill()
