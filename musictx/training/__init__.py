"""Training: the LightningModule, its optimizers and schedule, callbacks, progress."""
