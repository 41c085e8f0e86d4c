"""Print the power table: `python -m eredu_conformance.subjects.evidence [FAULT ...]`; some minutes for all of it."""

from __future__ import annotations

import sys

from eredu_conformance.subjects.evidence.designs import UNSEEN
from eredu_conformance.subjects.evidence.power import markdown, power_table


def main(faults: list[str]) -> None:
    """Print each line when it is measured."""
    print("| fault | tokens to reject at 1e-6, median | best test of the race | best bet |")
    print("| --- | --- | --- | --- |")
    power_table(faults or None, progress=lambda row: print(markdown(row), flush=True))
    for name, reason in UNSEEN.items():
        print(f"\n{name}: {reason}.")


if __name__ == "__main__":
    main(sys.argv[1:])
