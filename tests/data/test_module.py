"""Training batches: what rows consist of, where windows begin, augmentation, resuming."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from musictx.chorale.grid import Grid
from musictx.chorale.tokenizer import ChoraleTokenizer
from musictx.config import AugmentConfig
from musictx.data import draw
from musictx.data.draw import TrainingBatches, TrainingRows
from musictx.data.module import MusicDataModule, validation_loader
from musictx.data.windows import Batch, EvaluationWindows
from musictx.errors import UserError
from musictx.tokens.build import build
from musictx.tokens.vocab import BOS, CUT, EOS, PAD
from tests.data.helpers import TOKENIZER, make_shards, song

NO_CHANGE = AugmentConfig(transpose=0, stretch=[1.0])
CHANGE = AugmentConfig(transpose=3, stretch=[0.5, 0.95, 1.05, 2.0])


def shards_of(folder, train, validation=()):
    """Shards of songs with these numbers of notes."""
    train = [TOKENIZER.encode(song(i, n)) for i, n in enumerate(train)]
    validation = [TOKENIZER.encode(song(1000 + i, n)) for i, n in enumerate(validation)]
    return make_shards(folder, train, validation)


@pytest.fixture(scope="module")
def shards(tmp_path_factory):
    return shards_of(tmp_path_factory.mktemp("data") / "s", [30, 5, 80, 200, 12], [40, 9, 90])


def module(shards, **options):
    settings = {"context": 64, "batch_size": 4, "augment": CHANGE, "seed": 7} | options
    return MusicDataModule(shards, TOKENIZER, **settings)


def take(loader, count: int) -> list[Batch]:
    return list(itertools.islice(iter(loader), count))


def same(first: list[Batch], second: list[Batch]) -> bool:
    pairs = zip(itertools.chain(*first), itertools.chain(*second), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def segments(row) -> list[tuple[list[int], list[int]]]:
    """(ids, targets) of each piece of a row. Pieces are numbered 0, 1, 2, ...; padding follows."""
    numbers = row.piece_ids[row.piece_ids >= 0]
    assert np.isin(np.diff(numbers, prepend=-1), [0, 1]).all()
    assert np.all(row.piece_ids[len(numbers) :] == -1)
    picks = [row.piece_ids == number for number in np.unique(numbers)]
    return [(row.ids[pick].tolist(), row.targets[pick].tolist()) for pick in picks]


def position(part: list[int], whole: list[int]) -> int:
    """The index of ``part`` in ``whole``; -1 if it is not there."""
    starts = range(len(whole) - len(part) + 1)
    return next((start for start in starts if whole[start : start + len(part)] == part), -1)


@settings(max_examples=15)
@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=5), st.sampled_from([1, 2, 8, 33, 200]),
    st.integers(0, 1000), st.sampled_from([NO_CHANGE, CHANGE]),
)  # fmt: skip
def test_rows_are_pieces_and_lose_nothing_at_edges(tmp_path_factory, notes, context, seed, augment):
    shards = shards_of(tmp_path_factory.mktemp("data") / "s", notes)
    rows = TrainingRows(shards, TOKENIZER, context, augment, seed)
    pieces = [[*shards.tokens(p.number).tolist(), EOS] for p in shards.pieces("train")]
    for number in range(5):
        row = rows.row(number, 0)
        assert all(len(column) == context for column in row)
        parts = segments(row)
        for ids, targets in parts:
            starts = {position(targets, piece) for piece in pieces} - {-1}
            assert starts or augment is CHANGE, "targets are no stretch of any piece"
            assert ids[1:] == targets[:-1]
            assert ids[0] == CUT or not starts or 0 in starts
        # A piece is left before its end only where the row ends.
        assert all(targets[-1] == EOS for _, targets in parts[:-1])
        padding = row.piece_ids == -1
        assert not padding.any() or len(parts) == draw.MOST_WINDOWS
        assert np.all(row.targets[padding] == -100)
        assert np.all(row.ids[padding] == PAD)
        assert np.all(row.targets[~padding] >= 0)


def test_beginnings_ends_and_every_event_come_up(shards):
    rows = TrainingRows(shards, TOKENIZER, 64, NO_CHANGE, 0)
    longest = max(shards.pieces("train"), key=lambda p: p.tokens)
    whole = [*shards.tokens(longest.number).tolist(), EOS]
    seen = np.zeros(len(whole), int)
    starts = {BOS: 0, CUT: 0}
    for number in range(3000):
        for ids, targets in segments(rows.row(number, 0)):
            starts[ids[0]] += 1
            at = position(targets, whole)
            if at >= 0 and len(targets) > 8:
                seen[at : at + len(targets)] += 1
    assert seen.min() > 0
    # inside the piece, where starts are uniform, no place is preferred
    inside = seen[64:-64]
    assert inside.max() < 2.2 * inside.min()
    assert min(starts.values()) > 200


def test_a_piece_that_was_cut_has_neither_beginning_nor_end(tmp_path):
    ids = [TOKENIZER.encode(song(1, 20))]
    shards = make_shards(tmp_path / "s", ids, begins=False, ends=False)
    rows = TrainingRows(shards, TOKENIZER, 200, CHANGE, 0)
    for number in range(20):
        assert not np.isin(rows.row(number, 0)[:2], [BOS, EOS]).any()


def test_changed_windows_are_changes_of_the_piece(tmp_path):
    """The piece is shorter than the row, so each window is one of its possible augmentations."""
    shards = shards_of(tmp_path / "s", [10])
    ids = shards.tokens(0)
    augment = AugmentConfig(transpose=2, stretch=[0.9, 1.0, 1.1])
    rows = TrainingRows(shards, TOKENIZER, 400, augment, 0)
    changes = itertools.product(range(-2, 3), augment.stretch)
    possible = {(*TOKENIZER.augment(ids, semitones=s, stretch=f).tolist(), EOS) for s, f in changes}
    parts = [part for number in range(60) for part in segments(rows.row(number, 0))[:-1]]
    seen = {tuple(targets) for ids, targets in parts if ids[0] == BOS}
    assert seen <= possible
    assert len(seen) > 0.5 * len(possible)


def test_a_change_that_leaves_the_range_is_drawn_again_and_at_last_left_out(tmp_path):
    narrow = build(name="performance", low=40, high=80)
    ids = narrow.encode(song(1, 40))
    shards = make_shards(tmp_path / "s", [ids], tokenizer=narrow)
    rows = TrainingRows(shards, narrow, 2 * len(ids), AugmentConfig(24, stretch=[1.0]), 0)
    assert narrow.augment(ids, semitones=10) is None
    assert max(rows.row(number, 0).targets.max() for number in range(20)) < narrow.vocabulary.size


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # torch's loader, Python 3.12
@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")  # on one core
@pytest.mark.parametrize("workers", [0, 2])
def test_a_resumed_run_sees_what_an_uninterrupted_one_would(shards, workers):
    whole = take(module(shards).train_dataloader(), 8)
    assert not same(whole[:1], take(module(shards, seed=8).train_dataloader(), 1))
    assert not same(whole[:1], whole[1:2])
    data = module(shards, num_workers=workers)
    data.load_state_dict({"next_batch": 3})
    assert data.state_dict() == {"next_batch": 3}
    assert same(whole[3:], take(data.train_dataloader(), 5))


def test_windows_grow_and_a_batch_keeps_its_tokens(shards):
    growing, resumed = (module(shards, growing_windows=[[2, 16], [3, 32]]) for _ in range(2))
    batches = take(growing.train_dataloader(), 5)
    assert [tuple(b.ids.shape) for b in batches] == [(16, 16), (16, 16), (8, 32), (4, 64), (4, 64)]
    assert same(batches[3:], take(module(shards).train_dataloader(), 5)[3:])
    resumed.load_state_dict({"next_batch": 1})
    assert same(batches[1:], take(resumed.train_dataloader(), 4))
    with pytest.raises(UserError, match=r"^data\.growing_windows=\[\[2, 65\]\]: .* 64 tokens"):
        module(shards, growing_windows=[[2, 65]])


@pytest.mark.parametrize(
    ("name", "align", "window"), [("notes", 1, 65), ("chorale", 1, 64), ("performance", 10, 60)]
)
def test_windows_of_validation_begin_where_those_of_training_do(name, align, window, tmp_path):
    """At a note of five ids, at the first of four voices, at multiples of ``align``."""
    tokens = build(name)
    pieces = [np.arange(4, 300, dtype=np.uint16) % tokens.vocabulary.size for _ in range(2)]
    shards = make_shards(tmp_path / "s", pieces, pieces, tokenizer=tokens)
    data = MusicDataModule(shards, tokens, context=67, batch_size=1, align=align)
    targets = [batch.targets[0] for batch in data.val_dataloader()]
    lengths = [min(window, 296 - start) for start in range(0, 296, window)]
    assert [len(row) for row in targets] == 2 * lengths
    assert torch.cat(targets).tolist() == np.concatenate(pieces).tolist()


def test_devices_share_the_rows_of_a_batch(shards):
    rows = TrainingRows(shards, TOKENIZER, 64, CHANGE, 7)
    parts = [TrainingBatches(rows, 2, rank)[5] for rank in range(3)]
    whole = TrainingBatches(rows, 6)[5]
    assert same([whole], [Batch(*(torch.cat(columns) for columns in zip(*parts)))])
    assert not same(parts[:1], parts[1:2])


@settings(max_examples=60)
@given(st.integers(0, 30), st.integers(1, 8), st.integers(1, 5), st.randoms())
def test_devices_share_validation_without_repeating_or_waiting(shards, count, batch, devices, r):
    rows = EvaluationWindows(shards, "validation", 16)
    chosen = sorted(r.sample(range(len(rows)), min(count, len(rows))))
    loaders = [validation_loader(rows, chosen, batch, rank, devices) for rank in range(devices)]
    parts = [list(loader) for loader in loaders]
    assert len({tuple(len(b.ids) for b in part) for part in parts}) == 1
    scored = sum(int((b.targets != -100).sum()) for part in parts for b in part)
    assert scored == sum(int((rows[i].targets != -100).sum()) for i in chosen)
    assert len(loaders[0]) == len(parts[0])
    assert same(parts[0], list(loaders[0]))


def test_some_validation_windows_are_spread_evenly(tmp_path):
    shards = shards_of(tmp_path / "s", [10], [60] * 8)
    rows = EvaluationWindows(shards, "validation", 32)
    pieces = {tuple(row.targets.tolist()): w.piece for row, w in zip(rows, rows.table)}

    def loaded(count):
        return list(module(shards, context=32, validation_windows=count).val_dataloader())

    scored = [tuple(x for x in t.tolist() if x != -100) for b in loaded(8) for t in b.targets]
    assert sorted(pieces[targets] for targets in scored) == list(range(8))
    assert same(loaded(8), loaded(8))
    assert sum(len(b.ids) for b in loaded(10**6)) == len(rows)


def test_without_a_piece_to_train_on_there_is_no_training_but_without_validation_there_is(tmp_path):
    assert list(module(shards_of(tmp_path / "s", [2])).val_dataloader()) == []
    with pytest.raises(UserError, match="no piece to train on"):
        module(shards_of(tmp_path / "none", [], [5]))


def test_windows_of_chorales_begin_with_a_soprano_at_multiples_of_what_is_asked(tmp_path):
    """Every soprano token tells its step: the soprano has the pitch 60 + n at step n."""
    chorales, pieces = ChoraleTokenizer(), []
    for number, steps in enumerate((7, 19, 20)):
        step = np.arange(steps)
        voices = [60 + step, 55 + number + 0 * step, 50 + 0 * step, 40 + step]
        pieces.append(chorales.encode_grid(Grid.from_pitches(np.stack(voices, 1))))
    shards = make_shards(tmp_path / "s", pieces, tokenizer=chorales)

    def windows_of(context=32, align=1, **augment):
        """(start in tokens, opened by, last target) of every window of 300 rows."""
        augment = AugmentConfig(transpose=0, stretch=[1.0], **augment)
        rows = TrainingRows(shards, chorales, context, augment, seed=0, align=align)
        for number in range(300):
            for ids, targets in segments(rows.row(number, 0)):
                if targets[0] != EOS:
                    first = chorales.decode_grid(np.array(targets[:1])).pitches[0, 0]
                    yield 4 * (int(first) - 60), ids[0], targets[-1]

    starts = [start for start, _, _ in windows_of()]
    assert min(starts) >= 0  # a bass or a tenor would be below 60
    assert {start % 16 for start in starts} == {0, 4, 8, 12}
    aligned = {(start, opened) for start, opened, _ in windows_of(align=16)}
    assert all(start % 16 == 0 and (opened == BOS) == (start == 0) for start, opened in aligned)
    assert len(aligned) > 2
    assert {start % 12 for start, _, _ in windows_of(align=3)} == {0}  # and of the voices
    whole = list(windows_of(context=100, whole=True))
    assert {(start, opened) for start, opened, _ in whole} == {(0, BOS)}
    # The first piece of a row always fits, 29, 77 or 81 tokens of 100.
    assert sum(last == EOS for _, _, last in whole) >= 300
