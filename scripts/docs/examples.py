"""Write the music that comes along with musictx: in the public domain, entered by hand.

    python scripts/docs/examples.py [out=musictx/examples]

Melodies, in strict time:

ode_to_joy               Ludwig van Beethoven, Symphony No. 9 (1824), last movement; G major
au_clair_de_la_lune      French song, 18th century; G major
ah_vous_dirai_je         French song, 18th century ("Twinkle, twinkle, little star"); G major
frere_jacques            French song, 18th century; F major

An opening for the piano, two hands, played with a touch of freedom:

mozart_k545              Wolfgang Amadeus Mozart, Sonata in C, K. 545 (1788), bars 1 to 4
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
#: Hands in the same notation, - for a rest; the trill of bar 4 is written out.
OPENINGS = {
    "mozart_k545": (
        """
        C5:2 E5 G5 | B4:1.5 C5:0.25 D5:0.25 C5 - | A5:2 G5 C6 |
        G5 G5:0.125 F5:0.125 G5:0.125 F5:0.125 E5:0.25 F5:0.25 E5 - |""",
        """
        C4:0.5 G4:0.5 E4:0.5 G4:0.5 C4:0.5 G4:0.5 E4:0.5 G4:0.5 |
        D4:0.5 G4:0.5 F4:0.5 G4:0.5 C4:0.5 G4:0.5 E4:0.5 G4:0.5 |
        C4:0.5 A4:0.5 F4:0.5 A4:0.5 C4:0.5 G4:0.5 E4:0.5 G4:0.5 |
        B3:0.5 G4:0.5 D4:0.5 G4:0.5 C4:0.5 G4:0.5 E4:0.5 G4:0.5 |""",
    )
}
#: Quarters a minute, at its fastest, and quarters in a phrase (two bars).
ALLEGRO, PHRASE = 132.0, 8.0
_CLASSES = {"C": 0, "D": 2, "E": 4, "F": 5, "G": 7, "A": 9, "B": 11}


def pitches(tune: str) -> list[tuple[float, float, int]]:
    """(start, length, pitch) of each note in the notation above, in quarters."""
    notes, now = [], 0.0
    for word in tune.replace("|", " ").split():
        name, _, told = word.partition(":")
        length = float(told or 1)
        if name != "-":
            altered = name.count("#") - name[1:].count("b")
            pitch = _CLASSES[name[0]] + altered + 12 * (int(name[-1]) + 1)
            notes.append((now, length, pitch))
        now += length
    return notes


def score(tune: str) -> Score:
    """A tune as a Score of one track, in strict time."""
    beat = 60 / BPM
    notes = [
        (start * beat, (start + length) * beat, pitch, 80, 0, False, 0)
        for start, length, pitch in pitches(tune)
    ]
    return Score(
        notes=np.array(notes, NOTE), tempos=np.array([(0.0, BPM)], TEMPO), ticks_per_quarter=480
    )


def performed(hands: tuple[str, ...]) -> Score:
    """Two hands as a pianist might play them: a track each.

    Each phrase quickens and swells to its middle and gives way at its end; the melody sings above
    the accompaniment, higher notes louder, and comes a hair before it; the first note of each group
    of the accompaniment is held under the others.
    """
    hands_notes = [pitches(tune) for tune in hands]
    quarters = max(start + length for notes in hands_notes for start, length, _ in notes)
    grid = np.arange(0, quarters + 1 / 32, 1 / 32)
    arch = np.sin(np.pi * (grid % PHRASE) / PHRASE)
    step = 60 / ALLEGRO / 32 * (1.08 - 0.08 * arch)  # seconds that a thirty-second of a beat takes
    clock = np.concatenate([[0.0], np.cumsum(step)[:-1]])
    notes = []
    for hand, played in enumerate(hands_notes):
        for start, length, pitch in played:
            swell = float(np.interp(start, grid, arch))
            if hand == 0:
                velocity = 66 + 14 * swell + 0.5 * (pitch - 72) - (8 if length < 0.5 else 0)
                ahead, held = 0.015, length * 0.98
            else:
                first = start % 2 == 0
                velocity = 44 + 8 * swell + (6 if first else 0)
                ahead, held = 0.0, 1.5 if first else length * 0.95
            begin, end = np.interp([start, start + held], grid, clock)
            begin, end = max(0.0, begin + 0.015 - ahead), end + 0.015 - ahead
            notes.append((begin, end, pitch, round(velocity), 0, False, hand))
    return Score(notes=np.array(sorted(notes), NOTE))


def main(words: list[str]) -> None:
    root = Path(__file__).resolve().parents[2]
    out = Path(words[0].removeprefix("out=")) if words else root / "musictx" / "examples"
    scores = {name: score(tune) for name, tune in TUNES.items()}
    scores |= {name: performed(hands) for name, hands in OPENINGS.items()}
    for name, music in scores.items():
        midi.write(music, out / f"{name}.mid")
        print(out / f"{name}.mid")


if __name__ == "__main__":
    main(sys.argv[1:])
