"""Golden logits of the zoo, made by Hugging Face Transformers: an oracle that nobody here wrote.

`python -m eredu_conformance.goldens` makes them again, where torch and Transformers are installed.
"""

from eredu_conformance.goldens.golden import (
    GOLDENS,
    PROMPT,
    ROWS,
    Golden,
    golden_named,
    head_golden_name,
    write_golden,
)

__all__ = ["GOLDENS", "PROMPT", "ROWS", "Golden", "golden_named", "head_golden_name", "write_golden"]
