"""The model card of a conversion: what it was made of, by which command, and what that cost its heads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from eredu.convert.acceptance import Acceptance

KEPT = ("license", "license_name", "license_link", "language", "pipeline_tag", "base_model")
"""Lines of the original's card that stay true."""
MOST_LINES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What a model card tells.

    Attributes:
        name: Of the converted model.
        source: What was converted, as it was named.
        heads_from: Where the heads came from, as it was named; None where they are the source's own.
        command: The whole command line.
        versions: Of what it was made with.
        trunk: How the trunk is stored, in words.
        heads: How the heads are.
        before: Acceptance before, or why it was not measured.
        after: Acceptance behind it, likewise.
    """

    name: str
    source: str
    heads_from: str | None
    command: str
    versions: Mapping[str, str]
    trunk: str
    heads: str
    before: Acceptance | str
    after: Acceptance | str

    def text(self, kept: Mapping[str, str]) -> str:
        """Markdown, with `kept` lines of the original's card in front."""
        front = {**kept, "library_name": "mlx", "tags": "[mlx, eredu, multi-token-prediction]"}
        made = ", ".join(f"{name} {version}" for name, version in self.versions.items())
        joined = "" if self.heads_from is None else f", with the heads of `{self.heads_from}`"
        return "\n".join(
            [
                "---",
                *(f"{key}: {value}" for key, value in front.items()),
                "---",
                f"# {self.name}",
                "",
                f"`{self.source}` in MLX's layout{joined}, converted with",
                "",
                "```sh",
                self.command,
                "```",
                "",
                f"({made}). mlx-lm loads it as a plain model; eredu finds its heads in `mtp.safetensors`.",
                "",
                "| part | stored as |",
                "| --- | --- |",
                f"| trunk | {self.trunk} |",
                f"| heads | {self.heads} |",
                "",
                "## Acceptance",
                "",
                *self._acceptance(),
                "",
            ]
        )

    def _acceptance(self) -> list[str]:
        if isinstance(self.before, str) or isinstance(self.after, str):
            reason = self.before if isinstance(self.before, str) else self.after
            return [f"Not measured: {reason}."]
        lines = [
            f"Chance that a proposal is taken at temperature 1, along {self.after.rows} tokens of the text of",
            "`eredu inspect --probe`, with its standard error.",
            "",
            "| proposal | before | behind the conversion |",
            "| --- | --- | --- |",
        ]
        for depth, (one, other) in enumerate(zip(self.before.by_depth, self.after.by_depth, strict=False), 1):
            lines.append(f"| {depth} | {one[0]:.3f} ± {one[1]:.3f} | {other[0]:.3f} ± {other[1]:.3f} |")
        return lines


def kept_lines(original: Path) -> dict[str, str]:
    """What of an original's card stays true: single lines of its front matter."""
    path = original / "README.md"
    try:
        lines = path.read_text(encoding="utf-8").split("\n", MOST_LINES)[:MOST_LINES]
    except (OSError, UnicodeDecodeError):
        return {}
    if not lines or lines[0].strip() != "---":
        return {}
    kept: dict[str, str] = {}
    for line in lines[1:]:
        if line.strip() == "---":
            return kept
        key, colon, value = line.partition(":")
        if colon and key in KEPT and value.strip():
            kept[key] = value.strip()
    return {}
