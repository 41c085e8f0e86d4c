"""Files of prediction heads beside a trunk that does not list them: which ones count, and under which names.

The trunk's weights come from exactly the files that the index names, or without an index from `model*.safetensors`.
Converters put heads elsewhere, into `mtp.safetensors`, `model-mtp.safetensors`, `optiq/mtp.safetensors` or a folder of
their own, which no index lists. So where the trunk holds no head tensor, the header of every other SafeTensors file in
the folder, and one folder down, is looked at. A file counts if all its tensors are of a head: by their names, or, where
`mtp.` was cut off, because together they are the whole head that the family publishes. Any other file is a stray, and
nothing of it is read but its header.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from eredu.checkpoints.family import HeadClaim
from eredu.checkpoints.safetensors_header import SafetensorsHeader, read_safetensors_header
from eredu.contract.errors import CheckpointError

WRAPPERS = re.compile(r"^(?:model\.|language_model\.|backbone\.)+")
"""What classes that wrap a decoder put in front of the names of its tensors."""
APART = "mtp."
"""Prefix of published heads, which folders and files of heads alone may lack."""
_EXPERTS = re.compile(
    r"^(.*)\.(?:experts(?:\.\d+)?|switch_mlp)\.(gate_up_proj|gate_proj|up_proj|down_proj)(?:\.weight)?$"
)


def published_names(names: Iterable[str], claim: HeadClaim) -> dict[str, str]:
    """Published names of the head tensors among stored names; wrappers' prefixes are gone."""
    bare = {name: WRAPPERS.sub("", name) for name in names}
    return {name: found for name, found in bare.items() if claim.prefixes and found.startswith(claim.prefixes)}


def prefixed_names(names: Iterable[str]) -> dict[str, str]:
    """Published names of tensors that have lost `mtp.`, by stored name."""
    return {name: f"{APART}{WRAPPERS.sub('', name)}" for name in names}


def missing_tensors(names: Iterable[str], claim: HeadClaim) -> list[str]:
    """Tensors that a claim requires and published names lack."""
    present = {form for name in names for form in _forms(name)}
    return [name for name in claim.required if name not in present]


def find_head_files(
    directory: Path, trunk: Collection[Path], claim: HeadClaim
) -> tuple[tuple[SafetensorsHeader, ...], dict[str, str]]:
    """Headers of the head files beside a trunk without head tensors, and the published names of their tensors.

    Raises `CheckpointError` for a file that is damaged, and for two files that hold the same head.
    """
    known = {path.resolve() for path in trunk}
    found: list[SafetensorsHeader] = []
    named: dict[str, str] = {}
    holders: dict[str, str] = {}
    for path in sorted([*directory.glob("*.safetensors"), *directory.glob("*/*.safetensors")]):
        if path.resolve() in known:
            continue
        header = _placed(read_safetensors_header(path), path.relative_to(directory).as_posix())
        names = _all_of_a_head([tensor.name for tensor in header.tensors], claim)
        if not names:
            continue
        for stored, published in names.items():
            other = holders.setdefault(published, header.file)
            if other != header.file:
                raise CheckpointError(
                    f"{directory} holds the head tensor {published!r} twice, in {other} and in {header.file}; remove "
                    "one of them, or name a directory of heads with --head"
                )
            named[stored] = published
        found.append(header)
    return tuple(found), named


def _all_of_a_head(names: Collection[str], claim: HeadClaim) -> Mapping[str, str]:
    """Published names of a file's tensors, empty where one of them is of something else."""
    published = published_names(names, claim)
    if len(published) == len(names):
        return published
    whole = prefixed_names(names)
    return whole if claim.prefixes == (APART,) and claim.required and not missing_tensors(whole.values(), claim) else {}


def _placed(header: SafetensorsHeader, file: str) -> SafetensorsHeader:
    """A header whose tensors name their file from the checkpoint's folder."""
    return replace(header, file=file, tensors=tuple(replace(tensor, file=file) for tensor in header.tensors))


def _forms(name: str) -> tuple[str, ...]:
    """What a stored name stands for: itself, or the projections of all experts, in whichever of three forms."""
    found = _EXPERTS.match(name)
    if found is None:
        return (name,)
    projections = ("gate_proj", "up_proj") if found[2] == "gate_up_proj" else (found[2],)
    return tuple(f"{found[1]}.experts.{projection}.weight" for projection in projections)
