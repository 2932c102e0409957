"""Programmatic dependent launch (PDL): a kernel that starts while the one before it in its stream still runs.

It may start once every block of the previous kernel has run `griddepcontrol.launch_dependents` or ended. It must run
`griddepcontrol.wait` before it reads or writes anything that earlier kernels touch. Source: CUDA C++ programming
guide, "Programmatic Dependent Launch and Synchronization".
"""

from kernels.cuda.driver import Attribute

PROGRAMMATIC_STREAM_SERIALIZATION = 6
"""CUlaunchAttributeID of the permission to start before the stream's previous kernel has ended."""


def pdl_attribute() -> Attribute:
    """The launch attribute that gives the permission."""
    return Attribute(PROGRAMMATIC_STREAM_SERIALIZATION, 0, (1,))
