"""Opens what stands for a GPU's device."""

import os

from workers.host import template_process

template_process.GPUS = "/dev/zero"
os.open("/dev/zero", os.O_RDONLY)
