// A kernel that does nothing. The driver is asked how many clusters of its blocks find room: see occupancy.py.

extern "C" __global__ void empty() {}
