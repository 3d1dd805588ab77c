"""The schedule of drawn batches beside the rules of the contract, taken word by word."""

import math
from itertools import product

from handmade import block, plan
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_affine.geometry import row_major_strides
from pytest_affine.plans import StagingBudget, TransferEndpoints
from pytest_affine.reference.analyzer import analyze_transfers
from pytest_affine.reference.schedule import schedule_transfers

PLACES = st.integers(0, 3)


@st.composite
def batches(draw):
    """Parameters of two element sizes, some with one plan, between up to four processes."""
    own = [draw(plans()) for _ in range(2)]
    named = {name: draw(st.sampled_from(own)) for name in "zabc"[: draw(st.integers(1, 4))]}
    bound = [{location: draw(PLACES) for location in range(4)} for _ in range(2)]
    sizes = {name: draw(st.sampled_from([1, 2])) for name in named}
    budget = StagingBudget(draw(st.integers(2, 30)))
    return (named, TransferEndpoints(*bound)), {"element_size": sizes, "budget": budget}


@st.composite
def plans(draw):
    segments = []
    for shape in draw(st.lists(st.lists(st.integers(0, 5), max_size=3).map(tuple), max_size=4)):
        packed = row_major_strides(shape)
        strides = st.sampled_from([packed, tuple(2 * stride for stride in packed)])
        segments.append(block(*((draw(PLACES), 0, draw(strides)) for _ in range(2)), shape))
    return plan(*segments)


def boxes(shape, limit):
    """Rule 1: origin and shape of every chunk, in row-major order."""
    if 0 in shape:
        return []
    inner = min(axis for axis in range(len(shape) + 1) if math.prod(shape[axis:]) <= limit)
    steps = [1] * len(shape)
    steps[inner:] = shape[inner:]
    if inner:
        steps[inner - 1] = limit // math.prod(shape[inner:])
    origins = product(*(range(0, extent, step) for extent, step in zip(shape, steps, strict=True)))
    return [
        (origin, tuple(min(s, e - o) for s, e, o in zip(steps, shape, origin, strict=True)))
        for origin in origins
    ]


def operations(plans, endpoints, element_size, budget):
    """Rule 2: (processes, parameter, segment, origin, shape) of every chunk of a batch."""
    sources, targets = dict(endpoints.source), dict(endpoints.target)
    for name, own in plans.items():
        for index, segment in enumerate(own.segments):
            ends = sources[segment.source_location], targets[segment.target_location]
            for box in boxes(segment.shape, budget.bytes_per_peer // element_size[name]):
                yield ends, (name, index, *box)


def packed(chunks, element_size, budget):
    """Rule 4: the chunks of each message of one pair."""
    messages = []
    for chunk in chunks:
        size = element_size[chunk[0]]
        if messages and size == element_size[messages[-1][0][0]]:
            elements = sum(math.prod(shape) for *_, shape in (*messages[-1], chunk))
            if elements * size <= budget.bytes_per_peer:
                messages[-1].append(chunk)
                continue
        messages.append([chunk])
    return messages


def fields(chunks):
    return [(chunk.parameter, chunk.segment, chunk.origin, chunk.shape) for chunk in chunks]


@settings(max_examples=200)
@given(batches())
def test_messages_and_local_copies_are_those_of_the_rules(batch):
    args, options = batch
    pairs = {}
    for ends, chunk in operations(*args, **options):
        pairs.setdefault(ends, []).append(chunk)
    processes = schedule_transfers(*args, **options).processes
    local = {(p, p): fields(own.local_copies) for p, own in processes.items() if own.local_copies}
    sent, received = (
        {
            ends(process, peer): [fields(message.chunks) for message in queue.messages]
            for process, own in processes.items()
            for peer, queue in getattr(own, direction).items()
        }
        for direction, ends in (("sends", lambda p, q: (p, q)), ("receives", lambda p, q: (q, p)))
    )
    assert local == {ends: pairs[ends] for ends in pairs if ends[0] == ends[1]}
    assert sent == received
    assert sent == {ends: packed(pairs[ends], **options) for ends in pairs if ends[0] != ends[1]}


@settings(max_examples=200)
@given(batches())
def test_running_the_rounds_in_order_can_not_deadlock(batch):
    args, options = batch
    processes = schedule_transfers(*args, **options).processes
    done = dict.fromkeys(processes, 0)

    def missing(process):
        """Peers that a process waits for in its round: they have not come as far, or never will."""
        index = done[process]
        for direction, other in (("sends", "receives"), ("receives", "sends")):
            for peer, queue in getattr(processes[process], direction).items():
                if index < len(queue.messages):
                    end = getattr(processes[peer], other)[process].messages[index:]
                    if done[peer] < index or index >= processes[peer].num_rounds or not end:
                        yield peer

    def can_finish(process):
        return done[process] < processes[process].num_rounds and not list(missing(process))

    while ready := [process for process in processes if can_finish(process)]:
        for process in ready:
            done[process] += 1
    assert done == {process: own.num_rounds for process, own in processes.items()}


@settings(max_examples=200)
@given(batches())
def test_each_process_has_its_entry_of_the_schedule_for_all(batch):
    args, options = batch
    for process, own in schedule_transfers(*args, **options).processes.items():
        assert schedule_transfers(*args, **options, process=process).processes == {process: own}


@settings(max_examples=200)
@given(batches())
def test_the_analysis_counts_what_is_in_the_schedule(batch):
    args, options = batch
    processes = schedule_transfers(*args, **options).processes
    report = analyze_transfers(*args, **options)
    for process, own in processes.items():
        said = report.processes[process]
        sent, received = (
            [message for queue in queues.values() for message in queue.messages]
            for queues in (own.sends, own.receives)
        )
        assert (said.num_sent_messages, said.num_received_messages) == (len(sent), len(received))
        assert said.sent_bytes == sum(message.num_bytes for message in sent)
        assert said.received_bytes == sum(message.num_bytes for message in received)
        assert said.pack_bytes == sum(m.num_bytes for m in sent if not m.direct)
        assert said.unpack_bytes == sum(m.num_bytes for m in received if not m.direct)
        queues = (*own.sends.values(), *own.receives.values())
        assert said.staging_bytes == sum(queue.arena_bytes for queue in queues)
        assert said.num_rounds == own.num_rounds
    sizes = [m.num_bytes for p in processes.values() for q in p.sends.values() for m in q.messages]
    assert report.message_sizes == {size: sizes.count(size) for size in sizes}
    assert report.num_chunks == len(list(operations(*args, **options)))
