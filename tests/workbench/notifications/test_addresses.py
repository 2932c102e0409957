"""A webhook reaches the public internet and what the operator allows, nothing else."""

import datetime
import ipaddress
import socket
import ssl
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from workbench.notifications import outbox, posting
from workbench.notifications.addresses import parse
from workbench.notifications.delivering import deliver_due
from workbench.notifications.models import Delivery, Webhook
from workers.shared import addresses
from workers.shared.addresses import AddressRefused, is_inside

V4 = "127.0.0.1 10.1.2.3 172.16.0.1 192.168.1.1 169.254.169.254 100.100.100.200 0.0.0.0 168.63.129.16 224.0.0.1"
MORE = "255.255.255.255 192.0.0.192 198.18.0.1"
V6 = "::1 :: fe80::1 fd00:ec2::254 ::ffff:10.0.0.1 64:ff9b::a00:1 2002:a00:1:: 2001::1 ff02::1"
PUBLIC = "1.1.1.1 93.184.215.14 2606:4700:4700::1111 2a00:1450:4001::1"


def test_special_ranges_are_inside_and_one_such_address_is_enough_to_refuse(monkeypatch):
    inside = f"{V4} {MORE} {V6}".split()
    assert [part for part in inside + PUBLIC.split() if is_inside(ipaddress.ip_address(part))] == inside
    resolved = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (value, 443)) for value in ("1.1.1.1", "10.0.0.1")]
    monkeypatch.setattr(addresses.socket, "getaddrinfo", lambda *_, flags=0, **__: [] if flags else resolved)
    with pytest.raises(AddressRefused):
        posting.post(parse("https://example.com/"), {}, b"{}")


REFUSED = """
    http://example.com/ ftp://example.com/ https:// https://example.com:99999/ https://user:secret@example.com/
    https://example.com/#part https://127.0.0.1/ https://127.1/ https://localhost/ https://LOCALHOST.:8443/
    https://hooks.localhost/ https://2130706433/ https://0x7f000001/ https://[::1]/ https://[::ffff:127.0.0.1]/
    https://169.254.169.254/latest/meta-data/
"""


@pytest.mark.django_db
def test_an_address_that_could_never_be_used_is_refused_beside_its_field(browser, organisation, admin):
    for url in (*REFUSED.split(), "https://exa mple.com/", "not an address"):
        with pytest.raises(AddressRefused):
            parse(url)
    for url in ("https://127.0.0.1/", "not an address"):
        page = browser(admin).post("/notifications/webhooks/", {"url": url, "kinds": ["run.missed"]})
        assert (page.status_code, 'id="id_url_error"' in page.content.decode()) == (422, True)
    assert not Webhook.objects.exists()


@pytest.mark.django_db
def test_a_name_that_leads_inside_is_refused_when_it_is_posted_to(hook, receiver, settings):
    settings.WEBHOOK_ALLOWED_HOSTS = ["localhost"]
    webhook, _ = hook(url=f"https://localhost:{receiver.port}/")
    settings.WEBHOOK_ALLOWED_HOSTS = []
    outbox.send_test_webhook(webhook)
    deliver_due()
    delivery = Delivery.objects.get()
    assert delivery.state == "given_up"
    assert delivery.last["words"] == "localhost is an address inside a network, not one of the public internet."
    assert not receiver.posted


def test_the_name_is_resolved_once_and_its_certificate_checked(monkeypatch, settings, tmp_path):
    """A name that leads elsewhere at the second look gains nothing."""
    key, certificate = _certificate("pinned.test", tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    posting._trusted.cache_clear()
    hosts: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            hosts.append(self.headers["host"])
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    settings.WEBHOOK_ALLOWED_HOSTS = ["pinned.test", "other.test"]
    asked: list[str] = []
    real = socket.getaddrinfo

    def look_up(host, port, *rest, flags=0, **kwargs):
        if host in ("pinned.test", "other.test") and not flags:
            asked.append(host)
            host = "127.0.0.1" if asked.count(host) == 1 else "127.0.0.99"
        return real(host, port, *rest, flags=flags, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    try:
        url = f"https://pinned.test:{server.server_port}/"
        assert posting.post(parse(url), {}, b"{}") == 204
        assert asked == ["pinned.test"]
        assert hosts == [f"pinned.test:{server.server_port}"]
        with pytest.raises(posting.httpcore.ConnectError, match=r"(?i)certificate"):
            posting.post(parse(url.replace("pinned", "other")), {}, b"{}")
    finally:
        server.shutdown()
        posting._trusted.cache_clear()


def _certificate(name, folder):
    """A key and a certificate of `name`, signed by itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(who)
        .issuer_name(who)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, SHA256())
    )
    key_file, file = folder / "key.pem", folder / "certificate.pem"
    key_file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    file.write_bytes(made.public_bytes(Encoding.PEM))
    return key_file, file


@pytest.mark.parametrize("drips", [False, True])
def test_a_receiver_that_does_not_finish_is_left(settings, monkeypatch, drips):
    monkeypatch.setattr(posting, "SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        settings.WEBHOOK_ALLOWED_HOSTS = ["127.0.0.1"]

        def answer():
            connection, _ = listener.accept()
            with connection:
                try:
                    for _ in range(1200 if drips else 0):
                        connection.sendall(b"H" if drips else b"")
                        time.sleep(0.05)
                    connection.recv(1 << 20)
                    time.sleep(60)
                except OSError:
                    pass

        threading.Thread(target=answer, daemon=True).start()
        started = time.monotonic()
        with pytest.raises((posting.httpcore.TimeoutException, posting.httpcore.ProtocolError)):
            posting.post(parse(f"http://127.0.0.1:{port}/"), {}, b"{}")
        assert time.monotonic() - started < 30
