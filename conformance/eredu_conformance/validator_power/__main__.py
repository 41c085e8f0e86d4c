"""Print a power table: `python -m eredu_conformance.validator_power [checkpoint] [FAULT ...]`.

On tables it takes some minutes for all faults, on the small checkpoint half an hour.
"""

from __future__ import annotations

import sys

from eredu_conformance.validator_power.designs import UNSEEN
from eredu_conformance.validator_power.power import HEADING, markdown, power_table


def main(words: list[str]) -> None:
    """Print each line when it is measured."""
    if words[:1] == ["checkpoint"]:
        on_checkpoint(words[1:])
    else:
        sys.stdout.write(f"{HEADING}\n")
        power_table(words or None, progress=lambda row: say(markdown(row)))
    for name, reason in UNSEEN.items():
        say(f"\n{name}: {reason}.")


def on_checkpoint(faults: list[str]) -> None:
    """The table of the small checkpoint."""
    from eredu_conformance.validator_power import checkpoint_power as power  # noqa: PLC0415 (MLX, only for this)

    say(power.HEADING)
    power.checkpoint_table(faults or None, progress=lambda row: say(power.checkpoint_line(row)))


def say(line: str) -> None:
    """One line, at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
