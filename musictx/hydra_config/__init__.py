"""Words of ``musictx train`` -> a checked configuration, composed by Hydra. Hydra has no part in
other commands: :func:`musictx.options.make_config` makes their configurations.

words         converts the words to overrides of Hydra; refuses wrong ones in one sentence
finetuning    the included model that training starts from by default
run           composes a configuration and trains with it, once or as a sweep
sweep         the table of the runs of a sweep
"""

from musictx.hydra_config.run import compose as compose
