"""The service as it runs: processes that die and come back, stop in order, and refuse what cannot be."""

import re
import signal
import socket
from collections.abc import Iterator
from os import kill
from pathlib import Path

import pytest

from hybrid.servers import find_server
from service.auth import make_key
from tests.services import Service, is_alive, run_refused, running_service, start_service, wait_for

GAME = "/v1/boards/game"
ANN = f"{GAME}/players/ann"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with running_service(tmp_path / "data") as service:
        yield service


def submit(service: Service, player: str, score: int, key: str = "") -> int:
    return service.ask("POST", f"{GAME}/scores", {"player": player, "score": score}, key=key)[0]


def make_board(service: Service) -> None:
    assert service.ask("PUT", GAME, {})[0] == 201
    assert submit(service, "ann", 30) == 200


def count_of(service: Service, metric: str) -> float:
    found = re.search(rf"^{re.escape(metric)} (\S+)$", service.ask("GET", "/metrics")[1], re.MULTILINE)
    return float(found[1]) if found else 0.0


def test_it_serves_from_an_empty_directory_and_stops_without_a_trace(tmp_path: Path) -> None:
    with running_service(tmp_path / "data") as service:
        make_board(service)
        assert service.ask("POST", f"{GAME}/scores", {"player": "bob", "score": 9})[1]["ack"] == "fsync"
        status, standing = service.ask("GET", ANN)
        assert (status, standing["rank"], standing["players"]) == (200, 1, 2), standing
        assert [service.ask("GET", path)[0] for path in ("/", "/docs", "/openapi.json", "/metrics")] == [200] * 4
        children = service.children()
        assert len(children) == 3
        assert service.stop(signal.SIGINT) == 0
        assert not [pid for pid in children if is_alive(pid)]


@pytest.mark.slow
def test_what_was_acknowledged_is_there_after_a_restart(tmp_path: Path) -> None:
    with running_service(tmp_path / "data") as service:
        make_board(service)
        assert service.stop() == 0
    with running_service(tmp_path / "data") as again:
        assert again.ask("GET", ANN)[1]["score"] == 30


@pytest.mark.slow
def test_a_killed_worker_is_back_within_two_seconds(service: Service) -> None:
    make_board(service)
    assert count_of(service, 'toptail_scores_total{status="added"}') == 1
    before = count_of(service, 'toptail_requests_total{route="GET /readyz",status="200"}')
    (worker,) = service.children("service.worker")
    kill(worker, signal.SIGKILL)
    wait_for(lambda: service.ask("GET", ANN)[0] == 200, 2, "an answer")
    assert service.children("service.worker") != [worker]
    wait_for(lambda: count_of(service, 'toptail_restarts_total{process="worker"}') == 1, 3, "a counted restart")
    assert count_of(service, 'toptail_requests_total{route="GET /readyz",status="200"}') >= before


@pytest.mark.slow
def test_a_killed_keeper_comes_back_and_readiness_never_suffers(service: Service) -> None:
    (keeper,) = service.children("service.keeping")
    kill(keeper, signal.SIGKILL)
    wait_for(lambda: service.children("service.keeping") not in ([], [keeper]), 2, "a keeper")
    assert service.is_ready()
    wait_for(lambda: count_of(service, 'toptail_restarts_total{process="keeper"}') == 1, 3, "a counted restart")


@pytest.mark.slow
def test_a_killed_redis_means_503_and_then_everything_as_before(tmp_path: Path) -> None:
    with running_service(tmp_path / "data", TOPTAIL_TIMEOUT_S="0.05") as service:  # else requests wait until it is back
        make_board(service)
        (redis,) = service.children("redis-server")
        kill(redis, signal.SIGKILL)
        refused: list[str] = []

        def is_over() -> bool:
            status, body = service.ask("GET", ANN)
            refused.extend([body["error"]["code"]] if status == 503 else [])
            assert status in (200, 503), body
            return status == 200 and bool(refused)

        wait_for(is_over, 3, "refusal and recovery")
        assert set(refused) <= {"unavailable", "outcome_unknown"}
        assert service.ask("GET", ANN)[1]["score"] == 30
        wait_for(service.is_ready, 1, "readiness")
        wait_for(lambda: submit(service, "ann", 31) == 200, 1, "a write")
        restarts = 'toptail_restarts_total{process="redis"}'
        wait_for(lambda: count_of(service, restarts) == 1, 3, "a counted restart")


@pytest.mark.slow
def test_nothing_outlives_a_killed_supervisor(tmp_path: Path) -> None:
    with running_service(tmp_path / "data", "--workers", "2") as service:
        make_board(service)
        children = service.children()
        assert len(children) == 4
        service.process.kill()
        wait_for(lambda: not any(map(is_alive, children)), 2, "the end of all children")
        assert list(tmp_path.glob("toptail-*")) == []
    with running_service(tmp_path / "data") as again:
        assert again.ask("GET", ANN)[1]["score"] == 30


@pytest.mark.slow
def test_two_workers_share_the_port_and_their_metrics(tmp_path: Path) -> None:
    with running_service(tmp_path / "data", "--workers", "2") as service:
        make_board(service)
        first, second = service.children("service.worker")
        wait_for(lambda: service.logged.count("redis answers") == 2, 5, "two workers")
        asked = [service.ask("GET", ANN)[0] for _ in range(50)]
        assert asked == [200] * 50
        metric = 'toptail_requests_total{route="GET /v1/boards/{board}/players/{player}",status="200"}'
        wait_for(lambda: count_of(service, metric) == 50, 3, "all requests counted")
        for frozen in (first, second):  # each of them alone answers too
            kill(frozen, signal.SIGSTOP)
            assert service.ask("GET", ANN)[0] == 200
            kill(frozen, signal.SIGCONT)


@pytest.mark.slow
def test_a_second_signal_ends_everything_at_once(tmp_path: Path) -> None:
    with running_service(tmp_path / "data", TOPTAIL_DRAIN_S="60") as service:
        children = service.children()
        (worker,) = service.children("service.worker")
        kill(worker, signal.SIGSTOP)  # it will not drain
        service.process.send_signal(signal.SIGTERM)
        wait_for(lambda: "stopping" in service.logged, 2, "the first signal")
        assert service.stop() == 128 + signal.SIGTERM
        wait_for(lambda: not any(map(is_alive, children)), 2, "the end of all children")


@pytest.mark.slow
def test_a_request_that_was_begun_is_finished(tmp_path: Path) -> None:
    with running_service(tmp_path / "data") as service:
        make_board(service)
        host, port = service.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as client:
            body = b'{"player": "bob", "score": 7}'
            head = f"POST {GAME}/scores HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:5])
            wait_for(lambda: count_of(service, "toptail_requests_in_flight") == 1, 3, "a request in flight")
            service.process.send_signal(signal.SIGTERM)
            wait_for(lambda: "stopping" in service.logged, 2, "the signal")
            client.sendall(body[5:])
            assert client.recv(1000).startswith(b"HTTP/1.1 200")
        assert service.process.wait(10) == 0


@pytest.mark.slow
def test_two_services_get_in_each_others_way_with_a_clear_word(service: Service, tmp_path: Path) -> None:
    port = service.url.rpartition(":")[2]
    assert f"127.0.0.1:{port} is in use already" in run_refused(tmp_path / "other", "--port", port)
    refused = run_refused(tmp_path / "data")
    assert "is in use by redis-server pid" in refused
    assert "stop that one first" in refused


@pytest.mark.slow
def test_keys_are_reread_without_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    (old, old_line), (new, new_line) = make_key("admin", "*"), make_key("admin", "*")
    file.write_text(old_line + "\n")
    with running_service(tmp_path / "data", TOPTAIL_KEYS_FILE=str(file)) as service:
        assert service.ask("PUT", GAME, {})[0] == 401
        assert service.ask("PUT", GAME, {}, key=old)[0] == 201
        file.write_text(new_line + "\n")
        wait_for(lambda: service.ask("GET", GAME, key=new)[0] == 200, 3, "the new key")
        assert service.ask("GET", GAME, key=old)[0] == 401
        file.write_text("nonsense\n")
        wait_for(lambda: "keys not read" in service.logged, 3, "a word about the bad file")
        assert service.ask("GET", GAME, key=new)[0] == 200
        assert new not in service.logged


@pytest.mark.slow
def test_rates_are_limited_with_the_time_to_come_back(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    key, line = make_key("admin", "*")
    file.write_text(line)
    limits = {"TOPTAIL_RATE_PER_KEY": "5", "TOPTAIL_RATE_PER_PLAYER": "0.1"}
    with running_service(tmp_path / "data", TOPTAIL_KEYS_FILE=str(file), **limits) as service:
        assert service.ask("PUT", GAME, {}, key=key)[0] == 201
        assert submit(service, "ann", 1, key) == 200
        status, body = service.ask("POST", f"{GAME}/scores", {"player": "ann", "score": 2}, key=key)
        assert (status, body["error"]["code"]) == (429, "rate_limited")
        assert "player 'ann' may get 0.1 scores a second; try again in 9." in body["error"]["message"]
        answers = [service.ask("GET", GAME, key=key) for _ in range(20)]
        assert {status for status, _ in answers} == {200, 429}
        limited = next(body for status, body in answers if status == 429)
        assert "this key may make 5 requests a second" in limited["error"]["message"]
        wait_for(lambda: service.ask("GET", GAME, key=key)[0] == 200, 3, "the key's next turn")


SLOW_SERVER = """#!/bin/sh
[ "$1" = --version ] && exec {server} --version
exec {server} "$@" --key-load-delay 700
"""


@pytest.mark.slow
def test_while_redis_loads_the_service_says_so(tmp_path: Path) -> None:
    with running_service(tmp_path / "data") as service:
        make_board(service)
        for score in range(100):  # Redis answers once in 1,024 commands while it loads
            scores = [{"player": f"p{number}", "score": score} for number in range(32)]
            assert service.ask("POST", f"{GAME}/scores", {"scores": scores})[0] == 200
        service.stop()
    program = tmp_path / "slow-server"
    program.write_text(SLOW_SERVER.format(server=find_server().path))
    program.chmod(0o700)
    with start_service(tmp_path / "data", TOPTAIL_REDIS_SERVER=str(program)) as service:
        wait_for(lambda: "not ready yet" in service.logged, 10, "a word about loading")
        assert "still loading its data" in service.logged
        service.wait_ready()
        assert service.ask("GET", f"{GAME}/players/p7")[1]["score"] == 99


@pytest.mark.slow
def test_a_redis_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    with running_service(tmp_path / "other") as other:
        with start_service(tmp_path / "none", "--redis", f"unix://{tmp_path}/gone.sock") as service:
            wait_for(lambda: "not ready yet" in service.logged, 10, "a word about Redis")
            assert "Redis cannot be reached" in service.logged
            (tmp_path / "gone.sock").symlink_to(tmp_path / "other" / "redis.sock")
            service.wait_ready()
            make_board(service)
        assert other.ask("GET", ANN)[1]["score"] == 30


@pytest.mark.parametrize(
    ("flags", "environment", "said"),
    [
        (("--host", "0.0.0.0"), {}, "serve beyond loopback needs API keys"),  # noqa: S104  it is refused
        (("--host", "no.such.host.invalid"), {}, "'no.such.host.invalid' is not known"),
        (("--redis", "http://:secret@host"), {}, "not 'http://:***@host'"),
        ((), {"TOPTAIL_COLOUR": "red"}, "there is no setting 'colour'"),
        ((), {"TOPTAIL_PREFIX": "a b"}, "not 'a b'"),
        ((), {"TOPTAIL_REDIS_SERVER": "no-such-server"}, "'no-such-server' does not exist"),
        ((), {"TOPTAIL_KEYS_FILE": "/proc/self/comm"}, "line 1 of the keys file '/proc/self/comm' is not"),
    ],
)
def test_what_cannot_be_is_refused_in_one_sentence(
    flags: tuple[str, ...], environment: dict[str, str], said: str, tmp_path: Path
) -> None:
    assert said in run_refused(tmp_path / "data", *flags, **environment)
    assert not (tmp_path / "data").exists()
