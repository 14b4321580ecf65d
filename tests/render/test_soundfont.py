import hashlib
import io
from functools import partial

import numpy as np
import pytest
import soundfile

from musictx.config.limits import Limits
from musictx.errors import UserError
from musictx.render.soundfont import INCLUDED_FONT, SoundFont, decode
from tests.render import fonts as f


def zones(tmp_path, instrument, preset):
    path = f.build(tmp_path / "x.sf2", [f.sine()], [instrument], {(0, 0): preset})
    return SoundFont(path).zones(0)


def test_preset_generators_add_to_those_of_instruments_but_not_to_samples(tmp_path):
    instrument = {f.COARSE: 3, f.FINE: -20, f.ATTENUATION: 50, f.PAN: -100, f.SAMPLE: 0}
    instrument |= {f.ROOT: 57, f.LOOP: 1, f.KEYS: f.span(40, 70), f.VELOCITIES: f.span(0, 99)}
    instrument |= {f.START: 10, f.END: -20}
    preset = {f.COARSE: -1, f.FINE: 5, f.ATTENUATION: 150, f.PAN: 350, f.INSTRUMENT: 0}
    preset |= {f.CUTOFF: -3500, f.RELEASE: 12000}
    preset |= {f.KEYS: f.span(60, 127), f.VELOCITIES: f.span(50, 127)}
    preset |= {f.ROOT: 7, f.START: 5}  # which presets cannot change
    (zone,) = zones(tmp_path, [instrument], [preset])
    assert zone.tuning == 2 * 100 - 15
    assert zone.gain == pytest.approx(10 ** (-0.4 * 20.0 / 20))  # 200 centibel, hardware scale
    assert zone.pan == pytest.approx(0.75)
    assert zone.cutoff == 10000
    assert zone.volume.release == pytest.approx(1.0)
    assert (zone.root, zone.sample.start, zone.sample.end) == (57, 10, len(f.sine().frames) - 20)
    assert not zone.looped  # the loop would end after the sample does
    assert (zone.keys, zone.velocities) == (range(60, 71), range(50, 100))


def test_global_zones_are_defaults_of_the_others_and_make_no_sound(tmp_path):
    instrument = [{f.FINE: 30, f.PAN: 100}, {f.SAMPLE: 0}, {f.FINE: 7, f.SAMPLE: 0}, {f.FINE: 99}]
    both = zones(tmp_path, instrument, [{f.COARSE: 1}, {f.INSTRUMENT: 0}])
    assert [(zone.tuning, zone.pan) for zone in both] == [(130, 0.6), (107, 0.6)]


def test_missing_programs_are_replaced_by_others_of_the_font(tmp_path):
    names = [(0, 0), (0, 5), (128, 0), (128, 8)]
    presets = {key: [{f.FINE: i, f.INSTRUMENT: 0}] for i, key in enumerate(names)}
    font = SoundFont(f.build(tmp_path / "x.sf2", [f.sine()], presets=presets))

    def which(program, drum=False):
        return names[int(font.zones(program, drum)[0].tuning)]

    assert (which(5), which(6)) == ((0, 5), (0, 0))
    assert (which(8, drum=True), which(5, drum=True)) == ((128, 8), (128, 0))
    strings = {(0, 48): [{f.INSTRUMENT: 0}]}
    only_strings = SoundFont(f.build(tmp_path / "y.sf2", [f.sine()], presets=strings))
    assert only_strings.zones(0) == only_strings.zones(3, drum=True) == only_strings.zones(48)


def test_dangling_references_rom_samples_and_absurd_rates_are_left_out(tmp_path):
    rom = f.sine()._replace(kind=0x8001)
    absurd = [f.sine()._replace(rate=rate) for rate in (0, 1, 2**31, 2**32 - 1)]
    instruments = [[{f.SAMPLE: n} for n in (1, 0, 77, 2, 3, 4, 5)]]
    presets = {(0, 0): [{f.INSTRUMENT: 0}, {f.INSTRUMENT: 55}]}
    path = f.build(tmp_path / "x.sf2", [f.sine(), rom, *absurd], instruments, presets)
    assert len(SoundFont(path).zones(0)) == 1


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda data: b"hello, world", "RIFF"),
        (lambda data: data[: len(data) // 2], "ends too early"),
        (lambda data: data.replace(b"shdr", b"xxxx"), "shdr"),
        (lambda data: data.replace(b"smpl", b"xxxx"), "smpl"),
    ],
)
def test_a_file_that_is_no_sound_font_gets_one_sentence(spoil, why, tmp_path):
    path = f.build(tmp_path / "x.sf2", [f.sine()])
    path.write_bytes(spoil(path.read_bytes()))
    sentence = rf"^soundfont=.*x\.sf2: expected an SF2 or SF3 file \(.*{why}"
    with pytest.raises(UserError, match=sentence):
        SoundFont(path)


def test_a_compressed_font_sounds_as_the_plain_one(tmp_path):
    """SF3 counts bytes of the file where SF2 counts frames, and its loops from each recording."""
    sounds = [f.sine(), f.sine(882.0)]
    moved = {f.LOOP: 1, f.START: 10, f.END: -20, f.LOOP_START: -50, f.SAMPLE: 1}
    instruments = [[{f.SAMPLE: 0}, moved]]
    make = partial(f.build, tmp_path / "x", sounds, instruments)
    fonts = [SoundFont(make(vorbis=vorbis)) for vorbis in (False, True)]
    for plain, packed in zip(*(font.zones(0) for font in fonts)):
        assert plain.looped == packed.looped
        assert plain.sample.rate == packed.sample.rate
        places = [np.subtract(zone.sample[2:5], zone.sample.start) for zone in (plain, packed)]
        assert places[0].tolist() == places[1].tolist()
        a, b = fonts[0].sound(plain.sample), fonts[1].sound(packed.sample)
        assert (a.astype(float) - b).std() < 0.1 * a.std()


def test_recordings_that_are_damaged_or_too_long_are_left_out(tmp_path):
    whole = f.ogg(f.sine().frames)
    assert np.abs(decode(whole, 2205) - 32768 * f.sine().frames).max() < 3000
    opus = io.BytesIO()
    soundfile.write(opus, f.sine().frames, 24000, format="OGG", subtype="OPUS")
    for spoilt, most in ((whole, 2204), (b"OggS" + bytes(100), 9999), (opus.getvalue(), 9999)):
        assert not len(decode(spoilt, most))
    # A minute of silence takes a few hundred bytes, so the decoded size is limited.
    zones = [{f.SAMPLE: n} for n in range(4)]
    path = f.build(tmp_path / "x.sf3", [f.Sound(np.zeros(300_000))] * 4, [zones], vorbis=True)
    assert path.stat().st_size < 100_000
    assert len(SoundFont(path, Limits(font_mb=1)).zones(0)) == 1
    path.write_bytes(path.read_bytes().replace(b"OggS", b"Oggs", 1))
    assert [zone.sample.recording for zone in SoundFont(path).zones(0)] == [1, 2, 3]


def test_the_included_font_is_small_and_plays_every_program_on_every_key():
    assert INCLUDED_FONT.stat().st_size < 5_000_000
    assert "MIT license" in INCLUDED_FONT.with_name(INCLUDED_FONT.name + ".LICENSE").read_text()
    sums = INCLUDED_FONT.parents[1] / "vendor" / "SHA256SUMS"
    for line in sums.read_text().splitlines():
        digest, name = line.split()
        assert hashlib.sha256((INCLUDED_FONT.parents[1] / name).read_bytes()).hexdigest() == digest
    font = SoundFont(INCLUDED_FONT)
    for program in range(128):
        for key in range(128):
            assert all(font.sounding(program, False, key, velocity) for velocity in (1, 64, 127))
    assert all(font.sounding(0, True, key, 90) for key in range(35, 82))
    assert font.zones(40) != font.zones(0)


def test_zones_are_bounded_for_a_preset_and_for_a_key_and_may_not_cross(tmp_path):
    """A preset has an instrument a thousand times, which has a sample as often. Zones whose ranges
    cross would each have all generators."""
    instrument = [{f.LOOP: 1, f.SAMPLE: 0}] * 1000
    preset = {(0, 0): [{f.INSTRUMENT: 0}] * 1000}
    path = f.build(tmp_path / "x.sf2", [f.sine()], [instrument], preset)
    font = SoundFont(path)
    assert len(font.zones(0)) == 4096
    assert len(font.sounding(0, False, 60, 80)) == 16
    data = bytearray(path.read_bytes())
    at = data.index(b"ibag") + 8
    data[at : at + 2] = (5).to_bytes(2, "little")
    path.write_bytes(data)
    with pytest.raises(UserError, match="numbers of generators decrease"):
        SoundFont(path)


def test_a_font_larger_than_its_limit_is_not_read(tmp_path):
    with (tmp_path / "x.sf2").open("wb") as file:
        file.truncate(10**10)
    with pytest.raises(UserError, match=r"^soundfont=.*x\.sf2: larger than limits\.font_mb=1000"):
        SoundFont(tmp_path / "x.sf2")
