// The layer that Hopper kernels stand on; docs/kernels/tiles.md shows how its parts fit together.
#pragma once
#include "mma.cuh"
#include "registers.cuh"
#include "tma.cuh"
#include "warps.cuh"
