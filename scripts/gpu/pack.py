"""Train on a GPU machine without internet that has torch and Lightning: two commands.

Here, where there are internet and a corpus, make a folder to carry (less than 64 MB)::

    python scripts/gpu/pack.py pack shards=data/shards/maestro-1a2b3c4d to=carry

It holds wheels of what musictx needs beside torch, numpy and Lightning, built for any machine, and
the training and validation splits of the shards, compressed. There, with a checkout::

    python scripts/gpu/pack.py run carry=carry out=$OUT seconds=540 experiment=maestro/best

installs the wheels into OUT/site, unpacks the tokens and runs ``musictx train`` with the remaining
words until it is done or ``seconds`` have passed, whichever is first; the run is in OUT/run. The
same command goes on with the run: in OUT, or in carry/run if a former OUT/run was put there.
``rehearse=true`` runs it tiny and on the CPU, to see that nothing is missing.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: What musictx imports to train, with their own needs, that a machine with torch may lack.
WHEELS = (
    *(
        "hydra-core>=1.3.2,<1.4",
        "omegaconf>=2.2,<2.4",
        "antlr4-python3-runtime==4.9.3",
        "mido>=1.3",
    ),
    *("pretty_midi>=0.2.11", "six", "packaging", "PyYAML", "safetensors>=0.4.5", "pillow>=10.1"),
    "tqdm",
)
#: The most bytes of the folder to carry.
MOST = 64_000_000
TOKENS = "shards.tar.xz"
REHEARSAL = [
    *("model=tiny", "trainer=laptop", "trainer.accelerator=cpu", "trainer.max_time=null"),
    *("trainer.max_steps=4", "trainer.val_check_interval=2", "data.validation_windows=2"),
    *("data.batch_size=2", "data.num_workers=0", "callbacks=quiet"),
]


def pack(shards: str, to: str, wheels: str = "true") -> Path:
    """Make the folder to carry."""
    from musictx.data.shards import Shards
    from musictx.data.writer import Writer

    source, folder = Shards(shards), Path(to)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        fewer = Path(made) / "shards"
        with Writer(
            fewer,
            fingerprint=source.fingerprint,
            tokenizer_config=source.tokenizer_config,
            corpus=source.corpus,
        ) as writer:
            for split in ("train", "validation"):
                for piece in source.pieces(split):
                    told = piece._asdict()
                    kept = ("name", "split", "hash", "notes", "seconds", "begins", "ends")
                    ids = source.tokens(piece.number)
                    writer.add(ids, **{name: told[name] for name in kept})
        with tarfile.open(folder / TOKENS, "w:xz") as archive:
            archive.add(fewer, "shards")
    if wheels == "true":
        shutil.rmtree(folder / "wheels", ignore_errors=True)
        pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", str(folder / "wheels")]
        subprocess.run([*pip, *WHEELS], check=True)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    print(f"{folder}: {size / 1e6:.1f} MB")
    if size > MOST:
        sys.exit(f"{folder}: expected at most {MOST / 1e6:.0f} MB; take shards of fewer pieces")
    return folder


def run(
    carry: str, out: str, words: list[str], seconds: str = "540", rehearse: str = "false"
) -> Path:
    """Install, unpack, train for so many seconds; returns the run folder."""
    folder, target = Path(carry), Path(out)
    site, shards, result = target / "site", target / "shards", target / "run"
    if (folder / "wheels").is_dir() and not site.is_dir():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
        wheels = sorted(map(str, (folder / "wheels").glob("*.whl")))
        subprocess.run([*pip, "--target", str(site), *wheels], check=True)
    if not shards.is_dir():
        with tarfile.open(folder / TOKENS) as archive:
            archive.extractall(target, filter="data")
    if (folder / "run").is_dir() and not result.is_dir():
        shutil.copytree(folder / "run", result)
    command = [sys.executable, "-m", "musictx", "train", f"corpus.shards={shards}", *words]
    command += [f"out={result}", *(REHEARSAL if rehearse == "true" else [])]
    # Wheels last: what the machine has itself comes first.
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", ""), str(site)])
    print("$ " + " ".join(command), flush=True)
    training = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": path})
    try:
        status = training.wait(float(seconds))
    except subprocess.TimeoutExpired:
        training.send_signal(signal.SIGINT)  # musictx saves its state and says how to go on
        training.wait()
        status = 0
        print(f"{seconds} s have passed; the same command goes on", flush=True)
    if status:
        sys.exit(status)
    return result


def main(words: list[str]) -> None:
    verb, rest = (words[0], words[1:]) if words else ("", [])
    mine = {"pack": ("shards", "to", "wheels"), "run": ("carry", "out", "seconds", "rehearse")}
    if verb not in mine:
        sys.exit("expected: pack shards=FOLDER to=FOLDER, or run carry=FOLDER out=FOLDER ...")
    given = dict(w.split("=", 1) for w in rest if w.split("=", 1)[0] in mine[verb] and "=" in w)
    others = [word for word in rest if word.split("=", 1)[0] not in mine[verb]]
    if missing := [name for name in mine[verb][:2] if name not in given]:
        sys.exit(f"{missing[0]}: missing, give {missing[0]}=FOLDER")
    if verb == "pack":
        if others:
            sys.exit(f"{others[0]}: expected some of {', '.join(mine['pack'])}")
        pack(**given)
    else:
        run(words=others, **given)


if __name__ == "__main__":
    main(sys.argv[1:])
