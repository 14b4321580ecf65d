"""What makes musictx fast: attention in C++ and Triton, and a step of decoding as one call."""

from musictx.wings import Wing

WING = Wing(
    name="speed",
    attention={
        "native": "musictx.speed.native",
        "fused": "musictx.speed.fused",
    },
    checks={
        "C++": "musictx.speed.native:check",
        "compiler": "musictx.speed.native.build:check",
    },
    steps={"native": "musictx.speed.step:NativeStep"},
)
