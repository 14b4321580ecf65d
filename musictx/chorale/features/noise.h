// Notes are read wrong in training only: nothing to do in a step of decoding.
#pragma once
#include "feature.h"

namespace {

struct TokenNoise : Feature {};

}  // namespace
