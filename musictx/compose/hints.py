"""What somebody may have meant who typed an option that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

#: Words of other programs and of everyday speech -> our options; the first that a command has.
SYNONYMS: dict[str, tuple[str, ...]] = {
    "accumulate": ("trainer.accumulate_grad_batches",),
    "attention": ("model.attention", "position"),
    "batch_size": ("data.batch_size", "trainer.batch", "batch"),
    "checkpoint": ("ckpt_path", "model.path"),
    "config": ("experiment",),
    "count": ("samples",),
    "d_ff": ("model.feedforward",),
    "d_model": ("model.width",),
    "data": ("corpus.path",),
    "data_dir": ("corpus.path",),
    "dataset": ("corpus",),
    "duration": ("seconds",),
    "epochs": ("trainer.max_epochs", "trainer.max_steps"),
    "file": ("primer", "melody", "files"),
    "finetune": ("init",),
    "from": ("init",),
    "gpus": ("trainer.devices",),
    "grad_clip": ("trainer.gradient_clip_val",),
    "hidden_size": ("model.width",),
    "input": ("primer", "melody", "files", "corpus.path"),
    "instruments": ("tokenizer",),
    "learning_rate": ("optim.lr",),
    "length": ("seconds",),
    "max_len": ("model.context", "context"),
    "midi": ("files", "primer", "melody"),
    "minutes": ("trainer.max_time",),
    "n": ("samples",),
    "n_heads": ("model.heads",),
    "n_layers": ("model.layers",),
    "num_heads": ("model.heads",),
    "num_layers": ("model.layers",),
    "num_samples": ("samples",),
    "num_workers": ("data.workers", "trainer.workers", "corpus.workers"),
    "optimizer": ("optim",),
    "output": ("out",),
    "output_dir": ("out",),
    "prompt": ("primer", "melody"),
    "resume": ("ckpt_path", "out"),
    "save_dir": ("out",),
    "seq_len": ("model.context", "context"),
    "soprano": ("melody",),
    "steps": ("trainer.max_steps", "trainer.steps", "tokens"),
    "takes": ("samples",),
    "tune": ("melody", "primer"),
    "variations": ("samples",),
}
#: Options of other commands, and what does not exist but is often looked for.
ELSEWHERE = {
    "melody": "a melody is harmonised by musictx harmonise",
    "particles": "harmonising is musictx harmonise",
    "primer": "a primer is continued by musictx generate",
}
#: Commands of other programs, and in other spellings.
COMMANDS = {
    "compose": "generate",
    "sample": "generate",
    "harmonize": "harmonise",
    "accompany": "harmonise",
    "play": "render",
    "convert": "render",
    "fit": "train",
    "finetune": "train init=MODEL",
    "test": "evaluate split=test",
    "validate": "evaluate",
    "eval": "evaluate",
    "preprocess": "prepare",
    "tokenize": "prepare",
    "info": "--version",
    "models": "generate --help (it lists them)",
    "gui": "generate",
}


def meant(name: str, known: Sequence[str]) -> list[str]:
    """The options of ``known`` that ``name`` may stand for, best first; none where all are far."""
    last = name.rpartition(".")[2].lower().replace("-", "_")
    found = [option for option in SYNONYMS.get(last, ()) if option in known][:1]
    found = found or [k for k in known if k.rpartition(".")[2] == last]
    found = found or difflib.get_close_matches(name, known, n=1, cutoff=0.8)
    return found or [
        k for k in known if difflib.get_close_matches(last, [k.rpartition(".")[2]], cutoff=0.8)
    ]


def unknown_option(command: str, name: str, known: Sequence[str]) -> str:
    """The sentence for an option that ``command`` does not have."""
    near = meant(name, known)
    hint = f"did you mean {' or '.join(near[:3])}? " if near else ""
    if not near and name in ELSEWHERE:
        hint = ELSEWHERE[name] + "; "
    return f"{name}: no such option of musictx {command}; {hint}musictx {command} --help lists all"


def unknown_command(name: str, commands: Sequence[str]) -> str:
    """The sentence for a command that does not exist."""
    near = COMMANDS.get(name.lower()) or next(
        iter(difflib.get_close_matches(name.lower(), commands, n=1)), None
    )
    hint = f"did you mean musictx {near}? The commands are" if near else "expected one of"
    return f"{name}: no such command; {hint} {', '.join(commands)}"
