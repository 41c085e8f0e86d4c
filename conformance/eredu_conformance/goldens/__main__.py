"""`python -m eredu_conformance.goldens [NAME …]`: make goldens again, all of them unless named."""

from __future__ import annotations

import sys

from eredu_conformance.goldens.golden import write_golden
from eredu_conformance.goldens.making import make_golden
from eredu_conformance.zoo import MEMBERS, zoo_edges, zoo_member


def main(names: list[str]) -> None:
    """Make the goldens of some members, or of all."""
    for name in names or (*MEMBERS, *zoo_edges()):
        path = write_golden(make_golden(zoo_member(name)))
        print(f"{path.name:36} {path.stat().st_size:>7} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
