"""Running: from a configuration to a folder of results, in one process or in many.

The way of one image through ``rebll run``, file by file:

1. ``commands/run.py`` reads the recipe into a ``Config`` and calls ``run_experiment`` in ``run.py``.
2. ``folder.py`` locks the run folder and compares it with the configuration; ``environment.py`` seeds
   everything random and records versions and hardware.
3. ``build.py`` makes the benchmark, in which the image gets its labels and its experience, the network, and
   the strategy with optimizer, schedule, metrics and ``loggers.py``.
4. ``learn`` in ``run.py`` goes from experience to experience. The strategy reads the image, transforms it and
   trains on it; its plugins add loss terms and may put it into the memory. ``recorder.py`` notes losses,
   time and memory, ``progress.py`` shows them, and a checkpoint follows every epoch.
5. After each experience, the strategy is evaluated on the test images of all classes that are known by then;
   ``results.py`` writes the files that ``report/`` reads.

``processes.py`` does the same for many runs at a time (``rebll table``), ``extend.py`` goes on with a
finished run (``rebll extend``), and ``stream.py`` is the plain loop without a folder, for scripts.
"""
