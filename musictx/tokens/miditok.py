"""MidiTok tokenizers that write one stream of single ids, behind our protocol.

MidiTok (Fradet et al. 2021) thinks in beats, a Score in seconds. With tempo tokens (our default)
beats follow the score's tempo marks and the tempo is written beside them, at 1 bpm, so reading back
gives the same seconds and bars stay bars. Without them (``params.use_tempos=false``, and
tokenizers that know none) beats are counted at MidiTok's default tempo, so seconds survive and
bars are only a grid.

``tracks="piano"`` merges all pitched instruments into one part, drums left out;
``tracks="programs"`` sets MidiTok's ``use_programs`` and ``one_token_stream_for_programs``: one
stream in which program tokens tell the instruments apart. Ids 0..3 are ours (pad, bos, eos, cut);
MidiTok's tokens follow in its order, its own special tokens left out. What MidiTok bounds stays
bounded (with its default ``beat_res`` no note lasts longer than 12 beats).
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from musictx import pedal
from musictx.config import TokenizerConfig
from musictx.errors import ConfigError
from musictx.notes import NOTE, Score
from musictx.tokens.miditok_build import build_miditok
from musictx.tokens.miditok_grammar import STRIKES, MidiTokState, TypeTable
from musictx.tokens.miditok_score import from_symusic, to_symusic
from musictx.tokens.performance import merged_tracks
from musictx.tokens.sounding import DRUM
from musictx.tokens.vocab import SPECIALS, NoteEvents, Tokenizer

_OFFSET = len(SPECIALS)

#: Types of token that lead to something, and are nothing at the end of a piece.
_MARKS = {"TimeShift", "Rest", "Bar", "Position", "Tempo", "TimeSig", "Program"}


class MidiTokTokenizer(Tokenizer):
    """A MidiTok tokenizer by name; options as in :class:`musictx.config.TokenizerConfig`.

    ``params`` are parameters of ``miditok.TokenizerConfig`` (and of the one tokenizer), with
    ``beat_res`` keys written "0_4" as in MidiTok's JSON. Raises :class:`UserError` without MidiTok,
    :class:`ConfigError` for a tokenizer or parameter that cannot be.
    """

    def __init__(
        self,
        name: str,
        *,
        tracks: str = "piano",
        low: int = 0,
        high: int = 127,
        velocity_bins: int = 32,
        sustain: bool = True,
        params: Mapping[str, Any] | None = None,
    ) -> None:
        TokenizerConfig(name, tracks, low, high, velocity_bins=velocity_bins)
        self._name = name.lower()
        self.tracks, self.low, self.high = tracks, low, high
        self.velocity_bins, self.sustain = velocity_bins, sustain
        self.params = dict(params or {})
        self._inner = build_miditok(self._name, tracks, low, high, velocity_bins, self.params)
        vocabulary = {v: k for k, v in self._inner.vocab.items()}
        special = set(self._inner.special_tokens)
        kept = [i for i in sorted(vocabulary) if vocabulary[i] not in special]
        self._tokens = [tuple(vocabulary[i].split("_", 1)) for i in kept]
        self._inner_ids = np.array(kept)
        self._our_ids = np.zeros(max(vocabulary) + 1, np.int64)
        self._our_ids[self._inner_ids] = np.arange(len(kept)) + _OFFSET
        if self.size > 65536:
            raise ConfigError(f"tokenizer.params: {self.size} ids do not fit uint16 (65536)")

    def __repr__(self) -> str:
        return f"MidiTokTokenizer({self.name}, {self.size} ids, {self.tracks})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.to_config(),)

    @property
    def name(self) -> str:
        return self._name

    @property
    def size(self) -> int:
        return len(self._tokens) + _OFFSET

    @property
    def beats(self) -> bool:  # type: ignore[override]
        return bool(self._inner.config.use_tempos)

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        return (*(f.kind for f in SPECIALS), *dict.fromkeys(kind for kind, _ in self._tokens))

    @cached_property
    def kind_of(self) -> np.ndarray:
        place = {kind: i for i, kind in enumerate(self.kinds)}
        return np.array([*range(_OFFSET), *(place[kind] for kind, _ in self._tokens)])

    @cached_property
    def pitch_of(self) -> np.ndarray:
        return self._values("NoteOn", "Pitch")

    def _values(self, *kinds: str) -> np.ndarray:
        found = [int(v) if k in kinds else -1 for k, v in self._tokens]
        return np.array([-1] * _OFFSET + found)

    @cached_property
    def note_events(self) -> NoteEvents | None:
        if "NoteOff" not in self.kinds:
            return None

        def of(*kinds: str) -> np.ndarray:
            return np.array([False] * _OFFSET + [k in kinds for k, _ in self._tokens])

        return NoteEvents(
            strike=self.pitch_of,
            release=self._values("NoteOff"),
            program=self._values("Program"),
            lead=of("Program"),
            wait=of("TimeShift", "Rest", "Bar", "Position").astype(float),
        )

    @cached_property
    def fingerprint(self) -> str:
        """16 hexadecimal digits of all tokens and options."""
        described = [self._tokens, sorted(self.to_config().items())]
        return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()[:16]

    def to_config(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "tracks": self.tracks,
            "low": self.low,
            "high": self.high,
            "velocity_bins": self.velocity_bins,
            "sustain": self.sustain,
            "params": self.params,
        }

    def encode_with_report(self, score: Score) -> tuple[np.ndarray, Counter[str]]:
        """As ``encode``, and what was left out: reason -> number of notes."""
        if self.sustain and len(score.pedals):
            score = pedal.fold_sustain(score)
        notes = score.notes
        left_out: Counter[str] = Counter()
        if self.tracks == "piano" and notes["drum"].any():
            left_out["drum notes left out"] = int(notes["drum"].sum())
            notes = notes[~notes["drum"]]
        pitched, drums = self._pitches
        inside = np.where(notes["drum"], drums[notes["pitch"]], pitched[notes["pitch"]])
        if not inside.all():
            reason = f"notes outside pitches {self.low}..{self.high} left out"
            left_out[reason] = int((~inside).sum())
            notes = notes[inside]
        if not len(notes):
            return np.empty(0, np.uint16), left_out
        written = self._inner.encode(to_symusic(notes, score, self._inner))
        sequence = written if not isinstance(written, list) else written[0]
        ids = self._our_ids[np.array(sequence.ids, np.int64)].astype(np.uint16)
        return ids[: self._after_last_note(ids)], left_out

    def merged(self, score: Score) -> int:
        return merged_tracks(score.notes, self.tracks)

    def _after_last_note(self, ids: np.ndarray) -> int:
        """Where the notes end: MidiTok writes on if a mark of tempo or meter comes after them."""
        stop = len(ids)
        while stop and self._tokens[ids[stop - 1] - _OFFSET][0] in _MARKS:
            stop -= 1
        return stop

    def decode(self, ids: np.ndarray | Sequence[int]) -> Score:
        """Any ids of the vocabulary -> Score; notes that wait for a release end with the piece."""
        from miditok import TokSequence

        array = np.asarray(ids, dtype=np.int64).reshape(-1)
        if array.size and not 0 <= array.min() <= array.max() < self.size:
            raise ValueError(f"token ids: expected 0 to {self.size - 1}")
        array = array[array >= _OFFSET]
        words = ["_".join(self._tokens[i - _OFFSET]) for i in array]
        state = MidiTokState(self._table)
        state.read(array)
        for program, pitch in state.sounding:
            words += [f"Program_{program}"] * (self.tracks == "programs")
            words += [f"DrumOff_{pitch - DRUM}" if pitch >= DRUM else f"NoteOff_{pitch}"]
        if not words:
            return Score()
        back = [self._inner.vocab[word] for word in words]
        sequence = TokSequence(ids=back, tokens=words)
        one = self._inner.one_token_stream
        return self._as_struck(
            from_symusic(self._inner.decode(sequence if one else [sequence])), array
        )

    def _as_struck(self, score: Score, ids: np.ndarray) -> Score:
        """Notes of one moment in the order in which ``ids`` strike them."""
        when: dict[tuple[int, int], list[int]] = {}
        program = 0
        for place, i in enumerate(ids):
            kind, value = self._tokens[i - _OFFSET]
            if kind == "Program":
                program = int(value)
            elif kind in STRIKES:
                when.setdefault((program, int(value)), []).append(place)
        notes = score.notes
        part = np.where(notes["drum"] & (self.tracks == "programs"), -1, notes["program"])
        order = np.full(len(notes), len(ids))
        for i, key in enumerate(zip(part.tolist(), notes["pitch"].tolist())):
            if when.get(key):
                order[i] = when[key].pop(0)
        return score.with_notes(notes[np.lexsort((order, notes["start"]))])

    def grammar(self, prefix: np.ndarray | Sequence[int] = ()) -> MidiTokState:
        """The state after ``prefix``; see :mod:`musictx.tokens.miditok_grammar`."""
        state = MidiTokState(self._table)
        state.read(prefix)
        return state

    def augment(
        self, ids: np.ndarray, *, semitones: int = 0, stretch: float = 1.0, velocity: int = 0
    ) -> np.ndarray | None:
        """A window of a piece, transposed, stretched, made louder; ``None`` if a pitch leaves.

        Pitch, velocity and tempo tokens are replaced where they stand: a stretch is a slower
        tempo, so a window that shows no tempo stays as it is. A vocabulary without tempo tokens
        is stretched by reading the window and writing it anew.
        """
        if semitones == 0 and stretch == 1.0 and velocity == 0:
            return ids
        out = np.asarray(ids).astype(np.int64)
        if semitones:
            moved = self._moved(semitones)[out]
            if (moved < 0).any():
                return None
            out = moved
        if velocity:
            out = self._rescaled("Velocity", lambda v: np.clip(v + velocity, 1, 127))[out]
        if stretch != 1.0 and "Tempo" in self._table.ids:
            out = self._rescaled("Tempo", lambda v: v / stretch)[out]
        elif stretch != 1.0:
            score = self.decode(out)
            notes = score.notes.copy()
            notes["start"] *= stretch
            notes["end"] *= stretch
            inner = self.encode(Score(notes=notes)).astype(np.int64)
            content = np.flatnonzero(out >= _OFFSET)
            if len(content):
                out = np.concatenate([out[: content[0]], inner, out[content[-1] + 1 :]])
        return out.astype(np.uint16)

    def _moved(self, semitones: int) -> np.ndarray:
        """(size,) id -> id of the transposed token, -1 where there is none."""
        place = {token: i + _OFFSET for i, token in enumerate(self._tokens)}
        table = np.arange(self.size)
        for (kind, value), i in place.items():
            if kind in ("Pitch", "NoteOn", "NoteOff"):
                table[i] = place.get((kind, str(int(value) + semitones)), -1)
        return table

    def _rescaled(self, kind: str, change: Any) -> np.ndarray:
        """(size,) id -> id of the token of this kind nearest to the changed value."""
        table = np.arange(self.size)
        ids = self._table.ids.get(kind, np.empty(0, np.int64))
        if len(ids):
            values = np.array([float(self._tokens[i - _OFFSET][1]) for i in ids])
            table[ids] = ids[np.abs(values - change(values)[:, None]).argmin(axis=1)]
        return table

    @cached_property
    def _pitches(self) -> tuple[np.ndarray, np.ndarray]:
        """Two (128,) masks: pitches, and drum pitches, that the vocabulary has."""
        masks: list[np.ndarray] = []
        for kinds in (("Pitch", "NoteOn"), ("PitchDrum", "DrumOn")):
            mask = np.zeros(128, bool)
            mask[[int(value) for kind, value in self._tokens if kind in kinds]] = True
            masks.append(mask if mask.any() else masks[0])
        return masks[0], masks[1]

    @cached_property
    def _table(self) -> TypeTable:
        inner = self._inner
        return TypeTable(
            tokens=self._tokens,
            graph=inner.tokens_types_graph,
            first=self._openings(),
            positions=inner.config.max_num_pos_per_beat,
            default_bpm=float(inner.default_tempo),
            released=frozenset(inner.config.use_note_duration_programs),
            every_note_ends=set(inner.config.use_note_duration_programs) >= {-1, *range(128)},
        )

    def _openings(self) -> frozenset[str]:
        """The types that open a piece, learned from small pieces."""
        first = set()
        for start in (0.0, 0.25, 30.0):
            for chord in (1, 4):
                notes = [(start, start + 0.5, 60 + 3 * i, 64, 0, False, 0) for i in range(chord)]
                ids = self.encode(Score(notes=np.array(notes, NOTE)))
                first |= {self._tokens[i - _OFFSET][0] for i in ids[:1].astype(int)}
        return frozenset(first)


def _again(config: Mapping[str, Any]) -> MidiTokTokenizer:
    return MidiTokTokenizer(**config)
