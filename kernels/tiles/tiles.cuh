// The layer that Hopper kernels stand on; docs/kernels/tiles.md shows how its parts fit together.
#pragma once
#include "registers.cuh"
#include "tma.cuh"
#include "warps.cuh"
