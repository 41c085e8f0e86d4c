"""Known kinds of fault that a reference in float64 cannot have honestly, and what kills them instead."""

from __future__ import annotations

from typing import NamedTuple


class Elsewhere(NamedTuple):
    """A kind of fault that is not planted here.

    Attributes:
        kind: What real engines did.
        source: Public reports.
        reason: Why the reference has no honest analogue.
        killed_by: Which other check must see it.
    """

    kind: str
    source: str
    reason: str
    killed_by: str


ELSEWHERE = (
    Elsewhere(
        "a head that the config claims is absent, zero, random, or has its norm shifted twice",
        "oMLX 1320, oMLX 2678, oMLX 3750, MTPLX 306, MTPLX 574",
        "the reference has no weights to be absent; its drafters are rows",
        "the capability probe over crafted checkpoints",
    ),
    Elsewhere(
        "quantised heads: the head stays in full precision, or is quantised with the body's parameters",
        "families with embedded heads",
        "the reference knows no quantisation, and any rounded head is a lawful drafter",
        "the capability probe, and recorded acceptance of a head against its unquantised self",
    ),
    Elsewhere(
        "tool-call and reasoning events that differ by chunking",
        "sgl-project/sglang 37634, vllm-project/vllm 41967",
        "protocol parsers are text, and the reference stops at visible text",
        "re-chunking the same ids through the engine's parsers",
    ),
    Elsewhere(
        "capture layers chosen wrongly or in another order",
        "sgl-project/sglang 24051",
        "a hidden state of the reference has one layer",
        "parity of captured states against the original forward pass",
    ),
    Elsewhere(
        "scheduling: a ring that starves a request, a turn that is torn apart, a bound on verifications or branches of"
        " several requests that is overrun, a stall that goes unnoticed",
        "constructed",
        "the reference decodes one request at a time and has no scheduler; its requests never wait for each other",
        "exhaustive exploration of the spec's machine, and the lock-step machine over the engine",
    ),
    Elsewhere(
        "a verification of k + 1 rows whose last bits differ from k + 1 forwards of one row",
        "ml-explore/mlx-lm 1109, ml-explore/mlx-lm 1423",
        "the reference computes every row by itself; this is numerics, and no claim of law covers it",
        "the numerics audit, which reports it and hides it in no tolerance",
    ),
    Elsewhere(
        "placement of target and drafter that changes a token",
        "constructed",
        "the reference has one placement",
        "equality of outputs across placements of the engine",
    ),
    Elsewhere(
        "missing dependencies between device streams",
        "sgl-project/sglang 22113, llama.cpp 27572",
        "planted as `rows-read-before-completion` on a fake stream; the real one needs a device",
        "forced delays on the engine's completions",
    ),
)
"""What the catalogue leaves out, with reasons."""
