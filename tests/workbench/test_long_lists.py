"""Long lists are cut into pages."""

import pytest

from workbench.accounts import services, tokens

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("address", ["/members/", "/tokens/"])
def test_a_long_list_is_cut_into_pages(browser, make_user, organisation, admin, address):
    for number in range(60):
        user = make_user(f"member{number}@voice.test", organisation)
        tokens.issue(organisation, user, f"token {number}", "read")
    client = browser(admin)
    first, second = (client.get(address, {"page": number}).content.decode() for number in (1, 2))
    assert "Page 1 of 2" in first
    assert first.count("<tr>") == 51
    assert 10 <= second.count("<tr>") <= 13


def test_open_invitations_are_cut_into_pages(browser, organisation, admin):
    for number in range(60):
        services.invite(organisation, admin, f"new{number}@voice.test", "engineer")
    client = browser(admin)
    assert client.get("/members/").content.decode().count("Withdraw the invitation") == 50
    assert client.get("/members/?invited=2").content.decode().count("Withdraw the invitation") == 10
