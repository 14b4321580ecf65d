"""Names of the instruments and drums of General MIDI, and of the parts of a piece."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

FAMILIES = (
    "piano", "mallets", "organ", "guitar", "bass", "strings", "ensemble", "brass",
    "reed", "pipe", "lead", "pad", "effects", "world", "percussion", "sounds",
)  # fmt: skip
DRUM_NAMES = {
    35: "kick", 36: "kick", 37: "stick", 38: "snare", 39: "clap", 40: "snare", 41: "tom",
    42: "hat", 43: "tom", 44: "hat ped", 45: "tom", 46: "hat open", 47: "tom", 48: "tom",
    49: "crash", 50: "tom", 51: "ride", 52: "china", 53: "bell", 54: "tamb", 55: "splash",
    56: "cowbell", 57: "crash", 59: "ride", 69: "cabasa", 70: "maracas", 75: "claves",
}  # fmt: skip


def part_names(
    parts: list[tuple[int, int, bool]], names: Mapping[int, str]
) -> dict[tuple[int, int, bool], str]:
    """Return a name for each part (track, program, drum); ``names`` is {track: name}.

    It is the name of the track, truncated to 20 characters, if no other part has this name. Else it
    is the family of the instrument, with a number if several parts have the same family.
    """
    families = {part: "drums" if part[2] else FAMILIES[part[1] // 8] for part in parts}
    family_sizes = Counter(families.values())
    track_names = Counter(names.get(part[0], "") for part in parts)
    result, counts = {}, Counter[str]()
    for part, family in families.items():
        counts[family] += 1
        result[part] = f"{family} {counts[family]}" if family_sizes[family] > 1 else family
        track_name = names.get(part[0], "")
        if track_name and track_names[track_name] == 1:
            result[part] = track_name if len(track_name) <= 20 else track_name[:19] + "…"
    return result
