"""Memory policies against a direct reading of their formulas."""

from __future__ import annotations

import math

import pytest
import torch

from rebll_avalanche.memory.sampling import (
    OptimisedDistribution,
    PartitioningReservoir,
    Reservoir,
    build_policy,
)

NAN = float("nan")


def random_labels(count: int, classes: int, seed: int, density: float = 0.4) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    labels = (torch.rand(count, classes, generator=generator) < density).float()
    labels[torch.arange(count), torch.randint(classes, (count,), generator=generator)] = 1.0
    return labels


def long_tailed_stream(seed: int, count: int = 1500, classes: int = 8) -> torch.Tensor:
    """Class i is present in about 0.6 * 2^-i of the images, never in none."""
    generator = torch.Generator().manual_seed(seed)
    chance = 0.6 * 0.5 ** torch.arange(classes)
    labels = (torch.rand(count, classes, generator=generator) < chance).float()
    labels[labels.sum(dim=1) == 0, 0] = 1.0
    return labels


def run(policy, stream: torch.Tensor, capacity: int, parts: int = 3) -> torch.Tensor:
    """Labels in memory after the stream has come in several experiences."""
    memory = stream.new_empty(0, stream.shape[1])
    for part in stream.chunk(parts):
        chosen = policy.select(memory, part, capacity)
        memory = torch.cat([memory, part])[chosen]
    return memory


@pytest.mark.parametrize("name", ["reservoir", "prs", "ocdm"])
def test_memory_is_filled_and_never_overfilled(name):
    torch.manual_seed(0)
    policy = build_policy(name)
    few = random_labels(5, 4, seed=0)
    chosen = policy.select(few[:0], few, 12)
    assert chosen.tolist() == [0, 1, 2, 3, 4]
    many = random_labels(40, 4, seed=1)
    chosen = policy.select(few, many, 12)
    assert len(chosen) == 12
    assert chosen.tolist() == sorted(set(chosen.tolist()))
    assert 0 <= int(chosen[0]) <= int(chosen[-1]) < 45


@pytest.mark.parametrize("name", ["reservoir", "prs", "ocdm"])
def test_a_memory_without_room_stays_empty(name):
    labels = random_labels(9, 3, seed=2)
    assert len(build_policy(name).select(labels[:0], labels, 0)) == 0


@pytest.mark.parametrize("name", ["reservoir", "prs", "ocdm"])
def test_a_policy_continues_from_its_state(name):
    labels = random_labels(60, 4, seed=3)
    policy, other = build_policy(name), build_policy(name)
    torch.manual_seed(1)
    kept = labels[policy.select(labels[:0], labels[:30], 10)]
    other.load_state_dict(policy.state_dict())
    torch.manual_seed(2)
    first = policy.select(kept, labels[30:], 10)
    torch.manual_seed(2)
    assert first.tolist() == other.select(kept, labels[30:], 10).tolist()


def test_every_image_is_equally_likely_in_a_reservoir():
    torch.manual_seed(0)
    stream = torch.zeros(12, 1)
    hits = torch.zeros(12)
    for _ in range(3000):
        policy = Reservoir()
        first = policy.select(stream[:0], stream[:7], 4)
        second = policy.select(stream[first], stream[7:], 4)
        hits[torch.cat([first, torch.arange(7, 12)])[second]] += 1
    # Four of twelve stay; 3000 draws put three standard deviations at 0.026.
    assert (hits / 3000 - 1 / 3).abs().max() < 0.035


def test_a_reservoir_refuses_a_memory_that_it_has_not_chosen():
    with pytest.raises(ValueError, match="memory has 3 rows, but 0"):
        Reservoir().select(torch.zeros(3, 2), torch.zeros(1, 2), 2)


@pytest.mark.parametrize("name", ["reservoir", "prs", "ocdm", "herding"])
def test_classes_may_be_added_to_a_stream(name):
    """As `rebll extend` does: memory has a column more than the policy has ever seen."""
    torch.manual_seed(0)
    policy = build_policy(name)
    stream = random_labels(20, 3, seed=0)
    given = {"features": torch.rand(20, 5)} if name == "herding" else {}
    few = stream[:, :2].clone()
    few[few.sum(dim=1) == 0, 0] = 1.0
    chosen = policy.select(few[:0], few, 8, **given)
    memory = torch.nn.functional.pad(few[chosen], (0, 1), value=NAN)
    arriving = torch.full((20, 3), NAN)
    arriving[:, 2] = 1.0
    chosen = policy.select(memory, arriving, 8, **given)
    assert len(chosen) == 8
    if name != "reservoir":
        assert len(policy.counts) == 3
        assert policy.counts[2] == 20


def test_an_unknown_policy_is_named_beside_those_that_exist():
    with pytest.raises(ValueError, match="'lottery'; available: reservoir, prs, ocdm, herding"):
        build_policy("lottery")


def prs_by_the_book(stream: list[list[int]], classes: int, capacity: int, q: float) -> list[int]:
    """PRS in plain Python, image by image; draws random numbers where the policy does."""
    seen = [0] * classes
    slots: list[int] = []

    def shares() -> list[float]:
        powers = [n**q if n else 0.0 for n in seen]
        return [power / sum(powers) for power in powers]

    def excess(rows: list[int]) -> list[float]:
        inside = [sum(i in stream[row] for row in rows) for i in range(classes)]
        return [m - p * sum(inside) for m, p in zip(inside, shares(), strict=True)]

    for row, labels in enumerate(stream):
        if len(slots) < capacity:
            slots.append(row)
        else:
            p = shares()
            weights = [math.exp(-seen[i]) for i in labels]
            ratios = [min(1.0, capacity * p[i] / seen[i]) if seen[i] else 1.0 for i in labels]
            chance = sum(w * r for w, r in zip(weights, ratios, strict=True)) / sum(weights)
            if float(torch.rand(())) < chance:
                delta = excess(slots)
                present = [any(i in stream[s] for s in slots) for i in range(classes)]
                odds = [math.exp(d) if on else 0.0 for d, on in zip(delta, present, strict=True)]
                drawn = int(torch.multinomial(torch.tensor(odds) / sum(odds), 1))
                members = [s for s in slots if drawn in stream[s]]
                wanted = [i for i in range(classes) if delta[i] <= 0]
                lacking = {s: sum(i not in stream[s] for i in wanted) for s in members}
                members = [s for s in members if lacking[s] == max(lacking.values())]
                best = min(
                    members,
                    key=lambda s: round(
                        sum(abs(d) for d in excess([x for x in slots if x != s])), 4
                    ),
                )
                slots[slots.index(best)] = row
        for i in labels:
            seen[i] += 1
    return sorted(slots)


@pytest.mark.parametrize("q", [-0.03, 0.0, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_prs_reads_like_its_formulas(q, seed):
    labels = random_labels(60, 5, seed, density=0.25)
    stream = [row.nonzero().flatten().tolist() for row in labels]
    torch.manual_seed(seed)
    expected = prs_by_the_book(stream, classes=5, capacity=9, q=q)
    torch.manual_seed(seed)
    assert PartitioningReservoir(q).select(labels[:0], labels, 9).tolist() == expected


def test_prs_lets_in_what_it_has_never_seen():
    policy = PartitioningReservoir()
    policy.counts = torch.tensor([500.0, 0.0])
    assert float(policy.chance(torch.tensor([1.0, 1.0]), capacity=10)) == pytest.approx(1.0)
    assert float(policy.chance(torch.tensor([1.0, 0.0]), capacity=10)) == pytest.approx(10 / 500)


def ocdm_by_the_book(
    stream: list[list[int]], classes: int, capacity: int, rho: float, batch: int
) -> list[int]:
    """OCDM in plain Python; draws random numbers where the policy does."""
    seen = [0] * classes
    rows: list[int] = []
    for start in range(0, len(stream), batch):
        arriving = range(start, min(start + batch, len(stream)))
        for row in arriving:
            for i in stream[row]:
                seen[i] += 1
        rows += arriving
        powers = [n**rho if n else 0.0 for n in seen]
        target = [power / sum(powers) for power in powers]
        while len(rows) > capacity:
            distances = []
            for leaving in rows:
                rest = [row for row in rows if row != leaving]
                counts = [max(sum(i in stream[row] for row in rest), 1e-9) for i in range(classes)]
                distances.append(
                    sum(
                        p * math.log(p / (n / sum(counts)))
                        for p, n in zip(target, counts, strict=True)
                        if p
                    )
                )
            closest = [
                r for r, d in zip(rows, distances, strict=True) if d <= min(distances) + 1e-9
            ]
            rows.remove(closest[int(torch.randint(len(closest), ()))])
    return rows


@pytest.mark.parametrize("rho", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_ocdm_reads_like_its_formulas(rho, seed):
    labels = random_labels(30, 5, seed, density=0.25)
    stream = [row.nonzero().flatten().tolist() for row in labels]
    torch.manual_seed(seed)
    expected = ocdm_by_the_book(stream, classes=5, capacity=7, rho=rho, batch=8)
    torch.manual_seed(seed)
    policy = OptimisedDistribution(rho, batch_size=8)
    assert policy.select(labels[:0], labels, 7).tolist() == expected


@pytest.mark.parametrize("name", ["prs", "ocdm"])
def test_unknown_labels_count_as_absent(name):
    labels = random_labels(30, 4, seed=5)
    unknown = torch.where(labels == 0, NAN, labels)
    torch.manual_seed(3)
    expected = build_policy(name).select(labels[:0], labels, 6)
    torch.manual_seed(3)
    assert build_policy(name).select(unknown[:0], unknown, 6).tolist() == expected.tolist()


def test_rare_classes_get_more_of_memory_than_a_reservoir_gives_them():
    """On a long-tailed stream the histograms order as the papers say: OCDM, PRS, reservoir."""
    distance = {}
    for name in ("reservoir", "prs", "ocdm"):
        torch.manual_seed(0)
        histograms = [run(build_policy(name), long_tailed_stream(s), 40).sum(0) for s in range(3)]
        shares = torch.stack([counts / counts.sum() for counts in histograms])
        # Total variation from the uniform distribution that both ask for.
        distance[name] = float((shares - 1 / 8).abs().sum(dim=1).mean() / 2)
    assert distance["ocdm"] < distance["prs"] < distance["reservoir"]
    assert distance["ocdm"] < 0.15
    assert distance["reservoir"] > 0.3
