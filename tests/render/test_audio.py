from __future__ import annotations

import wave

import numpy as np
import pytest

from musictx.errors import UserError
from musictx.notes import Score
from musictx.render import audio
from tests.pieces import line
from tests.render import fonts as f

SCORE = Score(
    notes=[
        (0.1 + 0.37 * i, 0.4 + 0.41 * i, 50 + 7 * i % 30, 30 + 9 * i, 0, False, 0)
        for i in range(10)
    ]
)


@pytest.fixture
def font(tmp_path):
    return f.build(tmp_path / "x.sf2", [f.sine()], [[{f.LOOP: 1, f.RELEASE: 0, f.SAMPLE: 0}]])


def read(path):
    with wave.open(str(path)) as file:
        assert (file.getnchannels(), file.getsampwidth()) == (2, 2)
        frames = np.frombuffer(file.readframes(file.getnframes()), "<i2")
        return frames.reshape(-1, 2), file.getframerate()


def test_files_are_stereo_16_bit_never_clip_and_repeat_to_the_byte(font, tmp_path):
    notes = [(0.0, 1.0, 69, 127, 0, False, 0)] * 20  # twenty times full scale
    paths = [audio.write(Score(notes=notes), tmp_path / n, soundfont=font) for n in ("a.wav", "b")]
    frames, rate = read(paths[0])
    assert rate == 44100
    assert np.abs(frames.astype(int)).max() == round(audio.PEAK * 32767)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.wav", "b", "x.sf2"]


def test_rests_are_silent_and_reverberation_is_light_wide_and_fades_out(font):
    score = Score(notes=[(1.0, 2.0, 69, 90, 0, False, 0), (9.0, 9.1, 69, 90, 0, False, 0)])
    dry, wet = (f.sound_of(score, font, reverb=reverb) for reverb in (False, True))
    assert np.abs(wet[:44100]).max() < 1e-6
    assert np.abs(wet[6 * 44100 : 9 * 44100]).max() < 1e-6
    assert np.abs(wet[-2000:]).max() < 1e-3 * np.abs(wet).max()
    part = slice(44100 * 3 // 2, 2 * 44100)
    added = (wet[: len(dry)] - dry)[part].astype(float)
    assert -25 < 10 * np.log10(np.mean(added**2) / np.mean(dry[part].astype(float) ** 2)) < -3
    left, right = added.T
    assert np.mean((left - right) ** 2) > 0.1 * np.mean((left + right) ** 2)


def test_the_room_is_the_plain_convolution_however_it_is_cut():
    random = np.random.default_rng(3)
    response = audio._impulse_responses(8000).astype(np.float64)
    sound = np.zeros((2, 3 * audio.HOP + 777), np.float32)
    at = random.integers(0, sound.shape[1], 40)
    sound[:, at] = random.standard_normal((2, 40))
    room = audio._Room(8000)
    cut = 2 * audio.HOP
    sent = np.concatenate((sound, sound.sum(axis=0, keepdims=True)))
    pieces = [room.add_to(sent[:, :cut]), room.add_to(sent[:, cut:]), room.rest()]
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


def test_what_cannot_be_written_or_played_is_refused_and_leaves_nothing(font, tmp_path):
    (tmp_path / "b.wav").mkdir()
    for place in (font / "a.wav", tmp_path / "b.wav"):
        with pytest.raises(UserError, match=rf"{place.name}: cannot be written"):
            audio.write(SCORE, place, soundfont=font)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["b.wav", "x.sf2"]


def test_the_included_piano_sounds_the_notes_that_are_written():
    """The energy lies at the harmonics of each, but for the knock of the hammers and for overtones
    that the strings' stiffness makes sharp."""
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


def test_a_mix_makes_tracks_louder_moves_them_and_gives_each_its_reverberation(font):
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
