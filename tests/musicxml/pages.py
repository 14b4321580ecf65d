"""Documents of MusicXML for tests, and the notes that are read from them."""

from musictx import musicxml

PARTS = '<part-list><score-part id="P1"><part-name>x</part-name></score-part></part-list>'
HEAD = "<attributes><divisions>{}</divisions></attributes>"
FOUR = (
    "<attributes><divisions>{}</divisions>"
    "<time><beats>4</beats><beat-type>4</beat-type></time></attributes>"
)
C, D, E, G = (f"<pitch><step>{s}</step><octave>4</octave></pitch>" for s in "CDEG")
CHORD, CUE, REST = "<chord/>", "<cue/>", "<rest/>"


def note(pitch, duration, *, before="", ties=(), after=""):
    """Return a <note> with its children in the order of the schema."""
    length = f"<duration>{duration}</duration>" if duration is not None else ""
    tied = "".join(f'<tie type="{t}"/>' for t in ties)
    return f"<note>{before}{pitch}{length}{tied}{after}</note>"


def backup(duration):
    return f"<backup><duration>{duration}</duration></backup>"


def document(*parts, part_list=PARTS):
    """Return a document; a part is a list of measures, a measure the XML inside it."""
    body = "".join(
        f'<part id="P{i + 1}">'
        + "".join(f'<measure number="{n}">{m}</measure>' for n, m in enumerate(measures))
        + "</part>"
        for i, measures in enumerate(parts)
    )
    xml = (
        f'<?xml version="1.0" encoding="UTF-8"?><score-partwise>{part_list}{body}</score-partwise>'
    )
    return xml.encode()


def read(*parts, bpm=60, **options):
    """Return (start, end, pitch, track) of each note; at 60 a quarter lasts a second."""
    score = musicxml.read(document(*parts, **options), bpm=bpm)
    rows = score.notes[["start", "end", "pitch", "track"]].tolist()
    return [(round(start, 6), round(end, 6), *more) for start, end, *more in rows]


def direction(inside, more=""):
    return f"<direction><direction-type>{inside}</direction-type>{more}</direction>"


def bar(
    *, forward=False, backward=0, ending="", stop="", how="stop", before="", after="", again=False
):
    """Return the XML before and after the notes of a measure: repeats, endings and other music."""
    left = f'<ending number="{ending}" type="start"/>' if ending else ""
    left += '<repeat direction="forward"/>' if forward else ""
    right = f'<ending number="{stop}" type="{how}"/>' if stop else ""
    times = f' times="{backward}"' if backward != 2 else ""
    times += ' after-jump="yes"' if again else ""
    right += f'<repeat direction="backward"{times}/>' if backward else ""
    left = f'<barline location="left">{left}</barline>' if left else ""
    right = f'<barline location="right">{right}</barline>' if right else ""
    return left + before, after + right


STEPS = ["C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B"]


def numbered(number, length=4, more=""):
    """Return a note whose pitch is the ``number`` of its measure."""
    pitch = 36 + number
    step = STEPS[pitch % 12]
    alter = "<alter>1</alter>" if step[1:] else ""
    inside = f"<pitch><step>{step[0]}</step>{alter}<octave>{pitch // 12 - 1}</octave></pitch>"
    return f"<note>{inside}<duration>{length}</duration>{more}</note>"


def measures(bars, notes=numbered):
    return [
        f"{before}{'' if number else FOUR.format(1)}{notes(number)}{after}"
        for number, (before, after) in enumerate(bars)
    ]


def played(bars, **options):
    """Return the numbers of the measures in the order of playing; there are no gaps between."""
    score = musicxml.read(document(measures(bars)), bpm=60, **options)
    assert score.notes["start"].tolist() == [4.0 * n for n in range(len(score))]
    return (score.notes["pitch"] - 36).tolist()


ENDINGS = [bar(ending="1", stop="1", backward=2), bar(ending="2", stop="2", how="discontinue")]
