// Noise is added only in training: nothing to do in a step of decoding.
#pragma once
#include "feature.h"

namespace {

struct TokenNoise : Feature {};

}  // namespace
