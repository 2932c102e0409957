"""Every page in every state, for who looks at them: made in the data folder that WORKBENCH_DATA names.

Prints a JSON object: `sessions`, the cookie of each person (admin, account, newcomer), and `pages`, a list of
`[name, person, address]`; person is "" for who has no login. The finished run named "h200" is a committed one; the
results of all others are made up.
"""

import json
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import django

django.setup()

from django.contrib.auth.hashers import PBKDF2PasswordHasher  # noqa: E402
from django.test import Client  # noqa: E402
from django.utils import timezone  # noqa: E402

from kernels.megakernel.host.token_breakdown import token_breakdown  # noqa: E402
from kernels.megakernel.host.trace import timeline_of  # noqa: E402
from tests import sample_bring_up, sample_endpoint, sample_loads, sample_results, sample_runs, sample_two_gpus  # noqa: E402
from tests.kernels.megakernel.recorded import llama  # noqa: E402
from tests.sample_no_change import no_change  # noqa: E402
from workbench.accounts import services, tokens  # noqa: E402
from workbench.accounts.models import Membership, Organisation, Role, User  # noqa: E402
from workbench.comments import services as comments  # noqa: E402
from workbench.home.demo import kept_run  # noqa: E402
from workbench.intake.models import Workload  # noqa: E402
from workbench.notifications import outbox  # noqa: E402
from workbench.notifications import services as notifications  # noqa: E402
from workbench.notifications.mail import unsubscribe_address  # noqa: E402
from workbench.notifications.models import Delivery, Kind  # noqa: E402
from workbench.reports import services as reports  # noqa: E402
from workbench.runs.models import Run, Worker  # noqa: E402
from workers.documents.endpoint_result import EndpointResult  # noqa: E402
from workers.documents.measurement import Ceilings  # noqa: E402
from workers.documents.profile import PlanProfile  # noqa: E402
from workers.documents.stages import Results, stages_of  # noqa: E402
from workers.planning.megakernel_profile import with_shares  # noqa: E402

PASSWORD = "correct horse battery"
PBKDF2PasswordHasher.iterations = 1  # a third of a second for each password otherwise
STEPS, KEYS = 63, 160
"""Tokens that the megakernel of the committed run made in a request, and the keys that the middle one reads."""
OPEN = {"queued": "admit", "running": "explore", "failed": "profile", "lost": "verify", "cancelled": "compose"}
"""The stage that a run in each of these states has come to."""
LONG = "A name as long as names may be, a word-of-a-generator_" + "that_finds_no_space_to_break_at_" * 2


def session(user: User) -> str:
    """The cookie of a login."""
    client = Client()
    client.force_login(user)
    return client.cookies["sessionid"].value


def with_verdict(organisation: Organisation, user: User, verdict: str, sentence: str) -> Run:
    """A finished run whose verdict is another than met."""
    made = sample_runs.run(organisation, user)
    stage = made.stages.get(stage="verify")
    outcomes = [item | {"verdict": verdict} for item in stage.result["outcomes"]]
    stage.result |= {"verdict": verdict, "sentence": sentence, "outcomes": outcomes}
    stage.save()
    Run.objects.filter(id=made.id).update(verdict=verdict)
    return made


def missed(organisation: Organisation, user: User) -> Run:
    """A finished run whose plan is faster and misses its promise all the same; time was short for another plan."""
    results = sample_results.results(130.0)
    assert results.compose
    assert results.verify
    late = {
        "label": "cuda_graphs",
        "gate": "refused",
        "reason": "Not tried: building takes about 80 s and 29 s were left.",
    }
    results.compose.trials.append(results.compose.trials[-1].model_copy(update=late))
    results.verify.minutes_wanted = 9
    run = with_results(sample_runs.run(organisation, user), results)
    Run.objects.filter(id=run.id).update(verdict="missed")
    return run


def without_change(organisation: Organisation, user: User) -> Run:
    """A finished run that recommends what runs today."""
    made = with_results(sample_runs.run(organisation, user), no_change())
    Run.objects.filter(id=made.id).update(verdict="missed")
    return made


def on_two_gpus(organisation: Organisation, user: User) -> Run:
    """A finished run whose plan takes two GPUs, is not served and costs more than one."""
    made = with_results(sample_runs.run(organisation, user), sample_two_gpus.two_gpus())
    made.workload.document = sample_two_gpus.workload().model_dump(mode="json")
    made.workload.save()
    Run.objects.filter(id=made.id).update(gpu_class="h200x2")
    return made


def with_results(made: Run, results: Results) -> Run:
    """The run with other results of all stages but the report."""
    result = results.model_dump(mode="json")
    for stage in stages_of(load=False)[:-1]:
        made.stages.filter(stage=stage).update(result=result[stage])
    return made


def inside(run: Run) -> Run:
    """The run with its megakernel divided by the token that an H200 recorded."""
    ceilings = Ceilings.model_validate(run.stages.get(stage="profile").result["ceilings"])
    stage = run.stages.get(stage="verify")
    program, raw = llama()
    shares = token_breakdown(timeline_of([(program, raw)]), [program], KEYS)
    profile = with_shares(PlanProfile.model_validate(stage.result["profile"]), shares, STEPS, ceilings)
    stage.result |= {"profile": profile.model_dump(mode="json")}
    stage.save()
    return run


def beside_vllm(run: Run) -> Run:
    """The run's workload names vLLM as its baseline runner: without load, generate stands in its place."""
    run.workload.document |= {"baseline_runner": "vllm"}
    run.workload.save()
    stage = run.stages.get(stage="verify")
    stage.result |= {"compared_with": run.workload.sla.compared_with}
    stage.save()
    return run


def beside_endpoint(run: Run, found: EndpointResult) -> Run:
    """The run's workload names an endpoint, of which this was found; a load stage has its curve too."""
    named = {"url": "https://models.example.com/v1", "model": "their-model", "hardware": found.server.hardware}
    run.workload.document |= {"endpoint": named}
    run.workload.save()
    stage = run.stages.get(stage="verify")
    stage.result |= {"endpoint": found.model_dump(mode="json")}
    stage.save()
    if load := run.stages.filter(stage="load").first():
        loaded = sample_endpoint.under_load(sample_loads.results()).load
        assert loaded
        load.result = loaded.model_dump(mode="json")
        load.save()
    return run


def run_pages(organisation: Organisation, admin: User) -> list[tuple[str, str, str]]:
    """Runs in every state, and what can be opened of them."""
    waiting = {state: sample_runs.run(organisation, admin, state, upto) for state, upto in OPEN.items()}
    done = {
        "met": sample_runs.run(organisation, admin, load=True),
        "missed": missed(organisation, admin),
        "undecided": with_verdict(organisation, admin, "not_enough_samples", "There were too few requests to say."),
        "too-close": with_verdict(organisation, admin, "too_close", "TTF64 p50 is too close to its limit to say."),
        "no-change": without_change(organisation, admin),
        "vllm": beside_vllm(sample_runs.run(organisation, admin, load=True)),
        "two-gpus": on_two_gpus(organisation, admin),
        "inside": inside(kept_run(organisation, admin, "llama-3.2-1b")),
        "h200": kept_run(organisation, admin, "llama-3.2-1b"),
        "load-llama": kept_run(organisation, admin, "llama-3.2-1b-load"),
        "load-qwen": kept_run(organisation, admin, "qwen2.5-1.5b-load"),
    }
    found_there = sample_endpoint.measured(sample_results.results())
    beside_endpoint(done["undecided"], found_there)
    done["endpoint-load"] = beside_endpoint(sample_runs.run(organisation, admin, load=True), found_there)
    sample_runs.replaying(done["endpoint-load"], admin)
    beside_endpoint(done["too-close"], sample_endpoint.REFUSED)
    Workload.objects.filter(runs=waiting["failed"]).update(name=LONG)
    Workload.objects.filter(runs=done["h200"]).update(newest_run=done["h200"])
    result = [(f"run-{name}", "admin", f"/runs/{run.id}/") for name, run in (waiting | done).items()]
    result += [(f"result-{name}", "admin", f"/runs/{run.id}/result/") for name, run in done.items()]
    met, h200 = done["met"], done["h200"]
    result += [
        ("workload", "admin", f"/workloads/{met.workload_id}/"),
        ("workload-h200", "admin", f"/workloads/{h200.workload_id}/"),
        ("workload-two-gpus", "admin", f"/workloads/{done['two-gpus'].workload_id}/"),
        ("workload-vllm", "admin", f"/workloads/{done['vllm'].workload_id}/"),
        ("workload-endpoint", "admin", f"/workloads/{done['undecided'].workload_id}/"),
        ("workload-new-recorded", "admin", f"/workloads/new/?from={done['endpoint-load'].workload_id}"),
        ("model", "admin", f"/models/{met.workload.model_id}/"),
        ("compare-two", "admin", f"/compare/?run={met.id}&run={h200.id}"),
        ("compare-load", "admin", f"/compare/?run={done['load-llama'].id}&run={done['load-qwen'].id}"),
        ("delete-run", "admin", f"/runs/{met.id}/delete/"),
        ("report-of-run", "admin", f"/runs/{h200.id}/report.html"),
        ("report-missed", "admin", f"/reports/{reports.freeze(done['missed'], admin).id}/report.html"),
        ("fleet", "admin", f"/runs/{met.id}/fleet/?users=500&requests_per_second=40&fee=250000"),
        ("fleet-one-at-a-time", "admin", f"/runs/{h200.id}/fleet/"),
    ]
    return result + report_pages(met, admin)


def report_pages(run: Run, admin: User) -> list[tuple[str, str, str]]:
    """A draft, a reviewed report and a published one with links."""
    draft = reports.freeze(run, admin)
    reviewed = reports.review(reports.freeze(run, admin), admin, "The limit holds *for this prompt length*.")
    published = reports.publish(reports.review(reports.freeze(run, admin), admin, "Safe to promise."), admin)
    _, open_link = reports.create_share(published, admin, 7)
    _, closed_link = reports.create_share(published, admin, 7, PASSWORD)
    comments.add(draft, admin, "@Account, is this safe to promise?\nThe load stage ended early.")
    each = (("draft", draft), ("reviewed", reviewed), ("published", published))
    return [
        *((f"report-{state}", "admin", f"/reports/{report.id}/") for state, report in each),
        ("report-file", "admin", f"/reports/{published.id}/report.html"),
        ("shared", "", f"/shared/{open_link}/"),
        ("shared-password", "", f"/shared/{closed_link}/"),
        ("shared-ended", "", "/shared/no-such-link/"),
    ]


def fixed_pages(invitation: str) -> list[tuple[str, str, str]]:
    """Pages without parameters, also as a newcomer and as nobody see them."""
    as_admin = {
        "portfolio": "/workloads/",
        "portfolio-nothing-found": "/workloads/?q=none",
        "example": "/example/",
        "compare-nothing": "/compare/",
        "workload-new": "/workloads/new/",
        "models": "/models/",
        "model-upload": "/models/upload/",
        "reports": "/reports/",
        "activity": "/activity/",
        "inbox": "/inbox/",
        "prices": "/prices/",
        "members": "/members/",
        "audit": "/audit/",
        "logo": "/reports/logo/",
        "tokens": "/tokens/",
        "security": "/security/",
        "api": "/api/v1/docs",
        "api-runs": "/api/v1/docs/runs",
        "api-schemas": "/api/v1/docs/schemas",
        "kernels": "/kernels/",
        "method": "/method/",
        "kernel": "/kernels/megakernel/",
        "not-found": "/runs/00000000-0000-4000-8000-000000000000/",
    }
    empty = ("/workloads/", "/models/", "/reports/", "/tokens/", "/bring-ups/", "/inbox/")
    return [
        *((name, "admin", address) for name, address in as_admin.items()),
        *((f"empty-{address.strip('/')}", "newcomer", address) for address in empty),
        ("forbidden", "account", "/audit/"),
        ("login", "", "/login/"),
        ("invitation", "", f"/invitations/{invitation}/"),
        ("invitation-ended", "", "/invitations/no-such-invitation/"),
    ]


def notification_pages(organisation: Organisation, admin: User) -> list[tuple[str, str, str]]:
    """A webhook, deliveries in every state, and what members choose."""
    webhook, _ = notifications.add(organisation, admin, "https://hooks.example.com/workbench", Kind.values)
    for _state in Delivery.State.values:
        outbox.send_test_webhook(webhook)
    for delivery, state in zip(webhook.deliveries.all(), Delivery.State.values, strict=True):
        tries = [{"at": timezone.now().isoformat(), "words": "Answered 500.", "seconds": 0.1}]
        webhook.deliveries.filter(pk=delivery.pk).update(state=state, tries=tries)
    return [
        ("notifications", "admin", "/notifications/"),
        ("notifications-of-a-member", "account", "/notifications/"),
        ("deliveries", "admin", "/notifications/log/"),
        ("unsubscribe", "", urlsplit(unsubscribe_address(admin.memberships.get().id)).path),
        ("logo", "account", "/reports/logo/"),
    ]


def bring_up_pages(organisation: Organisation, admin: User) -> list[tuple[str, str, str]]:
    """A bring-up of a CPU, a made-up one of a GPU without a price, and both side by side."""
    cpu = sample_bring_up.row(organisation, admin)
    gpu = sample_bring_up.row(organisation, admin, sample_bring_up.made_up())
    return [
        ("bring-ups", "admin", "/bring-ups/"),
        ("bring-ups-of-a-member", "account", "/bring-ups/"),
        ("bring-up", "admin", f"/bring-ups/{cpu.id}/"),
        ("bring-up-without-price", "account", f"/bring-ups/{gpu.id}/"),
        ("bring-ups-compared", "admin", f"/bring-ups/compare/?a={cpu.id}&b={gpu.id}"),
        ("prices-asked", "account", f"/prices/?gpu={gpu.gpu_class}&name={gpu.device}"),
    ]


def main() -> dict[str, Any]:
    """Makes everything; what it prints."""
    people = {
        name: User.objects.create_user(f"{name}@gallery.test", PASSWORD, name=name.title())
        for name in ("admin", "account", "newcomer", "factor", "two")
    }
    organisation = services.create_organisation("Gallery", people["admin"])
    Membership.objects.create(user=people["account"], organisation=organisation, role=Role.ACCOUNT)
    customers = (("Empty", "newcomer"), ("Factor", "factor"), ("First customer", "two"), ("Second customer", "two"))
    for customer, person in customers:
        services.create_organisation(customer, people[person])
    tokens.issue(organisation, people["admin"], "build", "write")
    invitation = services.invite(organisation, people["admin"], "new@gallery.test", Role.ENGINEER)[1]
    Worker.objects.create(name="gpu-h200-0@host", gpu_class="h200", last_seen=timezone.now() + timedelta(days=1))
    pages = fixed_pages(invitation) + run_pages(organisation, people["admin"])
    pages += notification_pages(organisation, people["admin"])
    pages += bring_up_pages(organisation, people["admin"])
    return {"sessions": {name: session(user) for name, user in people.items()}, "pages": pages}


if __name__ == "__main__":
    print(json.dumps(main()))
