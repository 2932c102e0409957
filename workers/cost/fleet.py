"""GPUs for a demand, their bill, and when a fee has paid for itself. USD.

A month is 365 / 12 days, a year 365. Intervals follow from that of the throughput; prices are taken as stated.
"""

import math

from workers.cost.unit_costs import scale_interval
from workers.documents.measurement import Interval
from workers.documents.money import Demand, Fleet, FleetComparison, SameLoad, ServedLoad, StatedFleet
from workers.documents.workload import Workload
from workers.wording.text import dollars, plain

DAYS_A_YEAR = 365
MONTHS_A_YEAR = 12
ROUNDING = 1e-9
"""A need this little above a whole number is that number: 0.1 · 30 is not 3 in floating point."""


def gpus_needed(demand: float, capacity: float, spare: float) -> int:
    """GPUs for a `demand` in the unit of one GPU's `capacity`, each filled to 1 − spare of that; at least 1."""
    return max(1, math.ceil(demand / (capacity * (1 - spare)) - ROUNDING))


def _servers(demand: Demand, load: ServedLoad) -> Interval:
    """Servers, each of `load.gpus` GPUs. Users who always wait are set by the load, so they have no interval."""
    needs: list[tuple[int, int, int]] = []
    if demand.users is not None and demand.cycle_s is None:
        count = gpus_needed(demand.users, load.users, demand.spare)
        needs.append((count, count, count))
    if required := _required_rate(demand):
        rate = load.requests_per_second
        value, low, high = (gpus_needed(required, value, demand.spare) for value in (rate.value, rate.high, rate.low))
        needs.append((value, low, high))
    largest = [max(need) for need in zip(*needs, strict=True)]
    return Interval(value=largest[0], low=largest[1], high=largest[2])


def fleet(demand: Demand, load: ServedLoad) -> Fleet:
    """One side's GPUs and bills. Raises ValueError where `demand` has no users and no rate, or the load no price."""
    if demand.users is None and demand.requests_per_second is None:
        raise ValueError("Say how many users there are at once, or how many requests per second.")
    if load.usd_per_hour is None:
        raise ValueError(f"There is no price of an hour of {load.gpu}.")
    usd, servers = load.usd_per_hour, _servers(demand, load)

    def billed(days: float) -> Interval:
        return scale_interval(servers, usd * demand.hours_per_day * days)

    month, users = billed(DAYS_A_YEAR / MONTHS_A_YEAR), demand.users
    per_user = None
    if users is not None:
        per_user = scale_interval(month, 1 / users)
    hours = demand.hours_per_day * demand.duty_cycle * DAYS_A_YEAR / MONTHS_A_YEAR
    requests = requests_per_second(demand, load) * 3600 * hours
    return Fleet(
        gpus=scale_interval(servers, load.gpus),
        month=month,
        year=billed(DAYS_A_YEAR),
        thousand_requests=scale_interval(month, 1000 / requests),
        user_month=per_user,
    )


def requests_per_second(demand: Demand, load: ServedLoad) -> float:
    """The requests that a demand has: those stated, else users · requests per second and user of the load."""
    return _required_rate(demand) or (demand.users or 0) * load.requests_per_second.value / load.users


def capacity_used(demand: Demand, load: ServedLoad, servers: float) -> float:
    """The share of the servers' measured capacity that the demand takes in the hours that are paid for, from 0 to 1."""
    used = _required_rate(demand) / load.requests_per_second.value
    if demand.users is not None and demand.cycle_s is None:
        used = max(used, demand.users / load.users)
    return used * demand.duty_cycle / servers


def _required_rate(demand: Demand) -> float:
    """Requests per second as stated, or the users' by their cycle, whichever is more; 0 where neither is stated."""
    by_users = demand.users / demand.cycle_s if demand.users is not None and demand.cycle_s is not None else 0.0
    return max(demand.requests_per_second or 0.0, by_users)


def demand_of_before(demand: Demand, before: ServedLoad) -> Demand:
    """The demand at one load of both sides: users who always wait send as many requests as `before` answers them."""
    if demand.users is None or demand.cycle_s is not None:
        return demand
    return demand.model_copy(update={"cycle_s": before.users / before.requests_per_second.value})


def difference(before: Interval, after: Interval) -> Interval:
    """before − after; the ends suppose that both err to the same disadvantage, so the interval is not too narrow."""
    return Interval(value=before.value - after.value, low=before.low - after.high, high=before.high - after.low)


def break_even(fee: float, saved_month: float) -> float | None:
    """Months until a fee is paid by what a month saves: fee / saved; None where nothing is saved."""
    return fee / saved_month if saved_month > 0 else None


def compare(demand: Demand, before: ServedLoad, after: ServedLoad) -> FleetComparison:
    """The demand served before and after. Raises ValueError as `fleet`."""
    sides = fleet(demand, before), fleet(demand, after)
    saved = difference(sides[0].month, sides[1].month)
    comparison = FleetComparison(
        demand=demand,
        before=sides[0],
        after=sides[1],
        saved_month=saved,
        saved_year=difference(sides[0].year, sides[1].year),
        break_even_months=break_even(demand.fee, saved.value) if demand.fee else None,
        break_even_latest=break_even(demand.fee, saved.low) if demand.fee else None,
        sentence="",
    )
    return comparison.model_copy(update={"sentence": _sentence(comparison)})


def stated_fleet(
    workload: Workload, before: ServedLoad | None, after: ServedLoad | None, same: SameLoad | None
) -> StatedFleet | None:
    """What the demand that the workload states takes; None where it states none.

    A side counts at the highest load at which every promise is shown to hold, and with a price. Where a side has none,
    both are compared at the `same` load as well, promise or not.
    """
    stated = workload.load.demand if workload.load else None
    if stated is None:
        return None
    demand = Demand(users=stated.users, requests_per_second=stated.requests_per_second, duty_cycle=workload.duty_cycle)
    sides = {"before": before, "after": after}
    priced = {name: side for name, side in sides.items() if side and side.usd_per_hour is not None}
    holding = {name: side for name, side in priced.items() if side.holds and side.highest}
    fleets = {name: fleet(demand, side) for name, side in holding.items()}
    carried = stated.words
    if "before" in holding and before == after:
        of_before = fleets["before"]
        sentence = (
            f"To carry {carried} it takes {_count(of_before.gpus)} as it runs today, with {100 * demand.spare:.0f} % "
            f"of each kept free: {_usd(of_before.month.value)} a month."
        )
    elif len(holding) == len(sides):
        sentence = f"To carry {carried} it takes {compare(demand, holding['before'], holding['after']).sentence}"
    elif fleets:
        ((name, needed),) = fleets.items()
        other = "Before" if name == "after" else "After"
        sentence = (
            f"To carry {carried} it takes {_count(needed.gpus)} {name}, with {100 * demand.spare:.0f} % of each kept "
            f"free: {_usd(needed.month.value)} a month. {other}, no load is shown to keep every promise."
        )
    else:
        sentence = (
            f"What it takes to carry {carried} is not known: no load with a price is shown to keep every promise."
        )
    if same is not None and len(holding) < len(sides) and same.before.users > 1:
        requests = demand_of_before(demand, same.before)
        as_many = "" if requests == demand else ", with as many requests as before"
        compared = compare(requests, same.before, same.after)
        sentence += f" Promise or not, at {same.before.load} each{as_many}: {compared.sentence}"
    return StatedFleet(demand=demand, before=fleets.get("before"), after=fleets.get("after"), sentence=sentence)


def _usd(amount: float) -> str:
    return dollars(amount) if amount < 1000 else f"${amount:,.0f}"


def _count(gpus: Interval) -> str:
    word = "GPU" if gpus.value == 1 else "GPUs"
    spread = "" if gpus.low == gpus.high else f" ({plain(gpus.low)} to {plain(gpus.high)})"
    return f"{gpus.value:,.0f} {word}{spread}"


def _sentence(comparison: FleetComparison) -> str:
    before, after, saved = comparison.before, comparison.after, comparison.saved_month
    sentences = [
        f"{_count(before.gpus)} before and {_count(after.gpus)} after, with {100 * comparison.demand.spare:.0f} % of "
        f"each kept free: {_usd(before.month.value)} and {_usd(after.month.value)} a month."
    ]
    if saved.value > 0 and saved.low <= 0:
        sentences.append("That anything is saved is not certain: the interval reaches down to nothing.")
    if comparison.demand.fee:
        sentences.append(_break_even_words(comparison))
    return " ".join(sentences)


def _break_even_words(comparison: FleetComparison) -> str:
    fee = _usd(comparison.demand.fee or 0.0)
    if comparison.break_even_months is None:
        return f"A fee of {fee} is never paid back: the plan saves no GPU at this demand."
    latest = comparison.break_even_latest
    if latest is None:
        return f"A fee of {fee} is paid back after {plain(comparison.break_even_months)} months, if at all."
    worst = "" if latest == comparison.break_even_months else f", at the latest after {plain(latest)} months"
    return f"A fee of {fee} is paid back after {plain(comparison.break_even_months)} months{worst}."
