"""The training of docs/examples/train.py with NumPy, which every runtime has: the same model, checkpoints and lines."""

# mypy: ignore-errors
import json
import os

import numpy

CHECKPOINT = "/workspace/checkpoint.npz"

chance = numpy.random.default_rng(1)
given = chance.standard_normal((512, 8))
wanted = given @ numpy.arange(1.0, 9.0)

weights, speed, first = numpy.zeros(8), numpy.zeros(8), 1
if os.path.exists(CHECKPOINT):  # noqa: PTH110 - as the example has it
    saved = numpy.load(CHECKPOINT)
    weights, speed, first = saved["weights"], saved["speed"], int(saved["epoch"]) + 1
rate = float(os.environ["LEARNING_RATE"])

for epoch in range(first, int(os.environ["EPOCHS"]) + 1):
    for batch in range(0, len(given), 64):
        error = given[batch : batch + 64] @ weights - wanted[batch : batch + 64]
        speed = 0.5 * speed + 2 * given[batch : batch + 64].T @ error / 64
        weights = weights - rate * speed
    with open(CHECKPOINT + ".new", "wb") as file:  # noqa: PTH123 - the same
        numpy.savez(file, weights=weights, speed=speed, epoch=epoch)
    os.replace(CHECKPOINT + ".new", CHECKPOINT)  # noqa: PTH105 - the same
    print(json.dumps({"epoch": epoch, "loss": float(numpy.mean(error**2)), "rate": rate}), flush=True)
