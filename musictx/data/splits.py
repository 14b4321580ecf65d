"""Which pieces are for training, which for validation and test.

The split of a piece follows from its notes (``Score.content_hash``), not from its name or its
place in the list: adding files never moves the others. Where a published table gives a piece a
split, that has priority.
"""

from __future__ import annotations

from collections.abc import Sequence

#: Of pieces with the same notes the one with the lowest rank is kept: so that no piece of a
#: published test or validation split ever trains.
RANK = {"test": 0, "validation": 1, "train": 2, None: 3}


def by_content(content: str, validation: float, test: float) -> str:
    """The split of a piece by its hash (32 hexadecimal digits): a number in [0, 1) from the first
    13 digits, below ``validation`` -> validation, below their sum -> test, else train."""
    number = int(content[:13], 16) / 2.0**52  # 52 bits: exact
    if number < validation:
        return "validation"
    return "test" if number < validation + test else "train"


def divide(
    hashes: Sequence[str], published: Sequence[str | None], *, validation: float, test: float
) -> tuple[list[str], list[str]]:
    """(split of each piece, remarks) of pieces with different hashes.

    ``published`` holds the split that a table gives each piece, or None. Otherwise the hash decides
    (:func:`by_content`). Then, so that small corpora work:

    - if validation is asked for and the published split leaves it empty, published training pieces
      are split by content;
    - if train is empty, the piece with the largest hash to which no table gives a split goes there;
    - if validation is still empty, the piece of train with the smallest hash goes there (if train
      has but one, an unpublished one of test).
    """
    given, remarks = list(published), []
    splits = [p or by_content(h, validation, test) for h, p in zip(hashes, given, strict=True)]
    if validation > 0 and "validation" not in splits and any(given):
        for i, split in enumerate(given):
            if split == "train":
                splits[i] = by_content(hashes[i], validation, 0.0)
        if "validation" in splits:
            remarks.append("no file of the official validation split is here: split by content")
    order = sorted(range(len(hashes)), key=hashes.__getitem__)
    free = [i for i in order if given[i] is None]
    if free and "train" not in splits:
        splits[free[-1]] = "train"
        remarks.append("the training split was empty, so one held-out piece was moved to it")
    donors = [i for i in order if splits[i] == "train"]
    if len(donors) < 2:
        donors = [i for i in free if splits[i] == "test"]
    if validation > 0 and donors and "validation" not in splits:
        donor = splits[donors[0]]
        splits[donors[0]] = "validation"
        remarks.append(f"the validation split was empty, so one {donor} piece was moved to it")
    return splits, remarks
