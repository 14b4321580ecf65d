"""``musictx chords FILE``: the chords of a file, bar by bar, and its sections."""

from __future__ import annotations

from pathlib import Path

from musictx import formats
from musictx.apps.results import print_line, read_music, write_new
from musictx.chords import chord_changes
from musictx.errors import UserError
from musictx.files import check_writable
from musictx.songs import chord_sheet
from musictx.songs.chord_estimation import estimate_chords
from musictx.songs.config import ChordsConfig
from musictx.songs.sections import sections


def run(config: ChordsConfig) -> str:
    """Print the chord sheet of ``config.file`` and its sections; return the sheet. The chords are
    those of its markers, or else those that its notes imply. With ``config.out``, write the music
    with these chords as markers."""
    if config.file is None:
        raise UserError("file: missing; give a MIDI or MusicXML file")
    out = None if config.out is None else Path(config.out).expanduser()
    if out is not None:
        check_writable(out.parent, "out")
    score = read_music(config.file, "file", config.limits, config.repeats)
    if score.notes["drum"].all() and not chord_changes(score):
        raise UserError(f"file={config.file}: this file holds no chords and no pitched notes")
    bars = chord_sheet.chord_bars(score)
    sheet = chord_sheet.sheet_text(bars)
    print_line(sheet)
    if not chord_changes(score):
        source = "fit the melody" if score.one_voice else "are what the notes imply"
        print_line(f"These {source}; the file names no chords.")
    if form := sections(score):
        first = 1 - score.beats.pickup  # a pick-up is bar 0
        names = [f"{name} {begin + first}-{stop + first - 1}" for begin, stop, name in form]
        print_line(f"Sections, by their bars: {', '.join(names)}")
    if out is not None:
        if not chord_changes(score):  # chords of the file stay, with their basses and degrees
            score = chord_sheet.with_markers(score, estimate_chords(score))
        print_line(str(write_new(out, formats.to_bytes(score, out.suffix.lower()))))
    return sheet
