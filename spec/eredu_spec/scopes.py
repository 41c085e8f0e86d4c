"""The scopes that are explored whole: small enough to finish, large enough to hold every kind of interaction.

Three outcomes of a token would already need V = 3; K >= 2, lookahead >= 2 and an output of at least 2K + 1 are what it
takes before a stale or misplaced row can show.
"""

from __future__ import annotations

from dataclasses import replace

from eredu_spec.explorer import explore
from eredu_spec.properties import violations
from eredu_spec.request import Settings
from eredu_spec.scope import Scope
from eredu_spec.sometimes import unseen
from eredu_spec.structure import Structure
from eredu_spec.terminal import EOS, GRAMMAR, STOP


def tiny() -> Scope:
    """One request with everything: statistics, ledger, chunked prefill, cancellation, callbacks, failures."""
    settings = Settings(
        model=Structure(),
        prompt=(0, 0, 0),
        prefill_chunk=1,
        max_tokens=5,
        requested=2,
        lookahead_depth=3,
        window=1,
        counts=True,
    )
    return Scope(requests=(settings,), cancellations=True, callbacks=True, failures=True)


def small() -> Scope:
    """Two unlike requests that share one verification and one branch; lookahead shorter than the next block."""
    first = Settings(
        model=Structure(terminal=(EOS, STOP | GRAMMAR | EOS)), max_tokens=5, requested=2, lookahead_depth=2
    )
    second = replace(
        first, number=1, model=Structure(terminal=(STOP, GRAMMAR)), max_tokens=4, requested=1, lookahead_depth=2
    )
    return Scope(
        requests=(first, second), max_in_flight=1, max_branches=1, cancellations=True, callbacks=True, failures=True
    )


def standard() -> Scope:
    """Two requests, K = 2, lookahead 3, output 5 = 2K + 1, adaptive window 1, one branch for both."""
    settings = Settings(model=Structure(), max_tokens=5, requested=2, lookahead_depth=3, window=1)
    return Scope(
        requests=(settings, replace(settings, number=1)),
        max_branches=1,
        cancellations=True,
        callbacks=True,
        failures=True,
    )


def trio() -> Scope:
    """Three unlike requests of short outputs, submitted in groups of up to three."""
    first = Settings(model=Structure(terminal=(EOS,), grammar=False), prompt=(0,), max_tokens=2, requested=1)
    second = replace(first, number=1, max_tokens=3)
    third = replace(first, number=2, requested=0)
    return Scope(requests=(first, second, third), max_in_flight=3, cancellations=True, callbacks=True, failures=True)


def deep() -> Scope:
    """One request, K = 3, lookahead 4, output 10: promotions behind promotions."""
    settings = Settings(model=Structure(), max_tokens=10, requested=3, lookahead_depth=4, window=3)
    return Scope(requests=(settings,), cancellations=True, callbacks=True, failures=True)


SCOPES = {"tiny": tiny, "small": small, "standard": standard, "trio": trio, "deep": deep}


def main() -> None:
    """Explore every scope and print what was found."""
    for name, scope in SCOPES.items():
        exploration = explore(scope())
        broken, missing = violations(exploration), unseen(exploration)
        print(
            f"{name:9} {len(exploration.tree):>9,} states {exploration.edge_count:>9,} edges "
            f"{exploration.edges_per_s:>10,.0f} edges/s  {len(broken)} violations, {len(missing)} unseen"
        )
        for line in (*broken, *missing):
            print(f"  {line}")


if __name__ == "__main__":
    main()
