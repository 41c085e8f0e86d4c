"""What a conversion is to do."""

from __future__ import annotations

from dataclasses import dataclass

from eredu.contract.errors import OptionError

BITS = (2, 3, 4, 5, 6, 8)
"""Bits a weight that MLX's affine quantisation has."""
GROUP_SIZES = (32, 64, 128)
"""Weights that share a scale and a bias, likewise."""
DTYPES = ("float32", "float16", "bfloat16")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertOptions:
    """How weights are stored.

    Attributes:
        bits: Of the trunk's matrices; None leaves them as they are.
        head_bits: Of the heads', likewise.
        group_size: Weights that share a scale.
        dtype: Type of what stays in floats; None leaves it as it is.

    Raises `OptionError` for numbers that MLX does not have.
    """

    bits: int | None = None
    head_bits: int | None = None
    group_size: int = 64
    dtype: str | None = None

    def __post_init__(self) -> None:
        for name, given in (("bits", self.bits), ("head bits", self.head_bits)):
            if given is not None and given not in BITS:
                raise OptionError(f"{name} was {given}; expected one of {', '.join(map(str, BITS))}")
        if self.group_size not in GROUP_SIZES:
            raise OptionError(f"group size was {self.group_size}; expected one of {', '.join(map(str, GROUP_SIZES))}")
        if self.dtype is not None and self.dtype not in DTYPES:
            raise OptionError(f"dtype was {self.dtype!r}; expected one of {', '.join(DTYPES)}")

    def settings(self, bits: int) -> dict[str, object]:
        """MLX's settings for so many bits."""
        return {"group_size": self.group_size, "bits": bits, "mode": "affine"}
