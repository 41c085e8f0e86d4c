"""Types of GGUF tensors that can be decoded: whole ones, and the blocks that the `gguf` package has a decoder for."""

from __future__ import annotations

from eredu.checkpoints.gguf_header import GgufHeader
from eredu.contract.errors import CheckpointError

WHOLE = frozenset({"F64", "F32", "F16", "BF16", "I8", "I16", "I32", "I64"})


def require_decodable(header: GgufHeader) -> None:
    """Raise `CheckpointError` for the first tensor of a type that nothing here decodes."""
    from gguf.quants import _type_traits  # noqa: PLC0415 (slow to import)

    known = WHOLE | {str(kind.name) for kind in _type_traits}
    for tensor in header.tensors:
        if tensor.dtype not in known:
            raise CheckpointError(
                f"{header.path} stores {tensor.name!r} as {tensor.dtype}, which eredu does not decode; take a file of "
                "another quantisation, or the SafeTensors directory"
            )
