"""``musictx doctor``: one page, true of this machine; a self-test that can fail."""

import webbrowser
from unittest.mock import Mock

import torch

from musictx import cli, registry
from musictx.apps import doctor
from musictx.attention import api


def test_one_page_says_what_is_there_and_what_is_taken(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "SECONDS", 0.2)
    assert cli.main(["doctor"]) == 0
    page = capsys.readouterr().out
    rows = dict(line.split(None, 1) for line in page.splitlines() if line[0] != " ")
    assert {"system", "CPU", "GPU", "device", "attention", "self-test"} <= set(rows)
    assert all(f"\n{name}" in page for name in registry.CHECKS)
    assert rows["attention"].startswith(tuple(api.MODULES))


def test_attention_that_is_wrong_here_is_noticed(monkeypatch, capsys):
    monkeypatch.setattr(doctor, "SECONDS", 0.2)
    attend = doctor.attention.attend

    def wrong(*inputs, implementation):
        out = attend(*inputs, implementation=implementation)
        return out if implementation == "reference" else out + 0.1 * torch.ones_like(out)

    monkeypatch.setattr(doctor.attention, "attend", wrong)
    assert cli.main(["doctor"]) == 2
    assert "attention on this machine is wrong in torch.float32" in capsys.readouterr().err


def test_ports_and_browsers_are_never_a_reason_to_fail(monkeypatch):
    raises = Mock(side_effect=webbrowser.Error("no ALSA"))
    ports, browser = (registry.load(registry.CHECKS[n]) for n in ("MIDI ports", "browser"))
    monkeypatch.setattr("mido.get_output_names", raises)
    assert "no ALSA" in ports()
    monkeypatch.setattr("webbrowser.get", raises)
    assert "prints the address" in browser()
