from workers.stages.price import run as run
