"""What makes musictx fast: attention in C++ and Triton, and steps of decoding as one call each."""

from musictx.wings import Wing

WING = Wing(
    name="speed",
    attention={
        "native": "musictx.speed.native",
        "fused": "musictx.speed.fused",
        "decode": "musictx.speed.decode",
    },
    steps={"native": "musictx.speed.step:NativeStep", "ring": "musictx.speed.graph:RingStep"},
)
