from workers.stages.report import run as run
