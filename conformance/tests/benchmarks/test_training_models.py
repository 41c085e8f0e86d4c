"""What training relies on, where torch is installed: the chunked delta rule, and heads run along a text."""

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="training needs torch, which is installed by hand")

from eredu_benchmarks.training.chain import draft_logits  # noqa: E402
from eredu_benchmarks.training.delta_rule import UnitTriangularInverse, gated_delta_rule  # noqa: E402
from eredu_benchmarks.training.trained import FAMILIES, new_model  # noqa: E402


def test_chunks_of_the_delta_rule_are_its_recurrence() -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 150, 8, dtype=torch.float64) for _ in range(3))
    k = k / k.norm(dim=-1, keepdim=True)
    log_decay, beta = -torch.rand(1, 2, 150, dtype=torch.float64), torch.rand(1, 2, 150, dtype=torch.float64)
    state, expected = torch.zeros(1, 2, 8, 8, dtype=torch.float64), []
    for t in range(150):
        state = state * log_decay[:, :, t, None, None].exp()
        known = (state.mT @ k[:, :, t, :, None])[..., 0]
        state = state + k[:, :, t, :, None] * (beta[:, :, t, None] * (v[:, :, t] - known))[..., None, :]
        expected.append((state.mT @ q[:, :, t, :, None])[..., 0])
    torch.testing.assert_close(gated_delta_rule(q, k, v, log_decay, beta), torch.stack(expected, dim=2))


def test_the_inverse_has_its_gradient() -> None:
    torch.manual_seed(0)
    lower = torch.randn(2, 8, 8, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: UnitTriangularInverse.apply(x.tril(-1)), (lower,))


@pytest.mark.parametrize("family", FAMILIES)
def test_passes_of_an_iterated_head_are_what_drafting_computes(family: str) -> None:
    torch.manual_seed(0)
    model: Any = new_model(family, small=True).eval()  # type: ignore[attr-defined]
    tokens = torch.randint(0, 4096, (1, 13))
    with torch.no_grad():
        hidden = 3 * model.hidden(tokens[:, :-1])
        embedding = model.embed_tokens(tokens[:, 1:])
        logits = draft_logits(model, hidden, tokens[:, 1:], 3)
        first, _ = model.head(embedding, hidden)
        for at in (2, 6, 11):
            rows = hidden.clone()
            rows[:, at - 1] = first[:, at - 2]
            rows[:, at] = model.head(embedding, rows)[0][:, at - 1]
            third, _ = model.head(embedding, rows)
            torch.testing.assert_close(model.head_logits(third)[:, at], logits[2][:, at], atol=1e-5, rtol=1e-5)
