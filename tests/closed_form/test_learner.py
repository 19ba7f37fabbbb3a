"""A learner whose labels change, whose images go and whose streams differ, against one taught afresh."""

import pytest
import torch

from rebll_avalanche.closed_form.learner import ROUNDS, RidgeLearner
from rebll_avalanche.closed_form.records import fingerprints
from rebll_avalanche.closed_form.ridge import RidgeSolver
from rebll_avalanche.closed_form.sums import RidgeSums
from rebll_avalanche.metrics.functional import decisions

FEATURES, CLASSES = 10, 6
UNKNOWN = float("nan")
STEPS = ((0, 2), (2, 4), (4, 6))


def drawn(images, seed):
    generator = torch.Generator().manual_seed(seed)
    direction = torch.randn(FEATURES, CLASSES, generator=torch.Generator().manual_seed(0))
    vectors = torch.randn(images, FEATURES, generator=generator)
    noise = torch.randn(images, CLASSES, generator=generator)
    labels = (vectors @ direction + noise > 2).float()
    labels[torch.arange(images), torch.arange(images) % CLASSES] = 1.0
    return vectors, labels


@pytest.fixture
def data():
    return drawn(240, 1)


def stream(labels, kind="overlap", seed=0):
    """(rows, labels with NaN) of each experience."""
    uses = torch.stack([labels[:, lo:hi].any(1) for lo, hi in STEPS])
    if kind == "disjoint":
        last = len(STEPS) - 1 - uses.flip(0).float().argmax(0)
        uses = torch.stack([last == step for step in range(len(STEPS))])
    elif kind == "once":
        draw = torch.rand(uses.shape, generator=torch.Generator().manual_seed(seed)) * uses
        uses = torch.stack([draw.argmax(0) == step for step in range(len(STEPS))])
    lessons = []
    for (lo, hi), used in zip(STEPS, uses, strict=True):
        rows = used.nonzero().flatten()
        given = torch.full((len(rows), hi), UNKNOWN)
        given[:, lo:hi] = labels[rows, lo:hi]
        lessons.append((rows, given))
    return lessons


def taught(vectors, lessons, without=(), **options):
    """A learner that saw the lessons, but not these images."""
    learner = RidgeLearner(FEATURES, **({"gamma": 3.0} | options))
    gone = set(without)
    for number, lesson in enumerate(lessons):
        if lesson is None:
            continue
        rows, given = lesson
        stays = torch.tensor([row not in gone for row in rows.tolist()], dtype=torch.bool)
        images = rows[stays].tolist()
        learner.learn(vectors[rows[stays]], given[stays], images, number=number)
    return learner


def assert_same(learner, other, *, calibrated=False):
    """The same head, and the same sums, to rounding error."""
    for found, wanted in zip(learner.head_so_far(), other.head_so_far(), strict=True):
        assert torch.allclose(found.weight, wanted.weight, atol=1e-8, rtol=0)
        assert torch.allclose(found.bias, wanted.bias, atol=1e-8, rtol=0)
        if not calibrated:
            break  # the plain scores
    for name, sum_ in other.sums.state_dict().items():
        assert torch.allclose(learner.sums.state_dict()[name], sum_, atol=1e-8, rtol=0), name
    assert torch.equal(learner.annotated, other.annotated)


# Guesses are made by heads that knew what is forgotten, so they need the vectors to be made again.
EXACT = [
    {"unknown": "negative", "keep": "labels"},
    {"unknown": "negative", "keep": "vectors"},
    {"unknown": "auto", "keep": "vectors"},
    {"unknown": "shrunk", "keep": "vectors"},
    {"unknown": "soft", "keep": "vectors"},
]
exact = pytest.mark.parametrize("options", EXACT, ids=lambda given: "-".join(given.values()))
streams = pytest.mark.parametrize("kind", ["overlap", "once"])


def vectors_if_needed(learner, vectors):
    return None if learner.options["keep"] == "vectors" else vectors


@exact
@streams
def test_forgotten_images_leave_no_trace(data, options, kind):
    vectors, labels = data
    lessons = stream(labels, kind)
    learner = taught(vectors, lessons, **options)
    gone = list(range(0, 240, 7))
    learner.forget_images(gone, vectors_if_needed(learner, vectors[gone]))
    assert_same(learner, taught(vectors, lessons, without=gone, **options))
    assert len(learner.records) == 240 - len(gone)
    with pytest.raises(ValueError, match=r"1 of 2 images have never been learned"):
        learner.forget_images([0, 1], vectors[:2])


@exact
@streams
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_forgotten_experience_leaves_no_trace(data, options, kind, number):
    vectors, labels = data
    lessons = stream(labels, kind)
    learner = taught(vectors, lessons, **options)
    if options["keep"] == "vectors":
        learner.forget_experience(number)
    else:
        shuffled = lessons[number][0].flip(0)
        learner.forget_experience(number, shuffled.tolist(), vectors[shuffled])
    left = [None if step == number else lesson for step, lesson in enumerate(lessons)]
    other = taught(vectors, left, **options)
    other._widen(CLASSES)
    assert_same(learner, other)
    with pytest.raises(ValueError, match=f"experience {number} is not among"):
        learner.forget_experience(number)
    # Its number is free again.
    rows, given = lessons[number]
    learner.learn(vectors[rows], given, rows.tolist(), number=number)
    if options["unknown"] == "negative":
        assert_same(learner, taught(vectors, lessons, **options))


@exact
@streams
def test_forgotten_classes_leave_no_trace(data, options, kind):
    vectors, labels = data
    lessons = stream(labels, kind)
    learner = taught(vectors, lessons, **options)
    learner.forget_classes([1, 4])
    for _, given in lessons:
        given[:, [column for column in (1, 4) if column < given.shape[1]]] = UNKNOWN
    assert_same(learner, taught(vectors, lessons, **options))
    assert not bool(learner.solve()(vectors)[:, [1, 4]].isnan().any())


@exact
@streams
def test_corrected_labels_are_as_if_right_from_the_start(data, options, kind):
    vectors, labels = data
    right = stream(labels, kind)
    wrong = stream(labels, kind)
    generator = torch.Generator().manual_seed(4)
    spoiled = []
    for rows, given in wrong:
        flip = (torch.rand(given.shape, generator=generator) < 0.1) & ~given.isnan()
        given[flip] = 1 - given[flip]
        spoiled += rows[flip.any(1)].tolist()
    learner = taught(vectors, wrong, **options)
    spoiled = sorted(set(spoiled))
    known = torch.full((240, CLASSES), UNKNOWN)
    for rows, given in right:
        known[rows, : given.shape[1]] = torch.where(
            given.isnan(), known[rows, : given.shape[1]], given
        )
    learner.correct(spoiled, known[spoiled], vectors_if_needed(learner, vectors[spoiled]))
    assert_same(learner, taught(vectors, right, **options))
    # And back.
    before = taught(vectors, wrong, **options)
    back = torch.full((240, CLASSES), UNKNOWN)
    for rows, given in wrong:
        back[rows, : given.shape[1]] = torch.where(
            given.isnan(), back[rows, : given.shape[1]], given
        )
    learner.correct(spoiled, back[spoiled], vectors_if_needed(learner, vectors[spoiled]))
    assert_same(learner, before)


@pytest.mark.parametrize("keep", ["labels", "vectors"])
def test_labels_that_come_later_end_at_the_regression_on_all_of_them(data, keep):
    """Any columns, in any order: new classes, known ones, none."""
    vectors, labels = data
    learner = RidgeLearner(FEATURES, gamma=3.0, keep=keep, unknown="negative")
    generator = torch.Generator().manual_seed(2)
    turn = torch.randint(0, 4, labels.shape, generator=generator)
    learner.learn(vectors[:50], torch.full((50, 0), UNKNOWN), list(range(50)))
    for step in range(4):
        given = torch.where(turn == step, labels, UNKNOWN)
        learner.learn(vectors, given, list(range(240)))
        learner.learn(vectors, given, list(range(240)))  # nothing counts twice
    joint = RidgeLearner(FEATURES, gamma=3.0)
    joint.learn(vectors, labels)
    assert_same(learner, joint)
    late = taught(vectors, [(torch.arange(240), torch.where(turn > 0, labels, UNKNOWN))], keep=keep)
    late.correct(list(range(240)), torch.where(turn == 0, labels, UNKNOWN), vectors)
    assert_same(late, joint)


def test_an_image_twice_in_one_batch_counts_once(data):
    vectors, labels = data
    learner, other = (RidgeLearner(FEATURES, gamma=3.0) for _ in range(2))
    twice = [0, 1, 2, 1, 0, *range(3, 240)]
    learner.learn(vectors[twice], labels[twice])
    other.learn(vectors, labels)
    assert_same(learner, other)


@pytest.mark.parametrize("kind", ["overlap", "once"])
@pytest.mark.parametrize("keep", ["labels", "vectors"])
@pytest.mark.parametrize("unknown", ["negative", "shrunk"])
def test_two_learners_become_one(data, kind, keep, unknown):
    vectors, labels = data
    lessons = stream(labels, kind)
    options = {"keep": keep, "unknown": unknown}
    learner = taught(vectors, lessons[:1], **options)
    other = taught(vectors, [None, *lessons[1:]], **options)
    if kind == "overlap" and keep == "labels":
        with pytest.raises(ValueError, match="learned by both"):
            learner.merge(other)
        return
    learner.merge(other)
    if unknown == "negative" or keep == "vectors":
        assert_same(learner, taught(vectors, lessons, **options))
    images = 240 if kind == "overlap" else sum(len(rows) for rows, _ in lessons)
    assert learner.sums.images == images == len(learner.records)


def test_left_out_scores_are_those_of_a_learner_without_the_image(data):
    vectors, labels = data
    learner = taught(vectors, stream(labels), keep="vectors", calibration="none")
    found = learner.left_out_scores([3, 50])
    for place, image in enumerate((3, 50)):
        other = taught(vectors, stream(labels), without=[image], calibration="none")
        assert torch.allclose(found[place], other.solve()(vectors[image]), atol=1e-8, rtol=0)
    assert learner.left_out_scores().shape == (240, CLASSES)


def test_a_later_head_replaces_the_guesses_of_an_earlier_one(data):
    """Against the same steps by hand: regress, guess, regress, guess again, and so on."""
    vectors, labels = data
    first, later = torch.arange(120), torch.arange(120, 240)
    given = torch.full((120, 4), UNKNOWN)
    given[:, 2:] = labels[later, 2:4]
    lessons = [(first, labels[first, :2]), (later, given)]
    learner = taught(vectors, lessons, unknown="shrunk", shrink=0.5, keep="vectors")

    def regressed(inputs, targets):
        sums = RidgeSums(FEATURES, targets.shape[1])
        sums.add(inputs, targets)
        return RidgeSolver(sums).solve(3.0)

    targets = torch.zeros(240, 4).double()
    targets[:120, :2], targets[120:, 2:] = labels[first, :2].double(), labels[later, 2:4].double()
    head = regressed(vectors[first], targets[:120, :2])
    for _ in range(1 + ROUNDS):
        targets[120:, :2] = 0.5 * head(vectors[later])[:, :2].half().double()
        head = regressed(vectors, targets)
    plain = learner.head_so_far()[0]
    assert torch.allclose(plain.weight, head.weight, atol=1e-9)
    assert torch.allclose(plain.bias, head.bias, atol=1e-9)


def test_repeats_tell_the_paper_s_stream_from_others(data):
    vectors, labels = data
    overlap, once = (taught(vectors, stream(labels, kind)) for kind in ("overlap", "once"))
    assert overlap.guess_share == 0
    assert once.guess_share == 0.5
    negative = taught(vectors, stream(labels), unknown="negative")
    for found, wanted in zip(overlap.head_so_far(), negative.head_so_far(), strict=True):
        assert torch.equal(found.weight, wanted.weight)
        assert torch.equal(found.bias, wanted.bias)


@pytest.mark.parametrize("keep", ["sums", "labels", "vectors"])
def test_state_round_trip(data, keep):
    vectors, labels = data
    first, *rest = stream(labels, "once")
    learner, other = taught(vectors, [first], keep=keep), RidgeLearner(0, keep=keep, gamma=3.0)
    other.load_state_dict(learner.state_dict())
    assert other.num_bytes == learner.num_bytes
    for student in (learner, other):
        for rows, given in rest:
            student.learn(vectors[rows], given, rows.tolist())
        if keep == "vectors":
            student.forget_images([int(rest[0][0][0])])
    assert torch.equal(learner.solve().weight, other.solve().weight)
    assert torch.equal(learner.solve().bias, other.solve().bias)
    assert learner.num_bytes == other.num_bytes


def test_what_is_kept_grows_as_documented(data):
    vectors, labels = data
    sizes = {
        keep: taught(vectors, [(torch.arange(240), labels)], keep=keep).num_bytes
        for keep in ("sums", "labels", "vectors")
    }
    # A fingerprint, a place in the lesson, and per class a label and a guess.
    assert sizes["labels"] - sizes["sums"] == 240 * (8 + 8 + 3 * CLASSES)
    assert sizes["vectors"] - sizes["labels"] == 240 * 4 * FEATURES


def test_decisions_do_not_depend_on_the_kind_of_stream():
    """Counted as absent, many positives are missed wherever images do not come again.

    Of images that come once, nobody can know later classes, so that something is missed there all the same.
    """
    vectors, labels = drawn(3000, 1)
    new_vectors, new_labels = drawn(3000, 2)

    def class_f1(kind, **options):
        learner = taught(vectors, stream(labels, kind), gamma=None, **options)
        found = learner.solve()(new_vectors).sigmoid()
        return float(decisions(found, new_labels, 0.5).class_f1)

    wanted = class_f1("overlap")
    for kind, missed in (("disjoint", 0.1), ("once", 0.2)):
        assert class_f1(kind) > wanted - missed, kind
        assert class_f1(kind) > class_f1(kind, unknown="negative") + 0.05, kind


def test_errors_name_the_way_out(data):
    vectors, labels = data
    sums = taught(vectors, stream(labels), keep="sums")
    with pytest.raises(ValueError, match="keep='labels'"):
        sums.forget_images([1])
    with pytest.raises(ValueError, match="experience 1 was already learned"):
        sums.learn(vectors, labels, number=1)
    kept = taught(vectors, stream(labels), keep="labels")
    with pytest.raises(ValueError, match="keep='vectors'"):
        kept.forget_images([1])
    with pytest.raises(ValueError, match="keep='vectors'"):
        kept.relearn()
    with pytest.raises(ValueError, match="listed twice"):
        kept.forget_images([1, 1], vectors[:2])
    with pytest.raises(ValueError, match="are not the same"):
        kept.forget_experience(0, [1], vectors[:1])
    with pytest.raises(ValueError, match="was already learned"):
        kept.learn(vectors, labels, number=0)
    with pytest.raises(ValueError, match="begin"):
        kept.observe(vectors, labels)
    with pytest.raises(ValueError, match="before the first experience"):
        RidgeLearner(FEATURES).solve()


def test_fingerprints_tell_images_apart():
    images = torch.rand(3, 4)
    assert fingerprints(images) == fingerprints(images.clone())
    assert len(set(fingerprints(images))) == 3


def test_labels_of_a_class_that_their_lesson_never_named_can_come_later(data):
    vectors, labels = data
    lessons = stream(labels, "once")
    learner = taught(vectors, lessons, keep="vectors")
    assert learner.guess_share > 0  # so that a correction learns all lessons again
    rows, _ = lessons[0]
    late = torch.full((len(rows), CLASSES), UNKNOWN)
    late[:, 4:] = labels[rows, 4:]
    learner.correct(rows.tolist(), late)
    again = taught(vectors, lessons, keep="vectors")
    again.learn(vectors[rows], late, rows.tolist(), number=len(lessons))
    assert learner.annotated.tolist() == again.annotated.tolist()
    heads = [one.head_so_far()[0].weight for one in (learner, again)]  # before calibration
    assert torch.allclose(*heads, atol=1e-8)
