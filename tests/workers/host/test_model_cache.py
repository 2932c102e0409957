"""The worker's models: verified by hash, kept within a size, never taken away while in use."""

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sample_results

from workers.documents.model import ModelFile, ModelManifest
from workers.host.model_cache import BadModel, ModelCache


class Files:
    """A source with files in memory that counts how often it is asked."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files, self.asked = files, 0

    def file(self, path: str) -> Iterator[bytes]:
        self.asked += 1
        yield self.files[path]


def _manifest(digest: str, files: dict[str, bytes]) -> ModelManifest:
    listed = [
        ModelFile(path=path, sha256=hashlib.sha256(content).hexdigest(), size=len(content))
        for path, content in files.items()
    ]
    return sample_results.manifest().model_copy(update={"content_digest": digest, "files": listed, "generated": False})


def test_it_fetches_each_content_of_a_model_once(tmp_path: Path) -> None:
    files = {"config.json": b"{}", "sub/weights": b"w" * 100}
    source, cache = Files(files), ModelCache(tmp_path, 1000)
    for _ in range(2):
        with cache.model(_manifest("a1", files), source) as directory:
            assert (directory / "sub/weights").read_bytes() == b"w" * 100
    assert source.asked == 2
    other = {"config.json": b"{ }"}
    assert len({_manifest(*value).digest for value in (("a1", files), ("b2", other))}) == 1
    with cache.model(_manifest("b2", other), Files(other)) as directory:
        assert (directory / "config.json").read_bytes() == b"{ }", "one digest with two contents is two models"


@pytest.mark.parametrize("arrives", [b"W" * 100, b"w" * 99, b"w" * 101, b""])
def test_a_file_that_is_not_the_manifests_is_refused_and_not_kept(tmp_path: Path, arrives: bytes) -> None:
    cache = ModelCache(tmp_path, 1000)
    with (
        pytest.raises(BadModel, match=r"^weights: what arrived"),
        cache.model(_manifest("a1", {"weights": b"w" * 100}), Files({"weights": arrives})),
    ):
        pass
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


@pytest.mark.parametrize("path", ["ä" * 128, f"folder/{'ä' * 128}/weights"])
def test_a_name_too_long_for_the_disk_is_refused_in_a_sentence(tmp_path: Path, path: str) -> None:
    source = Files({path: b"x"})
    with (
        pytest.raises(BadModel, match="a name on the worker's disk has at most 255 bytes"),
        ModelCache(tmp_path, 1000).model(_manifest("a1", {path: b"x"}), source),
    ):
        pass
    assert source.asked == 0


@pytest.mark.parametrize(
    ("digest", "path"),
    [
        *(("a1", value) for value in ("../out", "/etc/passwd", "a/../../out")),
        *((value, "x") for value in ("", "../a", "a/b", ".")),
    ],
)
def test_no_path_or_digest_climbs_out(tmp_path: Path, digest: str, path: str) -> None:
    cache = ModelCache(tmp_path / "cache", 1000)
    with pytest.raises(BadModel), cache.model(_manifest(digest, {path: b"x"}), Files({path: b"x"})):
        pass
    assert {item.name for item in tmp_path.iterdir()} <= {"cache"}


def test_the_least_recently_used_model_goes_first_but_not_one_in_use(tmp_path: Path) -> None:
    cache = ModelCache(tmp_path, 250)
    files = {"config.json": b"w" * 100}
    for age, digest in enumerate(("old", "used", "new")):
        if digest == "new":
            with cache.model(_manifest("old", files), Files(files)):
                os.utime(tmp_path / "old", (1, 1))
                with cache.model(_manifest(digest, files), Files(files)):
                    pass
        else:
            with cache.model(_manifest(digest, files), Files(files)):
                pass
            os.utime(tmp_path / digest, (age + 1, age + 1))
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["new", "old"]


def test_what_a_killed_fetch_left_is_removed(tmp_path: Path) -> None:
    for digest in ("a1", "b2"):
        (tmp_path / f".draft-{digest}").mkdir()
        (tmp_path / f".draft-{digest}" / "weights").write_bytes(b"half")
    files = {"config.json": b"{}"}
    with ModelCache(tmp_path, 1000).model(_manifest("a1", files), Files(files)) as directory:
        assert [path.name for path in directory.iterdir()] == ["config.json"]
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["a1"]


def _truncate(directory: Path) -> None:
    (directory / "sub/weights").write_bytes(b"w" * 99)


def _exchange(directory: Path) -> None:
    times = (directory / "config.json").stat()
    (directory / "config.json").write_bytes(b"[]")
    os.utime(directory / "config.json", ns=(times.st_atime_ns, times.st_mtime_ns))


def _lose(directory: Path) -> None:
    (directory / "config.json").unlink()


def _add(directory: Path) -> None:
    (directory / "tokenizer.json").write_bytes(b"{}")


def _link(directory: Path) -> None:
    (directory / "sub").rename(directory.parent / "elsewhere")
    (directory / "sub").symlink_to(directory.parent / "elsewhere")


def _link_whole(directory: Path) -> None:
    directory.rename(directory.parent / "elsewhere")
    directory.symlink_to(directory.parent / "elsewhere")


@pytest.mark.parametrize("change", [_truncate, _exchange, _lose, _add, _link, _link_whole])
def test_what_was_changed_on_the_disk_is_fetched_again(tmp_path: Path, change: Callable[[Path], None]) -> None:
    files = {"config.json": b"{}", "sub/weights": b"w" * 100}
    source, cache = Files(files), ModelCache(tmp_path, 1000)
    with cache.model(_manifest("a1", files), source) as directory:
        pass
    change(directory)
    with cache.model(_manifest("a1", files), source) as directory:
        assert not directory.is_symlink()
        assert {str(path.relative_to(directory)) for path in directory.rglob("*")} == {*files, "sub"}
        assert all((directory / path).read_bytes() == content for path, content in files.items())
        assert not (directory / "sub").is_symlink()
    assert source.asked == 4
