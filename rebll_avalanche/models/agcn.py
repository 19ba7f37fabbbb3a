"""AGCN: classifiers computed by a graph network on a label graph estimated from label statistics."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu, pad

from rebll_avalanche.models.heads import GrowingHead, as_map, enlarged

SLOPE = 0.2
NEIGHBOUR_WEIGHT = 0.25


class GrowingAGCN(GrowingHead):
    r"""Two graph layers that turn label embeddings into one classifier per class.

    ``logits = maxpool(X) H^T`` with ``H = G f(G E W1) W2``, where ``E`` holds a vector per label and
    ``G`` is the normalised graph of :func:`normalised_graph`. The graph consists of conditional
    frequencies ``correlation[i, j] = P(i | j)``, which :meth:`observe` counts batch by batch: labels of
    this experience count as 0 or 1, those of earlier experiences as the previous model's probability.

    Growing keeps the parameters and the old block of the correlations bit for bit. New labels have no
    neighbours before they are observed, so growth alone does not change the old logits; observing does.

    Args:
        in_features: Channels of the feature map, and length of a classifier.
        hidden: Length of a label's vector between the two layers.
        embedding: Length of a learned label vector, if there are no word vectors.
        word_vectors: ``[classes, length]``, one row for every class of the benchmark in order of
            learning; they are not trained.
        same_threshold: Minimum frequency for two labels of one experience to be neighbours.
        cross_threshold: The same for labels of different experiences.
    """

    word_vectors: Tensor | None
    correlation: Tensor
    experience_of: Tensor
    together: Tensor
    alone: Tensor

    def __init__(
        self,
        in_features: int,
        *,
        hidden: int = 1024,
        embedding: int = 300,
        word_vectors: Tensor | None = None,
        same_threshold: float = 0.4,
        cross_threshold: float = 0.3,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.same_threshold = same_threshold
        self.cross_threshold = cross_threshold
        length = embedding if word_vectors is None else word_vectors.shape[1]
        self.register_buffer("word_vectors", word_vectors)
        self.embeddings = nn.Parameter(torch.empty(0, length), word_vectors is None)
        self.first_weight = _uniform(length, hidden)
        self.second_weight = _uniform(hidden, in_features)
        self.register_buffer("correlation", torch.empty(0, 0))
        # The growth step of each label, and the counts of the current experience so far.
        self.register_buffer("experience_of", torch.empty(0, dtype=torch.long))
        self.register_buffer("together", torch.empty(0, 0))
        self.register_buffer("alone", torch.empty(0))

    @property
    def num_classes(self) -> int:
        """Number of labels in the graph."""
        return len(self.embeddings)

    @property
    def old_classes(self) -> int:
        """Number of labels from before the last growth."""
        return int((self.experience_of < self.experience_of.max()).sum())

    def grow(self, total: int) -> None:
        """Add labels without neighbours and reset the counts."""
        old = self.num_classes
        self.embeddings = self._enlarged_embeddings(total)
        self.correlation = pad(self.correlation, (0, total - old, 0, total - old))
        newest = int(self.experience_of.max()) + 1 if old else 0
        self.experience_of = pad(self.experience_of, (0, total - old), value=newest)
        self.together = torch.zeros_like(self.correlation)
        self.alone = self.together.new_zeros(total)

    def _enlarged_embeddings(self, total: int) -> nn.Parameter:
        length = self.embeddings.shape[1]
        if self.word_vectors is None:
            return enlarged(self.embeddings, (total, length), torch.randn(total, length))
        if total > len(self.word_vectors):
            raise ValueError(
                f"{total} classes have been seen, but word_vectors has {len(self.word_vectors)} rows; "
                "give one row for every class of the benchmark, in order of learning"
            )
        rows = self.word_vectors[:total].to(self.embeddings)
        return nn.Parameter(rows.clone(), requires_grad=False)

    @torch.no_grad()
    def observe(self, targets: Tensor, old_probability: Tensor | None = None) -> None:
        """Count the labels of a batch and update the graph's blocks of new labels.

        With ``s(x)`` the label vector of image ``x``, soft for old classes: ``J_ij = sum_x s_i s_j`` and
        ``N_i = sum_x s_i``. Then ``P(i | j) = J_ij / N_j`` fills the columns of the new labels ``j``
        (within the experience and across), and by Bayes ``P(j | i) = J_ij / N_i`` their rows.

        Args:
            targets: ``[batch, at least seen classes]``; images without annotations of the current
                classes, such as replayed ones, are skipped.
            old_probability: ``[batch, old classes]``, from the previous model; needed unless the
                experience is the first.
        """
        old, total = self.old_classes, self.num_classes
        current = targets[:, old:total]
        usable = ~current.isnan().any(dim=1)
        soft = current.new_zeros(len(current), 0) if old_probability is None else old_probability
        if soft.shape[1] != old:
            raise ValueError(
                f"expected probabilities of {old} earlier classes, got {soft.shape[1]}"
            )
        presence = torch.cat([soft.to(current), current], dim=1)[usable]
        self.together += presence.T @ presence
        self.alone += presence.sum(dim=0)
        frequency = self.together / self.alone.clamp(min=torch.finfo(self.alone.dtype).tiny)
        self.correlation[:, old:] = frequency[:, old:]
        self.correlation[old:, :old] = frequency[old:, :old]

    def graph(self) -> Tensor:
        """The normalised graph ``G`` of the labels seen so far."""
        same = self.experience_of[:, None] == self.experience_of[None, :]
        threshold = torch.where(same, self.same_threshold, self.cross_threshold)
        return normalised_graph(self.correlation, threshold)

    def nodes(self) -> Tensor:
        """``H``: one classifier ``[channels]`` per class; what the relationship loss preserves."""
        graph = self.graph()
        first = leaky_relu(graph @ (self.embeddings @ self.first_weight), SLOPE)
        return graph @ (first @ self.second_weight)

    def forward(self, features: Tensor) -> Tensor:
        """Logits of the max-pooled feature map."""
        return as_map(features).amax(dim=(2, 3)) @ self.nodes().T

    def class_activation_maps(self, feature_map: Tensor) -> Tensor:
        """Each position's inner product with the classifiers; logits use each channel's maximum."""
        return torch.einsum("bdhw,cd->bchw", feature_map, self.nodes())


def normalised_graph(correlation: Tensor, threshold: Tensor | float) -> Tensor:
    """The normalised graph matrix of the layers.

    Frequencies of at least ``threshold`` become edges; the edges of a column share a weight of 0.25, in
    addition to a self-loop of 1; then ``D A^T D`` with ``D = diag(row sums ^ -1/2)``.

    From the second experience on this is our interpretation: the publication does not specify how the
    blocks of old labels, new labels and between them are scaled when combined. Here one rule applies
    to the whole graph, so that a label's weight does not depend on when it arrived.
    """
    itself = torch.eye(len(correlation), dtype=correlation.dtype, device=correlation.device)
    edges = (correlation >= threshold).to(correlation.dtype) * (1 - itself)
    weights = NEIGHBOUR_WEIGHT * edges / edges.sum(dim=0).clamp(min=1) + itself
    scale = weights.sum(dim=1).rsqrt()
    return scale[:, None] * weights.T * scale[None, :]


def _uniform(inputs: int, outputs: int) -> nn.Parameter:
    bound = 1 / math.sqrt(outputs)
    return nn.Parameter(torch.empty(inputs, outputs).uniform_(-bound, bound))
