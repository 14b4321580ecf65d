"""Training: the LightningModule, its optimizers and schedule, callbacks, progress."""

from musictx.lazy import callable_package

callable_package(__name__)
