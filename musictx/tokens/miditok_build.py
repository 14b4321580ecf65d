"""Makes a tokenizer of MidiTok from our options, or says in one sentence why there is none."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from typing import Any

from musictx.errors import ConfigError, UserError

#: Parameters of MidiTok that are not the user's here, and why.
_NOT_HERE = {
    "use_programs": "set by tokenizer.tracks",
    "one_token_stream_for_programs": "set by tokenizer.tracks",
    "use_pitchdrum_tokens": "set by tokenizer.tracks",
    "pitch_range": "set by tokenizer.low and tokenizer.high",
    "num_velocities": "set by tokenizer.velocity_bins",
    "special_tokens": "musictx has its own",
    "use_sustain_pedals": "pedals are folded into note ends; see tokenizer.sustain",
    "use_control_changes": "a Score holds no controllers",
    "use_pitch_bends": "a Score holds no pitch bends",
    "use_key_signatures": "key signatures are not encoded",
    "use_pitch_intervals": "they hide whether a transposed window leaves the range",
    "chord_tokens_with_root_note": "such tokens cannot be transposed",
}
_DEFAULTS = {
    "use_tempos": True,
    "num_tempos": 211,  # 40..250 bpm by 1
    "tempo_range": (40, 250),
    "use_time_signatures": True,
    "drums_pitch_range": (0, 127),
}
#: What single tokenizers take beside miditok.TokenizerConfig's own parameters.
_EXTRA = {
    "remi": ("use_bar_end_tokens", "add_trailing_bars"),
    "midilike": ("max_duration",),
}


def build_miditok(
    name: str, tracks: str, low: int, high: int, velocity_bins: int, params: Mapping[str, Any]
) -> Any:
    """The tokenizer of MidiTok, options as in :class:`musictx.config.TokenizerConfig`.

    Raises :class:`UserError` without MidiTok, :class:`ConfigError` for a tokenizer or parameter
    that MidiTok lacks, refuses or silently ignores.
    """
    try:
        import miditok
    except ImportError:
        raise UserError(
            f"tokenizer.name={name}: needs MidiTok; install it with "
            'pip install "musictx[tokenizers]"'
        ) from None
    cls = {n.lower(): getattr(miditok, n) for n in miditok.__all__}.get(name)
    if cls is None:
        raise ConfigError(f"tokenizer.name={name}: this MidiTok has no such tokenizer")
    for key in params:
        if key in _NOT_HERE:
            raise ConfigError(f"tokenizer.params.{key}: not accepted, {_NOT_HERE[key]}")
    wanted = {**_DEFAULTS, **params}
    for key in ("beat_res", "beat_res_rest"):
        if key in wanted:
            wanted[key] = _beat_table(key, wanted[key])
    if "time_signature_range" in wanted:
        ranges = wanted["time_signature_range"]
        wanted["time_signature_range"] = {int(k): v for k, v in ranges.items()}
    programs = tracks == "programs"
    known = inspect.signature(miditok.TokenizerConfig.__init__).parameters
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of options a tokenizer lacks: checked below
            inner = cls(
                miditok.TokenizerConfig(
                    pitch_range=(low, high),
                    num_velocities=velocity_bins,
                    special_tokens=["PAD"],
                    use_programs=programs,
                    one_token_stream_for_programs=programs,
                    use_pitchdrum_tokens=programs,
                    **wanted,
                )
            )
    except Exception as error:  # MidiTok checks by raising anything
        raise ConfigError(
            f"tokenizer.params={params}: MidiTok's {cls.__name__} refuses them: {error}"
        ) from None
    if programs and not inner.one_token_stream:
        raise ConfigError(
            f"tokenizer.tracks=programs: MidiTok's {cls.__name__} has no program tokens"
        )
    for key in params:
        accepted = key in known or key in _EXTRA.get(name, ())
        if not accepted or _ignored(inner, key, wanted[key]):
            raise ConfigError(
                f"tokenizer.params.{key}={params[key]}: MidiTok's {cls.__name__} does not take it"
            )
    return inner


def _ignored(inner: Any, key: str, value: Any) -> bool:
    return isinstance(value, bool) and getattr(inner.config, key, value) != value


def _beat_table(key: str, value: Mapping[Any, int]) -> dict[tuple[int, int], int]:
    """{"0_4": 8} as MidiTok's JSON writes it -> {(0, 4): 8}."""
    try:
        ranges = [str(k).strip("()").replace(",", "_").replace("-", "_").split("_") for k in value]
        return {(int(low), int(high)): int(n) for (low, high), n in zip(ranges, value.values())}
    except (ValueError, TypeError, AttributeError):
        raise ConfigError(
            f'tokenizer.params.{key}={value}: expected beats and positions such as {{"0_4": 8}}'
        ) from None
