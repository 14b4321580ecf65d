"""Music by a network that torch.export has recorded (docs/python.md)."""

import numpy as np
import torch

import musictx

LENGTH = 96
bundle = musictx.load("piano")
window = torch.zeros(1, LENGTH, dtype=torch.int64)
window[0, 0] = 1  # the beginning of a piece
torch.export.save(torch.export.export(bundle.model, (window,), strict=False), "piano.pt2")

network = torch.export.load("piano.pt2").module()
grammar, random = bundle.tokenizer.grammar(), np.random.default_rng(1)
for place in range(1, LENGTH):
    logits = network(window)[0, place - 1].double().numpy()
    logits[~grammar.allowed()] = -np.inf
    chances = np.exp(logits - logits.max())
    drawn = int(random.choice(len(chances), p=chances / chances.sum()))
    if drawn == 2:  # the end
        break
    grammar.advance(drawn)
    window[0, place] = drawn
musictx.write(bundle.tokenizer.decode(window[0, 1:place].numpy()), "exported.mid")
