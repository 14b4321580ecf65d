"""Compiling on first use: once, for this machine, with one clear message if it fails."""

import multiprocessing
import re
import stat
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path

import pytest
import torch

from musictx import bundle, shipped
from musictx.attention.job import Job
from musictx.errors import UserError
from musictx.speed import native
from musictx.speed.native import build, library
from musictx.speed.step import why_not
from scripts import wheels


@pytest.fixture
def unbuilt(monkeypatch, tmp_path):
    """A process that has not tried to load the library, and the path of its empty cache."""
    monkeypatch.setenv("MUSICTX_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(native, "_missing", cache(native._missing.__wrapped__))
    monkeypatch.setattr(library, "load", library.load.__wrapped__)
    return tmp_path / "cache"


def compiler_that(folder: Path, script: str) -> Path:
    """An executable that notes each compilation in ``folder``/calls and runs ``script``."""
    path = folder / "compiler"
    path.write_text(
        "#!/bin/sh\n"
        'if [ "$1" = --version ]; then echo "compiler 1.0"; exit 0; fi\n'
        f'echo "$@" >> "{folder}/calls"\n{script}\n'
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def calls(folder: Path) -> int:
    notes = folder / "calls"
    return len(notes.read_text().splitlines()) if notes.exists() else 0


WRITES = 'while [ "$1" != -o ]; do shift; done; echo {} > "$2"'
FAILS = 'echo "kernel.cpp:1: error: no such flag" >&2; echo "compilation ended." >&2; exit 1'


@pytest.mark.parametrize(
    ("script", "environment", "words", "compilations"),
    [
        (None, {"PATH": "{tmp}"}, r"no C\+\+ compiler .*CXX.*attention=chunked", 0),
        (None, {"CXX": "nonesuch -O3"}, "CXX=nonesuch -O3 is not installed", 0),
        (FAILS, {}, r"failed \(kernel.cpp:1: error: no such flag\)", 1),
        (FAILS, {"MUSICTX_CACHE": "{tmp}/file/cache"}, r"file/cache .*MUSICTX_CACHE", 0),
        (WRITES.format("rubbish"), {}, r"cannot load .*kernel-.*\.so .* delete it", 1),
    ],
    ids=["no compiler", "not installed", "failed", "no cache", "does not load"],
)
def test_a_failed_build_gives_one_sentence_and_is_not_tried_again(
    script, environment, words, compilations, unbuilt, monkeypatch, tmp_path
):
    (tmp_path / "file").touch()
    monkeypatch.delenv("CXX", raising=False)
    if script:
        monkeypatch.setenv("CXX", str(compiler_that(tmp_path, script)))
    for name, value in environment.items():
        monkeypatch.setenv(name, value.format(tmp=tmp_path))
    for _ in range(3):
        reason = native.unsupported_reason(Job(device="cpu"))
        assert re.search(words, reason)
        assert "\n" not in reason
    assert calls(tmp_path) == compilations
    if script == FAILS and compilations:
        assert [p.suffix for p in unbuilt.iterdir()] == [".lock"], "no partial file is left"


def test_a_prebuilt_library_for_this_cpu_is_used_unless_disabled(monkeypatch, tmp_path):
    source, library_path = tmp_path / "some.cpp", tmp_path / f"some-x86-64-v3{build.SUFFIX}"
    library_path.touch()
    monkeypatch.setattr(build, "_X86", True)
    for widest, name in (("AVX512", "x86-64-v4-bf16"), ("AVX2", "x86-64-v3"), ("DEFAULT", None)):
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda it=widest: it)
        monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True, raising=False)
        assert build.variant() == name
        assert build.prebuilt_path(source) == (library_path if name == "x86-64-v3" else None)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    monkeypatch.setenv("MUSICTX_COMPILE", "1")
    assert build.prebuilt_path(source) is None


@pytest.mark.parametrize("name", shipped.models())
def test_the_step_of_a_wheel_has_the_features_of_every_included_model(name):
    model = bundle.load(name).model
    assert why_not(model) is None
    forms = [feature.native() for feature in model.features]
    assert {(form.struct, form.header) for form in forms} <= set(wheels.feature_headers())


def test_a_mac_without_tools_is_not_asked_to_compile(monkeypatch, tmp_path):
    """There /usr/bin/c++ opens a window; a compiler in another folder is used."""
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(sys, "platform", "darwin")
    for folder, tools in (("/usr/bin", 0), ("/opt/homebrew/bin", 2), ("/usr/bin", 2)):
        done = subprocess.CompletedProcess("xcode-select", tools)
        monkeypatch.setattr(build, "_run", lambda words, it=done: it)
        monkeypatch.setattr(build.shutil, "which", lambda name, at=folder: f"{at}/{name}")
        if (folder, tools) != ("/usr/bin", 2):
            assert build.compiler() == ["c++"]
    with pytest.raises(UserError, match="no C\\+\\+ compiler"):
        build.compiler()


def test_a_library_is_only_for_its_source_compiler_and_cpu(unbuilt, monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", str(compiler_that(tmp_path, WRITES.format("built"))))
    source = tmp_path / "some.cpp"
    source.write_text("one")
    first = build.library_path(source)
    assert first.read_text() == "built\n"
    assert build.library_path(source) == first
    assert calls(tmp_path) == 1
    source.write_text("two")
    second = build.library_path(source)
    monkeypatch.setenv("CXX", f"{tmp_path}/compiler -O1")
    third = build.library_path(source)
    monkeypatch.setattr(build, "cpu_features", lambda: frozenset(["other"]))
    fourth = build.library_path(source)
    assert len({first, second, third, fourth}) == 4
    assert calls(tmp_path) == 4


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_two_processes_at_once_build_once(unbuilt, monkeypatch, tmp_path):
    compiler = compiler_that(tmp_path, "sleep 1; " + WRITES.format("built"))
    monkeypatch.setenv("CXX", str(compiler))
    with ProcessPoolExecutor(3, multiprocessing.get_context("fork")) as pool:
        texts = [path.read_text() for path in pool.map(build.library_path, [library.SOURCE] * 3)]
    assert texts == ["built\n"] * 3
    assert calls(tmp_path) == 1
    assert sorted(p.suffix for p in unbuilt.iterdir()) == [".lock", ".so"]
