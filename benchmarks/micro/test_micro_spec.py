"""The executable specification's own cost: edges of a scope explored in a second, in the extra information."""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from eredu_spec.explorer import Exploration, explore
from eredu_spec.scopes import SCOPES


@pytest.mark.parametrize("scope", ["tiny", "small", "standard"])
def test_exploration(benchmark: BenchmarkFixture, scope: str) -> None:
    """`edges_per_s` counts the search alone, of the fastest round; the time shown also makes the scope."""
    found: list[Exploration] = []
    benchmark(lambda: found.append(explore(SCOPES[scope]())))
    assert {each.edge_count for each in found} == {found[0].edge_count}
    benchmark.extra_info["edges"] = found[0].edge_count
    benchmark.extra_info["edges_per_s"] = max(each.edges_per_s for each in found)
