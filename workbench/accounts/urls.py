"""Addresses of login, second factors, members, invitations and tokens.

Names that begin with `mfa_` or `account_` are those that django-allauth looks up.
"""

from allauth.account.views import reauthenticate
from allauth.mfa.base.views import authenticate, index
from allauth.mfa.recovery_codes.views import generate_recovery_codes, view_recovery_codes
from allauth.mfa.totp.views import activate_totp, deactivate_totp
from allauth.mfa.webauthn.views import add_webauthn, login_webauthn
from django.contrib.auth.views import LogoutView, PasswordChangeView
from django.urls import path, reverse_lazy

from workbench.accounts import views
from workbench.accounts.forms import PasswordForm

password = PasswordChangeView.as_view(
    template_name="accounts/password.html", form_class=PasswordForm, success_url=reverse_lazy("mfa_index")
)

urlpatterns = [
    path("login/", views.PasswordLogin.as_view(), name="account_login"),  # the name that django-allauth knows
    path("login/", views.PasswordLogin.as_view(), name="login"),
    path("login/code/", authenticate, name="mfa_authenticate"),
    path("login/passkey/", login_webauthn, name="mfa_login_webauthn"),
    path("login/again/", reauthenticate, name="account_reauthenticate"),
    path("logout/", LogoutView.as_view(), name="logout"),
    path("password/", password, name="password"),
    path("security/", index, name="mfa_list_webauthn"),  # where django-allauth goes after a key was removed
    path("security/", index, name="mfa_index"),
    path("security/app/", activate_totp, name="mfa_activate_totp"),
    path("security/app/remove/", deactivate_totp, name="mfa_deactivate_totp"),
    path("security/passkeys/add/", add_webauthn, name="mfa_add_webauthn"),
    path("security/passkeys/<int:pk>/remove/", views.remove_passkey, name="mfa_remove_webauthn"),
    path("security/codes/", view_recovery_codes, name="mfa_view_recovery_codes"),
    path("security/codes/new/", generate_recovery_codes, name="mfa_generate_recovery_codes"),
    path("session/", views.session_state, name="session"),
    path("organisation/", views.switch_organisation, name="switch-organisation"),
    path("members/", views.members, name="members"),
    path("members/four-eyes/", views.four_eyes, name="four-eyes"),
    path("members/invite/", views.invite, name="invite"),
    path("members/<uuid:membership_id>/role/", views.change_role, name="change-role"),
    path("members/<uuid:membership_id>/remove/", views.remove_member, name="remove-member"),
    path("invitations/<uuid:invitation_id>/withdraw/", views.withdraw_invitation, name="withdraw-invitation"),
    path("invitations/<str:secret>/", views.invitation, name="invitation"),
    path("audit/", views.audit_log, name="audit-log"),
    path("tokens/", views.token_list, name="tokens"),
    path("tokens/<uuid:token_id>/revoke/", views.revoke_token, name="revoke-token"),
]
