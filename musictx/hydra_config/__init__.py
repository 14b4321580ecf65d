"""Arguments of ``musictx train`` -> a checked configuration, composed by Hydra. Other commands do
not use Hydra: :func:`musictx.options.make_config` makes their configurations.

overrides     converts the arguments to Hydra overrides; reports a wrong one in one sentence
finetuning    the included model that training starts from by default
run           composes a configuration and trains with it, once or as a sweep
sweep         the table of the runs of a sweep
"""

from musictx.hydra_config.run import compose as compose
