"""Subjects by name or by command, as a value that another process can open again."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from importlib import import_module

from eredu_conformance.protocol.errors import ConformanceError
from eredu_conformance.protocol.program import ProgramSubject
from eredu_conformance.protocol.serve import subject_named
from eredu_conformance.protocol.subject import Subject

SUBJECTS = {
    "eredu": "eredu_conformance.subjects.eredu:EreduSubject",
    "eredu-one-stream": "eredu_conformance.subjects.eredu:one_stream",
    "eredu-two-streams": "eredu_conformance.subjects.eredu:two_streams",
    "eredu-two-devices": "eredu_conformance.subjects.eredu:two_devices",
    "reference": "eredu_conformance.subjects.reference:ReferenceSubject",
    "mlx-lm": "eredu_conformance.subjects.mlx_lm:MlxLmSubject",
}
"""Subjects that the suite ships, by the place of their factory."""


@dataclass(frozen=True, kw_only=True)
class SubjectSource:
    """Where a subject comes from.

    Attributes:
        name: One of `SUBJECTS`, or `package.module:Factory`.
        command: A program that speaks JSON lines; it comes before the name.
    """

    name: str = "eredu"
    command: str | None = None

    def open(self) -> Subject:
        """Make the subject; it isn't started.

        Raises:
            ConformanceError: there is no such subject, or it can't be imported.
        """
        if self.command is not None:
            return ProgramSubject(tuple(shlex.split(self.command)))
        if self.name not in SUBJECTS and ":" not in self.name:
            raise ConformanceError(
                f"there is no subject {self.name!r}; give one of {', '.join(SUBJECTS)}, package.module:Factory, or "
                "--command with a program that speaks the protocol"
            )
        place = SUBJECTS.get(self.name, self.name)
        try:
            import_module(place.partition(":")[0])
        except ImportError as error:
            raise ConformanceError(f"the subject {self.name} can't be imported: {error}") from error
        return subject_named(place)

    @property
    def arguments(self) -> str:
        """How the command line names it."""
        if self.command is not None:
            return f"--command {shlex.quote(self.command)}"
        return f"--subject {shlex.quote(self.name)}"
