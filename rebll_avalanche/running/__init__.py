"""Running: from a configuration to a folder of results, in one process or in many.

How one image passes through ``rebll run``, file by file:

1. ``commands/run.py`` reads the recipe into a ``Config`` and calls ``run_experiment`` in ``run.py``.
2. ``folder.py`` locks the run folder and compares it with the configuration; ``environment.py`` seeds
   everything random and records versions and hardware.
3. ``build.py`` builds the benchmark, which assigns the image its labels and its experience, the network, and
   the strategy with optimizer, schedule, metrics and ``loggers.py``.
4. ``learn`` in ``run.py`` loops over the experiences. The strategy reads the image, transforms it and
   trains on it; its plugins add loss terms and may store it in the replay memory. ``recorder.py`` records
   losses, time and memory, ``progress.py`` shows them, and a checkpoint is written after every epoch.
5. After each experience, the strategy is evaluated on the test images of all classes seen so far;
   ``results.py`` writes the files that ``report/`` reads.

``processes.py`` does the same for many runs at a time (``rebll table``), and ``cluster.py`` on many machines.
``search.py`` looks for good settings (``rebll tune``). ``stream.py`` is the plain loop without a folder, for
scripts. A finished run goes on as a learner: ``learner/opening.py``.
"""
