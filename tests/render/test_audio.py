import wave

import numpy as np
import pytest

from musictx.errors import UserError
from musictx.notes import Score
from musictx.render import audio
from tests.pieces import line
from tests.render import fonts as f

SCORE = line(*range(50, 80, 3), every=0.37, length=0.41)


@pytest.fixture
def font(tmp_path):
    return f.build(tmp_path / "x.sf2", [f.sine()], [[{f.LOOP: 1, f.RELEASE: 0, f.SAMPLE: 0}]])


def test_files_are_stereo_16_bit_never_clip_and_repeat_to_the_byte(font, tmp_path):
    notes = [(0.0, 1.0, 69, 127, 0, False, 0)] * 20  # twenty times full scale
    paths = [audio.write(Score(notes=notes), tmp_path / n, soundfont=font) for n in ("a.wav", "b")]
    with wave.open(str(paths[0])) as file:
        assert file.getparams()[:3] == (2, 2, 44100)
        frames = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    assert np.abs(frames.astype(int)).max() == round(audio.PEAK * 32767)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.wav", "b", "x.sf2"]


def test_reverb_in_blocks_is_a_plain_convolution():
    random = np.random.default_rng(3)
    response = audio._impulse_responses(8000).astype(np.float64)
    sound = np.zeros((2, 3 * audio.HOP + 777), np.float32)
    at = random.integers(0, sound.shape[1], 40)
    sound[:, at] = random.standard_normal((2, 40))
    cut = 2 * audio.HOP
    sent = np.concatenate((sound, sound.sum(axis=0, keepdims=True)))
    pieces = [*audio._add_reverb((sent[:, :cut], sent[:, cut:]), 8000)]
    expected = np.zeros((2, sound.shape[1] + response.shape[1]))
    expected[:, : sound.shape[1]] = sound
    for i in np.flatnonzero(sound[0]):
        expected[:, i : i + response.shape[1]] += float(sound[:, i].sum()) * response
    assert np.abs(np.concatenate(pieces, axis=1) - expected).max() < 1e-5


def test_a_pedal_holds_notes(font):
    notes = [(0.0, 0.2, 69, 90, 0, False, 0)]
    plain = Score(notes=notes)
    held = Score(notes=notes, pedals=[(0.1, 127, 0), (2.0, 0, 0)])
    sounds = [f.sound_of(s, font) for s in (plain, held)]
    assert np.abs(sounds[0][44100 * 17 // 10 :]).max(initial=0) < 1e-4
    assert np.abs(sounds[1][44100 * 17 // 10 : 44100 * 19 // 10]).max() > 0.1


def test_a_path_that_cannot_be_written_is_refused_and_nothing_is_left(font, tmp_path):
    (tmp_path / "b.wav").mkdir()
    for place in (font / "a.wav", tmp_path / "b.wav"):
        with pytest.raises(UserError, match=rf"{place.name}: cannot be written"):
            audio.write(SCORE, place, soundfont=font)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b.wav", "x.sf2"]


def test_the_included_piano_sounds_the_notes_that_are_written():
    """The energy is at the harmonics of each note, except the noise of the hammers and overtones
    that stiff strings make sharp."""
    keys = np.arange(28, 100, 6)
    samples = f.sound_of(line(*keys.tolist(), every=1.5, length=1.0)).mean(axis=1)
    assert np.all(np.isfinite(samples))
    for i, key in enumerate(keys):
        part = samples[round((i * 1.5 + 0.05) * 44100) :][: 1 << 15]
        power = np.abs(np.fft.rfft(part * np.hanning(len(part)))) ** 2
        hertz = np.arange(len(power)) * 44100 / len(part)
        fundamental = 440 * 2 ** ((key - 69) / 12)
        order = hertz / fundamental
        width = np.maximum(0.04 * np.sqrt(np.round(order)), 4 / fundamental)  # 4 Hz: the window's
        near = (np.abs(order - np.round(order)) < width) & (order > 0.5)
        assert power[near].sum() / power.sum() > 0.92, key
        strongest = order[np.argmax(power)]
        assert abs(strongest - round(strongest)) < 0.03 * round(strongest), key


def test_block_boundaries_make_no_difference(font, monkeypatch):
    score = Score(notes=np.concatenate([SCORE.shifted(7.3 * k).notes for k in range(3)]))
    sounds = []
    for seconds in (1.0, 7.0):
        monkeypatch.setattr(audio, "BLOCK_SECONDS", seconds)
        sounds.append(f.sound_of(score, font, reverb=True, rate=22050))
    assert len(sounds[0]) > 19 * 22050  # six blocks and two
    assert np.array_equal(*sounds)


def test_a_mix_makes_tracks_louder_moves_them_and_gives_each_its_reverb(font):
    notes = [(0.0, 0.5, 69, 90, 0, False, 0), (5.0, 5.5, 69, 90, 0, False, 1)]
    score, first = Score(notes=notes), slice(0, 4 * 44100)
    dry, plain = (f.sound_of(score, font, reverb=on) for on in (False, True))
    second, room = slice(5 * 44100, len(dry)), plain[: len(dry)] - dry
    mix = {0: (0.5, 0.0, 0.0), 1: (1.0, 0.0, 2.0)}
    mixed = f.sound_of(score, font, reverb=True, mix=mix)
    assert np.abs(room[second]).max() > 1e-3
    assert np.allclose(mixed[first], dry[first] / 2, atol=1e-6)
    assert np.allclose(mixed[second] - dry[second], 2 * room[second], atol=1e-5)
    right = f.sound_of(score, font, reverb=True, mix={1: (1.0, 1.0, 0.0)})[second]
    assert np.abs(right[:, 0]).max() < 1e-3 * np.abs(right[:, 1]).max()


#: Generators, measured in the sound of a font whose only recording is a sine.
RATE = 44100
FULL = 96  # the velocity at which filters stand as the font says


def play(tmp_path, zone=None, note=(0.0, 1.0, 69, FULL), *, sound=None, rate=RATE):
    """(n, 2) dry samples of one note."""
    instrument = [{f.LOOP: 1, f.SAMPLE: 0} | (zone or {})]
    path = f.build(tmp_path / "x.sf2", [sound or f.sine()], [instrument])
    score = Score(notes=[(*note, 0, False, 0)])
    return f.sound_of(score, path, rate=rate)


def level(samples, start, end, rate=RATE):
    """Root mean square between two seconds, dB."""
    part = samples[round(start * rate) : round(end * rate)]
    return 10 * np.log10(np.mean(part.astype(np.float64) ** 2) + 1e-30)


@pytest.mark.parametrize(
    ("zone", "rate", "hertz"),
    [
        *(({}, rate, 441) for rate in (8000, 22050, 48000)),
        ({f.COARSE: -12, f.FINE: 50}, RATE, 220.5 * 2 ** (50 / 1200)),
        ({f.ROOT: 57}, RATE, 882),
        ({f.ROOT: 57, f.KEY_CENTS: 50}, RATE, 441 * 2**0.5),
    ],
)
def test_a_note_has_its_pitch_at_every_sample_rate_and_tuning(zone, rate, hertz, tmp_path):
    mono = play(tmp_path, zone, rate=rate)[: rate // 2].mean(axis=1)
    spectrum = np.abs(np.fft.rfft(mono * np.hanning(len(mono)), 1 << 20))
    assert np.argmax(spectrum) * rate / (1 << 20) == pytest.approx(hertz, abs=0.3)


def test_a_loop_joins_without_a_seam_and_what_is_not_looped_ends_with_its_recording(tmp_path):
    assert len(play(tmp_path, {f.LOOP: 0})) < 0.2 * RATE
    mono = play(tmp_path, note=(0, 3, 70, FULL))[RATE : 2 * RATE].mean(axis=1)
    spectrum = np.abs(np.fft.rfft(mono * np.blackman(len(mono)))) ** 2
    peak = np.argmax(spectrum)
    around = np.zeros(len(spectrum), bool)
    around[peak - 20 : peak + 21] = True
    assert 10 * np.log10(spectrum[~around].sum() / spectrum[around].sum()) < -60


def test_higher_velocities_are_louder_and_attenuation_lowers_by_its_decibels(tmp_path):
    change = level(play(tmp_path, {f.ATTENUATION: 250}), 0.1, 0.9) - level(play(tmp_path), 0.1, 0.9)
    assert change == pytest.approx(-10.0, abs=0.01)
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
        faded = level(samples, 0.5 + after - 0.01, 0.5 + after + 0.01)
        assert faded - full == pytest.approx(-100 * after, abs=0.5)
    assert len(play(tmp_path, note=(0, 0.5, 69, FULL))) < 0.52 * RATE  # the font's default: at once


def test_a_font_s_pan_moves_its_sound(tmp_path):
    for pan, left, right in ((-500, 1, 0), (0, 0.5**0.5, 0.5**0.5)):
        strength = np.sqrt(np.mean(play(tmp_path, {f.PAN: pan}).astype(np.float64) ** 2, axis=0))
        assert strength / np.hypot(*strength) == pytest.approx([left, right], abs=1e-5)


def response(tmp_path, hertz, zone):
    """Return the dB by which a filter changes a sine of ``hertz``."""
    sound = f.sine(hertz=hertz, rate=44100, seconds=0.2)
    with_filter = play(tmp_path, zone, sound=sound)
    return level(with_filter, 0.3, 0.9) - level(play(tmp_path, sound=sound), 0.3, 0.9)


def test_the_low_pass_follows_its_cutoff_and_resonance(tmp_path):
    zone = {f.CUTOFF: 8100}  # 880 Hz, one of the cutoffs for which filters are computed
    assert response(tmp_path, 882.0, zone) == pytest.approx(-3.0, abs=0.1)
    far = 3675 / 880  # times the cutoff: 12 dB an octave
    assert response(tmp_path, 3675.0, zone) == pytest.approx(-40 * np.log10(far), abs=0.1)
    assert response(tmp_path, 88.2, zone) == pytest.approx(0, abs=0.1)
    peaked = zone | {f.RESONANCE: 200}  # 20 dB, half of which lowers the level
    assert response(tmp_path, 882.0, peaked) == pytest.approx(-3 + 20 - 10, abs=0.5)
    assert response(tmp_path, 88.2, peaked) == pytest.approx(-10, abs=0.3)


def test_the_modulation_envelope_opens_and_closes_the_filter(tmp_path):
    zone = {f.CUTOFF: 6900, f.CUTOFF_ENVELOPE: 4800, f.MOD_SUSTAIN: 1000}
    zone |= {f.MOD_ATTACK: f.cents(0.5), f.MOD_DECAY: f.cents(1.0)}
    sound = f.sine(hertz=1764.0, rate=44100, seconds=0.2)
    samples = play(tmp_path, zone, note=(0, 2, 69, FULL), sound=sound)
    levels = [level(samples, t, t + 0.02) for t in (0.04, 0.25, 0.5, 0.9, 1.3)]
    assert np.sign(np.diff(levels)).tolist() == [1, 1, -1, -1]


def test_partials_above_the_output_rate_are_silent_instead_of_aliased(tmp_path):
    """5292 Hz does not fit into 8000 samples a second; it must not come out as 2708 Hz."""
    sound = f.sine(hertz=1764.0, rate=44100, seconds=0.2)
    zone = {f.ROOT: 50}
    fits = play(tmp_path, zone, note=(0, 1, 50, FULL), sound=sound, rate=8000)
    too_high = play(tmp_path, zone, note=(0, 1, 69, FULL), sound=sound, rate=8000)
    assert level(fits, 0.2, 0.9, 8000) > -30
    assert level(too_high, 0.2, 0.9, 8000) < -80
