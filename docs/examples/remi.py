"""MidiTok's REMI as a tokenizer of musictx: ``tokenizer.name=remi:Remi`` (docs/tokens.md).

MidiTok writes the ids. The rest is what training and sampling need: transposed and stretched
windows, and a grammar, so that no note is drawn without velocity and length.
"""

from collections import Counter

import numpy as np
from miditok import REMI, TokenizerConfig
from symusic import Note, Track
from symusic import Score as Ticks

from musictx.notes import NOTE, Score
from musictx.pedal import fold_sustain
from musictx.tokens.tokenizer import GrammarState, Tokenizer
from musictx.tokens.vocab import SPECIALS, Vocabulary

STEPS_PER_BEAT, STEPS_PER_BAR = 8, 32  # MidiTok's Position counts 32nd notes in bars of 4/4
STEP_SECONDS = 60 / 120 / STEPS_PER_BEAT  # tempo is not written: beats are those of 120 bpm


class Remi(Tokenizer):
    """MidiTok's REMI (Huang and Yang 2020): Bar, Position, then Pitch, Velocity, Duration."""

    name = "remi:Remi"

    def __init__(self, name=name, low=21, high=108, velocity_bins=32):
        self.name, self.options = name, {"low": low, "high": high, "velocity_bins": velocity_bins}
        self.low, self.high = low, high
        self.remi = REMI(
            TokenizerConfig(
                pitch_range=(low, high),
                num_velocities=velocity_bins,
                special_tokens=["PAD"],
                beat_res={(0, 12): STEPS_PER_BEAT},
                use_time_signatures=False,
            )
        )
        words = sorted(self.remi.vocab, key=self.remi.vocab.get)[1:]  # without MidiTok's PAD
        self.shift = len(SPECIALS) - 1  # an id here is MidiTok's id plus this
        counts = Counter(
            word.split("_")[0] for word in words
        )  # kind after kind, as MidiTok has them
        self.vocabulary = Vocabulary.of(*((kind, 0, n - 1) for kind, n in counts.items()))
        self.value = np.array([0] * len(SPECIALS) + [value(word) for word in words])
        self.is_ = {
            kind: self.vocabulary.kind_of == n for n, kind in enumerate(self.vocabulary.kinds)
        }
        self.pitch_of = np.where(self.is_["Pitch"], self.value, -1)

    def to_config(self):
        return {"name": self.name, **self.options}

    def encode_with_report(self, score):
        score = fold_sustain(score)
        pitch = score.notes["pitch"]
        kept = ~score.notes["drum"] & (self.low <= pitch) & (pitch <= self.high)
        notes, left_out = score.notes[kept], Counter()
        if len(notes) < len(pitch):
            left_out["drums and notes out of range left out"] = len(pitch) - len(notes)
        start, end = (np.floor(notes[key] / STEP_SECONDS + 0.5) for key in ("start", "end"))
        ticks, track = Ticks(STEPS_PER_BEAT), Track()
        track.notes = Note.from_numpy(
            time=start.astype(np.int32),
            duration=np.maximum(end - start, 1).astype(np.int32),
            pitch=notes["pitch"].astype(np.int8),
            velocity=notes["velocity"].astype(np.int8),
        )
        ticks.tracks.append(track)
        written = self.remi.encode(ticks)[0].ids if len(notes) else []
        return (np.array(written) + self.shift).astype(np.uint16), left_out

    def decode(self, ids):
        state, rows = State(self), []
        for i in self.vocabulary.as_ids(ids):  # of any kind, in any order
            state._take(*self.vocabulary.tokens[i])
            if state.note and state.last == "Duration":
                pitch, velocity, duration = state.note
                end = state.seconds + duration * STEP_SECONDS
                rows.append((state.seconds, end, pitch, velocity, 0, False, 0))
        return Score(np.array(rows, NOTE))

    def state(self):
        return State(self)

    def augment(self, ids, *, semitones=0, stretch=1.0):
        if semitones == 0 and stretch == 1.0:
            return ids
        out = np.asarray(ids).astype(np.int64)
        pitch = self.is_["Pitch"][out]
        moved = self.value[out[pitch]] + semitones
        if ((moved < self.low) | (moved > self.high)).any():
            return None
        out[pitch] += semitones  # the ids of pitches stand in order
        inside = np.flatnonzero(out >= len(SPECIALS))
        if stretch != 1.0 and len(inside):
            notes = self.decode(out).notes.copy()
            notes["start"] *= stretch
            notes["end"] *= stretch
            out = np.concatenate(
                [out[: inside[0]], self.encode(Score(notes)), out[inside[-1] + 1 :]]
            )
        return out.astype(np.uint16)


class State(GrammarState):
    """A half-written piece. Notes come with their lengths: none waits for a release."""

    def __init__(self, tokenizer):
        super().__init__(tokenizer.vocabulary)
        self.tokenizer = tokenizer
        self.bar, self.place, self.last, self.note = -1, -1, "", ()

    @property
    def seconds(self):
        return (max(self.bar, 0) * STEPS_PER_BAR + max(self.place, 0)) * STEP_SECONDS

    def _allowed(self):
        is_ = self.tokenizer.is_
        if self.last in ("Pitch", "Velocity"):
            return is_["Velocity" if self.last == "Pitch" else "Duration"].copy()
        if self.last == "eos":
            return is_["eos"].copy()
        later = is_["Position"] & (self.tokenizer.value > self.place) & (self.bar >= 0)
        return is_["Bar"] | is_["eos"] | later | (is_["Pitch"] & (self.place >= 0))

    def _take(self, kind, value):
        value = int(self.tokenizer.value[self.tokenizer.vocabulary.id(kind, value)])
        if kind == "Bar":
            self.bar, self.place = self.bar + 1, -1
        elif kind == "Position":
            self.place = value
        elif kind == "Pitch":
            self.note, self.notes = (value,), self.notes + 1
        elif (self.last, kind) in (("Pitch", "Velocity"), ("Velocity", "Duration")) and self.note:
            self.note = (*self.note, value)
        else:
            self.note = ()
        if kind not in ("pad", "bos", "cut"):
            self.last = kind


def value(word):
    """Pitch_60 -> 60, Bar_None -> 0, Duration_1.4.8 (beats, steps, steps a beat) -> 12 steps."""
    written = word.split("_")[1]
    beats, *steps = (int(number) for number in written.replace("None", "0").split("."))
    return beats * STEPS_PER_BEAT + steps[0] if steps else beats
