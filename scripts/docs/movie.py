"""Make an MP4 movie of MIDI files: the piano roll with a playhead, and sound.

    python -m scripts.docs.movie FILE.mid ... [out=FOLDER]

Needs ffmpeg: ``pip install -e .[docs] -c constraints.txt`` brings one (imageio-ffmpeg).
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import imageio_ffmpeg

import musictx
from musictx.errors import UserError
from musictx.files import atomic, check_writable
from musictx.notes import Score
from musictx.render import audio, pianoroll
from scripts.harness import run

FRAMES = 15  # a second
KILOBITS = 64  # of sound a second, mono


def movie(score: Score, path: Path) -> Path:
    """Write ``score`` as an MP4 file (H.264, AAC)."""
    layout = pianoroll.Layout(score)
    page = pianoroll.image(score, title=path.stem)
    with tempfile.TemporaryDirectory() as folder:
        roll, wav = Path(folder, "roll.png"), Path(folder, "sound.wav")
        page.save(roll)
        audio.write(score, wav)
        with atomic(path) as place:
            command = [imageio_ffmpeg.get_ffmpeg_exe(), "-loglevel", "error", "-y"]
            command += ["-loop", "1", "-framerate", str(FRAMES), "-i", str(roll), "-i", str(wav)]
            command += ["-filter_complex", _playhead(layout), "-map", "[out]", "-map", "1:a"]
            command += ["-c:v", "libx264", "-preset", "veryfast", "-crf", "26"]
            command += ["-tune", "animation", "-c:a", "aac"]
            command += ["-ac", "1", "-b:a", f"{KILOBITS}k", "-pix_fmt", "yuv420p", "-shortest"]
            subprocess.run([*command, "-movflags", "+faststart", "-f", "mp4", place], check=True)
    return path


def _playhead(layout: pianoroll.Layout) -> str:
    """The filter of ffmpeg: a thin bar moves through each line of the roll while it sounds."""
    height = layout.system_height - pianoroll.AXIS - pianoroll.GAP
    scene, filters = "0:v", [f"color=c=0x202020:s=2x{height}:r={FRAMES}[bar]"]
    filters.append(
        f"[bar]split={layout.systems}" + "".join(f"[b{i}]" for i in range(layout.systems))
    )
    for system in range(layout.systems):
        begin = system * layout.system_seconds
        end = begin + layout.system_seconds
        x = f"{layout.x(0):.1f}+(t-{begin})*{layout.second_width:.3f}"
        y = pianoroll.TOP + system * layout.system_height
        when = f"gte(t,{begin})*lt(t,{end})"
        filters.append(f"[{scene}][b{system}]overlay=x='{x}':y={y}:enable='{when}'[s{system}]")
        scene = f"s{system}"
    filters.append(f"[{scene}]pad=ceil(iw/2)*2:ceil(ih/2)*2[out]")  # H.264 wants even sizes
    return ";".join(filters)


def main(*files: str, out: Path | None = None) -> None:
    if not files:
        raise UserError("missing: the MIDI files to show, such as song.mid")
    for file in map(Path, files):
        folder = out or file.parent
        check_writable(folder, "out")
        path = movie(musictx.read(file), folder / f"{file.stem}.mp4")
        print(path, path.stat().st_size // 1000, "kB")


if __name__ == "__main__":
    run(main)
