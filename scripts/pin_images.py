"""Pin the images of Dockerfile and docker-compose.yml to what their tags mean today: `make pin-images`.

A line `image: nginx:1.28` becomes `image: nginx:1.28@sha256:…`; a pinned one is asked again by its tag. The digest is
that of the manifest (of all platforms, where the registry has such an index), by the registry's HTTP API, version 2:
https://distribution.github.io/distribution/spec/api/. Images that are built here have no registry and are left alone.
"""

import json
import re
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

FILES = ("Dockerfile", "docker-compose.yml", "deploy/serve.Dockerfile")
LINE = re.compile(r"^(?P<key>FROM|\s*image:) (?P<image>[^\s@]+)(?:@sha256:[0-9a-f]{64})?(?P<rest>\s.*)?$")
OURS = "kernel-workbench:"
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
KINDS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)


class NotPinned(Exception):
    """An image whose digest could not be had, in one sentence."""


def address(image: str) -> tuple[str, str, str]:
    """Registry, repository and tag of an image's name; a name without a registry is Docker Hub's."""
    name, _, tag = image.rpartition(":") if ":" in image.rpartition("/")[2] else (image, "", "latest")
    first, slash, rest = name.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return first, rest, tag
    return "registry-1.docker.io", name if slash else f"library/{name}", tag


def digest(image: str) -> str:
    """The digest that the registry gives for the image's tag. Raises NotPinned."""
    registry, repository, tag = address(image)
    scheme = "http" if registry.startswith(("localhost", "127.0.0.1")) else "https"
    url = f"{scheme}://{registry}/v2/{repository}/manifests/{tag}"
    try:
        result = _head(url)
    except urllib.error.HTTPError as refused:
        result = _with_token(image, url, refused)
    except OSError as error:
        raise NotPinned(f"{image}: {registry} cannot be reached: {error}") from None
    if not DIGEST.fullmatch(result):
        raise NotPinned(f"{image}: {registry} answered without a digest")
    return result


def _head(url: str, token: str = "") -> str:
    headers = {"Accept": ", ".join(KINDS)} | ({"Authorization": f"Bearer {token}"} if token else {})
    request = urllib.request.Request(url, headers=headers, method="HEAD")
    with urllib.request.urlopen(request, timeout=30) as answer:
        return str(answer.headers.get("Docker-Content-Digest", ""))


def _with_token(image: str, url: str, refused: urllib.error.HTTPError) -> str:
    """Ask once more with the token for anybody, whose issuer a 401 names."""
    asked = dict(re.findall(r'(\w+)="([^"]*)"', refused.headers.get("WWW-Authenticate", "")))
    if refused.code != 401 or "realm" not in asked:
        raise NotPinned(f"{image}: the registry answered {refused.code} {refused.reason}") from None
    query = urllib.parse.urlencode({key: asked[key] for key in ("service", "scope") if key in asked})
    try:
        with urllib.request.urlopen(f"{asked['realm']}?{query}", timeout=30) as answer:
            given = json.load(answer)
        return _head(url, given.get("token") or given.get("access_token", ""))
    except (OSError, ValueError) as error:
        raise NotPinned(f"{image}: the registry gave no token for it: {error}") from None


def pin(text: str) -> str:
    """The file's text with every image of a registry pinned. Raises NotPinned."""
    return "\n".join(_pinned_line(line) for line in text.split("\n"))


def _pinned_line(line: str) -> str:
    result = LINE.match(line)
    if result is None or result["image"].startswith(OURS):
        return line
    return f"{result['key']} {result['image']}@{digest(result['image'])}{result['rest'] or ''}"


def main(folder: Path) -> int:
    """Pin both files, or neither."""
    try:
        pinned = {name: pin((folder / name).read_text()) for name in FILES}
    except NotPinned as error:
        print(f"pin-images: {error}", file=sys.stderr)
        return 1
    for name, text in pinned.items():
        (folder / name).write_text(text)
        print(f"pin-images: {name} is pinned")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
