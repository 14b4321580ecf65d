"""``musictx chords FILE``: the chords of a file, bar by bar, and its sections."""

from __future__ import annotations

from pathlib import Path

from musictx import formats
from musictx.apps.results import read_music, say, write_new
from musictx.chords import chord_changes
from musictx.errors import UserError
from musictx.files import check_writable
from musictx.songs import chord_sheet
from musictx.songs.config import ChordsConfig
from musictx.songs.sections import sections


def run(config: ChordsConfig) -> str:
    """Print the sheet of ``config.file``, the chords of its markers or else those that its notes
    imply, and its sections; with ``config.out`` the music is written with the chords as markers.
    Returns the sheet."""
    if config.file is None:
        raise UserError("file: missing; give a MIDI or MusicXML file")
    out = None if config.out is None else Path(config.out).expanduser()
    if out is not None:
        check_writable(out.parent, "out")
    score = read_music(config.file, "file", config.limits, config.repeats)
    if score.notes["drum"].all() and not chord_changes(score):
        raise UserError(f"file={config.file}: this file holds no chords and no pitched notes")
    bars = chord_sheet.bars_of(score)
    sheet = chord_sheet.text_of(bars)
    say(sheet)
    if not chord_changes(score):
        they = "fit the melody" if score.one_voice else "are what the notes imply"
        say(f"These {they}; the file names no chords.")
    if parts := sections(score):
        first = 1 - score.beats.pickup  # a pick-up is bar 0
        names = [f"{part.name} {part.begin + first}-{part.stop + first - 1}" for part in parts]
        say(f"Sections, by their bars: {', '.join(names)}")
    if out is not None:
        if not chord_changes(score):  # else they are in the music, with their basses and degrees
            laid = chord_sheet.laid(bars, score.beats, 0, len(bars))
            score = chord_sheet.with_markers(score, laid)
        say(str(write_new(out, formats.to_bytes(score, out.suffix.lower()))))
    return sheet
