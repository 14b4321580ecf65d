"""Write the melodies that come along with musictx: tunes in the public domain, entered by hand.

    python scripts/docs/examples.py [out=musictx/examples]

ode_to_joy               Ludwig van Beethoven, Symphony No. 9 (1824), last movement; G major
au_clair_de_la_lune      French song, 18th century; G major
ah_vous_dirai_je         French song, 18th century ("Twinkle, twinkle, little star"); G major
frere_jacques            French song, 18th century; F major
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from musictx import midi
from musictx.notes import NOTE, TEMPO, Score

BPM = 100.0
#: NAMEoctave, then a colon and the length in quarter notes if it is not 1; | is for the eye.
TUNES = {
    "ode_to_joy": """
        B4 B4 C5 D5 | D5 C5 B4 A4 | G4 G4 A4 B4 | B4:1.5 A4:0.5 A4:2 |
        B4 B4 C5 D5 | D5 C5 B4 A4 | G4 G4 A4 B4 | A4:1.5 G4:0.5 G4:2 |
        A4 A4 B4 G4 | A4 B4:0.5 C5:0.5 B4 G4 | A4 B4:0.5 C5:0.5 B4 A4 | G4 A4 D4:2 |
        B4 B4 C5 D5 | D5 C5 B4 A4 | G4 G4 A4 B4 | A4:1.5 G4:0.5 G4:2 |""",
    "au_clair_de_la_lune": """
        G4 G4 G4 A4 | B4:2 A4:2 | G4 B4 A4 A4 | G4:4 |
        G4 G4 G4 A4 | B4:2 A4:2 | G4 B4 A4 A4 | G4:4 |
        A4 A4 A4 A4 | E4:2 E4:2 | A4 G4 F#4 E4 | D4:4 |
        G4 G4 G4 A4 | B4:2 A4:2 | G4 B4 A4 A4 | G4:4 |""",
    "ah_vous_dirai_je": """
        G4 G4 D5 D5 | E5 E5 D5:2 | C5 C5 B4 B4 | A4 A4 G4:2 |
        D5 D5 C5 C5 | B4 B4 A4:2 | D5 D5 C5 C5 | B4 B4 A4:2 |
        G4 G4 D5 D5 | E5 E5 D5:2 | C5 C5 B4 B4 | A4 A4 G4:2 |""",
    "frere_jacques": """
        F4 G4 A4 F4 | F4 G4 A4 F4 | A4 Bb4 C5:2 | A4 Bb4 C5:2 |
        C5:0.5 D5:0.5 C5:0.5 Bb4:0.5 A4 F4 | C5:0.5 D5:0.5 C5:0.5 Bb4:0.5 A4 F4 |
        F4 C4 F4:2 | F4 C4 F4:2 |""",
}
_CLASSES = {"C": 0, "D": 2, "E": 4, "F": 5, "G": 7, "A": 9, "B": 11}


def score(tune: str) -> Score:
    """A tune in the notation above as a Score of one track."""
    notes, now = [], 0.0
    for word in tune.replace("|", " ").split():
        name, _, length = word.partition(":")
        pitch = _CLASSES[name[0]] + name.count("#") - name[1:].count("b") + 12 * (int(name[-1]) + 1)
        end = now + float(length or 1) * 60 / BPM
        notes.append((now, end, pitch, 80, 0, False, 0))
        now = end
    return Score(notes=np.array(notes, NOTE), tempos=np.array([(0.0, BPM)], TEMPO))


def main(words: list[str]) -> None:
    root = Path(__file__).resolve().parents[2]
    out = Path(words[0].removeprefix("out=")) if words else root / "musictx" / "examples"
    for name, tune in TUNES.items():
        midi.write(score(tune), out / f"{name}.mid")
        print(out / f"{name}.mid")


if __name__ == "__main__":
    main(sys.argv[1:])
