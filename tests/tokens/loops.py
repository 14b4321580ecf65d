"""Performance tokens by slow and plain loops, which share no code with the tokenizer."""

import math
from collections import defaultdict, deque

import numpy as np

from musictx.notes import Score
from musictx.tokens.performance import PerformanceTokenizer


def encode(tokenizer: PerformanceTokenizer, score: Score) -> list[str]:
    """Encode a score without pedals to descriptions such as ``note_on:60``."""
    per_second = 1000 / tokenizer.step_ms
    width = math.ceil(127 / tokenizer.velocity_bins)
    longest = tokenizer.max_shift_ms // tokenizer.step_ms
    notes = []
    for note in score.notes:
        drum = bool(note["drum"])
        if drum and tokenizer.tracks == "piano":
            continue
        if not drum and not tokenizer.low <= note["pitch"] <= tokenizer.high:
            continue
        start = math.floor(float(note["start"]) * per_second + 0.5)
        end = max(math.floor(float(note["end"]) * per_second + 0.5), start + 1)
        program = int(note["program"]) if tokenizer.tracks == "programs" else 0
        velocity_bin = (int(note["velocity"]) - 1) // width + 1
        notes.append((start, drum, 0 if drum else program, int(note["pitch"]), velocity_bin, end))
    first = min((n[0] for n in notes), default=0)
    notes.sort(key=lambda n: (n[0], n[1], n[2]))  # stable: score order within step and program
    ends = defaultdict(list)
    for note in notes:
        ends[note[1:4]].append(note[5])
    queues = {key: deque(sorted(values)) for key, values in ends.items()}
    events = []
    for index, (start, drum, program, pitch, velocity_bin, _) in enumerate(notes):
        end = queues[drum, program, pitch].popleft()
        events.append((start, 2 if drum else 1, program, index, pitch, velocity_bin))
        if not drum:
            events.append((end, 0, program, index, pitch, velocity_bin))
    out: list[str] = []
    now, current_bin, current_program = first, None, None
    for step, what, program, _, pitch, velocity_bin in sorted(events):
        while step - now > longest:
            out.append(f"time_shift:{longest}")
            now += longest
        if step > now:
            out.append(f"time_shift:{step - now}")
            now = step
        if tokenizer.tracks == "programs" and what != 2 and program != current_program:
            out.append(f"program:{program}")
            current_program = program
        if what != 0 and velocity_bin != current_bin:
            out.append(f"velocity:{velocity_bin}")
            current_bin = velocity_bin
        out.append(f"{('note_off', 'note_on', 'drum')[what]}:{pitch}")
    return out


def notes_of(tokenizer: PerformanceTokenizer, ids: np.ndarray) -> list[tuple]:
    """Return (start, end in steps, pitch, program, drum, velocity bin) in order of their starts."""
    now, current_bin, program = 0, (64 - 1) // math.ceil(127 / tokenizer.velocity_bins) + 1, 0
    notes: list[list] = []
    sounding: dict[tuple[int, int], deque[int]] = defaultdict(deque)
    for token_id in ids:
        kind, value = tokenizer.vocabulary.token(int(token_id))
        if kind == "time_shift":
            now += value
        elif kind == "velocity":
            current_bin = value
        elif kind == "program":
            program = value
        elif kind == "drum":
            length = max(1, round(100 / tokenizer.step_ms))
            notes.append([now, now + length, value, 0, True, current_bin])
        elif kind == "note_on":
            sounding[program, value].append(len(notes))
            notes.append([now, None, value, program, False, current_bin])
        elif kind == "note_off" and sounding[program, value]:
            note = notes[sounding[program, value].popleft()]
            note[1] = max(now, note[0] + 1)
    for note in notes:
        if note[1] is None:
            note[1] = max(now, note[0] + 1)
    return [tuple(note) for note in notes]
