"""`python -m eredu_conformance.matrix [--json]`: print the matrix; exit 1 if a cell is empty."""

from __future__ import annotations

import json
import sys

from eredu_conformance.matrix import as_json, as_markdown, matrix


def main() -> int:
    """Print the matrix on stdout and its empty cells on stderr."""
    rows = matrix()
    text = json.dumps(as_json(rows), indent=2) + "\n" if "--json" in sys.argv[1:] else as_markdown(rows)
    sys.stdout.write(text)
    holes = [f"{name}: no {cell}" for name, row in rows.items() for cell in row.empty]
    sys.stderr.writelines(f"{hole}\n" for hole in holes)
    return 1 if holes else 0


if __name__ == "__main__":
    sys.exit(main())
