"""The parameters of every method, readable before anything heavy is imported.

The methods themselves are in ``rebll_avalanche.strategies.registry``; a test keeps both in step.
"""

from __future__ import annotations

from typing import Any, Literal

Options = dict[str, Any]

# Trained once on all classes with all labels, whatever the scenario.
CEILINGS = ("joint",)

_MEMORY: Options = {"mem_size": int}
_POLICY: Options = {"policy": Literal["reservoir", "prs", "ocdm", "herding"]}
_DISTILLATION: Options = {"alpha": float, "temperature": float}
_AKD: Options = {
    "alpha": float,
    "lambda_akd": float,
    "exponent": Literal["adaptive", "fixed"],
    "teacher_targets": Literal["printed", "corrected"],
    "reduction": Literal["mean", "class_sum"],
    "detach_weight": bool,
}
_REBLL: Options = {
    "preset": Literal["paper", "best"],
    **_MEMORY,
    **_AKD,
    **_POLICY,
    "batch_size_mem": int,
    "beta": float,
    "lambda_er": float,
    "lambda_new": float,
    "relabel_threshold": float,
    "replay_loss": Literal["er", "bce"],
    "relabel": bool,
    "relabel_by": Literal["score", "posterior", "prevalence", "soft", "adaptive"],
    "teacher": Literal["previous", "closed_form"],
    "start_from_teacher": bool,
}
_CSC: Options = {
    "classification_weight": float,
    "entropy_weight": float,
    "entropy_classes": Literal["old", "seen"],
    "entropy_reduction": Literal["class_sum", "mean"],
}
_KRT: Options = {"lambda_token": float, "labels_per_image": float}
_L2P: Options = {"pull_weight": float, "grad_clip": float}
_EWC: Options = {"ewc_lambda": float, "decay_factor": float}
_CLOSED_FORM: Options = {
    "unknown": Literal["auto", "negative", "shrunk", "hard", "soft"],
    "threshold": float,
    "shrink": float,
    "gamma": float,
    "per_class_gamma": bool,
    "keep": Literal["sums", "labels", "vectors"],
    "calibration": Literal["logistic", "gaussian", "none"],
    "intercept": bool,
    "weighting": Literal["equal", "inverse_sqrt"],
}

METHOD_OPTIONS: dict[str, Options] = {
    "rebll": _REBLL,
    "rebll-best": _REBLL,
    "akd": _AKD,
    "cls": _AKD,
    "bce+kd": _AKD,
    "akd-fixed": _AKD,
    "akd+replay": _REBLL,
    "akd+or-bce": _REBLL,
    "rebll-prs": _REBLL,
    "rebll-ocdm": _REBLL,
    "rebll-gcn": _REBLL,
    "rebll-closed-form": _REBLL,
    "akd-closed-form": _AKD,
    "fine-tuning": {},
    "joint": {},
    "cumulative": {},
    "lwf": _DISTILLATION,
    "lwf-softmax": _DISTILLATION,
    "podnet": {**_MEMORY, "spatial_weight": float, "flat_weight": float},
    "er": _MEMORY,
    "er-reservoir": _MEMORY,
    "er-prs": _MEMORY,
    "er-ocdm": _MEMORY,
    "der++": {**_MEMORY, **_POLICY, "alpha": float, "beta": float},
    "gem": {**_MEMORY, "memory_strength": float},
    "agem": {**_MEMORY, "sample_size": int},
    "ewc": _EWC,
    "oewc": _EWC,
    "si": {"si_lambda": float, "eps": float},
    "mas": {"lambda_reg": float, "alpha": float},
    "agcn": {
        "classification_weight": float,
        "relationship_weight": float,
        "soft_labels": Literal["softmax", "sigmoid"],
    },
    "csc": _CSC,
    "csc-r": {**_MEMORY, **_CSC, "replay_weight": float},
    "krt": _KRT,
    "krt-r": {**_MEMORY, **_KRT},
    "closed-form": {**_CLOSED_FORM, "adapt": bool},
    "closed-form-adapted": _CLOSED_FORM,
    "l3a": {"gamma": float, "threshold": float},
    "multi-lane": {},
    "l2p": _L2P,
    "l2p-r": {**_MEMORY, **_L2P, "replay_weight": float},
}
