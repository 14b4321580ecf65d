"""What an editor sees: every public call of the package has a type. Read by mypy, never run."""

from pathlib import Path
from typing import assert_type

import musictx
from musictx.bundle import Bundle
from musictx.evaluate.nll import Evaluation
from musictx.likelihood import Likelihood
from musictx.model.transformer import MusicTransformer
from musictx.notes import Score
from musictx.sampling.events import Event
from musictx.sampling.sample import Sample
from musictx.sampling.stream import Stream
from musictx.tokens.tokenizer import Tokenizer

assert_type(musictx.read("x.mid"), Score)
assert_type(musictx.write(musictx.read("x.mid"), "y.mid"), Path)
assert_type(musictx.load("piano"), Bundle)
assert_type(musictx.load("piano").model, MusicTransformer)
assert_type(musictx.load("piano").tokenizer, Tokenizer)
assert_type(musictx.generate("piano"), list[Sample])
assert_type(musictx.generate("piano", primer=["a.mid", "b.mid"])[0].score, Score)
assert_type(musictx.stream("piano"), Stream)
assert_type(next(musictx.stream("piano")), Event)
assert_type(musictx.harmonise("ode_to_joy"), list[Sample])
assert_type(musictx.infill("x.mid", "chorale", begin=2, end="3", tracks="alto"), list[Sample])
assert_type(musictx.accompany("x.mid")[0], Sample)
assert_type(musictx.accompany("x.mid")[0].seam, float)
assert_type(musictx.log_likelihood("piano", "x.mid"), Likelihood)
assert_type(musictx.render("x.mid", "x"), list[Path])
assert_type(musictx.train("corpus=bach"), Path)
assert_type(musictx.evaluate("model=piano"), Evaluation)
musictx.generate("piano", sampling="safe", key="Cm", quantise=16, density="dense")
musictx.generate("piano", second=1.0)  # type: ignore[call-arg]
