"""The network: ``MusicTransformer``, ids in, logits out, with a cache of keys and values."""

from musictx.model.block import attention_weights
from musictx.model.cache import KVCache
from musictx.model.transformer import MusicTransformer

__all__ = ["KVCache", "MusicTransformer", "attention_weights"]
