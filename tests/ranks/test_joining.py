"""How the processes of a launcher find each other, and what one asks of another."""

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch.distributed as dist

from pytest_affine.ranks import RankFailure, RankPool, RankSetupError, check_backend, joining
from pytest_affine.ranks.hosts import (
    LOCAL,
    Descriptors,
    Host,
    HostLostError,
    LocalHost,
    hosts_for,
    launched_hosts,
    set_launched,
)
from pytest_affine.ranks.joining import Launch, follow, lead
from pytest_affine.ranks.meeting import interface_of
from pytest_affine.ranks.remote import RemoteHost, serve


def _launch(**values: Any) -> Launch:
    given = {"rank": 0, "world_size": 2, "local_rank": 0, "node": "here", "hosts_store": True}
    return Launch(**{**given, **values})


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(port))
    monkeypatch.setenv(joining.JOINED, "")


def test_processes_that_do_not_come_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "JOIN_SECONDS", 0.5)
    text = (
        "of 3 launched processes those of ranks [1, 2] have not joined within 0.5 s; choices: the "
        "same command line in each, a WORLD_SIZE that is true, --affine-launcher=ignore"
    )
    with (
        pytest.raises(RankSetupError, match=f"^{re.escape(text)}$"),
        lead(_launch(world_size=3)),
    ):
        pass


def test_a_controller_that_does_not_come_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "JOIN_SECONDS", 0.5)
    text = r"^the process of rank 0 has not become the controller within 0.5 s: "
    store = joining.launcher_store(joining.timedelta(seconds=5), is_master=True)
    with pytest.raises(RankSetupError, match=text):
        follow(_launch(rank=1))
    del store


def test_a_connection_without_the_token_is_turned_away() -> None:
    reception = joining._Reception(_launch())
    address = reception._listener.getsockname()
    with socket.create_connection(address) as short, socket.create_connection(address) as wrong:
        short.sendall(b"hello")
        short.shutdown(socket.SHUT_WR)
        wrong.sendall(joining._HELLO.pack(bytes(16), 1))
        hello = joining._HELLO.pack(reception._token, 1)
        with socket.create_connection(address) as right:
            right.sendall(hello)
            with reception.accept(1) as taken:
                assert taken.getpeername() == right.getsockname()
        assert short.recv(1) == wrong.recv(1) == b""
    reception.close()


def test_connections_are_given_to_the_rank_whose_process_made_them() -> None:
    reception = joining._Reception(_launch())
    address = reception._listener.getsockname()
    dialled = {}
    for rank in (2, 1):
        hello = joining._HELLO.pack(reception._token, rank)
        dialled[rank] = joining._connect(address, hello)
    for rank in (1, 2):
        with reception.accept(rank) as taken, dialled[rank]:
            assert taken.getpeername() == dialled[rank].getsockname()
    reception.close()


def test_the_controller_is_looked_for_at_all_its_addresses() -> None:
    controller = socket.create_server(("127.0.0.1", 0))
    port = controller.getsockname()[1]

    def answer() -> None:
        connection, _ = controller.accept()
        with controller, connection:
            connection.sendall(bytes(16))

    thread = threading.Thread(target=answer)
    thread.start()
    addresses = ["127.0.0.1", "no-such-host.invalid"]
    notice = {"addresses": addresses, "port": port, "answer": bytes(15).hex() + "01"}
    text = (
        f"the controller can't be reached at port {port} of 127.0.0.1: somebody else answers; "
        "no-such-host.invalid: "
    )
    with pytest.raises(RankSetupError, match=f"^{re.escape(text)}"):
        joining._reach(notice, b"")
    thread.join()


class _Clock(LocalHost):
    """A host whose clock is ahead."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def run(self, function: Callable[..., Any], /, *args: Any, seconds: float = 1.0) -> Any:
        return function(*args) + self._seconds


@pytest.mark.parametrize("ahead", [-1000.0, 0.5])
def test_a_clock_that_differs_is_corrected(ahead: float) -> None:
    assert joining._clock_offset(_Clock(ahead)) == pytest.approx(-ahead, abs=0.1)


def test_a_clock_that_is_ours_is_left_alone() -> None:
    assert joining._clock_offset(LocalHost()) == 0


def test_what_came_first_is_decided_on_one_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = [LocalHost(), LocalHost()]
    monkeypatch.setattr("pytest_affine.ranks.pool.hosts_for", lambda num_ranks: hosts)

    def body() -> None:
        time.sleep(0.2 * dist.get_rank())
        raise ValueError

    with RankPool(2) as pool:
        for ahead, first in ((0.0, 0), (10.0, 1)):
            hosts[1].clock_offset = -ahead
            with pytest.raises(RankFailure) as caught:
                pool.run(body)
            assert caught.value.first == first


def test_interfaces_are_found_by_address() -> None:
    assert interface_of(None) == interface_of("127.0.0.1") == "lo"
    assert interface_of("192.0.2.1") is None


Ends = tuple[RemoteHost, list[int | None]]


@pytest.fixture
def ends() -> Iterator[Ends]:
    """A host, and the list to which its process adds the status that it was told."""
    ours, theirs = socket.socketpair()
    told: list[int | None] = []

    def dial() -> socket.socket:
        raise AssertionError("nobody starts a rank here")

    thread = threading.Thread(target=lambda: told.append(serve(theirs, dial)))
    thread.start()
    yield RemoteHost(1, ours, dial), told
    ours.close()
    thread.join(10)
    assert not thread.is_alive()


def test_a_host_runs_functions_one_after_another(ends: Ends) -> None:
    host, _ = ends
    assert [host.run(abs, -number) for number in range(3)] == [0, 1, 2]


def test_what_a_function_raises_there_is_raised_here(ends: Ends) -> None:
    host, _ = ends
    with pytest.raises(FileNotFoundError, match="no-such-file"):
        host.run(open, "no-such-file")
    assert host.run(abs, -1) == 1


def test_a_host_that_does_not_answer_in_time_is_lost_for_good(ends: Ends) -> None:
    host, _ = ends
    text = "^its launched process is gone or does not answer$"
    with pytest.raises(HostLostError, match=text):
        host.run(time.sleep, 0.5, seconds=0.1)
    time.sleep(0.6)
    with pytest.raises(HostLostError, match=text):
        host.run(abs, -1)


def test_a_rank_on_a_lost_host_cannot_be_started(ends: Ends) -> None:
    host, _ = ends
    with pytest.raises(HostLostError):
        host.run(time.sleep, 0.5, seconds=0.1)
    text = "^rank 1 can't be started: its launched process is gone or does not answer$"
    with pytest.raises(RankSetupError, match=text):
        host.launch()


class _Named(Host):
    """A host of a node with three devices."""

    server = None

    def __init__(self, node: str = "", index: int = 0) -> None:
        self.node, self.device_index = node, index

    def run(self, function: Callable[..., Any], /, *args: Any, seconds: float = 1.0) -> Any:
        return range(3)

    def launch(self, *, hash_seed: int | None = None) -> Descriptors:
        raise AssertionError


@pytest.fixture
def launched() -> Iterator[Callable[..., None]]:
    """Let these hosts be launched."""
    yield lambda *hosts: set_launched(hosts)
    set_launched(())


Launched = Callable[..., None]


def test_the_first_hosts_have_the_first_ranks(launched: Launched) -> None:
    assert launched_hosts() == ()
    assert hosts_for(2) == 2 * [LOCAL]
    hosts = [_Named(), _Named(), _Named()]
    launched(*hosts)
    assert launched_hosts() == (*hosts,)
    assert hosts_for(2) == hosts[:2]


def test_each_launched_process_needs_the_device_that_its_launcher_counted_out(
    launched: Launched,
) -> None:
    launched(_Named("a", 1), _Named("a", 2), _Named("b", 0), _Named("b", 3))
    assert check_backend("nccl", 3) == ()
    assert check_backend("gloo", 4) == ()
    text = (
        "rank 3 on nccl needs CUDA device 3 of its node (LOCAL_RANK); found 3 there; "
        "choices: fewer processes per node, --affine-backend=gloo"
    )
    with pytest.raises(RankSetupError, match=f"^{re.escape(text)}$"):
        check_backend("nccl", 4)


def test_devices_that_a_launcher_shared_out_cannot_be_chosen(launched: Launched) -> None:
    launched(_Named())
    text = (
        "device ids (--affine-devices 0, 1) can't be chosen where a launcher has shared the "
        "devices out; choices: CUDA_VISIBLE_DEVICES or its like for the launcher"
    )
    with pytest.raises(RankSetupError, match=f"^{re.escape(text)}$"):
        check_backend("gloo", 1, (0, 1))
