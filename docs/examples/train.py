"""A small training run that goes on where its last checkpoint ended. It runs on a cluster, from `resume_training.py`.

LEARNING_RATE and EPOCHS come from the cluster's environment. A checkpoint holds the model, the optimizer and the epoch; it is
written beside the old one and takes its place in one step, so a run that is killed leaves a whole one.
"""

import json
import os

import torch

CHECKPOINT = "/workspace/checkpoint.pt"

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(1)
given = torch.randn(512, 8, device=device)
wanted = given @ torch.arange(1.0, 9.0, device=device).unsqueeze(1)

model = torch.nn.Linear(8, 1).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.5)
first = 1
if os.path.exists(CHECKPOINT):
    saved = torch.load(CHECKPOINT, map_location=device)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    first = saved["epoch"] + 1
for group in optimizer.param_groups:
    group["lr"] = float(os.environ["LEARNING_RATE"])

for epoch in range(first, int(os.environ["EPOCHS"]) + 1):
    for batch in range(0, len(given), 64):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(given[batch : batch + 64]), wanted[batch : batch + 64])
        loss.backward()
        optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, CHECKPOINT + ".new")
    os.replace(CHECKPOINT + ".new", CHECKPOINT)
    print(json.dumps({"epoch": epoch, "loss": loss.item(), "rate": optimizer.param_groups[0]["lr"]}), flush=True)
