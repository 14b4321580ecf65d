"""Names of the instruments and drums of General MIDI, and of the parts of a piece."""

from __future__ import annotations

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
    """Return a name for each part (track, program, drum), given the names of tracks.

    It is the name of the track if this is unique, else the family of the instrument, with a number
    if several parts have the same family.
    """
    families = {part: "drums" if part[2] else FAMILIES[part[1] // 8] for part in parts}
    track_names = [names.get(part[0], "") for part in parts]
    result, counts = {}, dict.fromkeys(families.values(), 0)
    shared = [name for name in counts if list(families.values()).count(name) > 1]
    for part, name in families.items():
        counts[name] += 1
        result[part] = f"{name} {counts[name]}" if name in shared else name
        title = names.get(part[0], "")
        if title and track_names.count(title) == 1:
            result[part] = title if len(title) <= 20 else title[:19] + "…"
    return result
