"""CSC's class-incremental graph network: class nodes pooled from the image, mixed by two graphs."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm, leaky_relu, linear

from rebll_avalanche.models.heads import GrowingHead, as_map, enlarged

SLOPE = 0.2


class GrowingGCN(GrowingHead):
    r"""One node per class, pooled by that class's own activation mask, then two graph layers.

    With the feature map :math:`X` and all positions :math:`p`::

        CAM_c = w_c . X          first_c = max_p CAM_c          mask_c = softmax_p CAM_c
        V0    = (P X) mask                                      one column per class
        S     = V0 + f(W_s f(A V0^T)^T + b_s)                   static graph A, learned
        g     = f(BN(W_g mean_c S_c + b_g))                     one summary of the image
        D     = sigmoid(M [g; S] + m)                           image-specific graph, C x C
        V     = f(W_d f(S D) + b_d)
        logit_c = (first_c + u_c . (V0 + V)_c + v_c) / 2

    with :math:`f` a leaky ReLU. Growing keeps every old block bit for bit: rows of ``w, M, m, u, v`` and
    the corner of ``A``. The activation maps and first scores of old classes therefore stay the same;
    their second scores change, because the new nodes join the graphs.

    Args:
        in_features: Channels of the feature map.
        hidden: Length of a node; half the channels by default.
    """

    def __init__(self, in_features: int, *, hidden: int | None = None) -> None:
        super().__init__()
        hidden = hidden or max(in_features // 2, 1)
        self.in_features = in_features
        self.hidden = hidden
        self.project = nn.Conv2d(in_features, hidden, 1)
        self.static_weight = nn.Linear(hidden, hidden)
        self.global_weight = nn.Linear(hidden, hidden)
        self.global_norm = nn.BatchNorm1d(hidden)
        self.dynamic_weight = nn.Linear(hidden, hidden)
        self.cam_weight = nn.Parameter(torch.empty(0, in_features))
        self.static_graph = nn.Parameter(torch.empty(0, 0))
        self.graph_weight = nn.Parameter(torch.empty(0, 2 * hidden))
        self.graph_bias = nn.Parameter(torch.empty(0))
        self.node_weight = nn.Parameter(torch.empty(0, hidden))
        self.node_bias = nn.Parameter(torch.empty(0))

    @property
    def num_classes(self) -> int:
        """Number of graph nodes."""
        return len(self.cam_weight)

    def grow(self, total: int) -> None:
        """Add nodes to every part, biases included; new entries are initialised as in ``nn.Linear``."""
        inputs = {
            "cam_weight": self.in_features,
            "static_graph": total,
            "graph_weight": 2 * self.hidden,
            "node_weight": self.hidden,
        }
        for name, fan_in in inputs.items():
            self._enlarge(name, (total, fan_in), fan_in)
        self._enlarge("graph_bias", (total,), 2 * self.hidden)
        self._enlarge("node_bias", (total,), self.hidden)

    def _enlarge(self, name: str, shape: tuple[int, ...], fan_in: int) -> None:
        bound = 1 / math.sqrt(fan_in)
        fill = torch.empty(shape).uniform_(-bound, bound)
        setattr(self, name, enlarged(getattr(self, name), shape, fill))

    def class_activation_maps(self, feature_map: Tensor) -> Tensor:
        """The maps whose maxima are the first scores and whose softmax pools the nodes."""
        return torch.einsum("bdhw,cd->bchw", feature_map, self.cam_weight)

    def forward(self, features: Tensor) -> Tensor:
        """Logits: the mean of the activation maps' maxima and of the graph's scores."""
        features = as_map(features)
        activation = self.class_activation_maps(features).flatten(2)
        mask = activation.softmax(dim=2)
        # Nodes are rows here: [batch, classes, hidden].
        nodes = torch.einsum("bkp,bcp->bck", self.project(features).flatten(2), mask)
        mixed = self._image_graph(nodes + self._static_graph(nodes))
        second = ((nodes + mixed) * self.node_weight).sum(dim=2) + self.node_bias
        return (activation.amax(dim=2) + second) / 2

    def _static_graph(self, nodes: Tensor) -> Tensor:
        neighbours = leaky_relu(self.static_graph @ nodes, SLOPE)
        return leaky_relu(self.static_weight(neighbours), SLOPE)

    def _image_graph(self, nodes: Tensor) -> Tensor:
        summary = leaky_relu(self._normalise(self.global_weight(nodes.mean(dim=1))), SLOPE)
        both = torch.cat([summary.unsqueeze(1).expand_as(nodes), nodes], dim=2)
        # graph[b, j, c] = sigmoid(M_c . [g; S_j] + m_c) weighs node c in the new node j.
        graph = linear(both, self.graph_weight, self.graph_bias).sigmoid()
        neighbours = leaky_relu(graph @ nodes, SLOPE)
        return leaky_relu(self.dynamic_weight(neighbours), SLOPE)

    def _normalise(self, summary: Tensor) -> Tensor:
        norm = self.global_norm
        if not norm.training or len(summary) > 1:
            normalised: Tensor = norm(summary)
            return normalised
        # A last mini-batch of a single image has no variance.
        return batch_norm(
            summary, norm.running_mean, norm.running_var, norm.weight, norm.bias, eps=norm.eps
        )
