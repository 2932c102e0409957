// CUDA's constants that kernels which run on fibers use.
#pragma once
#define CUDART_INF_F (__builtin_inff())
#define CUDART_MAX_NORMAL_F 3.402823466e38f
