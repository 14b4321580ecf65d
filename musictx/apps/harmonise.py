"""``musictx harmonise FILE``: a melody -> four voices, by a model of chorales."""

from __future__ import annotations

from pathlib import Path

from tqdm import tqdm

from musictx.apps.generate import Result, choose, file_name, read_music, writable, write
from musictx.bundle import Bundle, load
from musictx.chorale import grid as four
from musictx.chorale import voice_leading
from musictx.chorale.harmonise import Harmony, harmonise, melody_of
from musictx.chorale.tokenizer import ChoraleTokenizer
from musictx.config import HarmoniseConfig, TokenSampling
from musictx.errors import UserError
from musictx.notes import Score
from musictx.sampling.music import Sample


def run(config: HarmoniseConfig) -> list[Result]:
    """Harmonise ``config.melody``, write the files, print where they are and their faults."""
    if config.melody is None:
        raise UserError("melody: missing; give a melody, such as `musictx harmonise tune.mid`")
    melody = read_music(config.melody, "melody", "with a melody")
    where = choose(config)
    name = file_name(config, where)
    with writable(Path(config.out)) as out:
        bundle = load(where, config.device)
        total = config.samples * _steps(melody, config.melody)
        with tqdm(total=total, desc="harmonising", unit="step", disable=None, leave=False) as bar:
            found = harmonisations(
                bundle,
                melody,
                samples=config.samples,
                particles=config.particles,
                sampling=config.sampling,
                seed=config.seed,
                name=config.melody,
                progress=lambda step: bar.update(1),
            )
        results = []
        for number, (harmony, sample) in enumerate(found):
            stem = name if len(found) == 1 else f"{name}-{number + 1}"
            paths = write(sample, out / stem, render=config.render)
            said = f"{harmony.nats_per_note:.3f} nats a token, {_checked(harmony.grid)}"
            print(f"{paths[0]}: {said}", flush=True)
            results.append(Result(sample, paths))
        return results


def harmonisations(
    bundle: Bundle,
    melody: Score,
    *,
    samples: int = 1,
    particles: int = 24,
    sampling: TokenSampling | None = None,
    seed: int = 0,
    name: str = "melody",
    progress: object = None,
) -> list[tuple[Harmony, Sample]]:
    """``samples`` harmonisations of the highest notes of ``melody``, in its tempo.

    Sample i of seed s is always the same. Raises ``UserError`` if the model does not write chorales
    or the melody has no notes.
    """
    tokenizer = bundle.tokenizer
    if not isinstance(tokenizer, ChoraleTokenizer):
        raise UserError(
            f"melody: {bundle.folder} writes {tokenizer.name} tokens; harmonising needs a model of "
            "four voices: model=chorale, or one trained with tokenizer=chorale"
        )
    given, _ = melody_of(_read(melody, name))
    bpm = float(melody.tempos["bpm"][0]) if len(melody.tempos) else four.BPM
    found = []
    for number in range(samples):
        harmony = harmonise(
            bundle.model,
            tokenizer,
            given,
            particles=particles,
            sampling=sampling,
            seed=(seed, number),
            progress=progress,  # type: ignore[arg-type]
        )
        score = four.write(harmony.grid, bpm=bpm)
        fresh = int((score.notes["track"] > 0).sum())
        sample = Sample(score, 0.0, harmony.ids, fresh, score.duration, "melody")
        found.append((harmony, sample))
    return found


def _checked(grid: four.Grid) -> str:
    """What a teacher would mark, in a line."""
    report = voice_leading.report(grid.pitches, grid.tied)
    marks = [f"{kind} {count}" for kind, count in report.counts.items() if count]
    ending = "a root-position triad" if report.final_triad else "no root-position triad"
    return f"{', '.join(marks) or 'no faults'} in {report.bars:.0f} bars, ends on {ending}"


def _read(melody: Score, name: str) -> four.Grid:
    try:
        return four.read(melody)[0]
    except UserError as error:
        raise UserError(f"melody={name}: {error}") from None


def _steps(melody: Score, name: str) -> int:
    return len(_read(melody, name))
