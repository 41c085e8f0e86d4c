"""Blocks of rows computed as decoding computes each row, and the states behind them noted for rollback.

mlx-lm has two formulas for some layers. Latent attention (DeepSeek) folds its key and value projections into query and
output for one row, and unfolds the latents for several; Mamba 2 (Nemotron-H) runs its recurrence for one row and its
chunked form for several. Both pairs agree on paper and differ by about 1e-5 in float32, so a verified row would not be
the decoded row, nor what stays in the caches. Patches `of_blocks` take the formula of one row for blocks of up to
`BLOCK_ROWS` rows: verified rows then equal decoded rows as far as the kernels below them do, which on the stock CPU
wheel is bit for bit. Longer feeds, which only prefill makes, keep the fast form.
"""

from __future__ import annotations

from eredu.contract.options import MAX_PROPOSALS

BLOCK_ROWS = MAX_PROPOSALS + 1
"""Rows of the longest verification: the leading token and the proposals."""

NOTED_ROWS = 17
"""Rows of the longest block whose states are kept for rollback: more would cost more memory than time."""
