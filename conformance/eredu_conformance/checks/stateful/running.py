"""Running a machine for a given number of programs, with a seed instead of a database."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import HealthCheck, Phase, settings
from hypothesis import seed as seeded
from hypothesis.stateful import run_state_machine_as_test

from eredu_conformance.checks.stateful.machine import MACHINES


class Found(NamedTuple):
    """A program on which engine and machine part.

    Attributes:
        message: How they part.
        program: The shortest program found, a line an action.
    """

    message: str
    program: tuple[str, ...]


def run_programs(name: str, *, programs: int, steps: int, seed: int, shrink: bool = True) -> Found | None:
    """Run a machine; return what it found, or None.

    Args:
        name: A name of `MACHINES`.
        programs: Programs to draw.
        steps: Actions of a program at the most.
        seed: What they are drawn from.
        shrink: Whether to look for the shortest program, rather than take the first.
    """
    machine = seeded(seed)(type(f"Seeded{MACHINES[name].__name__}", (MACHINES[name],), {}))
    chosen = settings(
        database=None,
        deadline=None,
        derandomize=False,
        max_examples=programs,
        stateful_step_count=steps,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
        report_multiple_bugs=False,
        phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
    )
    try:
        run_state_machine_as_test(machine, settings=chosen)
    except Exception as error:  # What an engine raises where the machine goes on is a finding like any other.
        notes = getattr(error, "__notes__", [])
        message = str(error) if isinstance(error, AssertionError) and str(error) else repr(error)
        return Found(message, tuple(line for note in notes for line in note.splitlines()))
    return None
