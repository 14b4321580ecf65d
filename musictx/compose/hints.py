"""What somebody may have meant who typed an option that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from musictx.config.trainer import NOT_OFFERED

#: Our options, and the words of other programs and of everyday speech for them.
SYNONYMS = {
    "samples": "variations takes count n num_samples",
    "seconds": "duration length",
    "primer": "prompt input file midi tune",
    "melody": "soprano prompt input file midi tune",
    "files": "input file midi",
    "out": "output output_dir save_dir resume",
    "init": "finetune from pretrained",
    "experiment": "config",
    "ckpt_path": "checkpoint resume",
    "context": "max_len seq_len",
    "corpus": "dataset",
    "corpus.path": "data data_dir input",
    "model.path": "checkpoint",
    "model.attention": "attention",
    "model.context": "max_len seq_len",
    "model.feedforward": "d_ff",
    "model.heads": "n_heads num_heads",
    "model.layers": "n_layers num_layers",
    "model.width": "d_model hidden_size",
    "optim": "optimizer",
    "optim.lr": "learning_rate",
    "tokens": "steps",
    "tokenizer": "instruments",
    "data.batch_size": "batch",
    "data.num_workers": "workers",
    "trainer.accumulate_grad_batches": "accumulate",
    "trainer.devices": "gpus num_gpus",
    "trainer.gradient_clip_val": "grad_clip clip",
    "trainer.max_epochs": "epochs",
    "trainer.max_steps": "steps",
    "trainer.max_time": "minutes hours time",
}
#: Options of other commands, and what does not exist but is often looked for.
ELSEWHERE = {
    "melody": "a melody is harmonised by musictx harmonise",
    "particles": "harmonising is musictx harmonise",
    "primer": "a primer is continued by musictx generate",
    "tempo": "tempo, meter and key are those of the primer",
    "key": "tempo, meter and key are those of the primer",
    "instrument": "instruments are those of the primer, with a model of several",
    "debug": "trainer=debug is ten steps that look for faults, trainer.fast_dev_run=true one",
    "hparams_search": "a search is -m hydra/sweeper=optuna, or a file of your own --config-dir",
    "task_name": "runs are named by out= and found again by tags=[...]",
    "extras": "--cfg job prints the configuration",
}
#: Commands of other programs, and in other spellings.
COMMANDS = {
    "compose": "generate",
    "sample": "generate",
    "harmonize": "harmonise",
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
    found = [o for o, words in SYNONYMS.items() if last in words.split() and o in known]
    found = found or [k for k in dict.fromkeys(known) if k.rpartition(".")[2] == last]
    found = found or difflib.get_close_matches(name, known, n=1, cutoff=0.8)
    return found or [
        k for k in known if difflib.get_close_matches(last, [k.rpartition(".")[2]], cutoff=0.8)
    ]


def unknown_option(command: str, name: str, known: Sequence[str]) -> str:
    """The sentence for an option that ``command`` does not have."""
    if command == "train" and name.removeprefix("trainer.") in NOT_OFFERED:
        flag = name.removeprefix("trainer.")
        return f"trainer.{flag}: this flag of Lightning's is not offered: {NOT_OFFERED[flag]}"
    near = meant(name, known)
    hint = f"did you mean {' or '.join(near[:3])}? " if near else ""
    if not near:
        elsewhere = ELSEWHERE.get(name.partition(".")[0])
        hint = f"{elsewhere}; " if elsewhere else ""
    return f"{name}: no such option of musictx {command}; {hint}musictx {command} --help lists all"


def unknown_command(name: str, commands: Sequence[str]) -> str:
    """The sentence for a command that does not exist."""
    near = COMMANDS.get(name.lower()) or next(
        iter(difflib.get_close_matches(name.lower(), commands, n=1)), None
    )
    hint = f"did you mean musictx {near}? The commands are" if near else "expected one of"
    return f"{name}: no such command; {hint} {', '.join(commands)}"
