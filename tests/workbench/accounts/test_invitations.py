"""Invitations: one link, once, for one email."""

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from workbench.accounts.models import Invitation, Membership, Role, User

pytestmark = pytest.mark.django_db
NEWCOMER = {"name": "Nell", "password": "a long pass phrase"}


def _invite(client, email="nell@voice.test", role="account"):
    page = client.post("/members/invite/", {"email": email, "role": role}, follow=True).content.decode()
    result = re.search(r"http://testserver(/invitations/[\w-]+/)", page)
    assert result, page
    return result[1]


def test_a_newcomer_sets_a_password_by_a_link_that_works_once_and_is_not_kept(browser, admin, organisation):
    link = _invite(browser(admin))
    assert link.split("/")[2] not in "".join(Invitation.objects.values_list("digest", "email").get())
    newcomer = Client()
    assert newcomer.post(link, NEWCOMER).status_code == 302
    user = User.objects.get(email="nell@voice.test")
    assert user.check_password(NEWCOMER["password"])
    assert Membership.objects.get(user=user).role == Role.ACCOUNT
    assert newcomer.get("/members/").status_code == 200
    assert Client().post(link, NEWCOMER | {"name": "Thief"}).status_code == 404
    assert User.objects.filter(name="Thief").count() == 0


def test_a_link_ends_with_time_by_withdrawal_and_by_another(browser, admin, organisation):
    client = browser(admin)
    late = _invite(client)
    Invitation.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert Client().get(late).status_code == 404
    withdrawn = _invite(client)
    client.post(f"/invitations/{Invitation.objects.get().pk}/withdraw/")
    assert Client().get(withdrawn).status_code == 404
    assert client.post("/members/invite/", {"email": "a@voice.test", "role": "engineer"}).status_code == 302
    first, second = _invite(client), _invite(client)
    assert Client().get(first).status_code == 404
    assert Client().get(second).status_code == 200


def test_a_weak_password_and_a_name_of_spaces_are_refused_beside_their_fields(browser, admin, organisation):
    page = Client().post(_invite(browser(admin)), {"name": "Nell", "password": "password"})
    assert (page.status_code, b"too common" in page.content) == (422, True)
    page = Client().post(_invite(browser(admin)), {"name": "  ", "password": "correct horse battery"})
    assert (page.status_code, b"Spaces alone are not enough." in page.content) == (422, True)
    assert not User.objects.filter(email="nell@voice.test").exists()


def test_somebody_with_a_login_must_use_it(browser, admin, organisation, foreigner, make_user):
    link = _invite(browser(admin), foreigner.email)
    stranger, other = Client(), make_user("third@x.test")
    stranger.post(link, NEWCOMER)
    assert not Membership.objects.filter(user=foreigner, organisation=organisation).exists()
    assert b"Log in to accept" in stranger.get(link).content
    assert browser(other).post(link).status_code == 422
    assert not Membership.objects.filter(user=other).exists()
    assert browser(foreigner).post(link).status_code == 302
    assert Membership.objects.filter(user=foreigner, organisation=organisation).exists()


def test_only_an_admin_invites_and_no_member(browser, admin, engineer):
    response = browser(engineer).post("/members/invite/", {"email": "x@y.test", "role": "admin"})
    assert response.status_code == 403
    response = browser(admin).post("/members/invite/", {"email": engineer.email.upper(), "role": "admin"})
    assert (response.status_code, b"is a member already" in response.content) == (422, True)
    assert not Invitation.objects.exists()
