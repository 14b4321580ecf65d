"""Print the grooves and fills of Groove's drummers for the card of ``song``.

    python -m scripts.reproduce.drummers groove=FOLDER

Uses performances of the training split in 4/4. The groove of a performance is the mean of its
:data:`GROOVE_BARS` most typical bars, without crashes, which mark sections. A groove is used if it
has a kick or a snare on each beat on which most grooves of its style have one. Grooves nearest to
the mean of their style come first, one for each drummer, style and tempo. The usual grooves are
those of styles that fit songs, without triplets; those of jazz have triplets, and most strokes on
the ride, since half of the performances of that name are funk and fusion. Ghost notes of the snare
are left out: the model would strike them as loudly as other notes. A fill is the most typical fill
of a drummer in a style, the second half of a bar without crashes, among fills that leave the hats
for snare and toms.
"""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np

import musictx
from musictx.songs.drummers import CRASH, KIND_OF, KINDS, PLACES, QUARTERS, to_text
from musictx.tokens.stream import STEPS_PER_QUARTER
from scripts.harness import run
from scripts.reproduce.bands import DRUMS, STYLES, snapped

#: Grooves of a style and fills in the card; the fewest performances, of any split, of a style.
DRUMMERS, FILLS, FEWEST = 6, 8, 10
#: Bars of a groove, and the fewest bars of a performance.
GROOVE_BARS, FEWEST_BARS = 4, 8
#: Strokes with a larger share of triplets swing.
TRIPLETS = 0.02
AT = np.array([q * STEPS_PER_QUARTER + at for q in range(QUARTERS) for at in PLACES])
TRIPLET = np.isin(AT % STEPS_PER_QUARTER % 6, (2, 4))
KICK, SNARE, HAT, TOM, _, RIDE, _, PEDAL = range(len(KINDS))
#: The places of the second half of a bar, and those of the last eighth.
BAR = QUARTERS * STEPS_PER_QUARTER
SECOND_HALF, LAST_EIGHTH = AT >= BAR // 2, AT >= BAR - STEPS_PER_QUARTER // 2


def without_ghosts(notes: np.ndarray) -> np.ndarray:
    """Leave out strokes of the snare with less than half the velocity of its loudest tenth."""
    snares = KIND_OF[notes["pitch"]] == SNARE
    loud = np.quantile(notes["velocity"][snares], 0.9) if snares.any() else 0.0
    return notes[~snares | (notes["velocity"] >= loud / 2)]


def strokes(quarters: np.ndarray, drums: np.ndarray) -> np.ndarray:
    """(bars, K, 24) bool: whether there is a stroke of each kind at each place of each bar."""
    within = quarters % QUARTERS * STEPS_PER_QUARTER
    near = np.abs(np.append(AT, BAR) - within[:, None]).argmin(1)
    bar = (quarters // QUARTERS).astype(int) + near // len(AT)
    kind = KIND_OF[[DRUMS.get(drum, drum) for drum in drums.tolist()]]
    played = np.zeros((int(bar.max()) + 1, len(KINDS) + 1, len(AT)), bool)
    played[bar, kind, near % len(AT)] = True
    played[:, PEDAL] &= ~played[:, HAT]  # the foot rests while hats are struck
    return played[:, :-1]


def similarities(bars: np.ndarray) -> np.ndarray:
    """(n, n): for each two bars the number of strokes in both, divided by that in any of them."""
    both = (bars[:, None] & bars[None]).sum((-2, -1))
    return both / np.maximum((bars[:, None] | bars[None]).sum((-2, -1)), 1)


def typical_groove(bars: np.ndarray) -> np.ndarray:
    """(K, 24) rates of strokes in the most typical ``bars``."""
    likeness = similarities(bars)
    typical = likeness[likeness.mean(0).argmax()]
    rates = bars[np.argsort(-typical, kind="stable")[:GROOVE_BARS]].mean(0)
    rates[CRASH] = 0
    return rates


def choose_grooves(named: list[tuple[str, np.ndarray]]) -> list[np.ndarray]:
    """The grooves of a style for the card, from all of its (name, rates (K, 24)). Of those with the
    same name (drummer, style and tempo) only one is used."""
    shares = np.mean([rates >= 0.5 for _, rates in named], 0)
    common = shares > 0.5
    common[SNARE + 1 :] = common[:, AT % STEPS_PER_QUARTER != 0] = False

    def nearness(item: tuple[str, np.ndarray]) -> float:
        _, rates = item
        return float(np.minimum(rates, shares).sum() / np.maximum(rates, shares).sum())

    best: dict[str, np.ndarray] = {}
    for name, rates in sorted(named, key=nearness, reverse=True):
        if (rates[common] >= 0.5).all() and rates[: SNARE + 1].sum() >= 2:
            best.setdefault(name, rates)
    return list(best.values())[:DRUMMERS]


def swings(strokes: np.ndarray) -> bool:
    """Whether bars or the rates of a groove (..., 24) have triplets, other than by chance."""
    return bool(strokes[..., TRIPLET].sum() > TRIPLETS * strokes.sum())


def is_fill(bar: np.ndarray) -> bool:
    """Whether half a bar has snare and toms instead of hats, up to its end, and no triplets."""
    cymbals, drums = bar[[HAT, RIDE]], bar[[SNARE, TOM]]
    lasts = drums[:, ~LAST_EIGHTH].any() and drums[:, LAST_EIGHTH].any()
    return bool(lasts and cymbals.sum() <= 1 and not bar[:, TRIPLET].any())


def main(groove: Path) -> None:
    styles, fills, sizes = defaultdict(list), defaultdict(list), Counter[str]()
    with (groove / "info.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["time_signature"] == "4-4"]
    for row in rows:
        path, style = groove / row["midi_filename"], row["style"].split("/")[0]
        sizes[style] += row["beat_type"] == "beat"
        if row["split"] != "train" or not path.exists():
            continue
        score = musictx.read(path)
        if row["beat_type"] == "fill":
            quarters = score.notes["start"] * float(row["bpm"]) / 60
            bar = strokes(quarters, score.notes["pitch"])[0]
            bar[CRASH] = bar[:, ~SECOND_HALF] = False
            if is_fill(bar):
                fills[row["drummer"], style].append(bar)
            continue
        score, _ = snapped(score)
        notes = without_ghosts(score.notes)
        bars = strokes(score.beats.quarters(notes["start"]) + 1e-4, notes["pitch"])
        if len(bars) < FEWEST_BARS:
            continue
        rates = typical_groove(bars)
        named = f"{row['drummer']} {row['style']} {row['bpm']}", rates
        if style in STYLES.split("|") and not swings(bars):
            styles["usual"].append(named)
        if style != "jazz" or (swings(rates) and rates.sum(1).argmax() == RIDE):
            styles[style].append(named)
    common_styles = sorted(style for style in styles if sizes[style] >= FEWEST)
    largest = sorted(fills.values(), key=len, reverse=True)[:FILLS]
    tables = {
        "usual": choose_grooves(styles["usual"]),
        "fills": [bars[similarities(np.array(bars)).mean(0).argmax()] for bars in largest],
        **{style: choose_grooves(styles[style]) for style in common_styles},
    }
    print("drummers:")
    for name, grooves in tables.items():
        print(f"  {name}:", *(f'    - "{to_text(rates)}"' for rates in grooves), sep="\n")


if __name__ == "__main__":
    run(main)
