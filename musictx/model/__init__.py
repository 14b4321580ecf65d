"""The network: ``MusicTransformer``, ids in, logits out, with a cache of keys and values."""

from musictx.model.cache import KVCache
from musictx.model.transformer import MusicTransformer
from musictx.model.weights import attention_weights

__all__ = ["KVCache", "MusicTransformer", "attention_weights"]
