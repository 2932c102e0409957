"""Members: who sees the page, who changes roles, the admin that must remain, long lists, and which names are taken."""

import pytest
from django.urls import reverse

from workbench.accounts import services, tokens
from workbench.accounts.models import ApiToken, Membership, Role
from workbench.short_text import check_short_text

pytestmark = pytest.mark.django_db


def _membership(user):
    return Membership.objects.get(user=user)


def test_it_shows_the_members_of_the_chosen_organisation_alone(browser, engineer, foreigner, organisation):
    page = browser(engineer).get("/members/").content.decode()
    assert engineer.email in page
    assert foreigner.email not in page
    Membership.objects.create(user=foreigner, organisation=organisation, role=Role.ENGINEER)
    client = browser(foreigner)
    assert engineer.email not in client.get("/members/").content.decode()
    assert f'<option value="{organisation.pk}">Voice</option>' in client.get("/members/").content.decode()
    client.post("/organisation/", {"organisation": str(organisation.pk), "next": "/members/"})
    assert engineer.email in client.get("/members/").content.decode()


def test_only_an_admin_changes_members_and_the_last_one_stays(
    browser, admin, organisation, engineer, account, make_user
):
    client = browser(admin)
    for address, role in (("change-role", "engineer"), ("remove-member", "")):
        other, own = (reverse(address, args=[_membership(user).pk]) for user in (account, admin))
        assert browser(engineer).post(other, {"role": "engineer"}).status_code == 403
        assert "The last admin cannot be removed" in client.post(own, {"role": role}, follow=True).content.decode()
    assert [_membership(user).role for user in (account, admin)] == [Role.ACCOUNT, Role.ADMIN]
    client.post(reverse("change-role", args=[_membership(engineer).pk]), {"role": "account"})
    assert _membership(engineer).role == Role.ACCOUNT
    second = make_user("second@voice.test", organisation, Role.ADMIN)
    client.post(reverse("remove-member", args=[_membership(second).pk]))
    assert not Membership.objects.filter(user=second).exists()


def test_removing_a_member_ends_their_tokens_and_their_session(browser, admin, organisation, engineer, api):
    script = api(engineer)
    tokens.issue(organisation, engineer, "second", "read")
    page = browser(engineer)
    browser(admin).post(reverse("remove-member", args=[_membership(engineer).pk]))
    assert script.get("/api/v1/me").status_code == 401
    assert not ApiToken.objects.filter(user=engineer, revoked_at=None).exists()
    assert "admin@voice.test" not in page.get("/members/").content.decode()


def test_switching_leads_neither_to_a_foreign_organisation_nor_to_another_site(browser, admin, foreigner, organisation):
    chosen = {"organisation": str(organisation.pk), "next": "https://evil.test/"}
    assert browser(foreigner).post("/organisation/", chosen).status_code == 404
    assert browser(admin).post("/organisation/", chosen)["Location"] == "/"


def test_long_lists_are_cut_into_pages(browser, make_user, organisation, admin):
    for number in range(60):
        user = make_user(f"member{number}@voice.test", organisation)
        tokens.issue(organisation, user, f"token {number}", "read")
        services.invite(organisation, admin, f"new{number}@voice.test", "engineer")
    client = browser(admin)
    members, more, issued = (
        client.get(address).content.decode() for address in ("/members/", "/members/?page=2&invited=2", "/tokens/")
    )
    assert all(
        text in page for page, text in ((members, "Page 1 of 2"), (more, "Page 2 of 2"), (issued, "Page 1 of 2"))
    )
    assert [page.count("Withdraw the invitation") for page in (members, more)] == [50, 10]
    assert issued.count("<tr>") == 51


def test_a_short_text_is_of_any_script_without_what_nobody_sees_and_nothing_can_handle():
    for name in ("Zoë", "山田\u3000太郎", "می\u200cخواهم", "क्\u200dष", "\U0001f469\u200d\U0001f680 rocket", "a\u00a0b"):
        assert check_short_text(f" {name}\u00a0") == name
    for text in ("a\x1bb", "a\x00", "a\nb", "a\u202eb", "\ufeffa", "a\u2028b", "a\ud800"):
        with pytest.raises(ValueError, match="control characters"):
            check_short_text(text)
    for text in (" ", "\u3000", "\u200d", " \u200c\u200d "):
        with pytest.raises(ValueError, match="spaces alone"):
            check_short_text(text)
