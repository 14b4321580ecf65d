"""Generators measured in the sound of a font whose only recording is a sine."""

from __future__ import annotations

import numpy as np
import pytest

from musictx.notes import Score
from tests.render import fonts as f

RATE = 44100
FULL = 96  # the velocity at which filters stand as the font says


def play(tmp_path, zone=None, note=(0.0, 1.0, 69, FULL), *, sound=None, rate=RATE):
    """(n, 2) dry samples of one note."""
    instrument = [{f.LOOP: 1, f.SAMPLE: 0} | (zone or {})]
    path = f.build(tmp_path / "x.sf2", [sound or f.sine()], [instrument])
    score = Score(notes=[(*note, 0, False, 0)])
    return f.sound_of(score, path, rate=rate)


def pitch(samples, rate=RATE):
    """Hertz of the strongest partial."""
    mono = samples[: rate // 2].mean(axis=1)
    spectrum = np.abs(np.fft.rfft(mono * np.hanning(len(mono)), 1 << 20))
    return np.argmax(spectrum) * rate / (1 << 20)


def level(samples, start, end, rate=RATE):
    """Root mean square between two seconds, dB."""
    part = samples[round(start * rate) : round(end * rate)]
    return 10 * np.log10(np.mean(part.astype(np.float64) ** 2) + 1e-30)


@pytest.mark.parametrize("rate", [8000, 22050, 44100, 48000])
def test_a_note_has_its_pitch_at_every_sample_rate(rate, tmp_path):
    octave = play(tmp_path, note=(0, 1, 81, FULL), rate=rate)
    assert pitch(octave, rate) == pytest.approx(882, abs=0.3)


@pytest.mark.parametrize(
    ("zone", "hertz"),
    [
        ({f.COARSE: -12, f.FINE: 50}, 220.5 * 2 ** (50 / 1200)),
        ({f.ROOT: 57}, 882),
        ({f.ROOT: 57, f.KEY_CENTS: 50}, 441 * 2**0.5),
    ],
)
def test_tuning_generators(zone, hertz, tmp_path):
    assert pitch(play(tmp_path, zone)) == pytest.approx(hertz, abs=0.3)


def test_a_loop_joins_without_a_seam_and_what_is_not_looped_ends_with_its_recording(tmp_path):
    """A looped sine stays a pure sine, far beyond the end of the recording."""
    assert len(play(tmp_path, {f.LOOP: 0})) < 0.2 * RATE
    mono = play(tmp_path, note=(0, 3, 70, FULL))[RATE : 2 * RATE].mean(axis=1)
    spectrum = np.abs(np.fft.rfft(mono * np.blackman(len(mono)))) ** 2
    peak = np.argmax(spectrum)
    around = np.zeros(len(spectrum), bool)
    around[peak - 20 : peak + 21] = True
    assert 10 * np.log10(spectrum[~around].sum() / spectrum[around].sum()) < -60


def test_louder_keys_sound_louder_and_attenuation_lowers_by_its_decibels(tmp_path):
    by = level(play(tmp_path, {f.ATTENUATION: 250}), 0.1, 0.9) - level(play(tmp_path), 0.1, 0.9)
    assert by == pytest.approx(-10.0, abs=0.01)
    levels = [level(play(tmp_path, note=(0, 0.3, 69, v)), 0, 0.3) for v in range(1, 128, 9)]
    assert all(np.diff(levels) > 0.3)
    assert level(play(tmp_path, note=(0, 0.3, 69, 1)), 0, 0.3) > -120


def test_envelope_delays_rises_holds_falls_and_stays(tmp_path):
    zone = {
        f.DELAY: f.cents(0.2),
        f.ATTACK: f.cents(0.4),
        f.HOLD: f.cents(0.2),
        f.DECAY: f.cents(2.0),  # 50 dB a second
        f.SUSTAIN: 200,  # 20 dB down
    }
    samples = play(tmp_path, zone, note=(0, 3, 69, FULL))
    full = level(play(tmp_path), 0.5, 0.7)
    assert np.all(samples[: round(0.199 * RATE)] == 0)
    assert level(samples, 0.39, 0.41) - full == pytest.approx(-6.02, abs=0.2)  # half, linearly
    assert level(samples, 0.62, 0.78) - full == pytest.approx(0, abs=0.05)
    assert level(samples, 0.99, 1.01) - full == pytest.approx(-10, abs=0.3)
    assert level(samples, 1.3, 2.9) - full == pytest.approx(-20, abs=0.05)


def test_a_released_key_fades_by_its_release_time(tmp_path):
    samples = play(tmp_path, {f.RELEASE: f.cents(1.0)}, note=(0, 0.5, 69, FULL))
    full = level(samples, 0.2, 0.5)
    for after in (0.1, 0.3, 0.6):
        here = level(samples, 0.5 + after - 0.01, 0.5 + after + 0.01)
        assert here - full == pytest.approx(-100 * after, abs=0.5)
    assert len(play(tmp_path, note=(0, 0.5, 69, FULL))) < 0.52 * RATE  # the font's default: at once


@pytest.mark.parametrize(
    ("pan", "left", "right"), [(-500, 1, 0), (0, 0.5**0.5, 0.5**0.5), (500, 0, 1)]
)
def test_pan_keeps_the_power(pan, left, right, tmp_path):
    samples = play(tmp_path, {f.PAN: pan})
    strength = np.sqrt(np.mean(samples.astype(np.float64) ** 2, axis=0))
    assert strength / np.hypot(*strength) == pytest.approx([left, right], abs=1e-5)


def response(tmp_path, hertz, zone):
    """dB by which a filter changes a sine of ``hertz``."""
    sound = f.sine(hertz=hertz, rate=44100, seconds=0.2)
    with_filter = play(tmp_path, zone, sound=sound)
    return level(with_filter, 0.3, 0.9) - level(play(tmp_path, sound=sound), 0.3, 0.9)


def test_the_low_pass_follows_its_cutoff_and_resonance(tmp_path):
    at = {f.CUTOFF: 8100}  # a whole step of the grid of levels: 880 Hz
    assert response(tmp_path, 882.0, at) == pytest.approx(-3.0, abs=0.1)
    far = 3675 / 880  # times the cutoff: 12 dB an octave
    assert response(tmp_path, 3675.0, at) == pytest.approx(-40 * np.log10(far), abs=0.1)
    assert response(tmp_path, 88.2, at) == pytest.approx(0, abs=0.1)
    peaked = at | {f.RESONANCE: 200}  # 20 dB, of which half is taken off the level
    assert response(tmp_path, 882.0, peaked) == pytest.approx(-3 + 20 - 10, abs=0.5)
    assert response(tmp_path, 88.2, peaked) == pytest.approx(-10, abs=0.3)


def test_the_modulation_envelope_opens_and_closes_the_filter_without_steps(tmp_path):
    zone = {f.CUTOFF: 6900, f.CUTOFF_ENVELOPE: 4800, f.MOD_SUSTAIN: 1000}
    zone |= {f.MOD_ATTACK: f.cents(0.5), f.MOD_DECAY: f.cents(1.0)}
    sound = f.sine(hertz=1764.0, rate=44100, seconds=0.2)
    samples = play(tmp_path, zone, note=(0, 2, 69, FULL), sound=sound)
    levels = np.array([level(samples, t, t + 0.02) for t in np.arange(0.04, 1.9, 0.02)])
    top = np.argmax(levels)
    assert 0.4 < 0.04 + 0.02 * top < 0.6
    assert np.all(np.diff(levels[:top]) > -0.05)
    assert np.all(np.diff(levels[top:]) < 0.05)
    # 4800 cents in half a second at 12 dB an octave are 1.9 dB in 20 ms; a step of the grid is 3.
    assert np.abs(np.diff(levels)).max() < 2.3


def test_what_the_output_rate_cannot_hold_is_silent_instead_of_false(tmp_path):
    """5292 Hz does not fit into 8000 samples a second; it must not come out as 2708 Hz."""
    sound = f.sine(hertz=1764.0, rate=44100, seconds=0.2)
    zone = {f.ROOT: 50}
    fits = play(tmp_path, zone, note=(0, 1, 50, FULL), sound=sound, rate=8000)
    too_high = play(tmp_path, zone, note=(0, 1, 69, FULL), sound=sound, rate=8000)
    assert level(fits, 0.2, 0.9, 8000) > -30
    assert level(too_high, 0.2, 0.9, 8000) < -80
    absurd = {f.ROOT: 26, f.KEY_CENTS: 1200, f.FINE: 2}  # a hundred octaves above the recording
    assert level(play(tmp_path, absurd, note=(0, 0.3, 84, FULL), rate=8000), 0, 0.3, 8000) < -60
