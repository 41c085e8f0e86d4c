"""Train a tiny target and its prediction head, measure both on held-out chats, and write the checkpoint.

`python -m eredu_benchmarks.training.train tiny-qwen3.5 --data FOLDER --out FOLDER`, with torch, numpy and safetensors
installed; the data folder is the one that `chats.py` writes.

Two phases. First the target learns the text by cross-entropy, and the head, with a smaller weight, the target's law
one token further; its gradient reaches the target too, as in the models that the families come from. Then the target
is rounded to what the file will hold and frozen, and the head alone learns the target's law to three proposals.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from eredu_benchmarks.training.chain import distance, draft_logits
from eredu_benchmarks.training.chats import Chats, read_archive
from eredu_benchmarks.training.deepseek import Router
from eredu_benchmarks.training.export import round_to_bfloat16, write_checkpoint
from eredu_benchmarks.training.held_out_acceptance import measure_held_out
from eredu_benchmarks.training.rows import Rows
from eredu_benchmarks.training.schedule import Schedule
from eredu_benchmarks.training.trained import FAMILIES, TrainedModel, new_model

HELD_OUT_CHATS = 256
"""Chats measured at each temperature."""


@dataclass(frozen=True)
class Settings:
    """What a run is made of; written beside its figures.

    Attributes:
        target_steps: Steps of the first phase.
        head_steps: Steps of the second.
        target_seconds: Most time for the first phase; see `Schedule`.
        head_seconds: Most time for the second.
        length: Inputs a row.
        batch: Rows a step.
        target_rate: Peak learning rate of the first phase.
        head_rate: Peak learning rate of the second.
        head_weight: Weight of the head's loss in the first phase.
        depth_weights: Weights of the passes in the second.
        seed: Of weights and order.
    """

    target_steps: int
    head_steps: int
    target_seconds: float
    head_seconds: float
    length: int = 1024
    batch: int = 48
    target_rate: float = 3e-3
    head_rate: float = 2e-3
    head_weight: float = 0.2
    depth_weights: tuple[float, ...] = (1.0, 0.6, 0.4)
    seed: int = 1


class Training:
    """One model under training.

    Args:
        model: The model, on its device.
        rows: Batches of text.
        settings: The recipe.
        compiled: Whether torch compiles layers and losses.
    """

    def __init__(self, model: TrainedModel, rows: Rows, settings: Settings, *, compiled: bool) -> None:
        self._model, self._settings = model, settings
        self._batches = iter(rows)
        self._device = model.embed_tokens.weight.device
        self._routers = [part for part in _module(model).modules() if isinstance(part, Router)]
        compile_or_not: Any = torch.compile if compiled else lambda part: part
        self._layers = [compile_or_not(layer) for layer in model.layers]
        self._distance, self._cross_entropy = compile_or_not(distance), compile_or_not(_cross_entropy)

    def train_target(self) -> dict[str, Any]:
        """The first phase."""
        settings, model = self._settings, self._model

        def loss(tokens: torch.Tensor, weights: torch.Tensor) -> dict[str, torch.Tensor]:
            hidden = model.embed_tokens(tokens[:, :-1])
            for layer in self._layers:
                hidden, _ = layer(hidden)
            logits = model.logits(hidden)
            text = self._cross_entropy(logits, tokens[:, 1:], weights[:, 1:])
            [draft] = draft_logits(model, hidden, tokens[:, 1:], 1)
            head = self._distance(logits[:, 1:].detach(), draft[:, :-1], weights[:, 2:])
            return {"loss": text + settings.head_weight * head, "text": text, "head": head}

        schedule = Schedule(settings.target_steps, settings.target_rate, seconds=settings.target_seconds)
        return self._phase(loss, dict(model.named_parameters()), schedule)

    def train_head(self) -> dict[str, Any]:
        """The second phase."""
        settings, model = self._settings, self._model
        depth_weights = settings.depth_weights
        round_to_bfloat16(_module(model))
        parameters = {}
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name.startswith("head."))
            if parameter.requires_grad:
                parameters[name] = parameter
        _module(model).eval()
        model.head.train()

        def loss(tokens: torch.Tensor, weights: torch.Tensor) -> dict[str, torch.Tensor]:
            with torch.no_grad():
                hidden = model.hidden(tokens[:, :-1])
                target = model.logits(hidden)[:, 1:]
            drafts = draft_logits(model, hidden, tokens[:, 1:], len(depth_weights))
            rows = torch.arange(target.shape[1], device=tokens.device)
            parts = {
                f"depth {d + 1}": self._distance(target, draft[:, :-1], weights[:, 2:] * (rows >= d))
                for d, draft in enumerate(drafts)
            }
            total = sum(weight * part for weight, part in zip(depth_weights, parts.values(), strict=True))
            return {"loss": torch.as_tensor(total), **parts}

        schedule = Schedule(settings.head_steps, settings.head_rate, seconds=settings.head_seconds)
        result = self._phase(loss, parameters, schedule)
        round_to_bfloat16(model.head)
        _module(model).eval()
        return result

    def _phase(self, loss: Any, parameters: dict[str, torch.nn.Parameter], schedule: Schedule) -> dict[str, Any]:
        """Run a phase; return its steps, seconds and losses on the way."""
        optimiser = _optimiser(parameters, fused=self._device.type == "cuda")
        begun, step, history = time.monotonic(), 0, []
        shown = max(1, schedule.steps // 40)
        while schedule.progress(step) < 1:
            for group in optimiser.param_groups:
                group["lr"] = schedule.rate(step)
            tokens, weights = next(self._batches)
            with torch.autocast(self._device.type, torch.bfloat16, enabled=self._device.type == "cuda"):
                parts = loss(tokens, weights)
            parts["loss"].backward()
            torch.nn.utils.clip_grad_norm_(list(parameters.values()), 1.0)
            optimiser.step()
            optimiser.zero_grad()
            for router in self._routers:
                if router.training:
                    router.balance()
            if step % shown == 0:
                history.append({"step": step, **{name: round(float(part.detach()), 4) for name, part in parts.items()}})
                print(f"{time.monotonic() - begun:7.1f} s", history[-1], flush=True)
            step += 1
        return {"steps": step, "seconds": round(time.monotonic() - begun, 1), "history": history}


def _optimiser(parameters: dict[str, torch.nn.Parameter], *, fused: bool) -> torch.optim.Optimizer:
    matrices = [each for name, each in parameters.items() if each.ndim >= 2 and "conv1d" not in name]
    chosen = {id(each) for each in matrices}
    rest = [each for each in parameters.values() if id(each) not in chosen]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=0.0, betas=(0.9, 0.95), fused=fused)


def _cross_entropy(logits: torch.Tensor, successors: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    losses = F.cross_entropy(logits.float().flatten(0, 1), successors.flatten(), reduction="none")
    return (losses * weights.flatten()).sum() / weights.sum().clamp_min(1)


def _module(model: TrainedModel) -> torch.nn.Module:
    if not isinstance(model, torch.nn.Module):
        raise TypeError("a trained model must be a torch module")
    return model


def train(family: str, settings: Settings, data: Path, out: Path, *, compiled: bool, small: bool) -> dict[str, Any]:
    """Both phases, the measurement, and the checkpoint in `out` / `family`; returns the figures."""
    torch.manual_seed(settings.seed)
    torch.set_float32_matmul_precision("high")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = new_model(family, small=small)
    _module(model).to(device).train()
    chats = Chats.of(read_archive(data / "corpus.npz.xz"))
    rows = Rows(chats, length=settings.length, batch=settings.batch, device=device, seed=settings.seed)
    training = Training(model, rows, settings, compiled=compiled)
    figures: dict[str, Any] = {"family": family, "settings": asdict(settings)}
    figures["parameters"] = _sizes(model.named_parameters())
    figures["target"] = training.train_target()
    figures["head"] = training.train_head()
    figures["epochs"] = round(rows.epochs, 2)
    write_checkpoint(model, out / family)
    torch.set_float32_matmul_precision("highest")
    held_out = read_archive(data / "eval.npz.xz")
    figures["held_out"] = measure_held_out(model, held_out, device, most=4 if small else HELD_OUT_CHATS)
    (out / f"{family}.json").write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return figures


def _sizes(named: Iterator[tuple[str, torch.nn.Parameter]]) -> dict[str, int]:
    sizes = {"target": 0, "head": 0}
    for name, parameter in named:
        sizes["head" if name.startswith("head.") else "target"] += parameter.numel()
    return sizes


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("family", choices=FAMILIES)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--target-steps", type=int, default=8000)
    parser.add_argument("--head-steps", type=int, default=2000)
    parser.add_argument("--target-seconds", type=float, default=1e9)
    parser.add_argument("--head-seconds", type=float, default=1e9)
    parser.add_argument("--length", type=int, default=Settings.length)
    parser.add_argument("--batch", type=int, default=Settings.batch)
    parser.add_argument("--eager", action="store_true", help="do not compile")
    parser.add_argument("--small", action="store_true", help="a model of toy size, to try the script on a CPU")
    given = parser.parse_args()
    settings = Settings(
        target_steps=given.target_steps,
        head_steps=given.head_steps,
        target_seconds=given.target_seconds,
        head_seconds=given.head_seconds,
        length=given.length,
        batch=given.batch,
    )
    figures = train(given.family, settings, given.data, given.out, compiled=not given.eager, small=given.small)
    print(json.dumps(figures["held_out"], indent=1))


if __name__ == "__main__":
    main()
