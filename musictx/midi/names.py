"""Names of General MIDI's instruments and drums, and of the parts of a piece."""

from __future__ import annotations

from collections.abc import Mapping

FAMILIES = (
    "piano", "mallets", "organ", "guitar", "bass", "strings", "ensemble", "brass",
    "reed", "pipe", "lead", "pad", "effects", "world", "percussion", "sounds",
)  # fmt: skip
DRUMS = {
    35: "kick", 36: "kick", 37: "stick", 38: "snare", 39: "clap", 40: "snare", 41: "tom",
    42: "hat", 43: "tom", 44: "hat ped", 45: "tom", 46: "hat open", 47: "tom", 48: "tom",
    49: "crash", 50: "tom", 51: "ride", 52: "china", 53: "bell", 54: "tamb", 55: "splash",
    56: "cowbell", 57: "crash", 59: "ride", 69: "cabasa", 70: "maracas", 75: "claves",
}  # fmt: skip


def part_names(
    parts: list[tuple[int, int, bool]], names: Mapping[int, str]
) -> dict[tuple[int, int, bool], str]:
    """(track, program, drum) -> what to call it: its track's name if no other part has that, else
    the instrument's family, numbered where several parts share it."""
    plain = {part: "drums" if part[2] else FAMILIES[part[1] // 8] for part in parts}
    given = [names.get(part[0], "") for part in parts]
    result, seen = {}, dict.fromkeys(plain.values(), 0)
    shared = [name for name in seen if list(plain.values()).count(name) > 1]
    for part, name in plain.items():
        seen[name] += 1
        result[part] = f"{name} {seen[name]}" if name in shared else name
        title = names.get(part[0], "")
        if title and given.count(title) == 1:
            result[part] = title if len(title) <= 20 else title[:19] + "…"
    return result
