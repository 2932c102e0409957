"""The CUDA C++ layer that the Hopper kernels stand on (`*.cuh`), and the tensor maps that their copies need."""
