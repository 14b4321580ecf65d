"""What chorales add to musictx: four voices on a grid of sixteenths."""

from pathlib import Path

from musictx.wings import Wing

WING = Wing(
    name="chorale",
    tokenizers={"chorale": "musictx.chorale.tokenizer:ChoraleTokenizer"},
    corpora={"bach": "musictx.chorale.bach:BachChorales", "jsb": "musictx.chorale.jsb:Published"},
    features={
        "intervals": "musictx.chorale.features.intervals:Intervals",
        "ages": "musictx.chorale.features.note_ages:NoteAges",
        "repeats": "musictx.chorale.features.repeats:Repeats",
        "counterpoint": "musictx.chorale.features.counterpoint:Counterpoint",
        "token_noise": "musictx.chorale.features.noise:TokenNoise",
        "calibration": "musictx.chorale.features.calibration:Calibration",
    },
    commands={"harmonise": "musictx.chorale.command:HARMONISE"},
    fills={"chorale": "musictx.chorale.app:filled"},
    measures={"chorales": "musictx.chorale.evaluation:ChoraleMeasures"},
    tasks={"harmonise": "chorales"},
    conf="musictx.chorale.conf",
    models=Path(__file__).with_name("models"),
)
