"""Windows arranged as tasks: their contents, their order, and which tokens are targets."""

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.config import AugmentConfig
from musictx.data.draw import TrainingRows
from musictx.data.module import MusicDataModule
from musictx.data.tasks import EventTasks
from musictx.data.windows import UNSCORED, Row
from musictx.errors import UserError
from musictx.tokens import events as ev
from musictx.tokens.controls import CONTROL_KINDS, CONTROLS, MARKS
from musictx.tokens.performance import PerformanceTokenizer
from musictx.tokens.stream import OPEN
from musictx.tokens.vocab import BOS, CUT, EOS
from tests.data.helpers import TOKENIZER, make_shards, song

STEERED = PerformanceTokenizer(controls=True)
ENSEMBLE = PerformanceTokenizer(tracks="programs", controls=True)
quick = settings(max_examples=60)
tasks = st.sampled_from(["infill", "accompany", "steer"])


class Parts(NamedTuple):
    levels: list[int]
    known: np.ndarray | None
    past: np.ndarray
    rest: np.ndarray | None


def parts_of(row: Row, tokenizer=STEERED) -> Parts:
    """Return the levels of controls, and ids between marks; None where there is no such mark."""
    ids, table = sequence(row), tokenizer.vocabulary
    marks = {mark: np.flatnonzero(ids == table.id(mark)).tolist() for mark in MARKS}
    (stream,), (here,) = marks["stream"], marks["here"] or [len(ids)]
    first = min([*marks["known"], stream])
    kinds, levels = zip(*(table.token(int(i)) for i in ids[1:first]))
    assert kinds == tuple(CONTROLS)
    known = ids[first + 1 : stream] if marks["known"] else None
    rest = ids[here + 1 :] if marks["here"] else None
    return Parts(list(levels), known, ids[stream + 1 : here], rest)


def sequence(row: Row) -> np.ndarray:
    return np.append(row.ids, row.targets[-1])


def piece(seed: int, notes: int = 120, tokenizer=STEERED) -> np.ndarray:
    score = song(seed, notes)
    if tokenizer is ENSEMBLE:
        table = score.notes.copy()
        table["program"] = np.random.default_rng(seed).choice([0, 48, 73], len(table))
        table["track"] = table["program"]
        score = score.with_notes(table)
    return tokenizer.encode(score)


def arranged(task: str, ids, seed: int, tokenizer=STEERED, deadpan=0.0, melody="skyline", **more):
    """The row of the task, or None if the music does not allow it."""
    tasks = EventTasks(tokenizer, {task: 1.0}, melody)
    tasks.deadpan_share = deadpan
    options = {"begins": True, "ends": False, "budget": 600} | more
    return tasks.row(task, ids, np.random.default_rng(seed), **options)


def events(ids: np.ndarray, tokenizer=STEERED) -> list[tuple]:
    """(step, action, program, pitch, velocity bin) of each event; a release has no velocity."""
    rows = ev.from_ids(ids.astype(np.int64), tokenizer.vocabulary)[0]
    columns = ("step", "action", "program", "pitch", "velocity_bin")
    return [tuple(int(e[n]) for n in columns[: 4 if e["action"] == ev.OFF else 5]) for e in rows]


@quick
@given(tasks, st.integers(0, 10**6), st.booleans())
def test_the_stream_is_the_music_and_contains_the_given_notes_again(task, seed, programs):
    tokenizer = ENSEMBLE if programs else STEERED
    ids = piece(seed, tokenizer=tokenizer)
    cut = seed % 7 * 3  # also windows that begin inside a piece
    row = arranged(task, ids[cut:], seed, tokenizer=tokenizer, begins=cut == 0)
    if row is None:
        return
    assert row.ids[0] == (BOS if cut == 0 else CUT)
    levels, known, past, rest = parts_of(row, tokenizer)
    assert (known is None) == (task == "steer") == (rest is None)
    stream = past if rest is None else np.concatenate([past, rest])
    stop = ev.from_ids(stream, tokenizer.vocabulary)[1]
    whole = events(ids[cut:], tokenizer)
    music = [e for e in whole if e[0] <= stop]
    written = events(stream, tokenizer)
    assert written == music[: len(written)]
    assert len(written) >= len(music) - len(tokenizer.vocabulary.kinds)  # the end of the window
    if known is None:
        return
    here = int(ev.from_ids(past, tokenizer.vocabulary)[1])
    ahead = [(e[0] + here, *e[1:]) for e in events(known, tokenizer)]
    later = iter([e for e in whole if e[0] >= here])
    assert all(e in later for e in ahead)  # in the same order
    after = iter([e for e in written if e[0] >= here])
    assert all(e in after for e in ahead if e[0] <= stop)
    highest = [len(edges) + 1 for edges in CONTROLS.values()]
    assert levels == [0] * 4 or all(0 <= n <= high for n, high in zip(levels, highest))


@quick
@given(tasks, st.integers(0, 10**6), st.sampled_from([0.0, 1.0]), st.integers(150, 700))
def test_targets_are_next_ids_except_controls_marks_and_deadpan_music(task, seed, deadpan, budget):
    ids = piece(seed)
    row = arranged(task, ids, seed, deadpan=deadpan, budget=budget, ends=True)
    if row is None:
        return
    assert len(row.ids) == len(row.targets) == len(row.piece_ids) <= budget
    scored = row.targets != UNSCORED
    assert np.array_equal(row.targets[:-1][scored[:-1]], row.ids[1:][scored[:-1]])
    kinds = [STEERED.vocabulary.token(max(int(i), 0))[0] for i in sequence(row)]
    first, split = kinds.index("stream"), kinds.index("here") if "here" in kinds else None
    for place, kind in enumerate(kinds[1:], 1):
        expected = kind not in CONTROL_KINDS
        if deadpan and split is not None:
            expected &= not first < place < split
            expected &= not (task == "infill" and place < first)
        assert scored[place - 1] == expected
    if EOS in sequence(row):
        assert task != "infill"
        assert row.targets[-1] == EOS


@quick
@given(st.integers(0, 10**6), st.integers(2, 2000))
def test_deadpan_notes_stay_on_their_side_of_here(seed, here):
    window = STEERED.read(piece(seed)[seed % 40 :])
    changed = EventTasks(STEERED, {}).as_deadpan(window, here, np.random.default_rng(seed))
    assert np.array_equal(changed.notes["start"] < here, window.notes["start"] < here)
    assert np.array_equal(changed.ends["stop"] < here, window.ends["stop"] < here)
    ended = window.notes["length"] != OPEN
    assert np.array_equal(ended, changed.notes["length"] != OPEN)
    assert np.array_equal((changed.note_ends < here)[ended], (window.note_ends < here)[ended])
    for name in ("part", "pitch"):
        assert np.array_equal(changed.notes[name], window.notes[name])
    assert len(np.unique(changed.notes["velocity_bin"])) == 1
    assert (changed.notes["length"][ended] > 0).all()


def test_a_gap_is_as_long_as_the_silence_before_the_given_notes():
    """In infill without a given voice, all notes in the gap are new."""
    rows = [row for seed in range(60) if (row := arranged("infill", piece(seed), seed))]
    silences = 0
    for row in rows:
        parts = parts_of(row)
        known, rest = ([e for e in events(x) if e[1] == ev.ON] for x in (parts.known, parts.rest))
        new = [e[0] for e in rest if e not in known]
        assert new
        silences += bool(known) and known[0][0] > max(new)
    assert silences > 20


def test_a_row_is_a_function_of_its_number_and_plain_rows_stay_what_they_were(tmp_path):
    shards = make_shards(tmp_path / "s", [TOKENIZER.encode(song(i, 200)) for i in range(6)])
    weights = {"infill": 0.3, "accompany": 0.3, "steer": 0.2}

    def rows(tokenizer, given):
        return TrainingRows(shards, tokenizer, 512, AugmentConfig(), 3, given)

    one, two = (rows(STEERED, EventTasks(STEERED, weights)) for _ in range(2))
    kinds = set()
    for number in (5, 0, 9, 2, 7):
        a, b = one.row(number, 1), two.row(number, 1)
        assert all(np.array_equal(x, y) for x, y in zip(a, b))
        assert a.ids.max() < STEERED.vocabulary.size
        kinds |= {STEERED.vocabulary.token(int(i))[0] for i in a.ids}
    assert {"known", "stream", "here"} <= kinds
    for x, y in zip(rows(STEERED, None).row(4, 0), rows(TOKENIZER, None).row(4, 0)):
        assert np.array_equal(x, y)


def test_shards_suit_tokenizers_with_and_without_controls_but_tasks_require_them(tmp_path):
    shards = make_shards(tmp_path / "s", [TOKENIZER.encode(song(i, 99)) for i in range(4)])
    shards.check(STEERED)
    options = {"context": 128, "batch_size": 2}
    MusicDataModule(shards, STEERED, tasks={"steer": 0.5}, **options | {"context": 105})
    with pytest.raises(UserError, match=r"data\.tasks=.*model\.context of at least 105"):
        MusicDataModule(shards, STEERED, tasks={"steer": 0.5}, **options | {"context": 104})
    with pytest.raises(UserError, match=r"data\.tasks=.*tokenizer\.controls=true"):
        MusicDataModule(shards, TOKENIZER, tasks={"steer": 0.5}, **options)
    with pytest.raises(UserError, match=r"data\.tasks=.*vary needs music in bars"):
        MusicDataModule(shards, STEERED, tasks={"vary": 0.5}, **options)


def test_the_given_voice_is_the_program_of_the_melody():
    for seed in range(8):
        row = arranged("accompany", piece(seed, tokenizer=ENSEMBLE), seed, ENSEMBLE, melody="73")
        if row is not None:
            assert {e[2] for e in events(parts_of(row, ENSEMBLE).known, ENSEMBLE)} == {73}
