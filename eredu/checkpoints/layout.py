"""Who wrote a weight file, the model's makers or an MLX converter: it decides whether zero-centred norms are shifted.

The makers of Qwen and Step store the weight of a norm as its offset from one; MLX's converters add the one. Nothing in
the numbers of a single tensor says which it is, so only facts of the file count: its `format`, the axis order of its
convolutions, packed weights, and names that converters cut or give. Facts that contradict each other are refused, for
the norms would be shifted twice, or never.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum

from eredu.checkpoints.safetensors_header import SafetensorsHeader
from eredu.checkpoints.tensors import StoredTensor
from eredu.contract.errors import CheckpointError

MAKERS_FORMATS = frozenset({"pt", "np", "tf", "flax"})
MLX_FORMAT = "mlx"
KEEPS_NORMS = "optiq/"
"""Folder of the heads that OptiQ's converter sets apart: packed by MLX, with their norms as the makers stored them, as
engines that load both sorts report."""


class Layout(StrEnum):
    """Who wrote a file."""

    PUBLISHED = "published"
    """The model's makers, or nobody who left a sign: norms are as they were trained."""
    CONVERTED = "converted"
    """An MLX converter: norms are ready to multiply with."""


Fact = tuple[Layout, str]
"""What follows from one fact about a file, and the fact in words."""


def head_layouts(headers: Iterable[SafetensorsHeader], published_names: Mapping[str, str]) -> dict[str, Layout]:
    """Layout of each file that holds head tensors, by its name.

    Args:
        headers: Headers of all files.
        published_names: Published names of the head tensors by stored name.

    Raises `CheckpointError` for a file whose facts contradict each other.
    """
    cut = any(not name.endswith(published) for name, published in published_names.items())
    return {
        header.file: _file_layout(header, cut=cut)
        for header in headers
        if any(tensor.name in published_names for tensor in header.tensors)
    }


def _file_layout(header: SafetensorsHeader, *, cut: bool) -> Layout:
    """Layout of one file; `cut` says that head tensors have lost their prefix, as converters of heads alone do."""
    if header.file.startswith(KEEPS_NORMS):
        return Layout.PUBLISHED
    facts = [*_format_facts(header.format), *(fact for tensor in header.tensors for fact in _tensor_facts(tensor))]
    if cut:
        facts.append((Layout.CONVERTED, "the names of its head tensors lack their published prefix"))
    first = dict(reversed(facts))
    published, converted = first.get(Layout.PUBLISHED), first.get(Layout.CONVERTED)
    if published is not None and converted is not None:
        raise CheckpointError(
            f"{header.path.name} contradicts itself: {converted}, so an MLX converter wrote it, and "
            f"{published}, so its makers did. Its norms would be shifted twice or never; convert the original "
            "checkpoint again"
        )
    return Layout.PUBLISHED if converted is None else Layout.CONVERTED


def _format_facts(metadata_format: str | None) -> Iterator[Fact]:
    if metadata_format == MLX_FORMAT:
        yield Layout.CONVERTED, f"its format is '{MLX_FORMAT}'"
    elif metadata_format in MAKERS_FORMATS:
        yield Layout.PUBLISHED, f"its format is '{metadata_format}'"


def _tensor_facts(tensor: StoredTensor) -> Iterator[Fact]:
    """The axis order of a depthwise convolution, (channels, 1, kernel) or (channels, kernel, 1); names; packed weights.

    The shared expert of Step lies beside the MLP in published files, and within it in converted ones.
    """
    if tensor.name.endswith("conv1d.weight") and len(tensor.shape) == 3 and tensor.shape[1:] != (1, 1):
        if tensor.shape[2] == 1:
            yield Layout.CONVERTED, f"{tensor.name} has MLX's axis order"
        elif tensor.shape[1] == 1:
            yield Layout.PUBLISHED, f"{tensor.name} has the published axis order"
    if ".mlp.share_expert." in tensor.name:
        yield Layout.CONVERTED, f"{tensor.name} has a converter's name"
    elif ".share_expert." in tensor.name:
        yield Layout.PUBLISHED, f"{tensor.name} has its makers' name"
    if tensor.name.endswith(".scales"):
        yield Layout.CONVERTED, f"{tensor.name} belongs to weights that MLX packed"
