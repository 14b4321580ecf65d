"""Notes of public MusicXML files are those of music21: pitch, start and length in quarters, after
ties and repeats.

The files are those that come with music21: LilyPond's collection of test cases, and pieces that
Finale, Sibelius, MuseScore and scanners have written. Grace notes, cue notes and articulations are
taken out first: music21 gives them no time.
"""

import contextlib
import warnings
import xml.etree.ElementTree as ET
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from musictx import Limits, musicxml
from musictx.musicxml.document import open_document

music21 = pytest.importorskip("music21", reason="needs the extra bach")
FOLDER = Path(music21.__file__).parent
SUITE = sorted((FOLDER / "musicxml" / "lilypondTestSuite").glob("*.[mx]*l"))
PIECES = [
    "beach/prayer_of_a_tired_child",
    "bach/bwv66.6",
    "ciconia/quod_jactatur",
    "monteverdi/madrigal.3.2",
    "haydn/opus1no1/movement4",
    "leadSheet/berlinAlexandersRagtime",
    "schumann_robert/dichterliebe_no2",
    "verdi/laDonnaEMobile",
    "webern/webern_dormi_jesu_op_16_no_2",
]
#: Files that music21 reads differently -> what it does.
DIFFERENT = {
    "01d-Pitches-Microtones": "it rounds a quarter-tone up, musictx to the even number",
    "02e-Rests-NoType": "it puts a note without a staff on both staves",
    "21f-Chord-ElementInBetween": "it divides a chord with another element in it",
    "32c-MultipleNotationChildren": "it raises a note for a sharp sign without <alter>",
}


def simplify(file: Path) -> bytes:
    """Return the document without grace notes and articulations, and with rests for cue notes."""
    root = open_document(file.read_bytes(), Limits())
    for measure in root.iter("measure"):
        for note in measure.findall("note"):
            cue = note.find("cue") is not None
            if note.find("grace") is not None or (cue and note.find("chord") is not None):
                measure.remove(note)
            elif cue:
                for name in ("cue", "tie", "notations"):
                    for child in note.findall(name):
                        note.remove(child)
                for pitch in note.findall("pitch"):
                    pitch.clear()
                    pitch.tag = "rest"
    for notations in root.iter("notations"):
        for mark in notations.findall("articulations"):
            notations.remove(mark)
    return ET.tostring(root)


def ours(data: bytes) -> Counter:
    """Count (start, length, pitch or -1 for a drum) of notes, in thousandths of a quarter."""
    notes = musicxml.read(data, bpm=60).notes
    rows = zip(notes["start"], notes["end"] - notes["start"], notes["pitch"], notes["drum"])
    return Counter(
        (round(float(start), 3), round(float(length), 3), -1 if drum else int(pitch))
        for start, length, pitch, drum in rows
    )


def theirs(score) -> Counter:
    """Count the same with music21. Measures begin together in all parts, where the longest measure
    before them ends."""
    lengths = _lengths(score.parts)
    notes: Counter = Counter()
    for part in score.parts:
        for number, measure in enumerate(part.getElementsByClass("Measure")):
            measure.editorial.place = number
        with contextlib.suppress(music21.repeat.ExpanderException):
            part = part.expandRepeats()
        start = 0.0
        for measure in list(part.getElementsByClass("Measure")):
            part.setElementOffset(measure, start)
            start += lengths[measure.editorial.place]
        notes += _count_notes(part)
    return notes


def _lengths(parts) -> defaultdict[int, float]:
    """Return the quarters of each measure, up to the last note, and to rests within the meter."""
    lengths: defaultdict[int, float] = defaultdict(float)
    for part in parts:
        for number, measure in enumerate(part.getElementsByClass("Measure")):
            bar = measure.barDuration.quarterLength
            for note in measure.recurse().notesAndRests:
                end = note.getOffsetInHierarchy(measure) + note.quarterLength
                lengths[number] = max(lengths[number], float(min(end, bar) if note.isRest else end))
    return lengths


def _count_notes(part) -> Counter:
    rows: list[list] = []
    waiting: defaultdict = defaultdict(list)
    for element in part.flatten().notes:
        if isinstance(element, music21.harmony.Harmony):
            continue
        start, length = float(element.offset), float(element.quarterLength)
        for note in getattr(element, "notes", [element]):
            ties = note.tie.type if note.tie else ""
            pitch = round(note.pitch.ps) if hasattr(note, "pitch") else -1
            tied = waiting[round(start, 3), pitch]
            if tied:
                place = tied.pop()
                rows[place][1] = start + length - rows[place][0]
            else:
                place = len(rows)
                rows.append([start, length, pitch])
            if ties in ("start", "continue"):
                waiting[round(start + length, 3), pitch].append(place)
    return Counter((round(start, 3), round(length, 3), pitch) for start, length, pitch in rows)


def agree(file: Path) -> bool:
    data = simplify(file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        score = music21.converter.parseData(data.decode(), format="musicxml", forceSource=True)
        return theirs(score.toSoundingPitch()) == ours(data)


@pytest.mark.parametrize("file", SUITE, ids=lambda file: file.stem)
def test_cases_of_lilypond_s_suite_sound_as_by_music21(file):
    assert agree(file) == (file.stem not in DIFFERENT)


@pytest.mark.parametrize("name", PIECES)
def test_pieces_sound_as_by_music21(name):
    assert agree(next(FOLDER.glob(f"corpus/{name}.[mx]*l")))
