"""What stands before the server's endpoints: hosts, keys, other pages, sizes, slow and broken requests."""

from __future__ import annotations

import json
import socket
from contextlib import closing

import httpx2
import openai
import pytest

from sdlg.serving.settings import Settings
from web_server import ASKED, Talking, error_of, no_proxies, posted, running, wait_until  # noqa: F401

KEY = "a-key-of-the-tests"


@pytest.fixture(scope="module")
def server():
    with running() as server:
        yield server


def test_every_answer_has_the_headers_that_protect_a_browser(server):
    for response in (server.get("/healthz"), server.get("/nothing"), server.post("/v1/uncertainty", {})):
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in response.headers
        assert "server" not in response.headers


def test_only_json_is_read(server):
    url = f"{server.url}/v1/uncertainty"
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        response = httpx2.post(url, content=json.dumps(ASKED).encode(), headers={"Content-Type": kind})
        assert response.status_code == 415
    squeezed = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    assert httpx2.post(url, content=b"x", headers=squeezed).status_code == 415
    fine = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert httpx2.post(url, content=json.dumps(ASKED).encode(), headers=fine).status_code == 200


DEEP = b"[" * 900 + b"]" * 900


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"nul", b"\xff\xfe", b'{"question": "\xc3\x28"}', b'{"question": NaN}', b"[" * 100_000,
        b'{"a":' * 50_000, b'{"question": "x", "seed": ' + b"9" * 5000 + b"}", b'{"question": "unfinished',
        b'"' * 99_999, b"\\" * 99_999, b'{"question": ' + DEEP + b"}", b'{"messages": [{"content": ' + DEEP + b"}]}",
        b'{"question": "x", "options": {"samples": ' + DEEP + b"}}", b'{"question": "x", "answers": ' + DEEP + b"}",
    ],
    ids=range(16),
)  # fmt: skip
def test_bodies_that_are_no_json_or_deep_are_refused(server, body):
    response = httpx2.post(f"{server.url}/v1/uncertainty", content=body, headers={"Content-Type": "application/json"})
    assert response.status_code in (400, 422)
    assert error_of(response)


def test_large_bodies_are_refused_before_they_are_read(server):
    head = b"POST /v1/uncertainty HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    for length in (b"99999999", b"9" * 30):
        received = server.raw(head + b"Content-Length: " + length + b"\r\n\r\n{")
        assert received.startswith((b"HTTP/1.1 413", b"HTTP/1.1 400")), received
    chunk = b"186A0\r\n" + b" " * 100_000 + b"\r\n"
    received = server.raw(head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 11)
    assert received.startswith(b"HTTP/1.1 413")


def test_header_tricks_are_refused(server):
    fine = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
    assert server.raw(fine + b"\r\n").startswith(b"HTTP/1.1 200")
    tricks = [
        fine + b"X: " + b"a" * 100_000 + b"\r\n\r\n",
        fine.replace(b"healthz", b"x" * 20_000) + b"\r\n",
        fine + b"A b: c\r\n\r\n",
        fine + b"A: b\x00c\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"POST /v1/uncertainty HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"POST /v1/uncertainty HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST /v1/uncertainty HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: magic\r\n\r\n",
    ]
    for trick in tricks:
        status = int(server.raw(trick).split(b" ")[1])
        assert 400 <= status < 500 or status == 501, trick[:80]


def test_a_body_that_never_arrives_is_not_waited_for():
    with running(settings=Settings(client_seconds=0.3)) as server:
        head = (
            b"POST /v1/uncertainty HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{"
        )
        assert server.raw(head).startswith(b"HTTP/1.1 408")


def test_a_request_that_never_begins_is_not_waited_for(monkeypatch):
    monkeypatch.setattr("sdlg.serving.listening.HEAD_SECONDS", 0.3)
    with running(Talking(pause=0.1)) as server:
        for begun in (b"", b"GET /heal", b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /heal"):
            with closing(socket.create_connection(("127.0.0.1", server.port), timeout=10)) as connection:
                connection.sendall(begun)
                try:
                    while connection.recv(65536):
                        pass
                except ConnectionResetError:
                    pass
        assert server.post("/v1/uncertainty", ASKED).status_code == 200  # this takes longer than a head may


def test_only_those_with_the_key_are_answered():
    with running(settings=Settings(key=KEY)) as server:
        for headers in (
            {}, {"Authorization": "Bearer wrong"}, {"Authorization": KEY}, {"Authorization": f"Basic {KEY}"},
            {"Authorization": "Bearer " + KEY[:-1]}, {"Authorization": f"Bearer {KEY}x"}, {"Authorization": "Bearer é"},
        ):  # fmt: skip
            headers = {name: value.encode() for name, value in headers.items()}
            response = server.post("/v1/uncertainty", ASKED, headers=headers)
            assert response.status_code == 401
            assert KEY not in response.text
            assert server.get("/v1/models", headers=headers).status_code == 401
            assert server.get("/metrics", headers=headers).status_code == 401
        for path in ("/healthz", "/v1/settings", "/openapi.json", "/"):
            assert server.get(path).status_code == 200
        assert server.get("/v1/settings").json()["needs_key"] is True
        assert server.post("/v1/uncertainty", ASKED, headers={"Authorization": f"bearer {KEY}"}).status_code == 200
        with openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY) as client:
            assert client.models.list().data[0].id == "scripted"


def test_the_key_is_not_shown():
    assert KEY not in repr(Settings(key=KEY))


def test_other_names_for_this_machine_are_not_answered():
    with running(settings=Settings(hosts=("127.0.0.1", "localhost", "[::1]"))) as server:
        for host in ("127.0.0.1:80", "localhost", "LocalHost:1234", "[::1]:8077"):
            assert server.get("/healthz", headers={"Host": host}).status_code == 200
        for host in (
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost@evil.example",
            "[::1",
            "",
            "127.0.0.1:x",
            "[::2]",
        ):
            assert server.get("/healthz", headers={"Host": host}).status_code == 400


def test_other_pages_may_read_answers_only_if_the_operator_says_so():
    page = {"Origin": "https://page.example"}
    with running(settings=Settings(origins=("https://page.example",), key=KEY)) as server:
        assert server.post("/v1/uncertainty", ASKED, headers=page).headers["access-control-allow-origin"]
        assert server.get("/healthz", headers=page).headers["access-control-allow-origin"] == page["Origin"]
        asks = {**page, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
        assert httpx2.options(f"{server.url}/v1/uncertainty", headers=asks).status_code == 200
        other = server.get("/healthz", headers={"Origin": "https://other.example"})
        assert "access-control-allow-origin" not in other.headers


def test_a_reader_that_does_not_read_is_given_up():
    long = {"": {"x" * 20_000: 0.5, **{f"{'y' * 20_000}{n}": 0.02 for n in range(19)}}}
    with running(Talking(long), Settings(client_seconds=0.5), samples=20) as server:
        body = json.dumps({**ASKED, "stream": True}).encode()
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        with closing(connection):
            connection.connect(("127.0.0.1", server.port))
            connection.sendall(posted(body))
            wait_until(lambda: server.counts[0] == 1 or "status=" in server.get("/metrics").text)
            wait_until(lambda: server.counts == (0, 0))
        assert server.post("/v1/uncertainty", {**ASKED, "samples": 2}).status_code == 200


def test_a_request_of_two_lengths_is_refused_and_its_connection_closed(server):
    head = "POST /v1/uncertainty HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 5\r\n"
    smuggled = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    request = f"{head}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}".encode()
    received = server.raw(request, to_the_end=True)
    assert received.startswith(b"HTTP/1.1 400")
    assert received.count(b"HTTP/1.1") == 1
    assert b"two_lengths" in received
