"""The matrix: for each rule its paragraph, model sites, implementation sites, tests, planted faults and their kills.

Everything is read off the files that stand for it; nothing is kept in a second list.
"""

from eredu_conformance.matrix.markers import MarkerError, Site, marked_sites
from eredu_conformance.matrix.places import Places, installed_places
from eredu_conformance.matrix.rendering import as_json, as_markdown
from eredu_conformance.matrix.rows import Row, matrix, row_of

__all__ = [
    "MarkerError",
    "Places",
    "Row",
    "Site",
    "as_json",
    "as_markdown",
    "installed_places",
    "marked_sites",
    "matrix",
    "row_of",
]
