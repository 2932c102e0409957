"""What a load stage found, in words."""

from tests import sample_loads
from workers.charts import under_load
from workers.wording.load_search import curve_of, unlike_verify, whole_sentence


def test_the_sentence_names_vllm_where_it_is_before():
    result = sample_loads.under_load()
    server = result.before.server.model_copy(update={"kind": "vllm", "label": "vLLM 0.22.1"})
    before = result.before.model_copy(update={"server": server})
    one = whole_sentence(before, result.after).split(". ")
    two = whole_sentence(result.before, None, recommended=False)
    assert one[0].startswith("Before (vLLM 0.22.1), no load")
    assert one[1].startswith("After, every promise is kept with 20 users at once")
    assert two == "Today, no load is shown to keep every promise."
    few = [load.model_copy(update={"verdict": "not_enough_samples"}) for load in before.limit.loads]
    short = before.model_copy(update={"limit": before.limit.model_copy(update={"loads": few})})
    assert whole_sentence(short, None).endswith("promise, since each served too few requests to say.")


def test_the_result_says_up_to_how_many_users_the_megakernel_serves():
    results = sample_loads.results()
    server = results.load.after.server
    lines = under_load.kernels_by_load(results.load)
    assert lines.startswith("The megakernel serves up to 8 requests at once.")
    assert all(value in lines for value in ("0.58 ms by it and 0.73 ms", "with 1 at once; 0.71 and 0.81 ms with 8."))
    (line,) = under_load.figure(results)["layout"]["shapes"]
    assert (line["xref"], line["x0"]) == ("x", 8)
    server.settings = {"basis": "measured", "megakernel_up_to": 0}
    assert "no megakernel takes part" in under_load.kernels_by_load(results.load)
    assert "shapes" not in under_load.figure(results)["layout"]
    server.settings = {}
    assert under_load.kernels_by_load(results.load) == ""


def test_what_runs_today_is_not_said_to_be_faster_than_itself():
    """TTF64 of one user is 273.6 ms under load; verify's median of 450 ms gives the limit of 300 ms."""
    before = sample_loads.under_load().before
    first = before.limit.loads[0]
    limited = first.outcomes[0].objective.model_copy(update={"limit": 300.0})
    kept = first.outcomes[0].model_copy(update={"objective": limited, "verdict": "met"})
    promised = [limited.model_copy(update={"limit": None, "at_least_faster": 1.5})]
    assert unlike_verify(promised, before) == ""
    first.outcomes[0] = kept
    assert "TTF64 of what runs today, with one user, was 274 ms here and 450 ms" in unlike_verify(promised, before)
    assert unlike_verify([limited], before) == ""
    assert unlike_verify(promised, None) == ""


def test_void_loads_the_confidence_and_higher_loads_without_a_verdict_are_named():
    after = sample_loads.under_load().after
    assert "the generator itself was late: 24 users." in after.sentence
    assert "99.923 % confidence" in after.sentence
    assert "Above 22 users " in after.sentence
    loads = [
        load.model_copy(update={"verdict": "not_enough_samples"}) if load.level > after.limit.level else load
        for load in after.limit.loads
    ]
    higher = ", ".join(f"{load.users} users" for load in loads if load.level > after.limit.level)
    assert higher
    text = curve_of(after.server, after.limit.model_copy(update={"loads": loads})).sentence
    assert f"Higher loads ({higher}) served too few requests" in text
    assert "Higher loads" not in after.sentence


def test_a_search_that_could_not_measure_its_load_judges_nothing_and_blames_no_server():
    after = sample_loads.under_load().after
    void = next(load for load in after.limit.loads if load.verdict is None)
    alone = after.limit.model_copy(update={"loads": [void], "users": 0, "saturation": None})
    text = curve_of(after.server, alone).sentence
    assert text.startswith("The load of 24 users could not be measured: the generator itself was late; nothing was")
    assert "judged, each" not in text
    lower = [load for load in after.limit.loads if load.users <= 20]
    below = curve_of(after.server, after.limit.model_copy(update={"loads": [*lower, void]})).sentence
    assert (
        "The next load, 24 users, could not be measured: the generator itself was late. So this limit is not" in below
    )
