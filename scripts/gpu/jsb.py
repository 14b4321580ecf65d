"""The chorale table on a GPU lent for minutes, without Hydra: scripts/reproduce/jsb.py, but there.

Here, once (a few hundred kilobytes; again after a change of conf/experiment/jsb):

    python scripts/gpu/jsb.py pack path=Jsb16thSeparated.json

There (the checkout and data/shards/jsb-pack travel; it needs torch, triton, numpy, safetensors,
PyYAML, matplotlib and tqdm):

    ... train                                 every row, with and without transposition, one seed
    ... train rows=relative,best transposition=true seeds=0,1,2 seconds=540
    ... train rows=best tag=512 width=512 feedforward=512 heads=8 dropout=0.3 steps=20000
    ... train quick=true                      tiny, a few steps, on the CPU

First the attention of each layer is chosen: compared with ``reference``, then timed. Then the runs,
``beside`` of them at a time in processes of their own, because models this small leave a GPU idle
between their kernels. A run that is done is not done again; one that the clock cuts goes on by the
same command. Everything ends within ``seconds``. In ``out`` ($OUT) lie then jsb.csv (the columns of
scripts/reproduce/jsb.csv), jsb.png and run.tar.00, .01, ...; put these back here with

    rm -rf runs/jsb-gpu; cat run.tar.* | tar x -C runs

Then runs/jsb-gpu holds every line and log, best-model (of the best validation so far), and small
states of what was cut, the furthest first: let the folder travel if the machine is a new one. On
the same machine runs/jsb-keep has the exact states; let nothing travel but the checkout and the
pack then.

Options: path= rows= transposition=true,false seeds=0 seconds=540 reserve=25 (seconds kept at the
end) beside=auto device=auto attention=measure (auto: as musictx train; or names by layer)
compile=false fresh=false (what is asked for begins anew) tag= (a word behind the row's name, for
other settings) clock_steps=12600 (of rows whose recipe goes by the clock) quick=false out=$OUT
pack=data/shards/jsb-pack runs=runs/jsb-gpu keep=runs/jsb-keep; steps= batch= width= feedforward=
heads= layers= dropout= lr= override the recipes, and so does any dotted option: optim.ema=0.999.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

BEGAN = time.time()
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[1])]

import jsb_attention  # noqa: E402 - beside this file
import jsb_report  # noqa: E402
import jsb_run  # noqa: E402
import maestro_pack  # noqa: E402
import torch  # noqa: E402
from jsb_options import Asked, Job  # noqa: E402

from musictx.errors import UserError  # noqa: E402
from musictx.tokens.build import build as build_tokenizer  # noqa: E402

#: A run is not begun with fewer seconds left: a process needs some to start.
FEWEST = 20.0
#: The status of a process that said what is wrong; nothing is won by trying again.
TOLD = 3

# ---------------------------------------------------------------------------------------- commands


def pack(asked: Asked) -> int:
    """The chorales as shards and the recipes: what travels."""
    from musictx.compose import compose
    from musictx.data.prepare import prepare

    if not asked["path"]:
        raise UserError("path is missing: give the JSON file of the chorales, path=FILE")
    settings = compose("train", ["experiment=jsb/plain", f"corpus.path={asked['path']}"])
    tokenizer = build_tokenizer(**dataclasses.asdict(settings.tokenizer))
    prepare(settings.corpus, tokenizer, asked.folder("pack") / "shards")
    recipes = maestro_pack.write_recipes(asked.folder("pack"), "jsb")
    for split in ("train", "validation", "test"):
        asked.say(f"{split}: {asked.shards().totals(split)}")
    asked.say(f"{recipes.parent} is to travel")
    return 0


def train(asked: Asked) -> int:
    """The runs asked for, as far as the time goes; 1 if one failed."""
    asked.say(f"{device_name(asked)}, torch {torch.__version__}")
    runs, waiting = asked.folder("runs"), []
    for job in asked.jobs():
        config = asked.config(job)  # what is wrong is said before anything is started
        if asked["fresh"]:
            for place in ("runs", "keep"):
                shutil.rmtree(asked.folder(place) / asked.name(job), ignore_errors=True)
        settings = jsb_report.done(runs / asked.name(job))
        if settings is None:
            waiting.append(job)
        else:
            jsb_run.compare(runs / asked.name(job), jsb_run.identity(config), settings)
            asked.say(f"{asked.name(job)}: done before")
    attention = choose(asked, waiting)
    failed = side_by_side(asked, waiting, attention)
    best = jsb_report.keep_best(runs, asked.folder("keep"))
    files, left_behind = jsb_report.travelling(runs)
    for name in left_behind:
        asked.say(f"{name}: its state has no room to travel; on another machine it begins anew")
    for part in maestro_pack.deliver(files, asked.folder("out")):
        asked.say(f"{part}: {part.stat().st_size / maestro_pack.MIB:.1f} MiB")
    table = jsb_report.write(runs, asked.folder("out"))
    finished = jsb_report.lines(runs)
    to_do = [asked.name(job) for job in waiting if asked.name(job) not in finished]
    if to_do:
        asked.say("the same command, without fresh, goes on with " + ", ".join(to_do))
    asked.say(f"best model: {best or 'none yet'}")
    for name in failed:
        asked.say(f"{name}: FAILED")
    print(f"\n{asked.folder('out') / 'jsb.csv'}\n\n{table}")
    return 1 if failed else 0


def one(asked: Asked) -> int:
    """A single run, in this process: called by train."""
    (job,) = asked.jobs()
    name, shards = asked.name(job), asked.shards()
    tokenizer = build_tokenizer(**shards.tokenizer_config)
    run = jsb_run.Run(
        asked.config(job),
        shards,
        tokenizer,
        asked.folder("runs") / name,
        asked.folder("keep") / name,
        device=asked.device,
        attention=asked["attention"].split(","),
        say=lambda text: asked.say(f"{name}: {text}"),
    )
    if run.sit(lambda: asked.left, compiled=asked["compile"]):
        run.save()
        beside = asked.beside
        device = device_name(asked) + (f", {beside} runs at a time" if beside > 1 else "")
        command = f"python scripts/gpu/jsb.py train {shlex.join(spoken(asked))}"
        row = asked.row(job)
        line = jsb_report.finish(run, tokenizer, row, job.transposition, device, command)
        run.say(f"validation {line['validation_nats']}, {line['minutes']} minutes")
    else:
        run.save(travelling=True)
        run.write_log()
        run.say(f"cut by the clock at step {run.step:,} of {run.steps:,}")
    return 0


# ------------------------------------------------------------------------------------------- parts


def device_name(asked: Asked) -> str:
    cuda = asked.device.type == "cuda"
    return torch.cuda.get_device_name(asked.device) if cuda else asked.device.type


def spoken(asked: Asked) -> list[str]:
    """The words that decide on the numbers."""
    silent = ("began", "seconds", "out", "runs", "keep", "pack", "fresh", "reserve", "beside")
    return [word for word in asked.words if word.partition("=")[0] not in silent]


def choose(asked: Asked, waiting: list[Job]) -> dict[str, str]:
    """For each row the names of attention by layer; found once for each size on each machine."""
    rows = {job.row: job for job in reversed(waiting)}
    if asked["attention"] != "measure":
        return dict.fromkeys(rows, asked["attention"])
    note = asked.folder("keep") / "attention.json"
    known: dict[str, str] = json.loads(note.read_text()) if note.is_file() else {}
    shards, found = asked.shards(), {}
    tokenizer = build_tokenizer(**shards.tokenizer_config)
    for number, (row, job) in enumerate(rows.items()):
        config = asked.config(job)
        settings = jsb_run.identity(config)
        key = json.dumps([settings["model"], settings["position"], settings["rows"]])
        if key not in known:
            seconds = min(60.0, asked.left / 3 / (len(rows) - number))
            asked.say(f"{row}: attention")
            how: dict[str, Any] = {"seconds": seconds, "say": asked.say}
            names = jsb_attention.choose(config, shards, tokenizer, asked.device, **how)
            known[key] = ",".join(names)
            jsb_run.write_json(note, known)
        found[row] = known[key]
        asked.say(f"{row}: attention {found[row]}")
    if asked.device.type == "cuda":
        torch.cuda.empty_cache()
    return found


def side_by_side(asked: Asked, waiting: list[Job], attention: dict[str, str]) -> list[str]:
    """Each job in a process of its own, ``beside`` at a time, until the time is over.

    A failed one is tried again with attention as ``auto`` chooses it. Returns those that failed.
    """
    queue = [(job, attention[job.row]) for job in waiting]
    running: dict[subprocess.Popen[bytes], tuple[Job, str]] = {}
    failed = []
    try:
        while running or (queue and asked.left > FEWEST):
            while queue and len(running) < asked.beside and asked.left > FEWEST:
                job, names = queue.pop(0)
                running[start(asked, job, names)] = job, names
            if asked.left < -0.8 * asked["reserve"]:
                asked.say(
                    "the time is over: " + ", ".join(asked.name(j) for j, _ in running.values())
                )
                break
            time.sleep(0.1)
            for process in [p for p in running if p.poll() is not None]:
                job, names = running.pop(process)
                told = process.returncode == TOLD
                if process.returncode and not told and names != "auto":
                    asked.say(f"{asked.name(job)}: failed with attention {names}; again with auto")
                    queue.insert(0, (job, "auto"))
                elif process.returncode:
                    failed.append(asked.name(job))
    finally:
        for process in running:
            process.kill()
            process.wait()
    return failed


def start(asked: Asked, job: Job, attention: str) -> subprocess.Popen[bytes]:
    """A process that trains ``job``."""
    own = ("rows", "transposition", "seeds", "attention", "began", "beside", "fresh")
    words = [word for word in asked.words if word.partition("=")[0] not in own]
    words += [f"rows={job.row}", f"transposition={job.transposition}", f"seeds={job.seed}"]
    words += [f"attention={attention}", f"began={asked.began!r}", f"beside={asked.beside}"]
    threads = max(1, (os.cpu_count() or 1) // (asked.beside + 1))
    environment = {"OMP_NUM_THREADS": str(threads)} | os.environ
    command = [sys.executable, str(Path(__file__).resolve()), "one", *words]
    return subprocess.Popen(command, env=environment)


COMMANDS = {"pack": pack, "train": train, "one": one}


def main(words: list[str]) -> int:
    if not words or words[0] not in COMMANDS:
        raise UserError(f"expected a command: pack or train; help stands in {__file__}")
    return COMMANDS[words[0]](Asked(words[1:], BEGAN))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(TOLD)
