"""`python -m eredu_conformance.crafted NAME DIRECTORY`: write a pair, so that anybody can load it with anything."""

from __future__ import annotations

import sys
from pathlib import Path


def main(arguments: list[str]) -> int:
    """Write the pair and say where it lies, or list the pairs; return the exit status."""
    from eredu_conformance.checks.pairs import every_pair  # noqa: PLC0415 - an entry point may look upwards

    pairs = every_pair()
    if len(arguments) != 2 or arguments[0] not in pairs:
        sys.stderr.write("usage: python -m eredu_conformance.crafted NAME DIRECTORY\n\nNAME is one of\n")
        sys.stderr.writelines(f"  {pair.name:<28} {pair.aim}\n" for pair in pairs.values())
        return 2
    pair = pairs[arguments[0]]
    place = pair.write(Path(arguments[1]))
    sys.stdout.write(f"target  {place.target}\ndraft   {place.draft}\nprompt  {list(pair.prompt)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
