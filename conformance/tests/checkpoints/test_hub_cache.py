"""Names of the hub: what lies in the local cache opens, parts are refused by name, and downloads are asked for."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from huggingface_hub import constants

import eredu
from eredu.checkpoints import hub_cache
from eredu.checkpoints.hub_cache import split_hub_name
from eredu.checkpoints.names import resolve_checkpoint, shipped_path
from eredu.checkpoints.opening import open_named
from eredu.commands.main import main
from eredu.contract.errors import CheckpointError

COMMIT = "0123456789abcdef0123456789abcdef01234567"
Lay = Callable[..., Path]


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache; whatever would go to the network fails."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return tmp_path / "hub"


@pytest.fixture
def lay(hub: Path) -> Lay:
    """Lay a folder's files into the cache as the hub's library does: blobs, and a snapshot of links to them."""

    def lay(repository: str, source: Path, without: tuple[str, ...] = ()) -> Path:
        folder = hub / f"models--{repository.replace('/', '--')}"
        snapshot = folder / "snapshots" / COMMIT
        (folder / "blobs").mkdir(parents=True)
        snapshot.mkdir(parents=True)
        (folder / "refs").mkdir()
        (folder / "refs" / "main").write_text(COMMIT)
        for file in source.iterdir():
            if file.is_file() and file.name not in without:
                blob = folder / "blobs" / hashlib.sha256(file.read_bytes()).hexdigest()
                shutil.copy(file, blob)
                (snapshot / file.name).symlink_to(Path("../..") / "blobs" / blob.name)
        return snapshot

    return lay


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("org/name", ("org/name", None)),
        ("Qwen/Qwen3.5-0.8B", ("Qwen/Qwen3.5-0.8B", None)),
        ("org/name-GGUF/name-Q4_K_M.gguf", ("org/name-GGUF", "name-Q4_K_M.gguf")),
        ("org/name/deep/file.gguf", ("org/name", "deep/file.gguf")),
        *((name, None) for name in ("name", "/org/name", "./org/name", "../name", "org/..", "org//name", "a b/c", "")),
        *((name, None) for name in ("org/name/../x", "org/name/", "o--rg/name", "org/na\0me")),
    ],
)
def test_names_of_the_hub(name: str, parts: tuple[str, str | None] | None) -> None:
    assert split_hub_name(name) == parts


def test_a_cached_model_opens_by_its_name_everywhere(lay: Lay, capsys: pytest.CaptureFixture[str]) -> None:
    snapshot = lay("org/tiny", shipped_path("tiny-qwen3.5"))
    assert resolve_checkpoint("org/tiny") == snapshot
    assert open_named("org/tiny").report().to_json() == {
        **open_named("tiny-qwen3.5").report().to_json(),
        "path": str(snapshot),
    }
    model = eredu.load("org/tiny")
    assert len(model.generate("Once", max_tokens=2).tokens) == 2
    assert main(["inspect", "org/tiny", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["family"] == "qwen3_5"


def test_a_path_that_exists_goes_before_a_name(lay: Lay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay("org/tiny", shipped_path("tiny-qwen3.5"))
    (tmp_path / "org" / "tiny").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert resolve_checkpoint("org/tiny") == Path("org/tiny")


def break_link(snapshot: Path) -> None:
    (snapshot / "model.safetensors").resolve().unlink()


def lose_weights(snapshot: Path) -> None:
    (snapshot / "model.safetensors").unlink()


def lose_shard(snapshot: Path) -> None:
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (snapshot / "model.safetensors.index.json").write_text(json.dumps(index))
    (snapshot / "model.safetensors").rename(snapshot / "model-00001-of-00002.safetensors")


def lose_snapshot(snapshot: Path) -> None:
    shutil.rmtree(snapshot)


def lose_reference(snapshot: Path) -> None:
    (snapshot.parents[1] / "refs" / "main").unlink()


def lead_astray(snapshot: Path) -> None:
    (snapshot.parents[1] / "refs" / "main").write_text("../../../elsewhere")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (break_link, "model.safetensors leads to a file that is not there"),
        (lose_weights, "no weights are there"),
        (lose_shard, "1 of the 2 weight files are missing, such as model-00002-of-00002.safetensors"),
        (lose_snapshot, "no snapshot of its main revision"),
        (lose_reference, "no snapshot of its main revision"),
        (lead_astray, "no snapshot of its main revision"),
    ],
)
def test_a_part_of_a_model_is_refused_by_name(lay: Lay, spoil: Callable[[Path], None], said: str) -> None:
    spoil(lay("org/tiny", shipped_path("tiny-qwen3.5")))
    with pytest.raises(CheckpointError) as raised:
        open_named("org/tiny")
    assert f"'org/tiny' lies in the Hugging Face cache in part: {said}" in str(raised.value)
    assert str(raised.value).endswith("eredu fetch org/tiny")


@pytest.mark.usefixtures("hub")
def test_what_is_not_cached_is_not_downloaded() -> None:
    with pytest.raises(
        CheckpointError, match=r"nothing of that name lies in the Hugging Face cache; .*fetch org/none$"
    ):
        open_named("org/none")


def test_gguf_files_of_a_repository(lay: Lay, tmp_path: Path, write_tiny_gguf: Callable[[Path], Path]) -> None:
    (tmp_path / "made").mkdir()
    first = write_tiny_gguf(tmp_path / "made" / "tiny-Q4_0.gguf")
    snapshot = lay("org/one", tmp_path / "made")
    assert open_named("org/one").path == snapshot / "tiny-Q4_0.gguf"
    shutil.copy(first, tmp_path / "made" / "tiny-Q8_0.GGUF")
    snapshot = lay("org/two", tmp_path / "made")
    with pytest.raises(CheckpointError, match=r"holds 2 GGUF models; give the path of one: tiny-Q4_0.gguf, tiny-Q8_0"):
        open_named("org/two")
    assert open_named("org/two/tiny-Q8_0.GGUF").path == snapshot / "tiny-Q8_0.GGUF"
    with pytest.raises(CheckpointError, match=r"in part: tiny-Q2_K\.gguf is not in the snapshot"):
        open_named("org/two/tiny-Q2_K.gguf")


class Hub(ThreadingHTTPServer):
    """A hub with one repository, as far as its library asks."""

    files: Mapping[str, bytes]
    asked: list[str]
    free: Event


class Answers(BaseHTTPRequestHandler):
    server: Hub

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.server.asked.append(f"{self.command} {self.path}")
        path = self.path.partition("?")[0]
        files = self.server.files
        if path == "/api/models/org/model/revision/main":
            self.give_json({"id": "org/model", "sha": COMMIT, "siblings": [{"rfilename": name} for name in files]})
        elif path == f"/api/models/org/model/tree/{COMMIT}":
            tree = [
                {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
                for name, data in files.items()
            ]
            self.give_json(tree)
        elif path.startswith(f"/org/model/resolve/{COMMIT}/"):
            self.give(files[path.rpartition(f"{COMMIT}/")[2]])
        else:
            self.send_response(401 if "gated" in path else 404)
            self.send_header("X-Error-Code", "GatedRepo" if "gated" in path else "RepoNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()

    def give_json(self, value: Any) -> None:
        self.give(json.dumps(value).encode(), "application/json")

    def give(self, data: bytes, kind: str = "application/octet-stream") -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.send_header("ETag", f'"{hashlib.sha1(data).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data[: len(data) // 2])
            self.wfile.flush()
            if kind != "application/json" and len(data) > 1_000_000:
                self.server.asked.append("half of a file is given")
                self.server.free.wait(60)
            self.wfile.write(data[len(data) // 2 :])

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def served(hub: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub on this machine that serves a small model, and files that nobody should ask for."""
    source = shipped_path("tiny-qwen3.5")
    server = Hub(("127.0.0.1", 0), Answers)
    server.files = {
        **{file.name: file.read_bytes() for file in source.iterdir()},
        "pytorch_model.bin": b"pickle",
        "modeling_own.py": b"code",
    }
    server.asked, server.free = [], Event()
    server.free.set()
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", endpoint + "/{repo_id}/resolve/{revision}/{filename}")
    yield server
    server.free.set()
    server.shutdown()
    server.server_close()
    thread.join()


def test_fetch_downloads_what_is_needed_and_nothing_that_runs(
    served: Hub, hub: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fetch", "org/model", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert Path(report["path"]) == hub / "models--org--model" / "snapshots" / COMMIT
    assert {file.name for file in Path(report["path"]).iterdir()} == set(served.files) - {
        "pytorch_model.bin",
        "modeling_own.py",
    } - {name for name in served.files if name.endswith(".md")}
    assert open_named("org/model").report().family == "qwen3_5"
    served.asked.clear()
    assert main(["fetch", "org/model"]) == 0
    assert "org/model: " in capsys.readouterr().out
    assert not any("resolve" in asked for asked in served.asked), "what is there is not fetched again"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_download_is_left_at_once_and_gone_on_with(served: Hub, hub: Path, number: signal.Signals) -> None:
    """The library's threads would wait for the whole file."""
    served.free.clear()
    heed = "import signal; [signal.signal(number, signal.SIG_DFL) for number in (2, 15)]; "
    command = (sys.executable, "-c", f"{heed}from eredu.commands.entry import run; run()", "fetch", "org/model")
    places = {"HF_ENDPOINT": constants.ENDPOINT, "HF_HUB_CACHE": str(hub), "HF_HUB_DISABLE_XET": "1"}
    with subprocess.Popen(command, env={**os.environ, **places}, stderr=subprocess.PIPE, text=True) as process:
        while "half of a file is given" not in served.asked:
            assert process.poll() is None, process.communicate()
            time.sleep(0.02)
        process.send_signal(number)
        _, said = process.communicate(timeout=20)
    assert (process.returncode, said) == (128 + number, "")
    with pytest.raises(CheckpointError, match="in part"):
        open_named("org/model")
    served.free.set()
    assert main(["fetch", "org/model"]) == 0
    assert open_named("org/model").report().family == "qwen3_5"


def test_fetch_says_why_it_cannot(served: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    for name, said in (
        ("org/other", "there is no such model, or it is private"),
        ("org/gated", "its terms must be accepted first, at http://127.0.0.1"),
        ("org/model/none.gguf", "has no file 'none.gguf'"),
    ):
        assert main(["fetch", name]) == 2
        printed = capsys.readouterr()
        assert said in printed.err, printed
        assert printed.err.count("\n") == 1, printed
    served.files = {"pytorch_model.bin": b"pickle"}
    assert main(["fetch", "org/model"]) == 2
    assert "neither SafeTensors nor GGUF" in capsys.readouterr().err
    served.files = {"a-Q4_0.gguf": b"GGUF", "a-Q8_0.gguf": b"GGUF"}
    assert main(["fetch", "org/model"]) == 2
    assert "has 2 GGUF models; name one, as in: eredu fetch org/model/a-Q4_0.gguf" in capsys.readouterr().err


@pytest.mark.usefixtures("hub")
def test_without_a_network_fetch_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fetch", "org/model"]) == 2
    said = capsys.readouterr().err
    assert "'org/model' could not be fetched: https://huggingface.co cannot be reached from here" in said
    assert said.count("\n") == 1


def test_the_cache_is_that_of_the_hubs_own_library(hub: Path) -> None:
    assert hub_cache.repository_folder("org/name") == hub / "models--org--name"
